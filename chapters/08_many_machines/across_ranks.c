// across_ranks.c: see across_ranks.h.
#include "across_ranks.h"

#include "hierarchical.h"

static ProcessGroup *summed_over;

static void sum_over_group(Tensor *const data[], int k) {
    (void)k;
    dist_all_reduce(summed_over, data);
}
static void sum_hosts_first(Tensor *const data[], int k) {
    (void)k;
    hierarchical_all_reduce(data[0]);
}

static const Allreduce over_group = {.name = "across ranks", .run = sum_over_group},
                       over_hosts = {.name = "hosts first", .run = sum_hosts_first};

void sum_across_ranks(ProcessGroup *group, bool hosts_first) {
    summed_over = group;
    choose_this_allreduce(hosts_first ? &over_hosts : &over_group);
}

void sum_in_this_process(const char *algorithm) { choose_allreduce(algorithm); }
