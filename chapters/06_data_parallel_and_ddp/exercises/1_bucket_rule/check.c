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

typedef struct BucketCases {
    BucketCase list[32];
    int n;
} BucketCases;

// What is done wrong (the rest is done right), and what is then said.
typedef struct BucketMistake {
    bool forward_order, closed_before, first_forgotten, first_for_all, beyond, floats;
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
};
enum { NUM_BUCKET_MISTAKES = sizeof bucket_mistakes / sizeof *bucket_mistakes };

// Returns how many buckets there are.
static int fill_with(const BucketMistake *m, const BucketCase *c, int bucket_of[]) {
    size_t filled = 0, cap = m->first_forgotten ? c->bytes : c->first_bytes;
    int b = 0;
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
    }
    return b + 1;
}

// What the reader's function does; numbers that are not written stay -1.
static int fill(const BucketCase *c, int bucket_of[]) {
    for (int p = 0; p < c->n; p++) bucket_of[p] = -1;
    return fill_buckets(c->sizes, c->n, c->first_bytes, c->bytes, bucket_of);
}

static bool same_buckets(const BucketMistake *m, const BucketCase *c) {
    int came[MOST_PARAMS], theirs[MOST_PARAMS];
    fill(c, came);
    fill_with(m, c, theirs);
    return memcmp(came, theirs, sizeof *came * (size_t)c->n) == 0;
}

// The mistake that explains all that the function does, in every case.
static const char *hint_for_buckets(const BucketCases *cases) {
    for (int m = 1; m < NUM_BUCKET_MISTAKES; m++) {
        bool explains = true;
        for (int c = 0; c < cases->n && explains; c++)
            explains = same_buckets(&bucket_mistakes[m], &cases->list[c]);
        if (explains) return bucket_mistakes[m].hint;
    }
    return "suspects: the order (the last gradient first), when a bucket is closed (when it has "
           "reached its cap), the cap of the first, bytes; no single one explains it";
}

static void check_buckets(const BucketCases *cases, const BucketCase *c) {
    int came[MOST_PARAMS], order[MOST_PARAMS];
    fill(c, came);
    for (int p = 0; p < c->n; p++) order[p] = c->n - 1 - p;
    Buckets right = buckets_of(c->sizes, order, c->n, c->first_bytes, c->bytes);
    for (int p = c->n - 1; p >= 0; p--) {
        EXPECT(came[p] >= 0, "write bucket_of[p] for each p: the last gradient goes into bucket 0",
               "fill_buckets(), %s: gradient %d is in no bucket, expected bucket %d", c->name, p,
               bucket_with(&right, p));
        EXPECT(came[p] == bucket_with(&right, p), hint_for_buckets(cases),
               "fill_buckets(), %s, caps of %zu and %zu bytes: gradient %d (%zu bytes) is in "
               "bucket %d, expected %d",
               c->name, c->first_bytes, c->bytes, p, c->sizes[p] * sizeof(float), came[p],
               bucket_with(&right, p));
    }
    buckets_free(&right);
}

static const char *hint_for_number(int number, int last) {
    if (number == last)
        return "the number of the last bucket comes to this: they count from 0, so there is one "
               "more";
    if (number == last + 2)
        return "a bucket that the last gradient has filled is closed, but no other is opened: "
               "count those that have something in them";
    return "return how many buckets have something in them: they count from 0, one after the other";
}

// Of the buckets that there are, be they the right ones or not.
static void check_number(const BucketCase *c) {
    int came[MOST_PARAMS], number = fill(c, came), last = -1;
    for (int p = 0; p < c->n; p++)
        if (came[p] > last) last = came[p];
    EXPECT(last >= 0, "write bucket_of[p] for each p: the last gradient goes into bucket 0",
           "fill_buckets(), %s: no gradient is in a bucket, expected one for each", c->name);
    EXPECT(number == last + 1, hint_for_number(number, last),
           "fill_buckets(), %s, caps of %zu and %zu bytes: the last bucket is number %d, and %d "
           "were returned, expected %d buckets",
           c->name, c->first_bytes, c->bytes, last, number, last + 1);
}

