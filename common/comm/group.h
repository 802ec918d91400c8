// group.h: what the collectives know of a group. Only this folder includes it.
#ifndef GROUP_H
#define GROUP_H

#include "nccl.h"
#include "process_group.h"
#include "transport.h"

struct ProcessGroup {
    Wire *wire;
    int id;      // the same on all ranks: 0 is that of all, then in the order of dist_new_group()
    long number; // of its last collective
    int rank, size;
    int devices;                     // D, of each rank
    int *world_rank;                 // of each rank of the group
    NcclGroup *nccl;                 // NULL: not opened yet
    float *place[MAX_LOCAL_DEVICES]; // where what arrives is kept; collectives.c
    size_t place_floats;
};

// One collective, as the thread that communicates gets it.
typedef struct Exchange {
    ProcessGroup *group;
    float *data[MAX_LOCAL_DEVICES]; // of each device of this process, in host memory
    size_t n;
    int root;
    int tag; // the messages of this collective have this one and those after it, see tag_of()
    void *values, *all; // of the host's own figures
} Exchange;

typedef void CollectiveFunction(Exchange *x);

// collectives.c
CollectiveFunction all_reduce_star, all_reduce_sharded, all_reduce_ring, all_reduce_tree,
    all_reduce_library, broadcast_tree, reduce_scatter_ring, all_gather_ring, gather_bytes;

// world.c: that of all ranks, if it is NULL; seconds until a rank is given up; and whether it is
// known who is on which host.
ProcessGroup *group_or_all(const ProcessGroup *group);
double group_timeout(void);
bool group_hosts_are_known(void);

// process_group.c: this process sends so many bytes to that rank of the group.
void count_traffic(const ProcessGroup *group, int to, size_t bytes);
// A group, of all that are on the wire; its id is the same on all of them. Its wire is its own.
ProcessGroup *group_on(Wire *wire, int id);
int group_next_id(void);
void group_free(ProcessGroup *group);
// Each gives so many bytes, all get all of them. The host waits for it.
void group_gather(const char *what, const ProcessGroup *group, const void *mine, size_t bytes,
                  void *all);
// Whether these devices can exchange by NCCL; all ranks together.
void group_find_nccl(void);
// When all communication is done: first this, for each group, and in the end all that is left.
void group_close_nccl(ProcessGroup *group);
void group_end_all(ProcessGroup *all);

#endif
