// check.c: the factor must be the paper's, sums must be right, and LeNet must be trained as chapter
// 7's servers train it. What differs is tried out with the usual mistakes in it.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// ---- the factor --------------------------------------------------------------------------------

typedef double Rule(double t);
static double paper(double t) { return t > 1 ? 1 / t : 1; }
static double one_more(double t) { return 1 / (t + 1); }
static double inverse(double t) { return 1 / t; }
static double zero_at_0(double t) { return t == 0 ? 0 : 1 / t; }
static double squared(double t) { return t > 1 ? 1 / (t * t) : 1; }
static double rooted(double t) { return t > 1 ? 1 / sqrt(t) : 1; }
static double times(double t) { return t > 1 ? t : 1; }
static double whole_numbers(double t) { return t > 1 ? 0 : 1; }
static double falling(double t) { return exp(-t); }
static double nothing(double t) {
    (void)t;
    return 0;
}
static double always_same(double t) {
    (void)t;
    return lr_factor(5);
}

static const struct {
    Rule *rule;
    const char *hint;
} factor_mistakes[] = {
    {one_more, "1/(t + 1) comes to this, a rule with its own merits (see the experiment), but not "
               "this one: a push with staleness 1 counts in full here"},
    {inverse, "1/t for 0, too, comes to this: what is not stale has factor 1"},
    {zero_at_0, "a factor of 0 for staleness 0 comes to this: that push is not stale, and has "
                "factor 1"},
    {squared, "1/t^2 comes to this: divide by t once"},
    {rooted, "1/sqrt(t) comes to this: divide by t"},
    {times, "a factor of t comes to this: the staler, the less it counts, so divide"},
    {whole_numbers, "1 / t in whole numbers comes to this: make a float of one of them"},
    {falling, "exp(-t) comes to this: that is next to nothing for staleness 5; divide by t"},
    {nothing, "with a factor of 0 no push counts: return 1/t, and 1 for what is not stale"},
    {always_same, "the same factor for each staleness comes to this (1/N, with N workers?): not "
                  "how many workers there are counts, but how stale this push is"},
};
enum { NUM_FACTOR_MISTAKES = sizeof factor_mistakes / sizeof *factor_mistakes, MOST_TRIED = 64 };

static bool is_near(double came, double right) {
    return isinf(right) ? isinf(came) : fabs(came - right) <= 1e-6 * fabs(right);
}

static bool same_factors(Rule *rule) {
    for (long t = 0; t <= MOST_TRIED; t++) {
        double came = lr_factor(t), theirs = rule((double)t);
        if (!is_near(came, theirs)) return false;
    }
    return true;
}

static const char *hint_for_factors(void) {
    for (int m = 0; m < NUM_FACTOR_MISTAKES; m++)
        if (same_factors(factor_mistakes[m].rule)) return factor_mistakes[m].hint;
    return "suspects: what is not stale (1), staleness 1 (1, too), what one divides by (t); no "
           "single one explains it";
}

static void check_factor(long t) {
    double came = lr_factor(t), right = paper((double)t);
    EXPECT(is_near(came, right), hint_for_factors(),
           "lr_factor(%ld), staleness %ld: %.6g, expected %.6g", t, t, came, right);
}

static void check_factors_of_stale(const Flags *flags) {
    (void)flags;
    for (long t = 2; t <= MOST_TRIED; t++) check_factor(t);
}
static void check_factors_of_others(const Flags *flags) {
    (void)flags;
    for (long t = 0; t <= 1; t++) check_factor(t);
}

// ---- sums --------------------------------------------------------------------------------------

typedef enum {
    RIGHT,
    NO_FACTOR,
    SUM_TOO,
    OVERWRITES,
    TWICE,
    SUBTRACTS,
    DIVIDES,
    ONLY_SUM,
    NOTHING,
    NUM_SUM_MISTAKES
} SumMistake;

