// check.c: each step's learning rate must be the rule's, and judgements those of made-up
// accuracies. What differs is tried out with the usual mistakes in it.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "your_part.h"

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-12 * fabs(b);
}

// ---- rules -------------------------------------------------------------------------------------

typedef double Rule(double lr, double k, double s, double w);

static double nothing(double lr, double k, double s, double w) {
    (void)lr, (void)k, (void)s, (void)w;
    return 0;
}
static double only_base(double lr, double k, double s, double w) {
    (void)k, (void)s, (void)w;
    return lr;
}
static double rooted(double lr, double k, double s, double w) {
    (void)s, (void)w;
    return lr * sqrt(k);
}
static double multiplied(double lr, double k, double s, double w) {
    (void)s, (void)w;
    return lr * k;
}
static double root_of_lr(double lr, double k, double s, double w) {
    (void)s, (void)w;
    return sqrt(lr) * k;
}
static double root_of_both(double lr, double k, double s, double w) {
    (void)s, (void)w;
    return sqrt(lr * k);
}
static double root_alone(double lr, double k, double s, double w) {
    (void)k, (void)s, (void)w;
    return sqrt(lr);
}
static double divided(double lr, double k, double s, double w) {
    (void)s, (void)w;
    return lr / k;
}
static double root_divided(double lr, double k, double s, double w) {
    (void)s, (void)w;
    return lr / sqrt(k);
}
static double squared(double lr, double k, double s, double w) {
    (void)s, (void)w;
    return lr * k * k;
}
static double warm(double lr, double k, double s, double w) {
    return s >= w ? lr * k : lr * (1 + (k - 1) * s / w);
}
static double from_zero(double lr, double k, double s, double w) {
    return s >= w ? lr * k : lr * k * s / w;
}
static double one_early(double lr, double k, double s, double w) {
    return s + 1 >= w ? lr * k : lr * (1 + (k - 1) * (s + 1) / w);
}
static double reached_early(double lr, double k, double s, double w) {
    return s >= w - 1 ? lr * k : lr * (1 + (k - 1) * s / (w - 1));
}
static double one_less(double lr, double k, double s, double w) {
    return s >= w ? lr * k : lr * (1 + (k - 1) * s / (w - 1)); // 0 / 0 with one update
}
static double one_late(double lr, double k, double s, double w) {
    return s > w ? lr * k : lr * (1 + (k - 1) * s / (w + 1));
}
static double never_there(double lr, double k, double s, double w) {
    return lr * (1 + (k - 1) * fmin(s, w - 1) / w);
}
static double falls_back(double lr, double k, double s, double w) {
    return s >= w ? lr : lr * (1 + (k - 1) * s / w);
}
static double never_ends(double lr, double k, double s, double w) {
    return lr * (1 + (k - 1) * s / w);
}
static double in_whole_numbers(double lr, double k, double s, double w) {
    return s >= w ? lr * k : lr;
}
static double by_factors(double lr, double k, double s, double w) {
    return s >= w ? lr * k : lr * pow(k, s / w);
}
static double k_more(double lr, double k, double s, double w) {
    return s >= w ? lr * k : lr * (1 + k * s / w);
}
static double to_root(double lr, double k, double s, double w) {
    return s >= w ? lr * sqrt(k) : lr * (1 + (sqrt(k) - 1) * s / w);
}
static double not_at_0(double lr, double k, double s, double w) {
    return s > w ? lr * k : lr * (1 + (k - 1) * s / w); // 0 / 0 without a warm-up
}

