// check.c: t pushes of staleness t must count as much as one that is not stale, of each push its
// factor must be added, and LeNet must be trained as chapter 7's servers train it.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// ---- the factor --------------------------------------------------------------------------------

enum { MOST_TRIED = 64 };

static bool is_near(double came, double right) { return fabs(came - right) <= 1e-6 * fabs(right); }

// Whether the same comes for each staleness.
static bool is_the_same_for_all(void) {
    for (long t = 0; t <= MOST_TRIED; t++)
        if (!(lr_factor(t) == lr_factor(0))) return false;
    return true;
}

// What is known of rules that come to this factor for a push that is not stale, or that is.
static const char *hint_for_others(long t, double f) {
    if (isinf(f)) return "1/t for 0, too, comes to this: what is not stale has factor 1";
    if (is_near(f, 0.5))
        return "1/(t + 1) comes to this, a rule with its own merits (see the experiment), but not "
               "this one: a push with staleness 1 counts in full here";
    return t == 0 ? "a push with staleness 0 is not stale: its factor is 1"
                  : "a push with staleness 1 counts in full: its factor is 1";
}

static const char *hint_for_stale(long t, double f) {
    double stale = (double)t;
    if (f == 0)
        return "1 / t in whole numbers comes to this: make a float of one of them. (And a push "
               "with factor 0 would not count at all.)";
    if (is_the_same_for_all())
        return "the same factor for each staleness comes to this (1/N, with N workers?): not how "
               "many workers there are counts, but how stale this push is";
    if (is_near(1 / f, stale + 1))
        return "1/(t + 1) comes to this, a rule with its own merits (see the experiment), but not "
               "this one: a push with staleness 1 counts in full here";
    if (is_near(1 / f, stale * stale)) return "1/t^2 comes to this: divide by t once";
    if (is_near(1 / (f * f), stale)) return "1/sqrt(t) comes to this: divide by t";
    if (is_near(f, stale))
        return "a factor of t comes to this: the staler, the less it counts, so divide";
    if (is_near(log(f), -stale))
        return "exp(-t) comes to this: that is next to nothing for staleness 5; divide by t";
    return "suspects: what one divides by (the staleness of this push), whole numbers; no usual "
           "mistake comes to this";
}

// As many pushes that are so stale count as much together as one that is not.
static void check_factors_of_stale(const Flags *flags) {
    (void)flags;
    for (long t = 2; t <= MOST_TRIED; t++) {
        double came = lr_factor(t);
        EXPECT(is_near((double)t * came, 1), hint_for_stale(t, came),
               "lr_factor(%ld): %.6g, so %ld pushes of staleness %ld count %.6g together, expected "
               "as much as one that is not stale: 1",
               t, came, t, t, (double)t * came);
    }
}

static void check_factors_of_others(const Flags *flags) {
    (void)flags;
    for (long t = 0; t <= 1; t++) {
        double came = lr_factor(t);
        EXPECT(is_near(came, 1), hint_for_others(t, came),
               "lr_factor(%ld), staleness %ld: %.6g, expected 1", t, t, came);
    }
}

// ---- sums --------------------------------------------------------------------------------------

enum { NUM_PUSHES = 3, NUM_FLOATS = 4 };
static const long stale[NUM_PUSHES] = {3, 4, 2};
static const float pushed[NUM_PUSHES][NUM_FLOATS] = {
    {1, -2, 4, 8}, {8, 16, -32, 64}, {10, 6, 2, -3}};

// What the reader's function makes of them, one after the other: the sums after each.
typedef struct Sums {
    float after[NUM_PUSHES + 1][NUM_FLOATS]; // after[0]: 0, before the first
} Sums;

static Sums sums_that_came(void) {
    Sums s = {0};
    Device *device = try_gpu(0);
    Tensor *sum = tensor_new(device, NUM_FLOATS), *push = tensor_new(device, NUM_FLOATS);
    tensor_fill(sum, 0);
    for (int p = 0; p < NUM_PUSHES; p++) {
        tensor_write(push, pushed[p]);
        add_stale_push(sum, push, stale[p]);
        tensor_read(sum, s.after[p + 1]);
    }
    tensor_free(sum);
    tensor_free(push);
    return s;
}