static const char *const sum_hints[NUM_SUM_MISTAKES] = {
    [NO_FACTOR] = "pushes that count in full come to this: multiply by lr_factor(staleness)",
    [SUM_TOO] =
        "a factor for the sum, too, comes to this: what is in it has had its factors; scale "
        "the push, then add it",
    [OVERWRITES] =
        "a sum that is overwritten comes to this: the pushes before it are in there; add",
    [TWICE] = "a factor that is applied twice comes to this: once is enough",
    [SUBTRACTS] = "a push that is subtracted comes to this: sgd subtracts the sum, later",
    [DIVIDES] = "a division by the factor comes to this: multiply by it",
    [ONLY_SUM] = "a factor for the sum, and not for the push, comes to this: scale the push",
    [NOTHING] = "nothing is added: is lr_factor() 0? If not: two launch()es, scale and add",
};

static double sum_with(SumMistake m, double sum, double push, double f) {
    switch (m) {
    case NO_FACTOR:
        return sum + push;
    case SUM_TOO:
        return (sum + push) * f;
    case OVERWRITES:
        return push * f;
    case TWICE:
        return sum + push * f * f;
    case SUBTRACTS:
        return sum - push * f;
    case DIVIDES:
        return sum + push / f;
    case ONLY_SUM:
        return sum * f + push;
    case NOTHING:
        return sum;
    default:
        return sum + push * f;
    }
}

enum { NUM_PUSHES = 3, NUM_FLOATS = 4 };
static const long stale[NUM_PUSHES] = {3, 4, 2};
static const float pushed[NUM_PUSHES][NUM_FLOATS] = {
    {1, -2, 4, 0}, {8, 16, -32, 64}, {10, 6, 2, -3}};

static double sum_of(SumMistake m, Rule *factor, int i) {
    double sum = 0;
    for (int p = 0; p < NUM_PUSHES; p++)
        sum = sum_with(m, sum, pushed[p][i], factor((double)stale[p]));
    return sum;
}

static bool are_sums_of(SumMistake m, Rule *factor, const float came[NUM_FLOATS]) {
    for (int i = 0; i < NUM_FLOATS; i++)
        if (!(fabs(came[i] - sum_of(m, factor, i)) <= 1e-5)) return false;
    return true;
}

// What the reader's function makes of the pushes; free() it.
static float *sums_that_came(void) {
    Device *device = try_gpu(0);
    Tensor *sum = tensor_new(device, NUM_FLOATS), *push = tensor_new(device, NUM_FLOATS);
    tensor_fill(sum, 0);
    for (int p = 0; p < NUM_PUSHES; p++) {
        synchronize_all();
        device_copy(device, push->data, host(), pushed[p], tensor_bytes(push));
        add_stale_push(sum, push, stale[p]);
    }
    float *came = tensor_values(sum);
    tensor_free(sum);
    tensor_free(push);
    return came;
}

// The reader's own factors, right or wrong: with them sums may be right, too. But a factor of 0 or
// 1 would not tell what is done with it.
static double yours(double t) { return lr_factor((long)t); }
static Rule *factors_to_expect(const float came[NUM_FLOATS]) {
    if (are_sums_of(RIGHT, paper, came)) return paper;
    for (int p = 0; p < NUM_PUSHES; p++) {
        double f = yours((double)stale[p]);
        if (!isfinite(f) || f == 0 || fabs(f) == 1) return paper;
    }
    return yours;
}

static const char *hint_for_sums(Rule *factor, const float came[NUM_FLOATS]) {
    for (int m = RIGHT + 1; m < NUM_SUM_MISTAKES; m++)
        if (are_sums_of((SumMistake)m, factor, came)) return sum_hints[m];
    return "suspects: the factor (that of this push's staleness), what is scaled (the push), n "
           "(numel(push)); no single one explains it";
}

