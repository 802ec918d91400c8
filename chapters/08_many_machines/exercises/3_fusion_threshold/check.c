// check.c: no message may hold more than fits, or begin while there is room in the one before; no
// other line may be nearer to the times; predictions must have all costs in them, as often as was
// counted by hand.
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <stdarg.h>
#include <string.h>

// ---- messages ----------------------------------------------------------------------------------

typedef struct FuseCase {
    const char *name;
    size_t threshold;
    Cycle cycle;
} FuseCase;

// What the reader's function does; numbers that are not written stay -2.
static int fuse_yours(const FuseCase *f, int message_of[]) {
    for (int p = 0; p < f->cycle.n; p++) message_of[p] = -2;
    return fuse(&f->cycle, f->threshold, message_of);
}

// A rank that has not got gradient p; -1: all have it.
static int lacks(const Cycle *c, int p) {
    for (int r = 0; r < c->ranks; r++)
        if (!c->ready[r][p]) return r;
    return -1;
}

// Of the gradients from number `first` on.
static size_t bytes_in(const Cycle *c, const int message_of[], int message, int first) {
    size_t bytes = 0;
    for (int p = first; p < c->n; p++)
        if (message_of[p] == message) bytes += c->bytes[p];
    return bytes;
}

// What is wrong with an answer, and what may lead there; all is well: what is "".
typedef struct Complaint {
    char what[200];
    const char *hint;
} Complaint;

__attribute__((format(printf, 2, 3))) static Complaint complain(const char *hint,
                                                                const char *format, ...) {
    Complaint complaint = {.hint = hint};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaint.what, sizeof complaint.what, format, arguments);
    va_end(arguments);
    return complaint;
}

static const Complaint all_is_well = {.what = ""};

// Whether what travels is what all ranks have.
static Complaint look_at_ready(const Cycle *c, const int message_of[]) {
    for (int p = c->n - 1; p >= 0; p--) {
        int missing = lacks(c, p);
        if (message_of[p] < -1)
            return complain("write message_of[p] for each p",
                            "nothing is said of gradient %d, expected its message", p);
        if (missing < 0 && message_of[p] < 0)
            return complain("a gradient that all ranks have must travel: is one lost that is "
                            "larger than the buffer? It begins a message, and goes alone",
                            "gradient %d (%zu bytes) is in no message, expected one, as all ranks "
                            "have it",
                            p, c->bytes[p]);
        if (missing < 0 || message_of[p] < 0) continue;
        return complain(c->ready[c->me][p]
                            ? "fusing what is ready on this rank alone, or on any, comes to this: "
                              "the others have other messages then, and all wait for ever. Look at "
                              "ready[r][p] of all ranks r"
                            : "what is not ready on all ranks gets -1: look at ready[r][p] of all "
                              "ranks r",
                        "gradient %d is in message %d, expected none (-1), as rank %d has not got "
                        "it",
                        p, message_of[p], missing);
    }
    return all_is_well;
}

static const char *hint_for_order(const Cycle *c, const int message_of[]) {
    bool backward = true, forward = true;
    for (int p = 1, before = 0; p < c->n; p++) {
        if (message_of[p] < 0) continue;
        backward = backward && message_of[p] <= message_of[before];
        forward = forward && message_of[p] >= message_of[before];
        before = p;
    }
    if (forward && !backward)
        return "gradients that go in from the first on come to this: backward computes the last "
               "one first";
    return "they go in from the last to the first, whatever their sizes, and only the last message "
           "is open: none is gone back to because a small gradient still fits";
}

// Whether gradient p may be in the message of the one that went in before it, or in the next one.
static Complaint look_at_one(const FuseCase *f, const int message_of[], int before, int p) {
    const Cycle *c = &f->cycle;
    int now = message_of[p], last = message_of[before];
    size_t there = bytes_in(c, message_of, last, before);
    if (now != last && now != last + 1)
        return complain(hint_for_order(c, message_of),
                        "gradient %d is in message %d, expected %d or %d, as the one before it, "
                        "number %d, is in %d",
                        p, now, last, last + 1, before, last);
    if (now != last && there + c->bytes[p] <= f->threshold)
        return complain(there + c->bytes[p] == f->threshold
                            ? "a message that is closed when the next gradient just fits (>=) "
                              "comes to this: what fits exactly has room (>)"
                            : "only what has no room begins the next message: what is compared "
                              "with the threshold? Both are bytes",
                        "gradient %d (%zu bytes) begins message %d, expected it in message %d, "
                        "which has %zu bytes, and so room for it",
                        p, c->bytes[p], now, last, there);
    if (now == last && there + c->bytes[p] > f->threshold)
        return complain(there < f->threshold
                            ? "a message that takes one more gradient and is closed then (DDP's "
                              "rule, chapter 6) comes to this: first look whether it has room. (Or "
                              "is the threshold taken for floats? Both are bytes)"
                            : "what has no room begins the next message; both are bytes, not "
                              "floats",
                        "gradient %d (%zu bytes) is in message %d, expected %d, as that one had "
                        "%zu bytes, and so no room",
                        p, c->bytes[p], now, now + 1, there);
    return all_is_well;
}

