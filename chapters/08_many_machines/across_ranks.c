// across_ranks.c: see across_ranks.h.
#include "across_ranks.h"

#include "hierarchical.h"

static ProcessGroup *summed_over;
static long of_step, bucket; // for the watch's messages: "bucket 1, step 42"

static void note_bucket(void) { dist_note("bucket %ld, step %ld", bucket++, of_step); }

static void sum_over_group(Tensor *const data[], int k) {
    (void)k;
    note_bucket();
    dist_all_reduce(summed_over, data);
}
static void sum_hosts_first(Tensor *const data[], int k) {
    (void)k;
    note_bucket();
    hierarchical_all_reduce(data[0]);
}

static const Allreduce over_group = {.name = "across ranks", .run = sum_over_group},
                       over_hosts = {.name = "hosts first", .run = sum_hosts_first};

void sum_across_ranks(ProcessGroup *group, bool hosts_first, long step) {
    of_step = step;
    bucket = 0;
    summed_over = group;
    choose_this_allreduce(hosts_first ? &over_hosts : &over_group);
}

void sum_in_this_process(const char *algorithm) { choose_allreduce(algorithm); }
