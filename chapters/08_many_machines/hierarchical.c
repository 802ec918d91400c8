// hierarchical.c: see hierarchical.h.
#include "hierarchical.h"

#include "common/base/error.h"
#include "common/base/range.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "ranks.h"

#include <string.h>

static ProcessGroup *inside, *across;

const char *hierarchical_mistake(void) {
    return dist_hosts_are_equal() ? NULL : "the hosts have different numbers of ranks";
}

void hierarchical_begin(void) {
    const char *mistake = hierarchical_mistake();
    if (mistake) die("give each host the same number of ranks", "hierarchical: %s", mistake);
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
    tensor_free(mine); // the memory is that of t
}

HierarchicalBytes hierarchical_bytes(size_t n) {
    int L = group_size(inside), here = group_rank(inside);
    size_t own = (size_t)equal_range((long)n, L, here).count;
    size_t next = (size_t)equal_range((long)n, L, (here + 1) % L).count;
    const Allreduce *sum = chosen_allreduce();
    CHECK(dist_order_is_fixed(), "what MPI and NCCL send is not counted, nor is there a formula");
    for (int a = 0; a < NUM_ALLREDUCES; a++) // as the chosen one sums across
        if (strcmp(allreduces[a].name, dist_chosen_all_reduce()) == 0) sum = &allreduces[a];
    // Reduce-scatter sends all parts but its own, all-gather all but the next one's.
    size_t floats = L > 1 ? (n - own) + (n - next) : 0;
    return (HierarchicalBytes){
        .inside = floats * sizeof(float),
        .across = allreduce_bytes(sum, own, group_size(across), group_rank(across)).sent};
}