static Complaint look_at_first(const Cycle *c, const int message_of[], int p) {
    if (message_of[p] == 0) return all_is_well;
    return complain(bytes_in(c, message_of, 0, 0) == 0 ? "messages count from 0"
                                                       : hint_for_order(c, message_of),
                    "gradient %d is in message %d, expected 0, as it is the first to go in", p,
                    message_of[p]);
}

// By what is known of right messages, not by making them.
static Complaint look_at(const FuseCase *f) {
    const Cycle *c = &f->cycle;
    int message_of[MOST_GRADIENTS], before = -1, messages = fuse_yours(f, message_of);
    Complaint complaint = look_at_ready(c, message_of);
    for (int p = c->n - 1; p >= 0 && !complaint.what[0]; p--) {
        if (message_of[p] < 0) continue;
        complaint =
            before < 0 ? look_at_first(c, message_of, p) : look_at_one(f, message_of, before, p);
        before = p;
    }
    int expected = before < 0 ? 0 : message_of[before] + 1;
    if (!complaint.what[0] && messages != expected)
        return complain(
            messages == expected - 1
                ? "the number of the last message comes to this: they count from 0, so there "
                  "is one more"
                : "return how many messages there are",
            "it returned %d, expected %d: the last message is number %d", messages, expected,
            expected - 1);
    return complaint;
}

// The cases of both parts: [0] all ranks have all gradients; [1] they have not.
static FuseCase fuse_cases[40];
static int first_fuse_case[3]; // of part 0, of part 1; how many there are

static void check_messages(int part) {
    for (int i = first_fuse_case[part]; i < first_fuse_case[part + 1]; i++) {
        const FuseCase *f = &fuse_cases[i];
        Complaint complaint = look_at(f);
        EXPECT(!complaint.what[0], complaint.hint,
               "fuse(), %s, threshold %zu, on rank %d of %d: %s", f->name, f->threshold,
               f->cycle.me, f->cycle.ranks, complaint.what);
    }
}

// All ready on both of two ranks.
static Cycle all_ready(const size_t bytes[], int n) {
    Cycle c = {.ranks = 2, .n = n};
    memcpy(c.bytes, bytes, sizeof *bytes * (size_t)n);
    for (int p = 0; p < n; p++) c.ready[0][p] = c.ready[1][p] = true;
    return c;
}

// Some ready on one rank, some on all, as seen by rank `me`.
static Cycle some_ready(int me) {
    static const size_t bytes[] = {400, 40, 120, 4000, 400, 80, 1200, 40};
    static const char *const ready[] = {"11011011", "11110011", "01111011"};
    Cycle c = {.ranks = 3, .me = me, .n = 8};
    memcpy(c.bytes, bytes, sizeof bytes);
    for (int r = 0; r < c.ranks; r++)
        for (int p = 0; p < c.n; p++) c.ready[r][p] = ready[r][p] == '1';
    return c;
}

static void make_fuse_cases(void) {
    FuseCase *cases = fuse_cases;
    int n = 0;
    cases[n++] =
        (FuseCase){"three that fit exactly", 1200, all_ready((size_t[]){400, 400, 400}, 3)};
    cases[n++] = (FuseCase){"one byte too many", 1199, all_ready((size_t[]){400, 400, 400}, 3)};
    cases[n++] =
        (FuseCase){"small and large", 100, all_ready((size_t[]){16, 90, 40, 50, 12, 8, 80, 60}, 8)};
    cases[n++] = (FuseCase){"a huge one between small ones", 1000,
                            all_ready((size_t[]){200, 300, 1 << 26, 400, 100}, 5)};
    cases[n++] = (FuseCase){"a huge one first", 1000, all_ready((size_t[]){8, 4, 1 << 26}, 3)};
    cases[n++] = (FuseCase){"no fusion", 0, all_ready((size_t[]){40, 400, 4}, 3)};
    for (int i = 0; i < NUM_NETWORKS; i++) {
        size_t bytes[MOST_GRADIENTS];
        int count = gradient_bytes(&networks[i], bytes);
        for (int t = 0; t < NUM_THRESHOLDS; t++)
            cases[n++] = (FuseCase){networks[i].title, thresholds[t], all_ready(bytes, count)};
    }
    first_fuse_case[1] = n;
    for (int me = 0; me < 3; me++)
        cases[n++] = (FuseCase){"ranks that are not all as far", 1000, some_ready(me)};
    first_fuse_case[2] = n;
}

