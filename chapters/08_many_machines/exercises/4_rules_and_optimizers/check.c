// check.c: learning rates must be those of the chapter's rules, a warm-up must begin, grow and end
// as it should, and judgements of made-up accuracies be those that were worked out by hand.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "your_part.h"

// ---- rules -------------------------------------------------------------------------------------

static const double ks[] = {1, 2, 4, 16};
static const long warm_ups[] = {8, 5, 1, 0};
enum { NUM_KS = 4, NUM_WARM_UPS = 4, UPDATES = 12 };
static const double BASE_LR = 0.025;

static bool is_near(double came, double right) { return fabs(came - right) <= 1e-9; }

// What a learning rate that is the same in all updates was made by, with a batch k times as large.
static const char *hint_for_flat(double lr, double k) {
    if (is_near(lr, BASE_LR))
        return "base_lr alone is RULE_NONE (and the first update of RULE_WARM_UP)";
    if (is_near(lr, BASE_LR * k)) return "base_lr * times is RULE_LINEAR, from the first update on";
    if (is_near(lr, BASE_LR * sqrt(k))) return "the root of `times` is for RULE_SQRT";
    if (is_near(lr, BASE_LR / k) || is_near(lr, BASE_LR / sqrt(k)))
        return "a division comes to this: a larger batch gets a larger learning rate";
    if (is_near(lr, BASE_LR * k * k)) return "`times` twice comes to this: once is enough";
    if (is_near(lr * lr, BASE_LR) || is_near(lr * lr, BASE_LR * k) ||
        is_near(lr * lr, BASE_LR * k * k))
        return "the root of the learning rate comes to this: it is the root of `times` alone that "
               "base_lr is multiplied by";
    return "what does `times` do to base_lr? Only RULE_WARM_UP looks at the update's number";
}

// The chapter has the same rules.
static void check_flat(LrRule rule) {
    for (int i = 0; i < NUM_KS; i++)
        for (int w = 0; w < NUM_WARM_UPS; w++)
            for (long s = 0; s < UPDATES; s++) {
                double came = lr_of(rule, BASE_LR, ks[i], s, warm_ups[w]);
                double right = rule_lr(rule, BASE_LR, ks[i], s, warm_ups[w]);
                EXPECT(fabs(came - right) <= 1e-12, hint_for_flat(came, ks[i]),
                       "lr_of(), %s, base_lr %g, batch x%g, update %ld, warm-up of %ld: %.6g, "
                       "expected %.6g",
                       lr_rule_names[rule], BASE_LR, ks[i], s, warm_ups[w], came, right);
            }
}

static double warm(double k, long step, long updates) {
    return lr_of(RULE_WARM_UP, BASE_LR, k, step, updates);
}

static const char *hint_for_first(double came, double k) {
    if (isnan(came)) return "0 / 0 comes to this: a division by warm_up_steps - 1, which may be 0?";
    if (came == 0)
        return "a warm-up that begins with 0 comes to this: update 0 has base_lr, else it learns "
               "nothing";
    if (is_near(came, BASE_LR * k)) return "times * base_lr from the first update is RULE_LINEAR";
    return "a warm-up that is one update ahead comes to this, say: update 0 has base_lr";
}

static const char *hint_for_end(double came, long step, long updates) {
    if (updates == 0)
        return "there may be no warm-up, warm_up_steps 0: then all updates have times * base_lr "
               "(and a division by 0 is none)";
    if (is_near(came, BASE_LR))
        return "base_lr again after the warm-up, or all along, comes to this: from update "
               "warm_up_steps on it is times * base_lr";
    if (step == updates)
        return "a warm-up that is over one update late comes to this, or one that ends elsewhere "
               "(at the root?): update warm_up_steps has times * base_lr";
    return "a warm-up that goes on, or never gets there, comes to this: at times * base_lr it ends";
}