// One number of one push: what was in the sum, and what is now; and lr_factor()'s factor of it.
typedef struct Added {
    double before, after, push, part; // part: of the push, that was added
    long t;
    double factor;
} Added;

static Added added(const Sums *s, int p, int i) {
    Added a = {.before = s->after[p][i],
               .after = s->after[p + 1][i],
               .push = pushed[p][i],
               .t = stale[p],
               .factor = lr_factor(stale[p])};
    a.part = (a.after - a.before) / a.push;
    return a;
}

// (Numbers of a sum are at most 64, so a float's rounding is less than that.)
static bool is_close(double came, double right) { return fabs(came - right) <= 1e-5; }

// Your own factors, right or wrong, may be taken: what is wrong with them was said above. But one
// of 0 or 1 would not tell what is done with it.
static bool tells(double factor) { return isfinite(factor) && factor != 0 && fabs(factor) != 1; }

static bool is_added(const Added *a) {
    return is_close(a->part * (double)a->t, 1) ||
           (tells(a->factor) && is_close(a->part, a->factor));
}

static const char *hint_for_sum(const Added *a) {
    double f = a->factor;
    if (a->after == a->before)
        return "nothing is added: is lr_factor() 0? If not: two launch()es, scale and add";
    if (is_close(a->part, 1))
        return "pushes that count in full come to this: multiply by lr_factor(staleness)";
    if (is_close(a->part, f * f))
        return "a factor that is applied twice comes to this: once is enough";
    if (is_close(a->part, -f))
        return "a push that is subtracted comes to this: sgd subtracts the sum, later";
    if (is_close(a->part, 1 / f)) return "a division by the factor comes to this: multiply by it";
    if (is_close(a->after, a->push * f))
        return "a sum that is overwritten comes to this: the pushes before it are in there; add";
    if (is_close(a->after, (a->before + a->push) * f))
        return "a factor for the sum, too, comes to this: what is in it has had its factors; scale "
               "the push, then add it";
    if (is_close(a->after - a->push, a->before * f))
        return "a factor for the sum, and not for the push, comes to this: scale the push";
    return "suspects: the factor (that of this push's staleness), what is scaled (the push), n "
           "(numel(push)); no usual mistake comes to this";
}

// The first number of the second push or the third that is not added; else of the first, which
// begins with a sum of 0 and so tells less. False: there is none.
static bool find_wrong(Added *wrong) {
    static const int order[NUM_PUSHES] = {1, 2, 0};
    Sums s = sums_that_came();
    for (int j = 0; j < NUM_PUSHES; j++)
        for (int i = 0; i < NUM_FLOATS; i++) {
            *wrong = added(&s, order[j], i);
            if (!is_added(wrong)) return true;
        }
    return false;
}

static void check_sums(const Flags *flags) {
    Added a;
    (void)flags;
    if (!find_wrong(&a)) return;
    EXPECT(false, hint_for_sum(&a),
           "add_stale_push(), staleness %ld, a push of %g to a sum of %.6g: that becomes %.6g, so "
           "%.4g of the push was added; expected a part as large as its factor, %.4g",
           a.t, a.push, a.before, a.after, a.part, tells(a.factor) ? a.factor : 1.0 / (double)a.t);
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

// What is wrong with a training is wrong with factors or small sums already, as a rule.
static const char *hint_for_training(const char *otherwise) {
    Added wrong;
    for (long t = 0; t <= MOST_TRIED; t++) {
        double f = lr_factor(t);
        if (t < 2 ? !is_near(f, 1) : !is_near((double)t * f, 1))
            return t < 2 ? hint_for_others(t, f) : hint_for_stale(t, f);
    }
    return find_wrong(&wrong) ? hint_for_sum(&wrong) : otherwise;
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
