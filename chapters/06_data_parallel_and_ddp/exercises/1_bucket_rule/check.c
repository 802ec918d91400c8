// check.c: buckets must be those of buckets_of(), predictions those of the rule, and then those of
// DDP on the modelled clock. What differs is tried out with the usual mistakes in it.
#include "common/base/error.h"
#include "common/device/modelled_clock.h"
#include "common/program/exercise.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>
#include <string.h>

// ---- buckets -----------------------------------------------------------------------------------

typedef struct BucketCase {
    const char *name;
    int n;
    size_t sizes[MOST_PARAMS]; // floats
    size_t first_bytes, bytes;
} BucketCase;

// What is done wrong (the rest is done right), and what is then said.
typedef struct BucketMistake {
    bool forward_order, closed_before, first_forgotten, first_for_all, beyond, floats, one_more,
        one_less;
    const char *hint;
} BucketMistake;

static const BucketMistake bucket_mistakes[] = {
    {.hint = "the rule"},
    {.forward_order = true,
     .hint = "buckets that are filled from the first parameter on come to this: backward begins "
             "with the last layer, so the last gradient goes first"},
    {.closed_before = true,
     .hint = "a bucket that is closed before a gradient that would not fit comes to this: the "
             "gradient goes in, and then the bucket has reached its cap"},
    {.first_forgotten = true,
     .hint = "one cap for all buckets comes to this: that of the first is first_bytes"},
    {.first_for_all = true,
     .hint = "first_bytes for all buckets comes to this: only the first has that cap"},
    {.beyond = true,
     .hint = "a bucket that is closed when it has more than its cap comes to this: to reach it "
             "(>=) is enough"},
    {.floats = true,
     .hint = "caps in floats come to this: they are bytes, and a float has 4 of them"},
    {.one_more = true,
     .hint = "a bucket that the last gradient has filled is closed, but no other is opened: count "
             "those that have something in them"},
    {.one_less = true,
     .hint =
         "the number of the last bucket comes to this: they count from 0, so there is one more"},
};
enum { NUM_BUCKET_MISTAKES = sizeof bucket_mistakes / sizeof *bucket_mistakes };

static int fill_with(const BucketMistake *m, const BucketCase *c, int bucket_of[]) {
    size_t filled = 0, cap = m->first_forgotten ? c->bytes : c->first_bytes;
    int b = 0, opened = 0;
    for (int i = 0; i < c->n; i++) {
        int p = m->forward_order ? i : c->n - 1 - i;
        size_t size = c->sizes[p] * (m->floats ? 1 : sizeof(float));
        bool full = m->closed_before ? filled > 0 && filled + size > cap
                    : m->beyond      ? filled > cap
                                     : filled >= cap;
        if (i > 0 && full) {
            filled = 0;
            cap = m->first_for_all ? c->first_bytes : c->bytes;
            b++;
        }
        bucket_of[p] = b;
        filled += size;
        opened = b + 1 + (filled >= cap);
    }
    return m->one_more ? opened : b + !m->one_less;
}

// What the reader's function does; numbers that are not written stay -1.
static int fill(const BucketCase *c, int bucket_of[]) {
    for (int p = 0; p < c->n; p++) bucket_of[p] = -1;
    return fill_buckets(c->sizes, c->n, c->first_bytes, c->bytes, bucket_of);
}

static bool same_buckets(const BucketMistake *m, const BucketCase *c) {
    int came[MOST_PARAMS], theirs[MOST_PARAMS];
    return fill(c, came) == fill_with(m, c, theirs) &&
           memcmp(came, theirs, sizeof *came * (size_t)c->n) == 0;
}

// The mistake that explains all that the function does, in every case.
static const char *hint_for_buckets(const BucketCase cases[], int num_cases) {
    for (int m = 1; m < NUM_BUCKET_MISTAKES; m++) {
        bool explains = true;
        for (int c = 0; c < num_cases && explains; c++)
            explains = same_buckets(&bucket_mistakes[m], &cases[c]);
        if (explains) return bucket_mistakes[m].hint;
    }
    return "suspects: the order (the last gradient first), when a bucket is closed (when it has "
           "reached its cap), the cap of the first, bytes; no single one explains it";
}