static const char *hint_for_growth(double k, long step, long updates) {
    double before = warm(k, step - 1, updates), now = warm(k, step, updates);
    if (is_near(now, BASE_LR) && is_near(before, BASE_LR))
        return "step / warm_up_steps in whole numbers comes to this (it is 0): make doubles of "
               "them";
    if (is_near(now, BASE_LR * k))
        return "a warm-up that is over too early comes to this (a division by warm_up_steps - 1?): "
               "update warm_up_steps is the first with times * base_lr";
    if (is_near(now / before, warm(k, step + 1, updates) / now))
        return "growth by the same factor comes to this: by the same amount";
    return "it begins with base_lr, so (times - 1) * base_lr is what is added in warm_up_steps "
           "updates, the same in each";
}

// It begins and ends where it should, and grows by as much in each update.
static void check_warm_up_of(double k, long updates) {
    for (long s = 0; s < UPDATES; s++) {
        double came = warm(k, s, updates);
        if (s >= updates)
            EXPECT(is_near(came, BASE_LR * k), hint_for_end(came, s, updates),
                   "lr_of(), a warm-up of %ld, base_lr %g, batch x%g, update %ld: %.6g, expected "
                   "%.6g, which it has reached",
                   updates, BASE_LR, k, s, came, BASE_LR * k);
        else if (s == 0)
            EXPECT(is_near(came, BASE_LR), hint_for_first(came, k),
                   "lr_of(), a warm-up of %ld, base_lr %g, batch x%g, update 0: %.6g, expected "
                   "base_lr",
                   updates, BASE_LR, k, came);
        else
            EXPECT(is_near(came - warm(k, s - 1, updates), warm(k, s + 1, updates) - came),
                   hint_for_growth(k, s, updates),
                   "lr_of(), a warm-up of %ld, base_lr %g, batch x%g, updates %ld to %ld: %.6g, "
                   "%.6g and %.6g, expected that it grows by as much from each to the next",
                   updates, BASE_LR, k, s - 1, s + 1, warm(k, s - 1, updates), came,
                   warm(k, s + 1, updates));
    }
}

static void check_warm_up(const Flags *flags) {
    (void)flags;
    for (int i = 0; i < NUM_KS; i++)
        for (int w = 0; w < NUM_WARM_UPS; w++) check_warm_up_of(ks[i], warm_ups[w]);
}

static void check_rules(const Flags *flags) {
    (void)flags;
    check_flat(RULE_NONE);
    check_flat(RULE_SQRT);
    check_flat(RULE_LINEAR);
}

// ---- what several seeds say --------------------------------------------------------------------
//
// Worked out by hand. For verdicts: the differences a - b, their mean, its standard error, and how
// many of these the mean is from 0.

enum { MOST_OF_SEEDS = 6 };

typedef struct SeedsCase {
    int n;
    double a[MOST_OF_SEEDS], b[MOST_OF_SEEDS];
    Summary of_a; // mean, lowest and highest
    Verdict verdict;
    bool keeps;          // whether a keeps the accuracy of b
    const char *hint[3]; // if the verdict is another one: for each that is wrong, its mistake
} SeedsCase;

#define ONE_SEED                                                                                   \
    "comparing the best seeds, or the means alone, comes to this: one lucky training decides. "    \
    "The mean of the differences must be CERTAIN standard errors from 0"
#define MOST_SEEDS "most of the seeds come to this: it counts by how much, too"
#define TURNED     "the other way round: A_IS_BETTER if a is more"
#define NOT_FINITE "what diverged counts as GUESSING: left out, 0, 1 or NaN come to this"
#define PAIRS                                                                                      \
    "errors of a and of b apart, or ranges that must not overlap, come to this: seeds are pairs "  \
    "(the same start, the same images), so take the differences first"
#define ERRORS                                                                                     \
    "is it CERTAIN standard errors, not one? Squares are divided by n (n - 1), not by n n. Or "    \
    "does "                                                                                        \
    "every single seed decide? It counts by how much, too"

