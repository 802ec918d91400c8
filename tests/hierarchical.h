// hierarchical.h: an allreduce that knows which ranks share a host: the sum of a host's ranks is
// made inside it, each rank of it then owns a part, and sums this one with those of the same place
// on the other hosts. So between hosts there goes what a ring of one rank per host would send.
// (Horovod's "hierarchical allreduce".)
//
// For the tests of hosts; one device per rank, and as many ranks on each host.
#ifndef HIERARCHICAL_H
#define HIERARCHICAL_H

#include "common/base/error.h"
#include "common/base/range.h"
#include "common/comm/process_group.h"

typedef struct Hierarchy {
    ProcessGroup *inside, *across; // the ranks of this host; those of its local rank on all hosts
} Hierarchy;

static inline Hierarchy hierarchy_new(void) {
    CHECK(dist_hosts_are_equal() && dist_local_devices() == 1, "hosts and ranks are alike");
    return (Hierarchy){.inside = dist_new_group(dist_host_of(dist_get_rank())),
                       .across = dist_new_group(dist_local_rank())};
}

static inline void hierarchy_free(Hierarchy *h) {
    dist_free_group(h->inside);
    dist_free_group(h->across);
}

// The part of n numbers that this rank sums across hosts.
static inline Range hierarchical_part(size_t n) {
    return equal_range((long)n, dist_local_size(), dist_local_rank());
}

// The sum across hosts by the algorithm that is chosen.
static inline void hierarchical_all_reduce(const Hierarchy *h, Tensor *data) {
    Range part = hierarchical_part(numel(data));
    Tensor *mine = tensor_slice(data, (size_t)part.first, 1, (int[]){(int)part.count});
    dist_reduce_scatter(h->inside, &data);
    dist_all_reduce(h->across, &mine);
    dist_all_gather(h->inside, &data);
    tensor_free(mine);
}

#endif