enum { MOST_RULE_MISTAKES = 16 };
static const struct {
    Rule *right;
    struct {
        Rule *rule;
        const char *hint;
    } mistakes[MOST_RULE_MISTAKES];
} rules[NUM_LR_RULES] = {
    [RULE_NONE] = {only_base,
                   {{nothing, "RULE_NONE keeps base_lr"},
                    {multiplied, "RULE_NONE keeps base_lr; times `times` is RULE_LINEAR"}}},
    [RULE_SQRT] =
        {rooted,
         {{root_of_lr,
           "the root of the learning rate comes to this: it is the root of `times` that "
           "base_lr is multiplied by"},
          {root_of_both, "the root of base_lr * times comes to this: take that of `times` alone"},
          {root_alone, "the root of the learning rate comes to this: base_lr * sqrt(times)"},
          {multiplied, "base_lr * times is RULE_LINEAR"},
          {only_base, "base_lr alone is RULE_NONE"},
          {root_divided, "a division comes to this: a larger batch gets a larger learning rate"}}},
    [RULE_LINEAR] =
        {multiplied,
         {{rooted, "base_lr * sqrt(times) is RULE_SQRT"},
          {only_base, "base_lr alone is RULE_NONE"},
          {divided, "a division comes to this: a larger batch gets a larger learning rate"},
          {squared, "`times` twice comes to this: once is enough"},
          {warm, "a warm-up for RULE_LINEAR comes to this: it has `times` from the first update"}}},
    [RULE_WARM_UP] =
        {warm,
         {{from_zero, "a warm-up that begins with 0 comes to this: update 0 has base_lr, else it "
                      "learns nothing"},
          {one_early, "a warm-up that is one update ahead comes to this: update 0 has base_lr"},
          {reached_early, "a warm-up that is over one update early comes to this: update "
                          "warm_up_steps is the first with times * base_lr"},
          {one_less,
           "a division by warm_up_steps - 1 comes to this: it is over one update early, and "
           "0 / 0 if there is one"},
          {one_late, "a warm-up that is over one update late comes to this: update warm_up_steps "
                     "has times * base_lr"},
          {never_there, "a warm-up that never reaches times * base_lr comes to this: update "
                        "warm_up_steps and all after it have that"},
          {falls_back, "base_lr again after the warm-up comes to this: it stays at times * "
                       "base_lr"},
          {never_ends, "a warm-up that goes on for ever comes to this: at times * base_lr it ends"},
          {in_whole_numbers, "step / warm_up_steps in whole numbers comes to this (it is 0): make "
                             "doubles of them"},
          {by_factors, "growth by the same factor comes to this: by the same amount"},
          {k_more, "growth by times * base_lr comes to this: it begins with base_lr, so (times - "
                   "1) * base_lr is what is added"},
          {to_root, "a warm-up to the root comes to this: it ends at times * base_lr"},
          {multiplied, "times * base_lr from the first update is RULE_LINEAR"},
          {only_base, "base_lr alone is RULE_NONE"},
          {not_at_0, "0 / 0 comes to this: there may be no warm-up, warm_up_steps 0"}}},
};

static const double ks[] = {1, 2, 4, 16};
static const long warm_ups[] = {8, 5, 1, 0};
enum { BASE_LR_STEPS = 12 };
static const double BASE_LR = 0.025;

static bool explains(LrRule rule, Rule *theirs) {
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < 4; w++)
            for (long s = 0; s < BASE_LR_STEPS; s++)
                if (!same(lr_of(rule, BASE_LR, ks[i], s, warm_ups[w]),
                          theirs(BASE_LR, ks[i], (double)s, (double)warm_ups[w])))
                    return false;
    return true;
}

static const char *hint_for_rule(LrRule rule) {
    for (int m = 0; m < MOST_RULE_MISTAKES && rules[rule].mistakes[m].rule; m++)
        if (explains(rule, rules[rule].mistakes[m].rule)) return rules[rule].mistakes[m].hint;
    return "suspects: what `times` does, the first update of the warm-up (base_lr), its last "
           "(update warm_up_steps has times * base_lr); no single one explains it";
}

static void check_rule(LrRule rule) {
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < 4; w++)
            for (long s = 0; s < BASE_LR_STEPS; s++) {
                double came = lr_of(rule, BASE_LR, ks[i], s, warm_ups[w]);
                double right = rules[rule].right(BASE_LR, ks[i], (double)s, (double)warm_ups[w]);
                CHECK(same(right, rule_lr(rule, BASE_LR, ks[i], s, warm_ups[w])),
                      "the chapter has the same rule");
                EXPECT(fabs(came - right) <= 1e-12, hint_for_rule(rule),
                       "lr_of(), %s, base_lr %g, batch x%g, update %ld, warm-up of %ld: %.6g, "
                       "expected %.6g",
                       lr_rule_names[rule], BASE_LR, ks[i], s, warm_ups[w], came, right);
            }
}

// ---- what several seeds say --------------------------------------------------------------------

typedef struct SeedsCase {
    int n;
    double a[6], b[6];
} SeedsCase;

