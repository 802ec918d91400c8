// across_ranks.h: chapter 2's allreduce, over the devices of all ranks.
#ifndef ACROSS_RANKS_H
#define ACROSS_RANKS_H

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "common/comm/process_group.h"

// For step number `step` of a training: from now on allreduce(data, D), with data[i] on device i of
// this process, sums over the devices of all ranks of the group (NULL: all): by dist_all_reduce(),
// or, with hosts_first, inside each host and then across (hierarchical.h). So chapter 6's DDP
// trains in many processes as it stands.
void sum_across_ranks(ProcessGroup *group, bool hosts_first, long step);
// Back to sums over the devices of this process alone, by the algorithm of that name.
void sum_in_this_process(const char *algorithm);

#endif