// ---- lines -------------------------------------------------------------------------------------

enum { LINE_SIZES = 12, LINE_ROUNDS = 5 };
static const Line true_line = {30e-6, 0.5e-9};

// Times of the line, with some rounds ten times as long, and others off by so much, up and down.
static void make_times(Timings sizes[LINE_SIZES], bool outliers, double noise) {
    static const double off[] = {0.9, -0.8, -1, 1, 0.7, -0.9, 0.8, -0.7, -1, 1, -0.8, 0.6};
    for (int s = 0; s < LINE_SIZES; s++) {
        sizes[s] = (Timings){.bytes = (double)((size_t)4 << 2 * s), .n = LINE_ROUNDS};
        for (int r = 0; r < LINE_ROUNDS; r++) {
            double times = 1 + noise * off[s] + 0.2 * noise * ((2 * r + 1) % 5 - 2);
            if (outliers && (r == s % LINE_ROUNDS || r == (s + 2) % LINE_ROUNDS)) times = 10;
            sizes[s].seconds[r] = times * line_at(true_line, sizes[s].bytes);
        }
    }
}

static double mean_of(const Timings *t) { return mean(t->seconds, t->n); }
static double median_of(const Timings *t) { return median(t->seconds, t->n); }
static double first_of(const Timings *t) { return t->seconds[0]; }
static double least_of(const Timings *t) { return minimum(t->seconds, t->n); }

// How far a line is from the times. The check has no other way to a line than to look whether one
// that is a little higher or steeper is nearer: the one with the least sum has none.
typedef struct Distance {
    double (*time)(const Timings *t); // of the rounds of a size
    bool relative;
    const char *hint;
} Distance;

static double sum_of_squares(const Distance *d, const Timings sizes[], Line line) {
    double sum = 0;
    for (int s = 0; s < LINE_SIZES; s++) {
        double time = d->time(&sizes[s]), error = line_at(line, sizes[s].bytes) - time;
        sum += d->relative ? error / time * error / time : error * error;
    }
    return sum;
}

// (A thousandth is enough to be nearer, if both the line and the times are not exact.)
static bool is_nearest(const Distance *d, const Timings sizes[], Line line) {
    static const double steps[] = {-1e-3, 1e-3};
    double sum = sum_of_squares(d, sizes, line);
    for (int i = 0; i < 2; i++) {
        Line higher = {line.latency * (1 + steps[i]), line.per_byte};
        Line steeper = {line.latency, line.per_byte * (1 + steps[i])};
        if (!(sum_of_squares(d, sizes, higher) >= sum) ||
            !(sum_of_squares(d, sizes, steeper) >= sum))
            return false;
    }
    return true;
}

static const Distance asked = {median_of, true, .hint = "the one that is asked for"};
static const Distance others[] = {
    {mean_of, true, "means instead of medians come to this: one late round of five spoils a mean"},
    {first_of, true, "the first round alone comes to this: take the median of all of them"},
    {least_of, true,
     "the least of the rounds comes to this: take their median; an exchange is as late as usual, "
     "not as early as ever"},
    {median_of, false,
     "squares of errors in seconds come to this: the largest size alone decides then, and the "
     "latency drowns in its noise. Divide each error by its time"},
    {mean_of, false,
     "means, and squares of errors in seconds, come to this: take medians, and divide each error "
     "by its time"}};
enum { NUM_OTHERS = sizeof others / sizeof *others };

static bool is_near(double came, double right, double tolerance) {
    return fabs(came - right) <= tolerance * fabs(right);
}

static bool goes_through(Line line, const Timings *t) {
    return is_near(line_at(line, t->bytes), median_of(t), 1e-9);
}

