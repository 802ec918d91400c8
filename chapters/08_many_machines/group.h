// group.h: a group of ranks, and messages between them, as collectives see them; see ranks.h.
#pragma once

#include <mpi.h>

#include "ranks.h"
#include "watch.h"

struct ProcessGroup {
    int rank, size;  // this rank's number in the group, and how many there are
    int *world_rank; // of each of its ranks, its number among all
    MPI_Comm comm;   // MPI_COMM_NULL: a rank alone, which sends nothing
    long number;     // of its last collective,
    int tag;         // and of the messages of the one that is carried out
    void *nccl;      // its communicator; NULL: not opened yet
};

// This process: one rank of all.
extern struct World {
    ProcessGroup all;       // of size 0: not initialized
    MPI_Comm host, watched; // of the ranks on this host; for the watch
    Device *device;
    int local_rank, local_size, num_hosts;
    int *host_numbers; // of each rank
    char **host_names; // of each rank; NULL: not yet known
    char *why_no_nccl; // NULL: there is
    float *stage;      // host memory for what a GPU exchanges without NCCL
    size_t stage_floats;
    DistTraffic sent; // by the thread that communicates, unless its queue is empty
    char note[WHAT_LENGTH], why[WHAT_LENGTH];
    int parts; // of the note, so far; `why` is the note with the last one
} world;

// ranks.c
void find_the_others(void);
void open_device(void);
ProcessGroup group_of(MPI_Comm comm);
ProcessGroup *group_or_all(const ProcessGroup *group);

// A sum, or another collective, on the thread that communicates: `data` has n > 0 floats, in host
// memory. (star.c; the others are in behind/collectives.c.)
typedef void Collective(const ProcessGroup *g, float *data, size_t n);
Collective all_reduce_star, all_reduce_sharded, all_reduce_ring, all_reduce_tree,
    reduce_scatter_ring, all_gather_ring;
void broadcast_tree(const ProcessGroup *g, float *data, size_t n, int root);
void gather_bytes(const ProcessGroup *g, const void *mine, size_t bytes, void *all);
Collective *chosen_sum(void); // NULL: NCCL's

// star.c: one message
typedef struct Message {
    MPI_Request request;
    int from, bytes; // of one that is received. -1: of one that is sent
} Message;
Message start_send(const ProcessGroup *g, const void *data, size_t bytes, int to);
Message start_receive(const ProcessGroup *g, void *data, size_t bytes, int from);
void finish_messages(Message messages[], int n); // waits until all have arrived
void send_to(const ProcessGroup *g, const float *data, size_t n, int to);
void receive_from(const ProcessGroup *g, float *data, size_t n, int from);
void add_floats(float *restrict sum, const float *restrict x, size_t n);
void mpi_check(int status, const char *what); // die()s with MPI's words

// group.c: collectives, enqueued
void group_gather(const char *what, ProcessGroup *g, const void *mine, size_t bytes, void *all);
// For the watch, a collective of another library begins, and is over.
void enqueue_enter(ProcessGroup *g, const char *what);
void enqueue_leave(void);

// nccl.c
const char *nccl_obstacle(void);                  // why this rank cannot use NCCL; NULL if it can
void nccl_all_reduce(ProcessGroup *g, Tensor *t); // of several ranks, and t is not empty
void nccl_broadcast(ProcessGroup *g, Tensor *t, int root);
void nccl_close(ProcessGroup *g);
