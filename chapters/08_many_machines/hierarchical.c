// hierarchical.c: an allreduce in two levels, for hosts with several ranks; see step.h.
#include "step.h"

#include "common/base/error.h"
#include "common/base/range.h"

static ProcessGroup *inside, *across;

void hierarchical_begin(void) {
    CHECK(dist_hosts_are_equal(), "each host has the same number of ranks");
    inside = dist_new_group(dist_host_of(dist_get_rank()));
    across = dist_new_group(dist_local_rank());
}

void hierarchical_end(void) {
    dist_free_group(inside);
    dist_free_group(across);
    inside = across = NULL;
}

void hierarchical_all_reduce(Tensor *t) {
    CHECK(inside, "hierarchical_begin() comes first");
    Range part = equal_range((long)numel(t), group_size(inside), group_rank(inside));
    int count = (int)part.count;
    Tensor *mine = tensor_slice(t, (size_t)part.first, 1, &count);
    dist_reduce_scatter(inside, t);
    dist_all_reduce(across, mine);
    dist_all_gather(inside, t);
    tensor_free(mine); // the memory belongs to t
}