// In units that are not those which are asked for, latency and slope are this far from the line's.
static const char *hint_for_units(Line came) {
    double latency = came.latency / true_line.latency, slope = came.per_byte / true_line.per_byte;
    if (is_near(latency, 1e6, 0.2))
        return "microseconds come to this: latency is in seconds, and per_byte in seconds, too";
    if (is_near(came.per_byte * true_line.per_byte, 1, 0.2))
        return "a bandwidth comes to this: per_byte is its inverse, seconds for a byte";
    if (is_near(slope, sizeof(float), 0.2))
        return "the time of a float comes to this: a byte takes a quarter of it";
    if (is_near(came.latency, true_line.per_byte, 0.2))
        return "latency and per_byte, each in the other's place, come to this";
    return came.latency == 0 ? "a line through 0 comes to this: four bytes take time, too" : NULL;
}

static const char *hint_for_line(const Timings sizes[], Line came) {
    const char *units = hint_for_units(came);
    if (units) return units;
    if (goes_through(came, &sizes[LINE_SIZES - 1])) {
        if (goes_through(came, &sizes[0]) || goes_through(came, &sizes[LINE_SIZES - 2]))
            return "a line through two of the times comes to this: two times are two noises, and "
                   "for large sizes more than the whole latency; let all of them vote";
    }
    for (int i = 0; i < NUM_OTHERS; i++)
        if (is_nearest(&others[i], sizes, came)) return others[i].hint;
    return "suspects: the median of each size's rounds, errors relative to its time, units "
           "(seconds, seconds for a byte); no usual mistake comes to this";
}

enum { NUM_QUIET = 1, NUM_LINES = 4 }; // the first ones are without noise

static void check_line(int first, int end) {
    static const struct {
        const char *name;
        bool outliers;
        double noise, tolerance;
    } cases[NUM_LINES] = {{"times without noise", false, 0, 1e-6},
                          {"two of five rounds ten times too long", true, 0, 1e-6},
                          {"medians 10 % off, up and down", false, 0.1, 0.06},
                          {"both", true, 0.1, 0.12}};
    for (int i = first; i < end; i++) {
        Timings sizes[LINE_SIZES];
        make_times(sizes, cases[i].outliers, cases[i].noise);
        Line came = fit_line(sizes, LINE_SIZES);
        EXPECT(is_near(came.latency, true_line.latency, cases[i].tolerance) &&
                   is_near(came.per_byte, true_line.per_byte, cases[i].tolerance),
               hint_for_line(sizes, came),
               "fit_line(), %s: a latency of %.4g us and %.4g ns for a byte, expected %g and %g, "
               "within %.2g %%",
               cases[i].name, 1e6 * came.latency, 1e9 * came.per_byte, 1e6 * true_line.latency,
               1e9 * true_line.per_byte, 100 * cases[i].tolerance);
        EXPECT(cases[i].noise == 0 || is_nearest(&asked, sizes, came), hint_for_line(sizes, came),
               "fit_line(), %s: a latency of %.6g us and %.6g ns for a byte leave a sum of squares "
               "of %.6g, expected the least: a line that is 0.1 %% higher or steeper, or less so, "
               "leaves less",
               cases[i].name, 1e6 * came.latency, 1e9 * came.per_byte,
               sum_of_squares(&asked, sizes, came));
    }
}

// ---- predictions -------------------------------------------------------------------------------

// A prediction is a sum, so each thing that costs something can be asked for alone: with costs of 1
// for it, and 0 for all else, the prediction is how many there are.
typedef enum { TALKS, MESSAGES, BYTES, COPIES, BYTES_COPIED, NUM_COUNTS } Count;
static const char *const count_names[NUM_COUNTS] = {"times that ranks talk", "latencies of sums",
                                                    "bytes that are summed", "latencies of copies",
                                                    "bytes that are copied"};

typedef struct TimeCase {
    FuseCase of;
    int gradients; // that travel
    double counts[NUM_COUNTS];
    double us; // in all, with given_costs
} TimeCase;

static const Costs given_costs = {{50e-6, 1e-9}, {2e-6, 0.1e-9}, 200e-6};

// Counted by hand. In microseconds, say for two together and one alone: 200 of talk, two messages
// of 50 each, 48.4 for 48400 bytes, four copies (two of each) of 2 each, 1.68 for 16800 bytes:
// 358.08.
static int make_time_cases(TimeCase cases[]) {
    static const size_t bytes[] = {40000, 400, 8000};
    int n = 0;
    cases[n++] = (TimeCase){{"each alone", 0, all_ready(bytes, 3)}, 3, {1, 3, 48400, 0, 0}, 398.4};
    cases[n++] = (TimeCase){{"two together, one alone", 10000, all_ready(bytes, 3)},
                            3,
                            {1, 2, 48400, 4, 16800},
                            358.08};
    cases[n++] = (TimeCase){
        {"all together", 1 << 20, all_ready(bytes, 3)}, 3, {1, 1, 48400, 6, 96800}, 320.08};
    // On all ranks there are, from the last on, 40 and 1200 bytes, which do not fit together, then
    // 4000 alone, and 40 bytes, to which the 400 of gradient 0, which rank 2 lacks, do not come.
    cases[n++] = (TimeCase){
        {"ranks that are not all as far", 1000, some_ready(1)}, 4, {1, 4, 5280, 0, 0}, 405.28};
    // The same, but all fit.
    cases[n++] = (TimeCase){{"ranks that are not all as far, and all fits", 1 << 20, some_ready(1)},
                            4,
                            {1, 1, 5280, 8, 10560},
                            272.336};
    return n;
}