static void check_sums(const Flags *flags) {
    float *came = sums_that_came();
    Rule *factor = factors_to_expect(came);
    (void)flags;
    for (int i = 0; i < NUM_FLOATS; i++) {
        double right = sum_of(RIGHT, factor, i);
        EXPECT(fabs(came[i] - right) <= 1e-5, hint_for_sums(factor, came),
               "add_stale_push(), staleness %ld, %ld and %ld: %g, %g and %g, with factors %.3g, "
               "%.3g and %.3g, are summed to %.6g, expected %.6g",
               stale[0], stale[1], stale[2], pushed[0][i], pushed[1][i], pushed[2][i],
               factor((double)stale[0]), factor((double)stale[1]), factor((double)stale[2]),
               came[i], right);
    }
    free(came);
}

// ---- LeNet -------------------------------------------------------------------------------------

// How far your training ends from that of chapter 7's servers.
static double apart(const PsLesson *l, const Schedule *s) {
    Worker start = worker_new(try_gpu(0), l->seed);
    float *from = tensor_values(start.params);
    PsResult theirs = ps_replay(l, s);
    DelayedResult yours = train_delayed(l, s, add_stale_push, NULL);
    double difference = relative_difference(yours.params, theirs.params, from, theirs.n);
    free(from);
    free(yours.params);
    ps_result_free(&theirs);
    worker_free(&start);
    return difference;
}

// What is wrong with a training is wrong with small sums already, as a rule.
static const char *hint_for_training(const char *otherwise) {
    if (!same_factors(paper)) return hint_for_factors();
    float *came = sums_that_came();
    const char *hint = are_sums_of(RIGHT, paper, came) ? otherwise : hint_for_sums(paper, came);
    free(came);
    return hint;
}

enum { W = 4, CLOCKS = 4 };

// How far yours ends from theirs, without a factor or with --staleness-lr.
static double difference_in(Discipline discipline, bool lr_by_staleness, const Flags *flags) {
    double slow[W] = {1, 1, 1.5, 3};
    Dataset *data = fashion_mnist_open(flags->data, true, 128);
    Pace pace = {.W = W, .compute = 1, .slow = slow, .timeout = INFINITY, .dies = -1};
    PsLesson l = {.train_data = data,
                  .test_data = data,
                  .W = W,
                  .S = 1,
                  .batch_size = 32,
                  .lr = 1,
                  .seed = flags->seed,
                  .lr_by_staleness = lr_by_staleness};
    Schedule s = schedule_make(&pace, discipline, CLOCKS);
    double difference = apart(&l, &s);
    schedule_free(&s);
    dataset_free(data);
    return difference;
}

static void check_synchronous(const Flags *flags) {
    double difference = difference_in((Discipline){0}, false, flags);
    EXPECT(
        difference == 0,
        hint_for_training("is n numel(push)? Nothing but the push is scaled, and that by 1 if it "
                          "is not stale"),
        "%d synchronous steps of %d workers: %.2g apart from those without a factor, expected "
        "no bit",
        CLOCKS, W, difference);
}

static void check_asynchronous(const Flags *flags) {
    double difference = difference_in((Discipline){.staleness = NO_BOUND}, true, flags);
    EXPECT(difference <= 1e-6,
           hint_for_training("sums are right: use the staleness that is given, and nothing else"),
           "%d asynchronous pushes of %d workers: %.2g apart from those with --staleness-lr, "
           "expected at most 1e-6",
           CLOCKS * W, W, difference);
}

const CheckPart check_parts[] = {
    {"lr_factor(): 1/t for pushes that are stale", 2, check_factors_of_stale},
    {"lr_factor(): 1 for staleness 0 and 1", 1, check_factors_of_others},
    {"add_stale_push(): each push is added, times its factor", 3, check_sums},
    {"synchronous training has the bits that it has without a factor", 2, check_synchronous},
    {"asynchronous training is that of chapter 7 with --staleness-lr", 2, check_asynchronous},
    {0}};