static void add_network(BucketCases *cases, const NetworkKind *kind) {
    static const size_t caps[][2] = {{1, 1},
                                     {4096, 4096},
                                     {1024, 65536},
                                     {1 << 20, 25 << 20},
                                     {25 << 20, 25 << 20},
                                     {1 << 20, 4 << 20}};
    Module *net = kind->make(10);
    initialize(net, 1);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        BucketCase *c = &cases->list[cases->n++];
        *c = (BucketCase){.name = kind->title, .first_bytes = caps[i][0], .bytes = caps[i][1]};
        c->n = sizes_of_network(net, c->sizes);
    }
    module_free(net);
}

static const BucketCase cases_by_hand[] = {
    {"five tensors of 1000 floats", 5, {1000, 1000, 1000, 1000, 1000}, 6000, 10000},
    {"five tensors of 1000 floats", 5, {1000, 1000, 1000, 1000, 1000}, 4000, 8000},
    {"seven tensors, small and large", 7, {7, 30, 5, 24, 1, 3, 8}, 40, 100},
    {"one parameter", 1, {10}, 16, 400},
    {"one parameter that hits its cap", 1, {10}, 40, 400},
    {"a huge tensor between small ones", 5, {2, 3, 1 << 24, 4, 5}, 36, 4096},
    {"a huge tensor last", 3, {6, 7, 1 << 24}, 64, 1 << 20},
};

static const BucketCases *all_bucket_cases(void) {
    static BucketCases cases;
    if (cases.n > 0) return &cases;
    memcpy(cases.list, cases_by_hand, sizeof cases_by_hand);
    cases.n = sizeof cases_by_hand / sizeof *cases_by_hand;
    for (int i = 0; i < NUM_NETWORKS; i++) add_network(&cases, &networks[i]);
    return &cases;
}

// Whether it matters that a bucket is closed which has its cap just reached.
static bool is_just_hit(const BucketCase *c) {
    static const BucketMistake rule = {0}, beyond = {.beyond = true};
    int right[MOST_PARAMS], others[MOST_PARAMS];
    fill_with(&rule, c, right);
    fill_with(&beyond, c, others);
    return memcmp(right, others, sizeof *right * (size_t)c->n) != 0;
}

static void check_where(bool just_hit) {
    const BucketCases *cases = all_bucket_cases();
    for (int i = 0; i < cases->n; i++)
        if (is_just_hit(&cases->list[i]) == just_hit) check_buckets(cases, &cases->list[i]);
}
static void check_order_and_caps(const Flags *flags) {
    (void)flags;
    check_where(false);
}
static void check_caps_just_hit(const Flags *flags) {
    (void)flags;
    check_where(true);
}

