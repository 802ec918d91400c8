// check.c: messages must be those of the rule, lines those that the times were made of, predictions
// the sums of their costs. What differs is tried out with the usual mistakes in it.
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

// ---- messages ----------------------------------------------------------------------------------

typedef struct FuseCase {
    const char *name;
    size_t threshold;
    Cycle cycle;
} FuseCase;

// What is done wrong (the rest is done right), and what is then said.
typedef struct FuseMistake {
    bool at_fit, forward, by_size, mine_only, any_rank, not_sent, lost, after_full, refilled,
        floats, one_less;
    const char *hint;
} FuseMistake;

static const FuseMistake fuse_mistakes[] = {
    {.hint = "the rule"},
    {.at_fit = true,
     .hint = "a message that is closed when the next gradient just fits (>=) comes to this: what "
             "fits exactly has room (>)"},
    {.forward = true,
     .hint = "gradients that go in from the first on come to this: backward computes the last one "
             "first"},
    {.by_size = true,
     .hint = "gradients in the order of their sizes come to this: they go in from the last to the "
             "first, whatever their sizes"},
    {.mine_only = true,
     .hint = "fusing what is ready on this rank alone comes to this: the others have other "
             "messages then, and all wait for ever. Look at ready[r][p] of all ranks r"},
    {.any_rank = true,
     .hint = "fusing what is ready on any rank comes to this: all must have it, for all add"},
    {.not_sent = true,
     .hint = "all gradients, ready or not, come to this: what is not ready on all ranks gets -1"},
    {.lost = true,
     .hint = "a gradient that is larger than the buffer is lost: it begins a message, and goes "
             "alone"},
    {.after_full = true,
     .hint = "a message that takes one more gradient and is closed then (DDP's rule, chapter 6) "
             "comes to this: first look whether it has room"},
    {.refilled = true,
     .hint = "messages that are gone back to, because a small gradient still fits, come to this: "
             "only the last message is open"},
    {.floats = true, .hint = "a threshold in floats comes to this: both are bytes"},
    {.one_less = true,
     .hint = "the number of the last message comes to this: they count from 0, so there is one "
             "more"},
};
enum { NUM_FUSE_MISTAKES = sizeof fuse_mistakes / sizeof *fuse_mistakes };

static bool ready_by(const FuseMistake *m, const Cycle *c, int p) {
    int ready = 0;
    for (int r = 0; r < c->ranks; r++) ready += c->ready[r][p];
    if (m->not_sent) return true;
    if (m->mine_only) return c->ready[c->me][p];
    return m->any_rank ? ready > 0 : ready == c->ranks;
}

static void order_by(const FuseMistake *m, const Cycle *c, int order[]) {
    for (int i = 0; i < c->n; i++) order[i] = m->forward ? i : c->n - 1 - i;
    for (int i = 1; m->by_size && i < c->n; i++) // the largest first
        for (int j = i; j > 0 && c->bytes[order[j]] > c->bytes[order[j - 1]]; j--) {
            int p = order[j];
            order[j] = order[j - 1];
            order[j - 1] = p;
        }
}

// The message that gradient p goes into, of n so far.
static int place_by(const FuseMistake *m, const size_t filled[], int n, size_t bytes,
                    size_t threshold) {
    for (int i = m->refilled || n == 0 ? 0 : n - 1; i < n; i++) {
        bool room = m->after_full ? filled[i] < threshold
                    : m->at_fit   ? filled[i] + bytes < threshold
                                  : filled[i] + bytes <= threshold;
        if (room) return i;
    }
    return n;
}

static int fuse_with(const FuseMistake *m, const Cycle *c, size_t threshold, int message_of[]) {
    size_t filled[MOST_GRADIENTS] = {0};
    int order[MOST_GRADIENTS], n = 0;
    order_by(m, c, order);
    for (int i = 0; i < c->n; i++) {
        int p = order[i];
        size_t bytes = c->bytes[p] / (m->floats ? sizeof(float) : 1);
        message_of[p] = -1;
        if (!ready_by(m, c, p) || (m->lost && bytes > threshold)) continue;
        int at = message_of[p] = place_by(m, filled, n, bytes, threshold);
        filled[at] += bytes;
        if (at == n) n++;
    }
    return m->one_less && n > 0 ? n - 1 : n;
}

