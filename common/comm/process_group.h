// process_group.h: several processes that train together, one *rank* each: with the names of
// torch.distributed.
//
//     dist_init_process_group((DistOptions){.devices = 1});
//     Device *device = dist_device(0);
//     ...                                                  // gradients of this rank's own rows
//     dist_all_reduce(NULL, &gradient);                    // enqueued, on the communication queue
//     dist_destroy_process_group();
//
// The processes are started by MPI's mpirun or by Slurm's srun. A program that was started by hand
// is rank 0 of 1, and all of this works there, too.
//
// Collectives are enqueued, as all work is. All communication of a process is done by one queue,
// the communication queue of its first device, one collective after the other. So all ranks must
// call the same collectives in the same order; if they do not, or if one of them hangs, that is
// noticed after the timeout, and the job ends with a message that says who keeps the others
// waiting.
//
// A rank may own several devices, all ranks equally many. Then a collective is one of all devices:
// device i of rank r is number r D + i of W D.
#ifndef PROCESS_GROUP_H
#define PROCESS_GROUP_H

#include <stdint.h>
#include "common/tensor/tensor.h"

enum { MAX_LOCAL_DEVICES = 16 }; // of one process

typedef struct DistOptions {
    int devices;        // D; 0: 1
    double timeout;     // seconds until a rank that does not come is given up; 0: 60
    int threads;        // cores that the devices of this process share; 0: its part of the host's
    int ranks_per_host; // as if so many had a host of their own (to try things out); 0: as it is
} DistOptions;

// Whether this program was built with MPI; without, it is one rank alone.
bool dist_is_mpi_available(void);

// To be called before anything is said and before the command line is read: what a launcher has
// started as rank 1 or more keeps its standard output to itself, and lets rank 0 say what is wrong
// with all. (In the environment it is said which rank this is.)
void dist_before_flags(void);

// Finds the other processes, opens this one's devices, and says (print_ranks()) which. Waits for
// all others; die()s after the timeout if they do not come, or if the launcher started more than
// found each other.
// On a host with GPUs, rank number l of that host gets GPUs l D .. l D + D-1, or, if the launcher
// has shown each process GPUs of its own (CUDA_VISIBLE_DEVICES), those. CPU devices share the cores
// that the process may use with other ranks that may use the same ones.
void dist_init_process_group(DistOptions options);
bool dist_is_initialized(void);
// All ranks together, when all communication is done.
void dist_destroy_process_group(void);

int dist_get_rank(void);
int dist_get_world_size(void);
int dist_num_devices(void);   // W D
int dist_local_devices(void); // D
Device *dist_device(int i);   // device i of this process, 0..D-1
Device *const *dist_devices(void);

// Hosts, and who is on which.
int dist_num_hosts(void);
int dist_host_of(int rank);           // 0..dist_num_hosts()-1
const char *dist_host_name(int rank); // "node7"
int dist_local_rank(void);            // among the ranks of this host,
int dist_local_size(void);            // so many
bool dist_hosts_are_equal(void);      // whether all have as many ranks
// From now on it is as if each so many ranks had a host of their own (DistOptions.ranks_per_host);
// 0: as it is. All ranks call it together.
void dist_pretend_hosts(int ranks_per_host);
// A line for each rank: its host, devices and threads; and why these devices. By rank 0, to
// standard output. All ranks call it together.
void dist_print_ranks(void);

// What the next collectives are for: "bucket 1, step 42". For messages.
void dist_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// From now on a rank may keep the others waiting for as long as it computes, if it answers when it
// is asked: for parts that ranks do alone. (Otherwise a rank that does not come within the timeout
// is taken for one that never will.) All ranks.
void dist_wait_patiently(bool patiently);

// ---- groups ------------------------------------------------------------------------------------

// Some of the ranks, in their order. NULL, for the functions below, is all of them.
typedef struct ProcessGroup ProcessGroup;

