// check.c: buckets are gone through gradient by gradient: each bucket must be closed when it has
// reached its cap, and not before. Predictions must be those that were worked out by hand, and then
// those of DDP on the modelled clock.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
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
    bool just_hit; // some bucket has exactly its cap
} BucketCase;

typedef struct BucketCases {
    BucketCase list[32];
    int n;
} BucketCases;

// What the reader's function does; numbers that are not written stay -1. What stands before and
// behind both arrays is not its own: sizes there would fill any bucket, and must stay unread.
static int fill(const BucketCase *c, int bucket_of[]) {
    enum { NOT_YOURS = -77 };
    size_t sizes[MOST_PARAMS + 2] = {1 << 28};
    int buckets[MOST_PARAMS + 2] = {NOT_YOURS};
    memcpy(sizes + 1, c->sizes, sizeof *sizes * (size_t)c->n);
    sizes[c->n + 1] = 1 << 28;
    for (int p = 1; p <= c->n; p++) buckets[p] = -1;
    buckets[c->n + 1] = NOT_YOURS;
    int number = fill_buckets(sizes + 1, c->n, c->first_bytes, c->bytes, buckets + 1);
    EXPECT(buckets[0] == NOT_YOURS && buckets[c->n + 1] == NOT_YOURS,
           "the gradients are 0 to num_params - 1: does the loop begin or end one too late?",
           "fill_buckets(), %s: bucket_of[%d] was written, expected 0 to %d alone", c->name,
           buckets[0] == NOT_YOURS ? c->n : -1, c->n - 1);
    memcpy(bucket_of, buckets + 1, sizeof *bucket_of * (size_t)c->n);
    return number;
}

static size_t cap_of(const BucketCase *c, int bucket) {
    return bucket > 0 ? c->bytes : c->first_bytes;
}

// Bytes that the bucket of gradient p + 1 has without gradient p.
static size_t bytes_before(const BucketCase *c, const int bucket_of[], int p) {
    size_t bytes = 0;
    for (int q = p + 1; q < c->n; q++)
        if (bucket_of[q] == bucket_of[p + 1]) bytes += c->sizes[q] * sizeof(float);
    return bytes;
}

#define LAST_FIRST "backward begins with the last layer, so the last gradient goes first"

static const char *hint_for_first(const BucketCase *c, const int bucket_of[]) {
    if (bucket_of[c->n - 1] < 0)
        return "write bucket_of[p] for each p: the last gradient goes into bucket 0";
    if (c->first_bytes == ONE_BUCKET)
        return "a cap may be the largest size_t there is, for one bucket of everything: can what "
               "it is compared with hold it?";
    if (bucket_of[0] == 0) return "is bucket 0 that of the first gradient? " LAST_FIRST;
    return "buckets count from 0";
}

static const char *hint_for_next(int bucket, int before) {
    if (bucket < 0) return "write bucket_of[p] for each p, down to p = 0";
    if (bucket < before) return "buckets are filled one after the other; " LAST_FIRST;
    return "the next bucket has the next number: no number may be left out";
}

// Why a bucket is still open that has `bytes`, its cap or more.
static const char *hint_for_open(const BucketCase *c, int bucket, size_t bytes) {
    if (bytes == cap_of(c, bucket))
        return "a bucket that has exactly its cap has reached it: it is closed, too";
    if (bucket == 0 && bytes < c->bytes)
        return "the first bucket has a cap of its own, first_bytes; and caps are bytes, of which a "
               "float has 4";
    return "that bucket had reached its cap; caps are bytes, of which a float has 4";
}

// Why a bucket is closed that has no more than `bytes`, when gradient p came.
static const char *hint_for_closed(const BucketCase *c, int bucket, size_t bytes, int p) {
    if (bucket > 0 && bytes >= c->first_bytes)
        return "first_bytes is the cap of the first bucket alone";
    if (bucket == 0 && bytes >= c->bytes) return "the first bucket has a cap of its own";
    if (bytes + c->sizes[p] * sizeof(float) > cap_of(c, bucket))
        return "a gradient that would go beyond the cap still goes in: a bucket is closed when it "
               "has reached its cap, not before. (And does each bucket begin with no bytes?)";
    return "a bucket stays open until it has reached its cap; does each begin with no bytes?";
}

// What must hold of a gradient and the one that came before it. Whether a bucket with exactly its
// cap is closed is a question of its own, asked if `strict`.
static void check_gradient(const BucketCase *c, const int bucket_of[], int p, bool strict) {
    int before = bucket_of[p + 1], bucket = bucket_of[p];
    size_t bytes = bytes_before(c, bucket_of, p), cap = cap_of(c, before);
    EXPECT(bucket == before || bucket == before + 1, hint_for_next(bucket, before),
           "fill_buckets(), %s, caps of %zu and %zu bytes: gradient %d is in bucket %d, expected "
           "%d, where gradient %d is, or the next one",
           c->name, c->first_bytes, c->bytes, p, bucket, before, p + 1);
    EXPECT(bucket != before || bytes < cap || (bytes == cap && !strict),
           hint_for_open(c, bucket, bytes),
           "fill_buckets(), %s, caps of %zu and %zu bytes: gradient %d goes into bucket %d, which "
           "holds %zu bytes already, expected bucket %d: the cap of bucket %d is %zu",
           c->name, c->first_bytes, c->bytes, p, bucket, bytes, before + 1, before, cap);
    EXPECT(bucket == before || bytes >= cap, hint_for_closed(c, before, bytes, p),
           "fill_buckets(), %s, caps of %zu and %zu bytes: gradient %d (%zu bytes) opens bucket "
           "%d, but bucket %d holds %zu bytes, expected to be closed at its cap of %zu",
           c->name, c->first_bytes, c->bytes, p, c->sizes[p] * sizeof(float), bucket, before, bytes,
           cap);
}

