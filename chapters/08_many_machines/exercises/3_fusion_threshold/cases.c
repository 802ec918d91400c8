// cases.c: messages of gradients that fit, just fit or never do, and that some ranks lack; lines
// through times with and without noise; predictions in which one thing alone costs something.
#include "common/program/facts.h"
#include "your_part.h"

#include <string.h>

enum { ALL_READY = 1, SOME_READY, QUIET, NOISY, PREDICTED };
const Part parts[] = {
    {"fuse(): gradients go into messages by the rule, where all are ready", 3},
    {"fuse(): what is not ready on all ranks is in no message", 2},
    {"fit_line(): the line that times without noise are on", 1},
    {"fit_line(): close to it in spite of late rounds, and of noise at all sizes", 2},
    {"predict(): talk, latencies, bytes and copies add up, for the messages of your fuse()", 2},
    {0}};

// ## Messages

// What stands behind the last gradient, and behind the last rank, would travel, too.
static Cycle drawn_cycle(int n, bool all_ready) {
    Cycle c = {.ranks = (int)draw(2, 3), .n = n};
    c.me = (int)draw(0, c.ranks - 1);
    memset(c.ready, true, sizeof c.ready);
    for (int p = 0; p < MOST_GRADIENTS; p++) c.bytes[p] = p < n ? 4 * (size_t)draw(1, 40) : 8;
    for (int r = 0; r < c.ranks && !all_ready; r++)
        for (int p = 0; p < n; p++) c.ready[r][p] = draw(0, 3) > 0;
    return c;
}

// "gradients of 40 12 bytes, ready on rank 1: 10, threshold 60, rank 1 of 2"
static const char *text_of(const Cycle *c, size_t threshold) {
    static char text[256];
    int length = 0;
#define ADD(...) length += snprintf(text + length, sizeof text - (size_t)length, __VA_ARGS__)
    ADD("gradients of");
    for (int p = 0; p < c->n; p++) ADD(" %zu", c->bytes[p]);
    ADD(" bytes");
    for (int r = 0; r < c->ranks; r++) {
        bool has_all = true;
        for (int p = 0; p < c->n; p++) has_all = has_all && c->ready[r][p];
        if (has_all) continue;
        ADD(", ready on rank %d: ", r);
        for (int p = 0; p < c->n; p++) ADD("%d", c->ready[r][p]);
    }
    ADD(", threshold %zu, rank %d of %d", threshold, c->me, c->ranks);
#undef ADD
    return text;
}

// What is not written stays -2.
static void record_messages(int part, const Cycle *c, size_t threshold) {
    int message_of[MOST_GRADIENTS], goes[MOST_GRADIENTS];
    for (int p = 0; p < MOST_GRADIENTS; p++) message_of[p] = -2;
    int messages = fuse(c, threshold, message_of);
    for (int p = 0; p < c->n; p++) goes[p] = message_of[p] < 0 ? message_of[p] : 0;
    if (part == SOME_READY)
        record_ints(part, goes, (size_t)c->n, "message_of[], with 0 for any message");
    int whole = part == SOME_READY ? PART_IF(part, ALL_READY) : part;
    record_ints(whole, message_of, (size_t)c->n, "message_of[]");
    record_int(whole, messages, "returned");
}

// In turns: so many of equal size just fit; one byte too many; any sizes; a huge one among them,
// or no fusion at all.
static void all_ready(void) {
    for (int i = 0; i < 28; i++) {
        Cycle c = drawn_cycle((int)draw(2, 3 + i / 5), true);
        size_t threshold = 4 * (size_t)draw(10, 80);
        if (i % 4 < 2) {
            for (int p = 1; p < c.n; p++) c.bytes[p] = c.bytes[0];
            threshold = c.bytes[0] * (size_t)draw(2, 3) - (size_t)(i % 4);
        }
        size_t huge = i % 8 == 3 ? 4 * (size_t)draw(100, 1 << 24) : 0;
        if (huge > 0) c.bytes[draw(0, c.n - 1)] = huge;
        if (i % 8 == 7) threshold = 0;
        begin_case("fuse(), %s", text_of(&c, threshold));
        record_messages(ALL_READY, &c, threshold);
    }
    for (int n = 20; n <= MOST_GRADIENTS; n *= 2) {
        Cycle c = drawn_cycle(n, true);
        size_t threshold = 4 * (size_t)draw(40, 200);
        begin_case("fuse(), %d gradients, threshold %zu", n, threshold);
        record_messages(ALL_READY, &c, threshold);
    }
}

