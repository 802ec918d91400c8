// cases.c: predictions and buckets for times that are drawn, and for those of the book's networks
// on the modelled clock.
#include "common/model/modelled_clock.h"
#include "common/program/facts.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>
#include <stdio.h>

enum { TIMES = 1, MODELLED, SHAPE, SHORTEST, NETWORKS };
const Part parts[] = {{"predict(): right for times that are given", 3},
                      {"predict(): what DDP takes on the modelled clock", 1},
                      {"best_caps(): buckets of neighbours, from the last gradient on", 1},
                      {"best_caps(): none are shorter, as predict() says, for given times", 3},
                      {"best_caps(): none are 3% shorter for networks on the modelled clock", 2},
                      {0}};

// "8 20 4", of at most 16; the text stays until the second call after this one.
static const char *list(const int numbers[], int n) {
    static char texts[3][160];
    static int which;
    char *text = texts[which = (which + 1) % 3];
    int length = 0;
    for (int i = 0; i < n && i < 16; i++)
        length +=
            snprintf(text + length, 160 - (size_t)length, "%s%d", i > 0 ? " " : "", numbers[i]);
    return text;
}

// ---- times that are drawn ------------------------------------------------------------------------

static int latency_us = 20;
static double given_time(size_t bytes) { return 1e-6 * latency_us + (double)bytes / 100e6; }

// Exchanges take long beside backward, so that they wait for each other, or there is time enough
// for most.
static Backward draw_backward(int n, bool long_exchanges) {
    Backward b = {.num_params = n};
    int us = 0;
    b.sizes[n] = 1 << 20; // what is behind the last gradient is none
    b.final[n] = 1;
    for (int p = n - 1; p >= 0; p--) {
        us += (int)draw(5, long_exchanges ? 30 : 120);
        b.final[p] = 1e-6 * us;
        b.sizes[p] = (size_t)draw(10, long_exchanges ? 2500 : 900);
    }
    b.seconds = 1e-6 * (us + (int)draw(0, long_exchanges ? 40 : 200));
    return b;
}

static void begin_drawn(const Backward *b, const char *buckets) {
    int final[MOST_PARAMS], bytes[MOST_PARAMS], n = b->num_params;
    for (int p = 0; p < n; p++) {
        final[p] = (int)lround(1e6 * b->final[p]);
        bytes[p] = (int)(b->sizes[p] * sizeof(float));
    }
    begin_case("%d gradients of %s bytes, final after %s us%s, backward takes %ld us, an exchange "
               "of b bytes %d + b / 100 us",
               n, list(bytes, n), list(final, n), buckets, lround(1e6 * b->seconds), latency_us);
}

static void given_times(void) {
    for (int c = 0; c < 16; c++) {
        int n = (int)draw(1, 2 + c / 3), bucket_of[9], bucket = 0;
        char buckets[200];
        Backward b = draw_backward(n, c % 2);
        for (int p = n - 1; p >= 0; p--) {
            bucket += p < n - 1 && draw(0, 1);
            bucket_of[p] = bucket;
        }
        bucket_of[n] = bucket;
        snprintf(buckets, sizeof buckets, ", in buckets %s", list(bucket_of, n));
        begin_drawn(&b, buckets);
        record_int(TIMES, lround(1e9 * predict(&b, bucket_of, bucket + 1, given_time)), "ns");
    }
}

// ---- buckets that are chosen ---------------------------------------------------------------------

// Returns whether they are buckets.
static bool choose(const Backward *b, ExchangeTime *seconds_of, int bucket_of[]) {
    int n = b->num_params, odd = 0;
    for (int p = 0; p < n; p++) bucket_of[p] = -1;
    int number = best_caps(b, seconds_of, bucket_of);
    for (int p = 0; p < n; p++) {
        bool is_last = p == n - 1;
        int further = bucket_of[p] - (is_last ? 0 : bucket_of[p + 1]);
        odd += further < 0 || further > !is_last;
    }
    record_int(SHAPE, odd, "gradients neither in the bucket of the one behind nor in the next");
    record_int(SHAPE, number - bucket_of[0], "buckets, as returned, beyond that of gradient 0");
    return odd == 0;
}

static void choose_for_drawn(int n, bool long_exchanges) {
    int bucket_of[MOST_PARAMS];
    latency_us = (int)draw(5, 100);
    Backward b = draw_backward(n, long_exchanges);
    begin_drawn(&b, "");
    if (choose(&b, given_time, bucket_of))
        record_real(PART_IF(SHORTEST, TIMES), predict(&b, bucket_of, bucket_of[0] + 1, given_time),
                    1e-6, "seconds with your buckets, as your predict() says");
}

static void few_gradients(void) {
    for (int c = 0; c < 16; c++) choose_for_drawn((int)draw(1, 2 + c / 2), c % 2);
}

static void many_gradients(void) {
    for (int c = 0; c < 8; c++) choose_for_drawn((int)draw(30, 60), c % 2);
}

// ---- networks --------------------------------------------------------------------------------------

static void each_network(void (*then)(const Backward *b, const char *title, int k, int rows)) {
    choose_allreduce("ring");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        Module *net = networks[i].make(10);
        initialize(net, 1);
        int rows = 16 * (int)draw(2, 4), k = (int)draw(4, 5);
        model_ranks(machine_find("rtx4090-pcie"), HOST_EACH, net, k, rows);
        Backward b = model_backward();
        then(&b, networks[i].title, k, rows);
        module_free(net);
    }
}

// First a bucket for each gradient: then the last ones surely wait for each other.
static void predict_network(const Backward *b, const char *title, int k, int rows) {
    for (int c = 0; c < 4; c++) {
        size_t bytes = c == 0 ? 1 : (size_t)1 << draw(10, 22);
        size_t first = c == 0 ? 1 : (size_t)draw(1, 1 << 16);
        int bucket_of[MOST_PARAMS], n = fill_buckets(b, first, bytes, bucket_of);
        begin_case("%s, k = %d, %d images each, %d buckets (caps of %zu and %zu bytes)", title, k,
                   rows, n, first, bytes);
        record_real(MODELLED, round(1e9 * predict(b, bucket_of, n, model_exchange)), 1e-5,
                    "predicted ns");
    }
}

static void choose_for_network(const Backward *b, const char *title, int k, int rows) {
    int bucket_of[MOST_PARAMS];
    fill_buckets(b, FIRST_BUCKET_BYTES, BUCKET_BYTES, bucket_of);
    begin_case("%s, k = %d, %d images each (PyTorch's buckets: %.4g ms)", title, k, rows,
               1e3 * model_ddp(bucket_of));
    if (choose(b, model_exchange, bucket_of))
        record_real(NETWORKS, 1e3 * model_ddp(bucket_of), 0.03, "ms of DDP with your buckets");
}

static void predict_networks(void) { each_network(predict_network); }
static void choose_for_networks(void) { each_network(choose_for_network); }

const Group groups[] = {
    {"given times", given_times, 5},      {"modelled times", predict_networks, 0},
    {"few gradients", few_gradients, 5},  {"many gradients", many_gradients, 5},
    {"networks", choose_for_networks, 0}, {0}};
