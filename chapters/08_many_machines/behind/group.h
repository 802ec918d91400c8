// group.h: what the collectives of chapter 8 know of a group of ranks. Only ranks.c, star.c, nccl.c
// and this folder include it.
#ifndef GROUP_H
#define GROUP_H

#include <mpi.h>

#include "common/base/launcher.h"
#include "chapters/08_many_machines/ranks.h"

struct ProcessGroup {
    MPI_Comm comm; // MPI_COMM_NULL: a rank alone, which sends nothing
    long number;   // of its last collective
    int rank, size;
    int *world_rank; // of each of its ranks
    void *nccl;      // its communicator; NULL: not opened yet
    float *place;    // where what arrives is kept
    size_t place_floats;
};

// One collective, as the thread that communicates gets it: `data` has n floats in host memory.
typedef struct Exchange {
    ProcessGroup *group;
    float *data;
    size_t n;
    int root;
    int tag;          // of its messages
    const void *mine; // of gather_bytes: n bytes,
    void *all;        // of each rank
} Exchange;
typedef void Collective(Exchange *x);

// star.c
Collective all_reduce_star, all_reduce_mpi;
void start_send(Exchange *x, const void *data, size_t bytes, int to);
void start_receive(Exchange *x, void *data, size_t bytes, int from);
void finish_messages(void); // waits until all that were started have arrived
void send_floats(Exchange *x, const float *data, size_t n, int to);
void receive_floats(Exchange *x, float *data, size_t n, int from);
void add_floats(float *restrict sum, const float *restrict x, size_t n);
float *place_for(ProcessGroup *g, size_t floats); // room for what arrives
void mpi_check(int status, const char *what);     // die()s with MPI's words

// collectives.c
Collective all_reduce_sharded, all_reduce_ring, all_reduce_tree, broadcast_tree,
    reduce_scatter_ring, all_gather_ring, gather_bytes;

// process_group.c
ProcessGroup *group_or_all(const ProcessGroup *group);
ProcessGroup *group_of(MPI_Comm comm);
void group_free(ProcessGroup *group);
void count_traffic(const ProcessGroup *g, int to, size_t bytes);
void group_gather(const char *what, const ProcessGroup *group, const void *mine, size_t bytes,
                  void *all);
// The texts of all ranks, for free_texts().
char **gather_texts(const char *mine);
void free_texts(char **texts);
void find_nccl(bool shares_gpu); // whether all ranks can use NCCL; by all ranks
// Enqueued: for the watch, a collective begins, and is over.
void enqueue_enter(ProcessGroup *g, const char *what);
void enqueue_leave(void);

// launch.c: what a rank has to do with what started it (common/base/launcher.h)
//
// die()s if the launcher started more processes than the `found` ones, which find each other: all
// would do the same work. Rank 0 reports it; others (but not srun's) if nobody has ended them
// since.
void launch_check(const Launch *launch, int found);
// From now on, if this rank is killed or ends without a word, a line says which rank it was. Call
// it before there are threads. The second one ends that.
void launch_have_witness(const Launch *launch, const char *host);
void launch_dismiss_witness(void);

// nccl.c
const char *nccl_obstacle(void);                  // why this rank cannot use NCCL; NULL if it can
void nccl_all_reduce(ProcessGroup *g, Tensor *t); // of several ranks, and t is not empty
void nccl_broadcast(ProcessGroup *g, Tensor *t, int root);
void nccl_close(ProcessGroup *g);

#endif