// (NAN: a training that diverged. In the first NUM_FINITE cases none did.)
static const SeedsCase cases[] = {
    {3, {0.62, 0.58, 0.60}, {0.55, 0.57, 0.56}},             // better with each, but how much?
    {4, {0.60, 0.65, 0.70, 0.75}, {0.62, 0.68, 0.72, 0.78}}, // a little worse, always
    {3, {0.75, 0.50, 0.52}, {0.60, 0.55, 0.56}},             // one lucky seed
    {4, {0.70, 0.71, 0.69, 0.50}, {0.60, 0.62, 0.58, 0.52}}, // most of the seeds
    {3, {0.60, 0.60, 0.60}, {0.55, 0.50, 0.61}},             // a mean of one and a half errors
    {6, {0.57, 0.60, 0.54, 0.45, 0.69, 0.52}, {0.49, 0.48, 0.56, 0.38, 0.56, 0.35}}, // all but one
    {3, {0.5, 0.5, 0.75}, {0.5, 0.5, 0.75}},                                         // the same
    {4, {NAN, 0.60, 0.62, 0.61}, {0.55, 0.55, 0.56, 0.56}},                          // one diverged
    {3, {0.50, 0.55, 0.58}, {NAN, 0.30, NAN}},  // two of the others did
    {3, {NAN, INFINITY, NAN}, {0.3, 0.4, 0.5}}, // all did
    {3, {NAN, NAN, NAN}, {0.08, 0.09, 0.07}},   // but the others are worse
};
enum { NUM_FINITE = 7, NUM_CASES = sizeof cases / sizeof *cases };

// What a diverged training counts; seeds that are left out; what is taken for the mean.
typedef struct SeedsMistake {
    double diverged;
    bool left_out, best, one_less, low_from_0, high_from_1;
    const char *hint;
} SeedsMistake;

static const SeedsMistake seeds_mistakes[] = {
    {.diverged = GUESSING, .hint = "the rule"},
    {.diverged = NAN,
     .hint = "NaN comes to this: a training that diverged counts as GUESSING, ask isfinite()"},
    {.left_out = true,
     .hint = "leaving out what diverged comes to this: then a rule that loses two of three "
             "trainings looks good. They count as GUESSING"},
    {.diverged = 0, .hint = "0 for what diverged comes to this: it counts as GUESSING"},
    {.diverged = 1, .hint = "NaN counted as good comes to this: it counts as GUESSING"},
    {.diverged = GUESSING,
     .best = true,
     .hint = "the best seed in place of the mean comes to this: that praises luck"},
    {.diverged = GUESSING, .one_less = true, .hint = "n - 1 comes to this: a mean is divided by n"},
    {.diverged = GUESSING,
     .low_from_0 = true,
     .hint = "a lowest one that starts with 0 stays there: start with the first, or INFINITY"},
    {.diverged = GUESSING,
     .high_from_1 = true,
     .hint = "a highest one that starts with 1 stays there: start with the first, or -INFINITY"},
};
enum { NUM_SEEDS_MISTAKES = sizeof seeds_mistakes / sizeof *seeds_mistakes };

static Summary summary_with(const SeedsMistake *m, const double accuracy[], int n) {
    Summary s = {0, m->low_from_0 ? 0 : INFINITY, m->high_from_1 ? 1 : -INFINITY};
    int counted = 0;
    for (int i = 0; i < n; i++) {
        if (m->left_out && !isfinite(accuracy[i])) continue;
        double counts = isfinite(accuracy[i]) ? accuracy[i] : m->diverged;
        s.mean += counts;
        s.low = fmin(s.low, counts);
        s.high = fmax(s.high, counts);
        counted++;
    }
    s.mean /= m->one_less ? counted - 1 : counted;
    if (m->best) s.mean = s.high;
    return s;
}

static Summary right_summary(const double accuracy[], int n) {
    return summary_with(&seeds_mistakes[0], accuracy, n);
}

static bool near_enough(double a, double b) {
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-9;
}

static const char *hint_for_summary(void) {
    for (int m = 1; m < NUM_SEEDS_MISTAKES; m++) {
        bool all = true;
        for (int c = 0; c < NUM_CASES && all; c++) {
            Summary came = summary_of(cases[c].a, cases[c].n);
            Summary theirs = summary_with(&seeds_mistakes[m], cases[c].a, cases[c].n);
            all = near_enough(came.mean, theirs.mean) &&
                  (isnan(theirs.mean) ||
                   (near_enough(came.low, theirs.low) && near_enough(came.high, theirs.high)));
        }
        if (all) return seeds_mistakes[m].hint;
    }
    return "suspects: what diverged (counts as GUESSING), what the mean is divided by (n), where "
           "the lowest and the highest start; no single one explains it";
}