static void check_buckets(const BucketCase *c, bool strict) {
    int bucket_of[MOST_PARAMS], last = c->n - 1;
    fill(c, bucket_of);
    EXPECT(bucket_of[last] == 0, hint_for_first(c, bucket_of),
           "fill_buckets(), %s, caps of %zu and %zu bytes: the last gradient, %d, is in bucket %d, "
           "expected 0",
           c->name, c->first_bytes, c->bytes, last, bucket_of[last]);
    for (int p = last - 1; p >= 0; p--) check_gradient(c, bucket_of, p, strict);
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
                                     {1 << 20, 4 << 20},
                                     {ONE_BUCKET, ONE_BUCKET}};
    Module *net = kind->make(10);
    initialize(net, 1);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        BucketCase *c = &cases->list[cases->n++];
        *c = (BucketCase){.name = kind->title, .first_bytes = caps[i][0], .bytes = caps[i][1]};
        c->n = sizes_of_network(net, c->sizes);
    }
    module_free(net);
}

// In the first ones both caps are equal, so that a mistake with bytes is told from one with caps.
static const BucketCase cases_by_hand[] = {
    {"five tensors of 1000 floats", 5, {1000, 1000, 1000, 1000, 1000}, 6000, 6000, false},
    {"five tensors of 1000 floats", 5, {1000, 1000, 1000, 1000, 1000}, 6000, 10000, false},
    {"five tensors of 1000 floats", 5, {1000, 1000, 1000, 1000, 1000}, 4000, 8000, true},
    {"seven tensors, small and large", 7, {7, 30, 5, 24, 1, 3, 8}, 40, 100, false},
    {"six tensors, small and large", 6, {9, 2, 20, 10, 30, 6}, 24, 160, true},
    {"one parameter", 1, {10}, 16, 400, false},
    {"one parameter that hits its cap", 1, {10}, 40, 400, true},
    {"a huge tensor between small ones", 5, {2, 3, 1 << 24, 4, 5}, 36, 4096, true},
    {"a huge tensor last", 3, {6, 7, 1 << 24}, 64, 1 << 20, false},
};

static const BucketCases *all_bucket_cases(void) {
    static BucketCases cases;
    if (cases.n > 0) return &cases;
    memcpy(cases.list, cases_by_hand, sizeof cases_by_hand);
    cases.n = sizeof cases_by_hand / sizeof *cases_by_hand;
    for (int i = 0; i < NUM_NETWORKS; i++) add_network(&cases, &networks[i]);
    return &cases;
}

static void check_order_and_caps(const Flags *flags) {
    const BucketCases *cases = all_bucket_cases();
    (void)flags;
    for (int i = 0; i < cases->n; i++) check_buckets(&cases->list[i], false);
}

static void check_caps_just_hit(const Flags *flags) {
    const BucketCases *cases = all_bucket_cases();
    (void)flags;
    for (int i = 0; i < cases->n; i++)
        if (cases->list[i].just_hit) check_buckets(&cases->list[i], true);
}

static void check_numbers(const Flags *flags) {
    const BucketCases *cases = all_bucket_cases();
    (void)flags;
    for (int i = 0; i < cases->n; i++) check_number(&cases->list[i]);
}

// ---- predictions -------------------------------------------------------------------------------

// Times in microseconds, so that they can be worked out by hand.
typedef struct TimeCase {
    int num_params;
    size_t sizes[MOST_PARAMS]; // floats
    double final[MOST_PARAMS], backward;
    int bucket_of[MOST_PARAMS], num_buckets;
    double expected;
} TimeCase;

// 20 us to start, then 100 bytes in a microsecond.
static double given_time(size_t bytes) { return 20e-6 + (double)bytes / 100e6; }

static const TimeCase given[] = {
    // Bucket 0 goes from 10 us to 10 + 20 + 10 = 40, bucket 1 (14000 bytes) from 60 to 220. Bucket
    // 2 is ready at 90 and waits; 20 + 20 us later it is 260.
    {4, {500, 2000, 1500, 250}, {90, 60, 40, 10}, 90, {2, 1, 1, 0}, 3, 260},
    // 200 + 20 + 1.6, then 400 + 20 + 1.6: both exchanges are over when backward is.
    {4, {20, 20, 20, 20}, {400, 300, 200, 100}, 700, {1, 1, 0, 0}, 2, 700},
    // 490 + 20 + 4 = 514, when bucket 1 is ready, too; 20 + 2 us later it is 536.
    {3, {50, 50, 50}, {500, 490, 20}, 500, {1, 0, 0}, 2, 536},
    {1, {1000}, {50}, 80, {0}, 1, 110}, // 50 + 20 + 40
};
enum { NUM_GIVEN = sizeof given / sizeof *given };