// Here each fits, and no sum of sizes is the threshold: those are matters of the first part.
static void some_ready(void) {
    for (int i = 0; i < 16; i++) {
        Cycle c = drawn_cycle((int)draw(2, 3 + i / 3), false);
        size_t threshold = 4 * (size_t)draw(40, 100) + 2;
        begin_case("fuse(), %s", text_of(&c, threshold));
        record_messages(SOME_READY, &c, threshold);
    }
}

// ## Lines

enum { MOST_SIZES = 12 };

// In each size two of its rounds are late, and each round is up to `percent` off.
static void record_line(int part, bool late, int percent) {
    Timings sizes[MOST_SIZES];
    Line line = {.latency = 1e-6 * (double)draw(10, 90)};
    line.per_byte = 1e-11 * (double)draw(10, 99);
    int n = (int)draw(7, MOST_SIZES), rounds = (int)draw(5, 6);
    for (int s = 0; s < n; s++) {
        sizes[s] = (Timings){.bytes = (double)((size_t)4 << 2 * s), .n = rounds};
        int first_late = (int)draw(0, rounds - 1);
        for (int r = 0; r < rounds; r++) {
            bool is_late = late && (r == first_late || r == (first_late + 2) % rounds);
            double times = 1 + 1e-4 * (double)draw(-100 * percent, 100 * percent);
            sizes[s].seconds[r] = (is_late ? 10 : times) * line_at(line, sizes[s].bytes);
        }
    }
    begin_case("fit_line(), %d sizes, %d rounds of %g us + %g ns a byte%s%s", n, rounds,
               1e6 * line.latency, 1e9 * line.per_byte,
               late ? ", two of them ten times as long" : "", percent > 0 ? ", with noise" : "");
    Line came = fit_line(sizes, n);
    record_real(part, 1e6 * came.latency, 1e-6, "latency, microseconds");
    record_real(part, 1e9 * came.per_byte, 1e-6, "nanoseconds for a byte");
}

static void lines(void) {
    for (int i = 0; i < 3; i++) record_line(QUIET, false, 0);
    for (int i = 0; i < 9; i++) record_line(NOISY, i % 3 != 1, i % 3 > 0 ? 10 : 0);
}

// ## Predictions
//
// A prediction is a sum. With a cost of 1 for one thing, and 0 for all others, it is how many there
// are of it. Most facts are for those whose fuse() is right.

static double with_costs(const Cycle *c, size_t threshold, int what) {
    Costs costs = {
        .talk = what == 0, .sum = {what == 1, what == 2}, .copy = {what == 3, what == 4}};
    return predict(c, threshold, &costs);
}

static void record_prediction(const Cycle *c, size_t threshold, bool all_are_ready, bool all_fit) {
    static const char *const names[] = {"times that ranks talk", "latencies of sums",
                                        "bytes that are summed", "latencies of copies",
                                        "bytes that are copied"};
    int part = PART_IF(PREDICTED, ALL_READY);
    if (!all_are_ready) part = PART_IF(part, SOME_READY);
    begin_case("predict(), %s", text_of(c, threshold));
    for (int what = 0; what < 5; what++)
        record_real(all_fit && what != 1 ? PREDICTED : part, with_costs(c, threshold, what), 1e-9,
                    "%s", names[what]);
    Costs costs = {.sum.latency = 1e-6 * (double)draw(20, 60)};
    costs.sum.per_byte = 1e-9 * (double)draw(1, 9);
    costs.copy.latency = 1e-6 * (double)draw(1, 5);
    costs.copy.per_byte = 1e-10 * (double)draw(1, 9);
    costs.talk = 1e-6 * (double)draw(100, 300);
    record_real(part, 1e6 * predict(c, threshold, &costs), 1e-9, "microseconds, with all costs");
}

static void predictions(void) {
    for (int i = 0; i < 12; i++) {
        Cycle c = drawn_cycle((int)draw(3, 4 + i / 3), i % 4 < 3);
        size_t few = 4 * (size_t)draw(30, 60) + 2, thresholds_of[] = {1 << 20, 0, few, few};
        record_prediction(&c, thresholds_of[i % 4], i % 4 < 3, i % 4 == 0);
    }
}

const Group groups[] = {{"all ready", all_ready, 5},
                        {"some ready", some_ready, 5},
                        {"lines", lines, 5},
                        {"predictions", predictions, 5},
                        {0}};