static void check_numbers(const Flags *flags) {
    const BucketCases *cases = all_bucket_cases();
    (void)flags;
    for (int i = 0; i < cases->n; i++) check_number(&cases->list[i]);
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

// Times that tell the mistakes apart: exchanges that wait for gradients, that wait for each other,
// and that are over before backward is.
static const TimeCase given[] = {
    {{4, {500, 2000, 1500, 250}, {90e-6, 60e-6, 40e-6, 10e-6}, 90e-6}, {2, 1, 1, 0}, 3},
    {{4, {20, 20, 20, 20}, {400e-6, 300e-6, 200e-6, 100e-6}, 700e-6}, {1, 1, 0, 0}, 2},
    {{3, {50, 50, 50}, {500e-6, 490e-6, 20e-6}, 500e-6}, {1, 0, 0}, 2},
    {{1, {1000}, {50e-6}, 80e-6}, {0}, 1},
};
enum { NUM_GIVEN = sizeof given / sizeof *given };

static bool is_predicted_with(const TimeMistake *m) {
    for (int i = 0; i < NUM_GIVEN; i++) {
        const TimeCase *c = &given[i];
        double came = predict(&c->b, c->bucket_of, c->num_buckets, given_time);
        if (!same_time(came, predict_with(m, c, given_time), 1e-9)) return false;
    }
    return true;
}

static const char *hint_for_time(void) {
    for (int m = 1; m < NUM_TIME_MISTAKES; m++)
        if (is_predicted_with(&time_mistakes[m])) return time_mistakes[m].hint;
    return "suspects: when a bucket's exchange begins (all its gradients final, the one before "
           "ended), its bytes, and which of backward and exchange ends last; no single one "
           "explains it";
}

static void check_given_times(const Flags *flags) {
    (void)flags;
    for (int i = 0; i < NUM_GIVEN; i++) {
        const TimeCase *c = &given[i];
        double came = predict(&c->b, c->bucket_of, c->num_buckets, given_time);
        double right = predict_with(&time_mistakes[0], c, given_time);
        EXPECT(same_time(came, right, 1e-9), hint_for_time(),
               "predict(), %d gradients in %d buckets, the first of them final after %g us, "
               "backward %g us, exchanges of 20 us + bytes / 100 per us: %.6g us, expected %.6g us",
               c->b.num_params, c->num_buckets, 1e6 * c->b.final[c->b.num_params - 1],
               1e6 * c->b.seconds, 1e6 * came, 1e6 * right);
    }
}

// ---- the modelled clock ------------------------------------------------------------------------

// Of a machine whose hosts launch in no time: launches are what the rule knows nothing of.
enum { CHECKED_DEVICES = 4, CHECKED_ROWS = 256 };

// Buckets are those of the rule, whatever fill_buckets() makes.
static void check_network(Module *net, const char *title, const Machine *machine) {
    static const size_t caps[] = {1, 4 << 10, 64 << 10, 1 << 20, 25 << 20, ONE_BUCKET};
    model_ranks(machine, HOST_EACH, net, CHECKED_DEVICES, CHECKED_ROWS);
    Backward b = model_backward();
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        BucketCase c = {.n = b.num_params, .first_bytes = 64 << 10, .bytes = caps[i]};
        int bucket_of[MOST_PARAMS];
        if (caps[i] < c.first_bytes || caps[i] == ONE_BUCKET) c.first_bytes = caps[i];
        memcpy(c.sizes, b.sizes, sizeof c.sizes);
        int n = fill_with(&bucket_mistakes[0], &c, bucket_of);
        double said = predict(&b, bucket_of, n, model_exchange);
        double took = model_ddp(c.first_bytes, c.bytes);
        EXPECT(same_time(said, took, 1e-3),
               is_predicted_with(&time_mistakes[0])
                   ? "predict() is right for the times that were given: ask "
                     "seconds_of() for each bucket, and nothing else"
                   : hint_for_time(),
               "%s on %d devices of %s, in %d buckets: predicted %.6g us, expected %.6g us, which "
               "DDP takes there",
               title, CHECKED_DEVICES, machine->name, n, 1e6 * said, 1e6 * took);
    }
}

static void check_modelled_times(const Flags *flags) {
    const Machine *before = modelled_machine();
    Machine machine = *machine_find("rtx4090-pcie");
    (void)flags;
    machine.launch = 0;
    choose_allreduce("ring");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        Module *net = networks[i].make(10);
        initialize(net, 1);
        check_network(net, networks[i].title, &machine);
        module_free(net);
    }
    modelled_clock_start(before);
}

const CheckPart check_parts[] = {
    {"fill_buckets(): the last gradient goes first, into buckets of two caps", 3,
     check_order_and_caps},
    {"fill_buckets(): a bucket that has just reached its cap is closed", 1, check_caps_just_hit},
    {"fill_buckets(): returns the number of buckets", 1, check_numbers},
    {"predict(): right for times that are given", 3, check_given_times},
    {"predict(): what chapter 6's DDP takes on the modelled clock, to 0.1 %", 2,
     check_modelled_times},
    {0}};