static const char *list(const double values[], int n) {
    static char text[2][64];
    static int turn;
    char *t = text[turn = 1 - turn];
    int length = 0;
    for (int i = 0; i < n && length < 56; i++)
        length += snprintf(t + length, sizeof text[0] - (size_t)length, "%s%.3g", i ? " " : "",
                           values[i]);
    return t;
}

static bool summary_is_right(const SeedsCase *c) {
    Summary came = summary_of(c->a, c->n), right = right_summary(c->a, c->n);
    return fabs(came.mean - right.mean) <= 1e-9 && fabs(came.low - right.low) <= 1e-9 &&
           fabs(came.high - right.high) <= 1e-9;
}

// How many of the cases your judgements are asked about. They may ask summary_of() what a diverged
// training counts: if that is wrong, it is told there, and they judge trainings that came through.
static int num_judged(void) {
    for (int c = 0; c < NUM_CASES; c++)
        if (!summary_is_right(&cases[c])) return NUM_FINITE;
    return NUM_CASES;
}

static void check_summary(const Flags *flags) {
    (void)flags;
    for (int c = 0; c < NUM_CASES; c++) {
        Summary came = summary_of(cases[c].a, cases[c].n);
        Summary right = right_summary(cases[c].a, cases[c].n);
        EXPECT(summary_is_right(&cases[c]), hint_for_summary(),
               "summary_of() of %s: %.4g (%.4g to %.4g), expected %.4g (%.4g to %.4g)",
               list(cases[c].a, cases[c].n), came.mean, came.low, came.high, right.mean, right.low,
               right.high);
    }
}

// ---- judgements --------------------------------------------------------------------------------

static const char *const verdict_names[] = {"nobody knows", "a is better", "b is better"};

static Verdict by_difference(double difference, double needed) {
    if (!(fabs(difference) > needed)) return NOBODY_KNOWS;
    return difference > 0 ? A_IS_BETTER : B_IS_BETTER;
}
static double count_as(double accuracy, double diverged) {
    return isfinite(accuracy) ? accuracy : diverged;
}

// Mean, and its standard deviation, of n values that are wanted (the others are NaN).
static double mean_of(const double d[], int n) {
    double sum = 0;
    int counted = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(d[i])) sum += d[i], counted++;
    return sum / counted;
}
static double deviation_of(const double d[], int n) {
    double sum = 0, mean = mean_of(d, n);
    int counted = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(d[i])) sum += (d[i] - mean) * (d[i] - mean), counted++;
    return sqrt(sum / (counted - 1));
}
// As judge() does, with this for what diverged (NAN: left out), and so many times the error.
static Verdict by_pairs(const SeedsCase *c, double diverged, double times) {
    double d[6] = {0};
    int n = 0;
    for (int i = 0; i < c->n; i++)
        n += !isnan(d[i] = count_as(c->a[i], diverged) - count_as(c->b[i], diverged));
    return by_difference(mean_of(d, c->n), times * CERTAIN * deviation_of(d, c->n) / sqrt(n));
}