// What the reader's function does; numbers that are not written stay -2.
static int fuse_yours(const Cycle *c, size_t threshold, int message_of[]) {
    for (int p = 0; p < c->n; p++) message_of[p] = -2;
    return fuse(c, threshold, message_of);
}

static bool same_messages(const FuseMistake *m, const FuseCase *f) {
    int came[MOST_GRADIENTS], theirs[MOST_GRADIENTS];
    return fuse_yours(&f->cycle, f->threshold, came) ==
               fuse_with(m, &f->cycle, f->threshold, theirs) &&
           memcmp(came, theirs, sizeof *came * (size_t)f->cycle.n) == 0;
}

// The cases of both parts: [0] all ranks have all gradients; [1] they have not.
static FuseCase fuse_cases[40];
static int first_fuse_case[3]; // of part 0, of part 1; how many there are

static bool explains_fuse(const FuseMistake *m, int first, int end) {
    for (int i = first; i < end; i++)
        if (!same_messages(m, &fuse_cases[i])) return false;
    return true;
}

// The mistake that explains all that the function does, in every case; or else in each of a part.
static const char *hint_for_fuse(int part) {
    for (int m = 1; m < NUM_FUSE_MISTAKES; m++)
        if (explains_fuse(&fuse_mistakes[m], 0, first_fuse_case[2])) return fuse_mistakes[m].hint;
    for (int m = 1; m < NUM_FUSE_MISTAKES; m++)
        if (explains_fuse(&fuse_mistakes[m], first_fuse_case[part], first_fuse_case[part + 1]))
            return fuse_mistakes[m].hint;
    return "suspects: which are ready (on all ranks), the order (the last first), when a message "
           "is full (the next one has no room), the first message; no single one explains it";
}

