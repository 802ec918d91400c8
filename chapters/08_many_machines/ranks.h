// ranks.h: several processes that train together, one *rank* each, with torch.distributed's names.
//
// Each rank has one device. Its communication queue carries out one collective after the other, so
// all ranks must call the same collectives in the same order. If they do not, or if a rank hangs,
// the watch (watch.h) ends the job. A program that was started by hand is rank 0 of 1. Source:
// torch.distributed's documentation; the MPI standard 3.1, chapters 3 to 6.
#pragma once

#include <stdint.h>
#include "common/tensor/tensor.h"

typedef struct DistOptions {
    double timeout;     // seconds to wait for a rank; 0: 60
    int threads;        // cores that this rank's device uses; 0: its share of the host's cores
    int ranks_per_host; // pretend that this many ranks share a host; 0: do not pretend
} DistOptions;

bool dist_is_mpi_available(void); // else the program is one rank
// Call it first, before anything is printed: only rank 0 keeps its standard output, and only rank 0
// reports what is wrong with all ranks.
void dist_before_flags(void);
// Finds the other ranks and opens this rank's device. Waits for all of them. die()s if one does not
// come within the timeout, or if the launcher started processes that do not find each other.
void dist_init_process_group(DistOptions options);
bool dist_is_initialized(void);
// By all ranks, when all communication is done.
void dist_destroy_process_group(void);

int dist_get_rank(void);
int dist_get_world_size(void);
int dist_local_rank(void); // among the ranks on this host
int dist_local_size(void); // how many they are
Device *dist_device(void);

int dist_num_hosts(void);
int dist_host_of(int rank); // 0 .. dist_num_hosts()-1
const char *dist_host_name(int rank);
bool dist_hosts_are_equal(void); // whether all have the same number of ranks
// From now on, ranks are treated as if each host had this number of them; 0: as it is.
// By all ranks.
void dist_pretend_hosts(int ranks_per_host);

// What the next collectives are for, such as "step 42". For messages.
void dist_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
// One more part of what was noted: of "step 42", "bucket 0, step 42", then "bucket 1, step 42".
void dist_note_part(const char *part);
// While this is on, a rank may compute for as long as it likes, if it answers when it is asked. For
// parts that ranks do alone. By all ranks.
void dist_wait_patiently(bool on);

// Some of the ranks, in their order. NULL, for the functions below, means all ranks.
typedef struct ProcessGroup ProcessGroup;

// By all ranks: those with the same colour (0 or more) form a group.
ProcessGroup *dist_new_group(int colour);
void dist_free_group(ProcessGroup *group); // by all ranks of the group
int group_rank(const ProcessGroup *group);
int group_size(const ProcessGroup *group);

// How dist_all_reduce() sums. "star", "sharded", "ring" and "tree" add in the order of chapter 2's
// algorithms of the same names. "nccl" promises no order. It is for GPUs, and also broadcasts;
// their other collectives go through host memory. By default GPUs use "nccl" if they can,
// everything else uses "star" (this chapter's program: "sharded").
void dist_choose_all_reduce(const char *name);
const char *dist_chosen_all_reduce(void);
bool dist_order_is_fixed(void);     // whether the chosen one promises an order of additions
const char *dist_why_no_nccl(void); // why these ranks cannot use NCCL; NULL if they can

// By all ranks of the group, with tensors of one size, each on its rank's device. They are enqueued
// behind the device's current queue, and what comes on that queue afterwards finds them done.
void dist_all_reduce(ProcessGroup *group, Tensor *t);          // t becomes the sum of all ranks' t
void dist_broadcast(ProcessGroup *group, Tensor *t, int root); // t becomes rank root's
// In parts, part r (range.h) for rank r. reduce_scatter leaves rank r the sum of part r (its other
// parts are undefined). all_gather gives all ranks part r of rank r.
void dist_reduce_scatter(ProcessGroup *group, Tensor *t);
void dist_all_gather(ProcessGroup *group, Tensor *t);

// For the host's own numbers. These wait until they are done, and with them all that was enqueued.
void dist_barrier(ProcessGroup *group);
// values[i] becomes the sum of all ranks' values[i], added in the order of the ranks.
void dist_sum(ProcessGroup *group, double values[], int n);
// all[r n .. r n + n-1] are the n values of rank r.
void dist_gather(ProcessGroup *group, const double mine[], int n, double all[]);
// die()s on all ranks if a line of `text` differs between ranks: "rank 2 on node7 has --lr 0.1,
// rank 0 has --lr 0.2". All ranks give the same number of lines.
void dist_must_agree(const char *text);

// What this rank has sent since dist_reset_traffic(), NCCL's own sums not counted. Waits
// for what is under way.
typedef struct DistTraffic {
    uint64_t bytes, messages; // to other ranks
    uint64_t bytes_to_hosts;  // of these, to ranks on other hosts
} DistTraffic;
DistTraffic dist_traffic(void);
void dist_reset_traffic(void);