static void check_buckets(const BucketCase cases[], int num_cases) {
    for (int i = 0; i < num_cases; i++) {
        const BucketCase *c = &cases[i];
        int came[MOST_PARAMS], order[MOST_PARAMS], n = fill(c, came);
        for (int p = 0; p < c->n; p++) order[p] = c->n - 1 - p;
        Buckets right = buckets_of(c->sizes, order, c->n, c->first_bytes, c->bytes);
        for (int p = c->n - 1; p >= 0; p--) {
            EXPECT(came[p] >= 0,
                   "write bucket_of[p] for each p: the last gradient goes into bucket 0",
                   "fill_buckets(), %s: gradient %d is in no bucket, expected bucket %d", c->name,
                   p, bucket_with(&right, p));
            EXPECT(came[p] == bucket_with(&right, p), hint_for_buckets(cases, num_cases),
                   "fill_buckets(), %s, caps of %zu and %zu bytes: gradient %d (%zu bytes) is in "
                   "bucket %d, expected %d",
                   c->name, c->first_bytes, c->bytes, p, c->sizes[p] * sizeof(float), came[p],
                   bucket_with(&right, p));
        }
        EXPECT(n == right.n, hint_for_buckets(cases, num_cases),
               "fill_buckets(), %s, caps of %zu and %zu bytes: returned %d, expected %d buckets",
               c->name, c->first_bytes, c->bytes, n, right.n);
        buckets_free(&right);
    }
}

static int add_network(BucketCase cases[], int n, const NetworkKind *kind, const Module *net) {
    static const size_t caps[][2] = {{1, 1},
                                     {4096, 4096},
                                     {1024, 65536},
                                     {1 << 20, 25 << 20},
                                     {25 << 20, 25 << 20},
                                     {1 << 20, 4 << 20}};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        BucketCase *c = &cases[n++];
        *c = (BucketCase){.name = kind->title, .first_bytes = caps[i][0], .bytes = caps[i][1]};
        c->n = sizes_of_network(net, c->sizes);
    }
    return n;
}

static void check_all_buckets(Module *const nets[NUM_NETWORKS]) {
    static BucketCase cases[32] = {
        {"five tensors of 1000 floats", 5, {1000, 1000, 1000, 1000, 1000}, 4000, 8000},
        {"seven tensors, small and large", 7, {7, 30, 5, 24, 1, 3, 8}, 40, 100},
        {"one parameter", 1, {10}, 16, 400},
        {"one parameter that hits its cap", 1, {10}, 40, 400},
        {"a huge tensor between small ones", 5, {2, 3, 1 << 24, 4, 5}, 36, 4096},
        {"a huge tensor last", 3, {6, 7, 1 << 24}, 64, 1 << 20},
    };
    int n = 6;
    for (int i = 0; i < NUM_NETWORKS; i++) n = add_network(cases, n, &networks[i], nets[i]);
    check_buckets(cases, n);
}

// ---- predictions -------------------------------------------------------------------------------

typedef struct TimeCase {
    Backward b;
    int bucket_of[MOST_PARAMS], num_buckets;
} TimeCase;

typedef struct TimeMistake {
    bool overlapping, last_only, at_first_final, not_waiting, after_backward, backward_forgotten,
        one_by_one, floats;
    const char *hint;
} TimeMistake;

static const TimeMistake time_mistakes[] = {
    {.hint = "the rule"},
    {.overlapping = true,
     .hint = "exchanges that overlap each other come to this: one queue does one after the other, "
             "so an exchange waits for the end of the one before"},
    {.overlapping = true,
     .last_only = true,
     .hint = "a last bucket that waits for its gradients alone comes to this: one queue does one "
             "exchange after the other, so it waits for the end of the one before, too"},
    {.at_first_final = true,
     .hint = "a bucket that starts with its first gradient comes to this: it must wait for the "
             "last of them"},
    {.not_waiting = true,
     .hint = "exchanges that wait for each other, but not for their gradients, come to this: what "
             "is not computed yet cannot be sent"},
    {.after_backward = true,
     .hint = "exchanges that all come after backward come to this: a bucket starts as soon as its "
             "own gradients are final"},
    {.backward_forgotten = true,
     .hint = "the end of the last exchange comes to this: backward may end after it"},
    {.one_by_one = true,
     .hint = "an exchange for each gradient comes to this: a bucket is exchanged as one, with the "
             "bytes of all of its gradients"},
    {.floats = true,
     .hint = "an exchange of as many bytes as there are floats comes to this: a float has 4"},
};
enum { NUM_TIME_MISTAKES = sizeof time_mistakes / sizeof *time_mistakes };

static double predict_with(const TimeMistake *m, const TimeCase *c, ExchangeTime *seconds_of) {
    double last = 0, end = 0;
    for (int bucket = 0; bucket < c->num_buckets; bucket++) {
        double first_final = INFINITY, last_final = 0, seconds = 0;
        size_t bytes = 0, unit = m->floats ? 1 : sizeof(float);
        for (int p = 0; p < c->b.num_params; p++) {
            if (c->bucket_of[p] != bucket) continue;
            first_final = fmin(first_final, c->b.final[p]);
            last_final = fmax(last_final, c->b.final[p]);
            bytes += c->b.sizes[p] * unit;
            if (m->one_by_one) seconds += seconds_of(c->b.sizes[p] * unit);
        }
        double ready = m->at_first_final   ? first_final
                       : m->not_waiting    ? 0
                       : m->after_backward ? c->b.seconds
                                           : last_final;
        double begin = m->overlapping ? ready : fmax(ready, last);
        last = begin + (m->one_by_one ? seconds : seconds_of(bytes));
        end = m->last_only ? last : fmax(end, last);
    }
    return m->backward_forgotten ? end : fmax(end, c->b.seconds);
}