// (NAN: a training that diverged. In the first NUM_FINITE cases none did.)
// clang-format off
static const SeedsCase cases[] = {
    // One lucky seed: 0.15 -0.05 -0.04; 0.02, 0.065: 0.3.
    {3, {0.75, 0.50, 0.52}, {0.60, 0.55, 0.56}, {0.59, 0.50, 0.75}, NOBODY_KNOWS, true,
     {[A_IS_BETTER] = ONE_SEED, [B_IS_BETTER] = MOST_SEEDS}},
    // A little worse, always: -0.02 -0.03 -0.02 -0.03; -0.025, 0.0029: 8.7.
    {4, {0.60, 0.65, 0.70, 0.75}, {0.62, 0.68, 0.72, 0.78}, {0.675, 0.60, 0.75}, B_IS_BETTER, false,
     {[NOBODY_KNOWS] = PAIRS, [A_IS_BETTER] = TURNED}},
    // 0.05 0.10 -0.01; 0.0467, 0.032: one and a half.
    {3, {0.60, 0.60, 0.60}, {0.55, 0.50, 0.61}, {0.60, 0.60, 0.60}, NOBODY_KNOWS, true,
     {[A_IS_BETTER] = ERRORS, [B_IS_BETTER] = TURNED}},
    // Better with each, but how much? 0.07 0.01 0.04; 0.04, 0.0173: 2.3. (By n n it would be 2.8.)
    {3, {0.62, 0.58, 0.60}, {0.55, 0.57, 0.56}, {0.60, 0.58, 0.62}, NOBODY_KNOWS, true,
     {[A_IS_BETTER] = ERRORS, [B_IS_BETTER] = TURNED}},
    // All but one: 0.08 0.12 -0.02 0.07 0.13 0.17; 0.0917, 0.0268: 3.4. (The deviation is 0.066.)
    {6, {0.57, 0.60, 0.54, 0.45, 0.69, 0.52}, {0.49, 0.48, 0.56, 0.38, 0.56, 0.35},
     {0.561666666667, 0.45, 0.69}, A_IS_BETTER, true,
     {[NOBODY_KNOWS] = "the deviation of the differences comes to this: that of their mean is a "
                       "root of n smaller. Or does every single seed decide?",
      [B_IS_BETTER] = TURNED}},
    // Most of the seeds: 0.10 0.09 0.11 -0.02; 0.07, 0.0303: 2.3.
    {4, {0.70, 0.71, 0.69, 0.50}, {0.60, 0.62, 0.58, 0.52}, {0.65, 0.50, 0.71}, NOBODY_KNOWS, true,
     {[A_IS_BETTER] = MOST_SEEDS, [B_IS_BETTER] = TURNED}},
    // The same: 0, 0. More than 0 it is not.
    {3, {0.5, 0.5, 0.75}, {0.5, 0.5, 0.75}, {0.583333333333, 0.5, 0.75}, NOBODY_KNOWS, true,
     {[A_IS_BETTER] = "no difference at all is not more than CERTAIN errors of 0",
      [B_IS_BETTER] = "no difference at all is not more than CERTAIN errors of 0"}},
    // One diverged, 0.1: -0.45 0.05 0.06 0.05; -0.0725, 0.126: 0.6. (Without it: 16.)
    {4, {NAN, 0.60, 0.62, 0.61}, {0.55, 0.55, 0.56, 0.56}, {0.4825, 0.1, 0.62}, NOBODY_KNOWS, true,
     {[A_IS_BETTER] = NOT_FINITE, [B_IS_BETTER] = NOT_FINITE}},
    // Two of the others did: 0.40 0.25 0.48; 0.377, 0.067: 5.6.
    {3, {0.50, 0.55, 0.58}, {NAN, 0.30, NAN}, {0.543333333333, 0.50, 0.58}, A_IS_BETTER, true,
     {[NOBODY_KNOWS] = NOT_FINITE, [B_IS_BETTER] = NOT_FINITE}},
    // All did: -0.2 -0.3 -0.4; -0.3, 0.058: 5.2.
    {3, {NAN, INFINITY, NAN}, {0.3, 0.4, 0.5}, {0.1, 0.1, 0.1}, B_IS_BETTER, false,
     {[NOBODY_KNOWS] = NOT_FINITE, [A_IS_BETTER] = NOT_FINITE}},
    // But the others are worse: 0.02 0.01 0.03; 0.02, 0.0058: 3.5.
    {3, {NAN, NAN, NAN}, {0.08, 0.09, 0.07}, {0.1, 0.1, 0.1}, A_IS_BETTER, true,
     {[NOBODY_KNOWS] = NOT_FINITE, [B_IS_BETTER] = NOT_FINITE}},
};
// clang-format on
enum { NUM_FINITE = 7, NUM_CASES = sizeof cases / sizeof *cases };