static Verdict judge_right(const SeedsCase *c) { return by_pairs(c, GUESSING, 1); }
static Verdict judge_nan_good(const SeedsCase *c) { return by_pairs(c, 1, 1); }
static Verdict judge_nan_zero(const SeedsCase *c) { return by_pairs(c, 0, 1); }
static Verdict judge_nan_left_out(const SeedsCase *c) { return by_pairs(c, NAN, 1); }
static Verdict judge_deviation(const SeedsCase *c) { return by_pairs(c, GUESSING, sqrt(c->n)); }
static Verdict judge_one_more(const SeedsCase *c) {
    return by_pairs(c, GUESSING, sqrt((c->n - 1.0) / c->n));
}
static Verdict judge_once(const SeedsCase *c) { return by_pairs(c, GUESSING, 1 / CERTAIN); }
static Verdict judge_means(const SeedsCase *c) {
    return by_difference(right_summary(c->a, c->n).mean - right_summary(c->b, c->n).mean, 0);
}
static Verdict judge_best(const SeedsCase *c) {
    return by_difference(right_summary(c->a, c->n).high - right_summary(c->b, c->n).high, 0);
}
static Verdict judge_nan_stays(const SeedsCase *c) {
    for (int i = 0; i < c->n; i++)
        if (!isfinite(c->a[i]) || !isfinite(c->b[i])) return NOBODY_KNOWS;
    return judge_right(c);
}
static Verdict judge_unpaired(const SeedsCase *c) {
    double a[6], b[6];
    for (int i = 0; i < c->n; i++) {
        a[i] = count_as(c->a[i], GUESSING);
        b[i] = count_as(c->b[i], GUESSING);
    }
    return by_difference(mean_of(a, c->n) - mean_of(b, c->n),
                         CERTAIN * hypot(deviation_of(a, c->n), deviation_of(b, c->n)) /
                             sqrt(c->n));
}
static Verdict judge_ranges(const SeedsCase *c) {
    Summary a = right_summary(c->a, c->n), b = right_summary(c->b, c->n);
    return a.low > b.high ? A_IS_BETTER : b.low > a.high ? B_IS_BETTER : NOBODY_KNOWS;
}
static Verdict judge_seeds(const SeedsCase *c, int needed) {
    int won = 0, lost = 0;
    for (int i = 0; i < c->n; i++) {
        won += count_as(c->a[i], GUESSING) > count_as(c->b[i], GUESSING);
        lost += count_as(c->a[i], GUESSING) < count_as(c->b[i], GUESSING);
    }
    return won >= needed ? A_IS_BETTER : lost >= needed ? B_IS_BETTER : NOBODY_KNOWS;
}
static Verdict judge_each_seed(const SeedsCase *c) { return judge_seeds(c, c->n); }
static Verdict judge_most_seeds(const SeedsCase *c) { return judge_seeds(c, c->n / 2 + 1); }
static Verdict judge_one_side(const SeedsCase *c) {
    return judge_right(c) == A_IS_BETTER ? A_IS_BETTER : NOBODY_KNOWS;
}
static Verdict judge_swapped(const SeedsCase *c) {
    Verdict v = judge_right(c);
    return v == A_IS_BETTER ? B_IS_BETTER : v == B_IS_BETTER ? A_IS_BETTER : v;
}

static const struct {
    Verdict (*judge)(const SeedsCase *c);
    const char *hint;
} judge_mistakes[] = {
    {judge_best, "comparing the best seeds comes to this: one lucky training decides. Take the "
                 "differences seed by seed"},
    {judge_means, "comparing the means alone comes to this: one seed can pull a mean. It must be "
                  "CERTAIN standard errors from 0"},
    {judge_most_seeds, "most of the seeds come to this: it counts by how much, too"},
    {judge_each_seed, "every single seed comes to this: it counts by how much, too"},
    {judge_unpaired,
     "errors of a and of b apart come to this: seeds are pairs (the same start, the "
     "same images), so take the differences first"},
    {judge_ranges,
     "ranges that must not overlap come to this: seeds are pairs (the same start, the "
     "same images), so take the differences"},
    {judge_deviation,
     "the deviation of the differences comes to this: that of their mean is a root "
     "of n smaller"},
    {judge_one_more, "n n in place of n (n - 1) comes to this"},
    {judge_once, "one standard error comes to this: CERTAIN of them"},
    {judge_nan_good, "NaN counted as good comes to this: what diverged counts as GUESSING"},
    {judge_nan_zero, "0 for what diverged comes to this: it counts as GUESSING"},
    {judge_nan_left_out, "leaving out what diverged comes to this: it counts as GUESSING"},
    {judge_nan_stays, "a NaN that stays one comes to this: nobody knows then; what diverged counts "
                      "as GUESSING"},
    {judge_one_side, "a b that never wins comes to this: how far the mean is from 0 has no sign"},
    {judge_swapped, "the other way round: A_IS_BETTER if a is more"},
};
enum { NUM_JUDGE_MISTAKES = sizeof judge_mistakes / sizeof *judge_mistakes };

static const char *hint_for_judge(int n) {
    for (int m = 0; m < NUM_JUDGE_MISTAKES; m++) {
        bool all = true;
        for (int c = 0; c < n && all; c++)
            all = judge(cases[c].a, cases[c].b, cases[c].n) == judge_mistakes[m].judge(&cases[c]);
        if (all) return judge_mistakes[m].hint;
    }
    return "suspects: the differences, their mean, its standard error, what diverged (counts as "
           "GUESSING); no single one explains it";
}