// All ranks call it together; those with the same colour (0 or more) are in one group.
ProcessGroup *dist_new_group(int colour);
void dist_free_group(ProcessGroup *group); // by all of the group
int group_rank(const ProcessGroup *group); // of this process, 0..group_size() - 1
int group_size(const ProcessGroup *group);

// ---- collectives -------------------------------------------------------------------------------
//
// data[i] is on device i of this process; n floats, as many on all ranks. All are enqueued, after
// what is on the devices' current queues, and what comes on these queues afterwards finds them
// done.

// How dist_all_reduce() sums: "star", "sharded", "ring" and "tree" have the order of additions of
// chapter 2's algorithms of the same names: k devices in k processes have the bits of k devices in
// one. "mpi" is the library's own, "nccl" that of NCCL, for GPUs: neither promises an order, so
// compare with a tolerance. Where nobody chooses, GPUs use "nccl" if they can (dist_why_no_nccl()),
// all others "star".
//
// "nccl" is for the other collectives of tensors, too: the bytes go from GPU to GPU, and the hosts
// only look on. With all others they go through host memory and MPI. (die()s where it cannot be.)
void dist_choose_all_reduce(const char *name);
const char *dist_chosen_all_reduce(void);
// Whether the chosen one promises an order of additions.
bool dist_order_is_fixed(void);
// Why these devices cannot exchange by NCCL: "ranks 0 and 1 on node7 share a GPU"; NULL: they can.
// The same on all ranks.
const char *dist_why_no_nccl(void);

// data[i] = the sum of all devices' data, the same bits on all.
void dist_all_reduce(ProcessGroup *group, Tensor *const data[]);
// data[i] = data[0] of rank `root` of the group.
void dist_broadcast(ProcessGroup *group, Tensor *const data[], int root);
// In parts: part j of W D (range.h) belongs to device number j. In place:
// reduce_scatter: device j has the sum of its part j; of its other parts nothing is promised.
// all_gather: all devices get part j from device j.
// One after the other they are an allreduce (ring).
void dist_reduce_scatter(ProcessGroup *group, Tensor *const data[]);
void dist_all_gather(ProcessGroup *group, Tensor *const data[]);

// Of the hosts' own figures; these wait until they are done, and with them all that was enqueued.

// All ranks wait until the last one is here.
void dist_barrier(ProcessGroup *group);
// values[i] = the sum of all ranks' values[i], added in the order of the ranks: the same on all.
void dist_sum(ProcessGroup *group, double values[], int n);
// Each rank gives n values, all get those of rank r at all[r n]. all: group_size() n.
void dist_gather(ProcessGroup *group, const double mine[], int n, double all[]);
// The texts of all ranks, for dist_free_texts().
char **dist_gather_texts(ProcessGroup *group, const char *mine);
void dist_free_texts(ProcessGroup *group, char **texts);

// die()s, on all ranks, if this is not the same everywhere: "rank 2 on node7 has --lr 0.1, rank 0
// has 0.2", "ranks 1, 2 and 3 have --lr 0.1, rank 0 has 0.2".
void dist_must_agree(const char *what, const char *value);

// The same, of the program's own file: ranks that were built from other sources would call other
// collectives.
void dist_must_agree_on_program(void);
// And of the kind of their devices (device_kind()): others add in another order, and so what is
// computed alike on all ranks would drift apart.
void dist_must_agree_on_devices(void);

// ---- counting ----------------------------------------------------------------------------------

// What this process has sent to others by collectives, since dist_reset_traffic(). (Of "mpi" and
// "nccl" it is not known: nothing is counted.) Waits for what is under way.
typedef struct DistTraffic {
    uint64_t bytes, messages; // to other processes
    uint64_t bytes_to_hosts;  // of these, to processes on other hosts
} DistTraffic;
DistTraffic dist_traffic(void);
void dist_reset_traffic(void);

#endif