// What comes of the first of these cases, and of the second, if something is taken for another.
static const struct {
    double first, second;
    const char *hint;
} mistaken[] = {
    {220, 700,
     "exchanges that overlap each other come to this, and so does one bucket too few: one queue "
     "does one after the other, so an exchange waits for the end of the one before"},
    {130, 700,
     "a last bucket that waits for its gradients alone comes to this: one queue does one exchange "
     "after the other, so it waits for the end of the one before, too"},
    {240, 700,
     "a bucket that starts with its first gradient comes to this: it must wait for the last of "
     "them"},
    {230, 700,
     "exchanges that wait for each other, but not for their gradients, come to this: what is not "
     "computed yet cannot be sent"},
    {320, 743.2,
     "exchanges that all come after backward come to this: a bucket starts as soon as its own "
     "gradients are final"},
    {260, 421.6, "the end of the last exchange comes to this: backward may end after it"},
    {280, 700,
     "an exchange for each gradient comes to this: a bucket is exchanged as one, with the bytes of "
     "all of its gradients"},
    {140, 700, "an exchange of as many bytes as there are floats comes to this: a float has 4"},
};

static bool same_time(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * fabs(b);
}

// What the reader's function says, in microseconds.
static double said_of(const TimeCase *c) {
    Backward b = {.num_params = c->num_params, .seconds = 1e-6 * c->backward};
    memcpy(b.sizes, c->sizes, sizeof b.sizes);
    for (int p = 0; p < c->num_params; p++) b.final[p] = 1e-6 * c->final[p];
    return 1e6 * predict(&b, c->bucket_of, c->num_buckets, given_time);
}

static bool is_said(const TimeCase *c, double us) { return same_time(said_of(c), us, 1e-9); }

static const char *hint_for_time(void) {
    for (size_t m = 0; m < sizeof mistaken / sizeof *mistaken; m++)
        if (is_said(&given[0], mistaken[m].first) && is_said(&given[1], mistaken[m].second))
            return mistaken[m].hint;
    if (is_said(&given[0], 0)) return "is there nothing yet? Return seconds";
    return "suspects: when a bucket's exchange begins (all its gradients final, the one before "
           "ended), its bytes, and which of backward and exchange ends last; no single one "
           "explains it";
}

static void check_given_times(const Flags *flags) {
    (void)flags;
    for (int i = 0; i < NUM_GIVEN; i++) {
        const TimeCase *c = &given[i];
        EXPECT(is_said(c, c->expected), hint_for_time(),
               "predict(), %d gradients in %d buckets, the first of them final after %g us, "
               "backward %g us, exchanges of 20 us + bytes / 100 per us: %.6g us, expected %.6g us",
               c->num_params, c->num_buckets, c->final[c->num_params - 1], c->backward, said_of(c),
               c->expected);
    }
}

// ---- the modelled clock ------------------------------------------------------------------------

// Of a machine whose hosts launch in no time: launches are what the rule knows nothing of.
enum { CHECKED_DEVICES = 4, CHECKED_ROWS = 256 };

// Buckets are those that DDP has, whatever fill_buckets() makes. Returns how many there are.
static int buckets_of_ddp(const Backward *b, size_t first_bytes, size_t bytes, int bucket_of[]) {
    int last_first[MOST_PARAMS];
    for (int i = 0; i < b->num_params; i++) last_first[i] = b->num_params - 1 - i;
    Buckets buckets = buckets_of(b->sizes, last_first, b->num_params, first_bytes, bytes);
    int n = buckets.n;
    for (int p = 0; p < b->num_params; p++) bucket_of[p] = bucket_with(&buckets, p);
    buckets_free(&buckets);
    return n;
}

static bool is_right_where_given(void) {
    for (int i = 0; i < NUM_GIVEN; i++)
        if (!is_said(&given[i], given[i].expected)) return false;
    return true;
}

static void check_network(Module *net, const char *title, const Machine *machine) {
    static const size_t caps[] = {1, 4 << 10, 64 << 10, 1 << 20, 25 << 20, ONE_BUCKET};
    model_ranks(machine, HOST_EACH, net, CHECKED_DEVICES, CHECKED_ROWS);
    Backward b = model_backward();
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        size_t first = 64 << 10;
        int bucket_of[MOST_PARAMS];
        if (caps[i] < first || caps[i] == ONE_BUCKET) first = caps[i];
        int n = buckets_of_ddp(&b, first, caps[i], bucket_of);
        double said = predict(&b, bucket_of, n, model_exchange);
        double took = model_ddp(first, caps[i]);
        EXPECT(same_time(said, took, 1e-3),
               is_right_where_given() ? "predict() is right for the times that were given: ask "
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