static void check_judge(const Flags *flags) {
    int n = num_judged();
    (void)flags;
    for (int c = 0; c < n; c++) {
        Verdict came = judge(cases[c].a, cases[c].b, cases[c].n), right = judge_right(&cases[c]);
        EXPECT(came == right, hint_for_judge(n), "judge() of a = %s and b = %s: %s, expected %s",
               list(cases[c].a, cases[c].n), list(cases[c].b, cases[c].n),
               came <= B_IS_BETTER ? verdict_names[came] : "no verdict", verdict_names[right]);
    }
}

// b is the base batch.
typedef bool Keeps(const SeedsCase *c);
static bool keeps_right(const SeedsCase *c) { return judge_right(c) != B_IS_BETTER; }
static bool keeps_better(const SeedsCase *c) { return judge_right(c) == A_IS_BETTER; }
static bool keeps_swapped(const SeedsCase *c) { return judge_right(c) != A_IS_BETTER; }
static bool keeps_means(const SeedsCase *c) { return judge_means(c) != B_IS_BETTER; }
static bool keeps_best(const SeedsCase *c) { return judge_best(c) != B_IS_BETTER; }
static bool keeps_all(const SeedsCase *c) {
    (void)c;
    return true;
}

static const struct {
    Keeps *keeps;
    const char *hint;
} keeps_mistakes[] = {
    {keeps_better, "a rule that must be better comes to this: that the base batch is not better is "
                   "enough"},
    {keeps_swapped, "base and rule, each in the other's place, come to this"},
    {keeps_means, "comparing means alone comes to this: ask judge()"},
    {keeps_best, "comparing the best seeds comes to this: ask judge()"},
    {keeps_all, "every rule keeps it, then? Ask judge()"},
};
enum { NUM_KEEPS_MISTAKES = sizeof keeps_mistakes / sizeof *keeps_mistakes };

static const char *hint_for_keeps(void) {
    int n = num_judged();
    for (int m = 0; m < NUM_KEEPS_MISTAKES; m++) {
        bool all = true;
        for (int c = 0; c < n && all; c++)
            all = keeps(cases[c].b, cases[c].a, cases[c].n) == keeps_mistakes[m].keeps(&cases[c]);
        if (all) return keeps_mistakes[m].hint;
    }
    return "ask judge() about the base batch and the rule, in this order";
}

// Whether keeps() says what follows from your own judge(), if that ever finds one better: its
// mistakes are not those of keeps().
static bool keeps_by_your_judge(void) {
    bool finds = false;
    for (int c = 0; c < num_judged(); c++) {
        Verdict yours = judge(cases[c].b, cases[c].a, cases[c].n);
        finds = finds || yours == A_IS_BETTER;
        if (keeps(cases[c].b, cases[c].a, cases[c].n) != (yours != A_IS_BETTER)) return false;
    }
    return finds;
}

static void check_keeps(const Flags *flags) {
    (void)flags;
    if (keeps_by_your_judge()) return;
    for (int c = 0; c < num_judged(); c++) {
        bool came = keeps(cases[c].b, cases[c].a, cases[c].n), right = keeps_right(&cases[c]);
        EXPECT(came == right, hint_for_keeps(), "keeps(), base batch %s, rule %s: %s, expected %s",
               list(cases[c].b, cases[c].n), list(cases[c].a, cases[c].n), came ? "yes" : "no",
               right ? "yes" : "no");
    }
}

// ---- the parts ---------------------------------------------------------------------------------

static void check_rules(const Flags *flags) {
    (void)flags;
    check_rule(RULE_NONE);
    check_rule(RULE_SQRT);
    check_rule(RULE_LINEAR);
}
static void check_warm_up(const Flags *flags) {
    (void)flags;
    check_rule(RULE_WARM_UP);
}

const CheckPart check_parts[] = {
    {"lr_of(): no rule, the square root and the linear rule are the chapter's", 2, check_rules},
    {"lr_of(): a warm-up begins with base_lr, grows evenly and ends at times * base_lr", 2,
     check_warm_up},
    {"summary_of(): mean, lowest and highest, with what diverged as GUESSING", 2, check_summary},
    {"judge(): goes seed by seed, and knows nothing within CERTAIN standard errors", 3,
     check_judge},
    {"keeps(): a rule keeps the accuracy unless the base batch is better", 1, check_keeps},
    {0}};