static void check_messages(int part) {
    for (int i = first_fuse_case[part]; i < first_fuse_case[part + 1]; i++) {
        const FuseCase *f = &fuse_cases[i];
        int came[MOST_GRADIENTS], right[MOST_GRADIENTS];
        int messages = fuse_yours(&f->cycle, f->threshold, came);
        int expected = fuse_with(&fuse_mistakes[0], &f->cycle, f->threshold, right);
        for (int p = f->cycle.n - 1; p >= 0; p--)
            EXPECT(came[p] == right[p],
                   came[p] == -2 ? "write message_of[p] for each p" : hint_for_fuse(part),
                   "fuse(), %s, threshold %zu, on rank %d of %d: gradient %d (%zu bytes) is in "
                   "message %d, expected %d",
                   f->name, f->threshold, f->cycle.me, f->cycle.ranks, p, f->cycle.bytes[p],
                   came[p], right[p]);
        EXPECT(messages == expected, hint_for_fuse(part),
               "fuse(), %s, threshold %zu: returned %d, expected %d messages", f->name,
               f->threshold, messages, expected);
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

static double mean_of(const Timings *t) {
    double sum = 0;
    for (int r = 0; r < t->n; r++) sum += t->seconds[r];
    return sum / t->n;
}
static double median_of(const Timings *t) { return median(t->seconds, t->n); }
static double first_of(const Timings *t) { return t->seconds[0]; }
static double least_of(const Timings *t) {
    double least = t->seconds[0];
    for (int r = 1; r < t->n; r++) least = fmin(least, t->seconds[r]);
    return least;
}

// The line with the least squares of errors, relative ones or not.
static Line squares(const Timings sizes[], int n, double (*time)(const Timings *t), bool relative) {
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (int s = 0; s < n; s++) {
        double t = time(&sizes[s]), b = sizes[s].bytes, weight = relative ? 1 / (t * t) : 1;
        w += weight;
        x += weight * b;
        y += weight * t;
        xx += weight * b * b;
        xy += weight * b * t;
    }
    double slope = (w * xy - x * y) / (w * xx - x * x);
    return (Line){(y - slope * x) / w, slope};
}

static Line line_right(const Timings sizes[], int n) { return squares(sizes, n, median_of, true); }
static Line line_of_means(const Timings sizes[], int n) { return squares(sizes, n, mean_of, true); }
static Line line_of_least(const Timings sizes[], int n) {
    return squares(sizes, n, least_of, true);
}
static Line line_of_first(const Timings sizes[], int n) {
    return squares(sizes, n, first_of, true);
}
static Line line_absolute(const Timings sizes[], int n) {
    return squares(sizes, n, median_of, false);
}
static Line line_through_ends(const Timings sizes[], int n) {
    const Timings *a = &sizes[0], *b = &sizes[n - 1];
    double slope = (median_of(b) - median_of(a)) / (b->bytes - a->bytes);
    return (Line){median_of(a) - slope * a->bytes, slope};
}
static Line line_of_last_two(const Timings sizes[], int n) {
    return line_through_ends(sizes + n - 2, 2);
}
static Line line_in_us(const Timings sizes[], int n) {
    Line line = line_right(sizes, n);
    return (Line){1e6 * line.latency, line.per_byte};
}
static Line line_all_in_us(const Timings sizes[], int n) {
    Line line = line_right(sizes, n);
    return (Line){1e6 * line.latency, 1e6 * line.per_byte};
}
static Line line_bandwidth(const Timings sizes[], int n) {
    Line line = line_right(sizes, n);
    return (Line){line.latency, 1 / line.per_byte};
}
static Line line_per_float(const Timings sizes[], int n) {
    Line line = line_right(sizes, n);
    return (Line){line.latency, line.per_byte * sizeof(float)};
}
static Line line_swapped(const Timings sizes[], int n) {
    Line line = line_right(sizes, n);
    return (Line){line.per_byte, line.latency};
}
static Line line_without_latency(const Timings sizes[], int n) {
    return (Line){0, median_of(&sizes[n - 1]) / sizes[n - 1].bytes};
}

static const struct {
    Line (*fit)(const Timings sizes[], int n);
    const char *hint;
} line_mistakes[] = {
    {line_of_means, "means instead of medians come to this: one late round of five spoils a mean"},
    {line_of_first, "the first round alone comes to this: take the median of all of them"},
    {line_of_least, "the least of the rounds comes to this: take their median; an exchange is as "
                    "late as usual, not as early as ever"},
    {line_absolute, "squares of errors in seconds come to this: the largest size alone decides "
                    "then, and the latency drowns in its noise. Divide each error by its time"},
    {line_through_ends, "a line through the first and the last time comes to this: two times are "
                        "two noises; let all of them vote"},
    {line_of_last_two, "a line through the last two times comes to this: their noise is more than "
                       "the whole latency; let all of them vote"},
    {line_in_us, "a latency in microseconds comes to this: both are seconds"},
    {line_all_in_us, "microseconds come to this: give seconds, and seconds for a byte"},
    {line_bandwidth, "a bandwidth comes to this: per_byte is its inverse, seconds for a byte"},
    {line_per_float, "the time of a float comes to this: a byte takes a quarter of it"},
    {line_swapped, "latency and per_byte, each in the other's place, come to this"},
    {line_without_latency, "a line through 0 comes to this: four bytes take time, too"},
};
enum { NUM_LINE_MISTAKES = sizeof line_mistakes / sizeof *line_mistakes };

static bool is_near(double came, double right, double tolerance) {
    return fabs(came - right) <= tolerance * fabs(right);
}

static const char *hint_for_line(const Timings sizes[], Line came) {
    for (int m = 0; m < NUM_LINE_MISTAKES; m++) {
        Line theirs = line_mistakes[m].fit(sizes, LINE_SIZES);
        if (is_near(came.latency, theirs.latency, 1e-6) &&
            is_near(came.per_byte, theirs.per_byte, 1e-6))
            return line_mistakes[m].hint;
    }
    return "suspects: the median of each size's rounds, errors relative to its time, units "
           "(seconds, seconds for a byte); no single one explains it";
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
    }
}

// ---- predictions -------------------------------------------------------------------------------

typedef struct TimeMistake {
    bool no_copies, always_copies, one_way, copied_whole, no_talk, talk_each, one_latency, waiting;
    const char *hint;
} TimeMistake;

static const TimeMistake time_mistakes[] = {
    {.hint = "the rule"},
    {.no_copies = true,
     .hint = "no copies come to this: what travels together is copied into the buffer, and back"},
    {.always_copies = true,
     .hint = "copies of every gradient come to this: one that is alone is summed where it is"},
    {.one_way = true,
     .hint = "copies into the buffer alone come to this: they have to come back, too"},
    {.copied_whole = true,
     .hint = "one copy of the whole message each way comes to this: each gradient is a copy, with "
             "a latency"},
    {.no_talk = true, .hint = "the time of talking is missing: once, whatever is sent then"},
    {.talk_each = true, .hint = "talking before each message comes to this: once is enough"},
    {.one_latency = true,
     .hint = "all bytes in one message come to this: each message has a latency"},
    {.waiting = true,
     .hint = "gradients that are in no message come to this: those with -1 are not sent"},
};
enum { NUM_TIME_MISTAKES = sizeof time_mistakes / sizeof *time_mistakes };

static double copies_of(const TimeMistake *m, const Costs *costs, double bytes, double each,
                        int together) {
    if (m->no_copies || (together < 2 && !m->always_copies)) return 0;
    if (m->copied_whole) return 2 * line_at(costs->copy, bytes);
    return m->one_way ? each : 2 * each;
}

// What a rule says of `n` messages: those of fuse()'s rule, or those that your fuse() makes. (Your
// predictions may ask it: its mistakes are not theirs.)
static double predict_with(const TimeMistake *m, const FuseCase *f, const Costs *costs,
                           bool your_messages) {
    const Cycle *c = &f->cycle;
    int message_of[MOST_GRADIENTS];
    int n = your_messages ? fuse_yours(c, f->threshold, message_of)
                          : fuse_with(&fuse_mistakes[0], c, f->threshold, message_of);
    double seconds = m->no_talk ? 0 : costs->talk * (m->talk_each ? n : 1);
    seconds += costs->sum.latency * (m->one_latency && n > 1 ? 1 : n);
    for (int i = m->waiting ? -1 : 0; i < c->n; i++) {
        double bytes = 0, each = 0;
        int together = 0;
        for (int p = 0; p < c->n; p++) {
            if (message_of[p] != i) continue;
            bytes += (double)c->bytes[p];
            each += line_at(costs->copy, (double)c->bytes[p]);
            together++;
        }
        if (i < 0 && together > 0) seconds += costs->sum.latency;
        seconds += costs->sum.per_byte * bytes + copies_of(m, costs, bytes, each, together);
    }
    return seconds;
}

static const Costs given_costs = {{50e-6, 1e-9}, {2e-6, 0.1e-9}, 200e-6};

// Whether the prediction is what that mistake comes to.
static bool predicts_like(const TimeMistake *m, const FuseCase *f) {
    int message_of[MOST_GRADIENTS];
    double came = predict(&f->cycle, f->threshold, &given_costs);
    if (is_near(came, predict_with(m, f, &given_costs, false), 1e-9)) return true;
    return fuse_yours(&f->cycle, f->threshold, message_of) > 0 &&
           is_near(came, predict_with(m, f, &given_costs, true), 1e-9);
}

static const char *hint_for_time(const FuseCase cases[], int n) {
    for (int m = 1; m < NUM_TIME_MISTAKES; m++) {
        bool explains = true;
        for (int i = 0; i < n && explains; i++)
            explains = predicts_like(&time_mistakes[m], &cases[i]);
        if (explains) return time_mistakes[m].hint;
    }
    return "suspects: talking (once), a latency for each message, copies (two for each gradient "
           "that is not alone), what is not ready; no single one explains it";
}

static void check_predictions(const Flags *flags) {
    static FuseCase cases[8];
    int n = 0;
    (void)flags;
    cases[n++] = (FuseCase){"each alone", 0, all_ready((size_t[]){40000, 400, 8000}, 3)};
    cases[n++] =
        (FuseCase){"two together, one alone", 10000, all_ready((size_t[]){40000, 400, 8000}, 3)};
    cases[n++] = (FuseCase){"all together", 1 << 20, all_ready((size_t[]){40000, 400, 8000}, 3)};
    cases[n++] = (FuseCase){"ranks that are not all as far", 1000, some_ready(1)};
    for (int i = 0; i < n; i++) {
        const FuseCase *f = &cases[i];
        EXPECT(predicts_like(&time_mistakes[0], f), hint_for_time(cases, n),
               "predict(), %s, threshold %zu, talk 200 us, sums 50 us + 1 ns a byte, copies 2 us + "
               "0.1 ns: %.6g us, expected %.6g us",
               f->name, f->threshold, 1e6 * predict(&f->cycle, f->threshold, &given_costs),
               1e6 * predict_with(&time_mistakes[0], f, &given_costs, false));
    }
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
