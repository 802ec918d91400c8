// exchange_table.c: see exchange_table.h.
#include "exchange_table.h"

#include "common/base/error.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "hierarchical.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct WayOfTravel {
    const char *title;
    RankNetOptions net;
} WayOfTravel;

static const WayOfTravel ways[] = {
    {"each gradient alone", {.exchange = EXCHANGE_TENSORS}},
    {"DDP, buckets of 64 KiB", {.exchange = EXCHANGE_BUCKETS, .ddp = {.bucket_bytes = 64 << 10}}},
    {"DDP, one bucket", {.exchange = EXCHANGE_BUCKETS, .ddp = {.bucket_bytes = ONE_BUCKET}}},
    {"fusion, 64 KiB, 1 ms",
     {.exchange = EXCHANGE_FUSION, .fusion = {.threshold = 64 << 10, .cycle = 1e-3}}},
    {"fusion, 128 MiB, 1 ms",
     {.exchange = EXCHANGE_FUSION, .fusion = {.threshold = FUSION_THRESHOLD, .cycle = 1e-3}}},
    {"fusion, 128 MiB, 5 ms",
     {.exchange = EXCHANGE_FUSION, .fusion = {.threshold = FUSION_THRESHOLD, .cycle = 5e-3}}},
    {"one bucket, hosts first",
     {.exchange = EXCHANGE_BUCKETS, .ddp = {.bucket_bytes = ONE_BUCKET}, .hosts_first = true}},
};
enum { NUM_TRAVELS = sizeof ways / sizeof ways[0], STEPS = 20 };

// The sharded sum, the star and the tree add a number up in one order, wherever in a vector it is.
static bool order_is_by_rank(const RankNetOptions *net) {
    return dist_order_is_fixed() && strcmp(dist_chosen_all_reduce(), "ring") != 0 &&
           !net->hosts_first;
}

// (What MPI and NCCL send is not counted.)
static void add_travel(Table *t, const WayOfTravel *way, const RankResult *r, uint32_t first) {
    double steps = (double)r->steps, counted = dist_order_is_fixed() ? 1 : NAN;
    table_text(t, "%s", way->title);
    table_numbers(t, counted * (double)r->traffic.messages / steps,
                  counted * floor((double)r->traffic.bytes / steps),
                  counted * floor((double)r->traffic.bytes_to_hosts / steps), r->seconds / steps);
    table_text(t, "%08x%s", r->checksum, r->checksum == first ? "" : " (another order)");
    CHECK(!order_is_by_rank(&way->net) || r->checksum == first,
          "how gradients travel changes no bit of their sums");
}

static RankResult travel(const WayOfTravel *way, const RankLesson *lesson) {
    RankLesson l = *lesson;
    l.net = way->net;
    l.steps = STEPS;
    l.epochs = 1 << 20; // STEPS is less
    l.quiet = true;
    l.checkpoint = l.resume = NULL;
    return train_on_ranks(&l);
}

static void compare_all(const RankLesson *lesson) {
    uint32_t first = 0;
    say("\nA step: what rank 0 sends, and measured ms; the parameters after %d steps", STEPS);
    Table t = TABLE(NULL, WORDS("", 24), FIXED("messages", 1), WHOLE("bytes", .width = 11),
                    WHOLE("to other hosts", .width = 11), FIXED("here", 2, .unit = "ms"),
                    WORDS("parameters", 8));
    for (int w = 0; w < NUM_TRAVELS; w++) {
        if (ways[w].net.hosts_first && hierarchical_mistake()) {
            say("  %s: left out: %s", ways[w].title, hierarchical_mistake());
            continue;
        }
        RankResult r = travel(&ways[w], lesson);
        if (w == 0) first = r.checksum;
        add_travel(&t, &ways[w], &r, first);
    }
}

// On one host nothing goes to others. Then two are pretended, if the ranks can be divided by two.
void compare_exchanges_of_ranks(const RankLesson *lesson) {
    int size = dist_get_world_size();
    bool pretend = dist_num_hosts() == 1 && size >= 4 && size % 2 == 0;
    if (pretend) {
        say("  (So that there is something to see: as if ranks 0 to %d were on one host, the "
            "others on a second one.)",
            size / 2 - 1);
        dist_pretend_hosts(size / 2);
    }
    compare_all(lesson);
    if (pretend) dist_pretend_hosts(0);
}