static double your_count(const TimeCase *c, Count what) {
    Costs costs = {.talk = what == TALKS,
                   .sum = {what == MESSAGES, what == BYTES},
                   .copy = {what == COPIES, what == BYTES_COPIED}};
    return predict(&c->of.cycle, c->of.threshold, &costs);
}

static const char *hint_for_count(const TimeCase *c, Count what, double came) {
    double right = c->counts[what], messages = c->counts[MESSAGES];
    if (what == TALKS)
        return came == messages ? "talking before each message comes to this: once is enough"
                                : "the time of talking is missing: once, whatever is sent then";
    if (what == MESSAGES && came < right)
        return "all bytes in one message come to this: each message has a latency";
    if (what == MESSAGES || (what == BYTES && came > right))
        return "are gradients counted that are in no message? Those with -1 are not sent";
    if (what == BYTES) return "each gradient that travels is summed, all of its bytes";
    if (came == 0)
        return "no copies come to this: what travels together is copied into the buffer, and back";
    if (came * 2 == right)
        return "copies into the buffer alone come to this: they have to come back, too";
    if (what == COPIES && came == 2 * messages && c->gradients > messages)
        return "one copy of the whole message each way comes to this: each gradient is a copy, "
               "with a latency";
    if (came > right)
        return "copies of every gradient come to this: one that is alone is summed where it is";
    return "two copies for each gradient that is not alone in its message, of all of its bytes";
}

static void check_prediction(const TimeCase *c) {
    const FuseCase *f = &c->of;
    for (Count what = 0; what < NUM_COUNTS; what++) {
        double came = your_count(c, what);
        EXPECT(is_near(came, c->counts[what], 1e-9), hint_for_count(c, what, came),
               "predict(), %s, threshold %zu: %.6g %s, expected %g", f->name, f->threshold, came,
               count_names[what], c->counts[what]);
    }
    double came = 1e6 * predict(&f->cycle, f->threshold, &given_costs);
    EXPECT(is_near(came, c->us, 1e-9),
           "each of them alone is right: are they added, and is nothing rounded?",
           "predict(), %s, threshold %zu, talk 200 us, sums 50 us + 1 ns a byte, copies 2 us + "
           "0.1 ns: %.9g us, expected %.9g us",
           f->name, f->threshold, came, c->us);
}

// Your predictions may ask your fuse(). Where its messages are not right, that was said above, and
// predictions are not asked for; but for some they must be.
static void check_predictions(const Flags *flags) {
    static TimeCase cases[8];
    int n = make_time_cases(cases), asked_for = 0;
    (void)flags;
    for (int i = 0; i < n; i++) {
        if (look_at(&cases[i].of).what[0]) continue;
        check_prediction(&cases[i]);
        asked_for++;
    }
    if (asked_for == 0) check_prediction(&cases[0]);
}

// ---- the parts ---------------------------------------------------------------------------------

static void check_all_ready(const Flags *flags) {
    (void)flags;
    make_fuse_cases();
    check_messages(0);
}
static void check_some_ready(const Flags *flags) {
    (void)flags;
    make_fuse_cases();
    check_messages(1);
}
static void check_quiet_line(const Flags *flags) {
    (void)flags;
    check_line(0, NUM_QUIET);
}
static void check_noisy_lines(const Flags *flags) {
    (void)flags;
    check_line(NUM_QUIET, NUM_LINES);
}

const CheckPart check_parts[] = {
    {"fuse(): gradients go into messages by the rule, where all are ready", 3, check_all_ready},
    {"fuse(): what is not ready on all ranks is in no message", 2, check_some_ready},
    {"fit_line(): the line that times without noise are on", 1, check_quiet_line},
    {"fit_line(): close to it in spite of late rounds, and of noise at all sizes", 2,
     check_noisy_lines},
    {"predict(): talk, latencies, bytes and copies add up, for the messages of your fuse()", 2,
     check_predictions},
    {0}};