// 20 us to start, then 100 bytes in a microsecond.
static double given_time(size_t bytes) { return 20e-6 + (double)bytes / 100e6; }

static bool same_time(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * fabs(b);
}

static const char *hint_for_time(const TimeCase cases[], int num_cases) {
    for (int m = 1; m < NUM_TIME_MISTAKES; m++) {
        bool explains = true;
        for (int i = 0; i < num_cases && explains; i++) {
            const TimeCase *c = &cases[i];
            double came = predict(&c->b, c->bucket_of, c->num_buckets, given_time);
            explains = same_time(came, predict_with(&time_mistakes[m], c, given_time), 1e-9);
        }
        if (explains) return time_mistakes[m].hint;
    }
    return "suspects: when a bucket's exchange begins (all its gradients final, the one before "
           "ended), its bytes, and which of backward and exchange ends last; no single one "
           "explains it";
}

// Times that tell the mistakes apart: exchanges that wait for gradients, that wait for each other,
// and that are over before backward is.
static void check_given_times(void) {
    static const TimeCase cases[] = {
        {{4, {500, 2000, 1500, 250}, {90e-6, 60e-6, 40e-6, 10e-6}, 90e-6}, {2, 1, 1, 0}, 3},
        {{4, {20, 20, 20, 20}, {400e-6, 300e-6, 200e-6, 100e-6}, 700e-6}, {1, 1, 0, 0}, 2},
        {{3, {50, 50, 50}, {500e-6, 490e-6, 20e-6}, 500e-6}, {1, 0, 0}, 2},
        {{1, {1000}, {50e-6}, 80e-6}, {0}, 1},
    };
    const int n = sizeof cases / sizeof *cases;
    for (int i = 0; i < n; i++) {
        const TimeCase *c = &cases[i];
        double came = predict(&c->b, c->bucket_of, c->num_buckets, given_time);
        double right = predict_with(&time_mistakes[0], c, given_time);
        EXPECT(same_time(came, right, 1e-9), hint_for_time(cases, n),
               "predict(), %d gradients in %d buckets, the first of them final after %g us, "
               "backward %g us, exchanges of 20 us + bytes / 100 per us: %.6g us, expected %.6g us",
               c->b.num_params, c->num_buckets, 1e6 * c->b.final[c->b.num_params - 1],
               1e6 * c->b.seconds, 1e6 * came, 1e6 * right);
    }
}

// ---- the modelled clock ------------------------------------------------------------------------

// Of a machine whose hosts launch in no time: launches are what the rule knows nothing of.
enum { CHECKED_DEVICES = 4, CHECKED_ROWS = 256 };

static void check_network(Module *net, const char *title, const Machine *machine) {
    static const size_t caps[] = {1, 4 << 10, 64 << 10, 1 << 20, 25 << 20, ONE_BUCKET};
    model_ranks(machine, HOST_EACH, net, CHECKED_DEVICES, CHECKED_ROWS);
    Backward b = model_backward();
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        int bucket_of[MOST_PARAMS];
        size_t first = caps[i] < 64 << 10 ? caps[i] : 64 << 10;
        if (caps[i] == ONE_BUCKET) first = ONE_BUCKET;
        int n = fill_buckets(b.sizes, b.num_params, first, caps[i], bucket_of);
        double said = predict(&b, bucket_of, n, model_exchange), took = model_ddp(first, caps[i]);
        EXPECT(same_time(said, took, 1e-3),
               "predict() is right for the times that were given: ask "
               "seconds_of() for each bucket, and nothing else",
               "%s on %d devices of %s, in %d buckets: predicted %.6g us, expected %.6g us, which "
               "DDP takes there",
               title, CHECKED_DEVICES, machine->name, n, 1e6 * said, 1e6 * took);
    }
}

static void check(const Flags *flags) {
    const Machine *before = modelled_machine();
    Machine machine = *machine_find("rtx4090-pcie");
    Module *nets[NUM_NETWORKS];
    (void)flags;
    for (int i = 0; i < NUM_NETWORKS; i++) {
        nets[i] = networks[i].make(10);
        initialize(nets[i], 1);
    }
    check_all_buckets(nets);
    check_given_times();
    machine.launch = 0;
    choose_allreduce("ring");
    for (int i = 0; i < NUM_NETWORKS; i++) check_network(nets[i], networks[i].title, &machine);
    modelled_clock_start(before);
    for (int i = 0; i < NUM_NETWORKS; i++) module_free(nets[i]);
}

const CheckPart check_parts[] = {
    {"buckets are PyTorch's, and predictions those of the modelled clock", 10, check}, {0}};