static bool summary_is_right(const SeedsCase *c) {
    Summary came = summary_of(c->a, c->n);
    return is_near(came.mean, c->of_a.mean) && is_near(came.low, c->of_a.low) &&
           is_near(came.high, c->of_a.high);
}

// What is added up for each that diverged, if the sum is divided by n.
static const char *hint_for_diverged(const SeedsCase *c, double mean) {
    double finite = 0;
    int diverged = 0;
    for (int i = 0; i < c->n; i++)
        if (isfinite(c->a[i]))
            finite += c->a[i];
        else
            diverged++;
    double counts = (mean * c->n - finite) / diverged;
    if (isnan(mean) || isinf(mean))
        return "NaN comes to this: a training that diverged counts as GUESSING, ask isfinite()";
    if (is_near(counts, 0)) return "0 for what diverged comes to this: it counts as GUESSING";
    if (is_near(counts, 1)) return "NaN counted as good comes to this: it counts as GUESSING";
    if (is_near(counts, mean))
        return "leaving out what diverged comes to this: then a rule that loses two of three "
               "trainings looks good. They count as GUESSING";
    return "what diverged counts as GUESSING, in the lowest and the highest, too";
}

static const char *hint_for_summary(const SeedsCase *c, Summary came) {
    if (c - cases >= NUM_FINITE) return hint_for_diverged(c, came.mean);
    if (is_near(came.mean, c->of_a.mean) && came.low == 0)
        return "a lowest one that starts with 0 stays there: start with the first, or INFINITY";
    if (is_near(came.mean, c->of_a.mean) && came.high == 1)
        return "a highest one that starts with 1 stays there: start with the first, or -INFINITY";
    if (is_near(came.mean, c->of_a.high))
        return "the best seed in place of the mean comes to this: that praises luck";
    if (is_near(came.mean * (c->n - 1), c->of_a.mean * c->n))
        return "n - 1 comes to this: a mean is divided by n";
    return "suspects: what the mean is divided by (n), where the lowest and the highest start";
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

// How many of the cases your judgements are asked about. They may ask summary_of() what a diverged
// training counts: if that is wrong, it is told there, and they judge trainings that came through.
static int num_judged(void) {
    for (int c = 0; c < NUM_CASES; c++)
        if (!summary_is_right(&cases[c])) return NUM_FINITE;
    return NUM_CASES;
}

static void check_summary(const Flags *flags) {
    (void)flags;
    for (const SeedsCase *c = cases; c < cases + NUM_CASES; c++) {
        Summary came = summary_of(c->a, c->n);
        EXPECT(summary_is_right(c), hint_for_summary(c, came),
               "summary_of() of %s: %.4g (%.4g to %.4g), expected %.4g (%.4g to %.4g)",
               list(c->a, c->n), came.mean, came.low, came.high, c->of_a.mean, c->of_a.low,
               c->of_a.high);
    }
}

// ---- judgements --------------------------------------------------------------------------------

static const char *const verdict_names[] = {"nobody knows", "a is better", "b is better"};
static const char *verdict_name(Verdict v) {
    return v <= B_IS_BETTER ? verdict_names[v] : "no verdict";
}

static Verdict other_way_round(Verdict v) {
    return v == A_IS_BETTER ? B_IS_BETTER : v == B_IS_BETTER ? A_IS_BETTER : v;
}

static const char *hint_for_judge(const SeedsCase *c, Verdict came, Verdict turned) {
    if (came == NOBODY_KNOWS && turned == A_IS_BETTER)
        return "a b that never wins comes to this: how far the mean is from 0 has no sign";
    return came <= B_IS_BETTER && c->hint[came] ? c->hint[came] : "it is one of three verdicts";
}

static void check_judge(const Flags *flags) {
    int n = num_judged();
    (void)flags;
    for (const SeedsCase *c = cases; c < cases + n; c++) {
        Verdict came = judge(c->a, c->b, c->n), turned = judge(c->b, c->a, c->n);
        EXPECT(came == c->verdict, hint_for_judge(c, came, turned),
               "judge() of a = %s and b = %s: %s, expected %s", list(c->a, c->n), list(c->b, c->n),
               verdict_name(came), verdict_name(c->verdict));
        EXPECT(turned == other_way_round(came), "if a and b change places, the verdict does, too",
               "judge() of a = %s and b = %s: %s, expected %s", list(c->b, c->n), list(c->a, c->n),
               verdict_name(turned), verdict_name(other_way_round(came)));
    }
}

static const char *hint_for_keeps(const SeedsCase *c) {
    if (c->verdict == A_IS_BETTER) return "base and rule, each in the other's place, come to this";
    if (c->verdict == B_IS_BETTER)
        return "a rule keeps the accuracy if the base batch is not better, and here it is: ask "
               "judge() "
               "(are base and rule each in the other's place?)";
    return "comparing means or best seeds comes to this, or a rule that must be better: that the "
           "base batch is not better is enough. Ask judge()";
}

// Whether keeps() says of each case what is right where the verdict on base and rule is that of
// your own judge(), if that ever finds the base batch better: its mistakes are not those of
// keeps().
static bool follows_your_judge(int n) {
    bool keeps_all = true;
    for (int c = 0; c < n; c++) {
        Verdict yours = judge(cases[c].b, cases[c].a, cases[c].n);
        int like = 0; // the first case of that verdict
        while (like < NUM_CASES - 1 && other_way_round(cases[like].verdict) != yours) like++;
        if (keeps(cases[c].b, cases[c].a, cases[c].n) != cases[like].keeps) return false;
        keeps_all = keeps_all && cases[like].keeps;
    }
    return !keeps_all;
}

// b is the base batch, a the rule.
static void check_keeps(const Flags *flags) {
    int n = num_judged();
    (void)flags;
    if (follows_your_judge(n)) return;
    for (const SeedsCase *c = cases; c < cases + n; c++) {
        bool came = keeps(c->b, c->a, c->n);
        EXPECT(came == c->keeps, hint_for_keeps(c),
               "keeps(), base batch %s, rule %s: %s, expected %s", list(c->b, c->n),
               list(c->a, c->n), came ? "yes" : "no", c->keeps ? "yes" : "no");
    }
}

// ---- the parts ---------------------------------------------------------------------------------

const CheckPart check_parts[] = {
    {"lr_of(): no rule, the square root and the linear rule are the chapter's", 2, check_rules},
    {"lr_of(): a warm-up begins with base_lr, grows evenly and ends at times * base_lr", 2,
     check_warm_up},
    {"summary_of(): mean, lowest and highest, with what diverged as GUESSING", 2, check_summary},
    {"judge(): goes seed by seed, and knows nothing within CERTAIN standard errors", 3,
     check_judge},
    {"keeps(): a rule keeps the accuracy unless the base batch is better", 1, check_keeps},
    {0}};
