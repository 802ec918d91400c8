// nccl.h: collectives of GPUs by NVIDIA's NCCL, which knows NVLink, PCIe and the network between
// hosts. Only this folder includes it.
//
// nccl.c loads the library (libnccl.so.2) while the program runs, so that a program starts where
// there is none; nccl_none.c is for programs that were built without its header.
//
// NCCL promises no order of additions: it depends on the number of GPUs, on the ways between them
// and on the size. A sum has the same bits on all devices, and on the same machine in every run as
// a rule, but not those of one process: compare with a tolerance.
//
// What goes wrong ends the job, on all ranks (watch_end_all()). A rank that does not come is no
// error for NCCL: its kernels wait for ever. So the watch (watch.h) looks after it.
//
// Source: NCCL's user guide, "Creating a Communicator", "Group Calls", "Fault Tolerance"
// (docs.nvidia.com/deeplearning/nccl/user-guide).
#ifndef NCCL_FOR_GROUPS_H
#define NCCL_FOR_GROUPS_H

#include "common/device/device.h"

// What this process brings along: the library's version, and a name of each of its GPUs that no
// other GPU has, on whatever host: "2.28.9 NAME NAME"; or "!" and why they cannot exchange by NCCL.
// Loads the library. free() it.
char *nccl_offer(Device *const devices[], int n);
// What all ranks have offered, compared: why there is no NCCL for this job; NULL: there is. (Two
// devices on one GPU cannot be: NCCL refuses them, or hangs.) nccl_offers.c. free() it.
char *nccl_obstacle(char *const offers[], const char *const hosts[], int ranks);

// Before the first group is opened. who: "rank 2 on node7", for messages; it must stay. timeout:
// seconds until others are given up.
void nccl_begin(const char *who, double timeout);

// The communicators of a process group: one for each device of this process.
typedef struct NcclGroup NcclGroup;

// One device of the group makes an id, all others get it (over MPI), and then all open it together.
enum { NCCL_ID_BYTES = 128 };
void nccl_new_id(char id[NCCL_ID_BYTES]);
// The n devices of this process are numbers first .. first + n-1 of `all`.
NcclGroup *nccl_open(const char id[NCCL_ID_BYTES], Device *const devices[], int n, int first,
                     int all);
// By all of the group, when the devices' queues are empty. Of NULL: nothing.
void nccl_close(NcclGroup *group);

// Enqueued on the communication queue of each device, whose data is data[i], in place, of n floats.
// root: the number of a device. In parts: as in process_group.h, of unequal size, too.
typedef void NcclFunction(NcclGroup *group, float *const data[], size_t n, int root);
NcclFunction nccl_all_reduce, nccl_broadcast, nccl_reduce_scatter, nccl_all_gather;

// For the watch, which is another thread. What has gone wrong since (a peer is gone); NULL:
// nothing. The text stays; it is given once.
const char *nccl_error(void);
// Ends whatever GPUs wait for. Nothing can be enqueued after it: who tries waits for the end.
void nccl_abort(void);

#endif
