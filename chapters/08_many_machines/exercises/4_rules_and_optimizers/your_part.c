// # Exercise 4: linear rule or square root: for which optimizer?
//
// Chapter 8, "Larger minibatches": "That is fewer updates for as many images, so each should be
// longer: but how much? The text takes the square root, others the number of ranks itself."
//
// Difficulty: ★★★☆
//
// **Aim.** Goyal et al. (2017) multiply the learning rate by k, the text by sqrt(k). Both are
// right, each for its optimizer: which is whose? Trainings of a few seeds differ anyway, so you
// need not only rules, but a judgement that is not taken in by chance.
//
// **Your task.** Write the rules, and the judgement of accuracies: seed by seed, not best by best.
//
// **How it is checked.** Rules by each step's learning rate; judgements by made-up accuracies, with
// trainings that diverged. The check says in which case yours differ, and what may lead there.
//
// **How to run.** Small trainings, dealt out to ranks; they learn by the chapter's `rule_lr()`,
// which yours must equal.
//
//     make exercise-08-4 ARGS=--check        the check alone: a second
//     make exercise-08-4                     gradient descent and Adam, batch x4: a minute
//     make exercise-08-4 ARGS=--full         x16 and LeNet, too: some minutes
//
// **What to hand in.** This file, and your answer: which rule goes with gradient descent, which
// with Adam, why (what does Adam divide by?), and what do six seeds not tell?
#include "your_part.h"

// `lr_of()` returns the learning rate of update `step` (from 0) with a batch `times` as large as
// the one that base_lr is for. RULE_NONE keeps base_lr; RULE_SQRT and RULE_LINEAR multiply it by
// the root of `times`, and by `times`. RULE_WARM_UP begins with base_lr and grows by the same
// amount in each update, up to times * base_lr: update warm_up_steps (it may be 0) is the first to
// have that.
double lr_of(LrRule rule, double base_lr, double times, long step, long warm_up_steps) {
    // SOLUTION (starter: return 0;)
    if (rule == RULE_NONE) return base_lr;
    if (rule == RULE_SQRT) return base_lr * sqrt(times);
    if (rule == RULE_LINEAR || step >= warm_up_steps) return base_lr * times;
    return base_lr * (1 + (times - 1) * (double)step / (double)warm_up_steps);
    // END SOLUTION
}

// `summary_of()` returns mean, lowest and highest of n accuracies. One that is not finite is that
// of a training that diverged: it counts as GUESSING (0.1), here and below.
Summary summary_of(const double accuracy[], int n) {
    // SOLUTION (starter: return (Summary){0, 0, 0};)
    Summary s = {0, INFINITY, -INFINITY};
    for (int i = 0; i < n; i++) {
        double counts = isfinite(accuracy[i]) ? accuracy[i] : GUESSING;
        s.mean += counts / n;
        s.low = fmin(s.low, counts);
        s.high = fmax(s.high, counts);
    }
    return s;
    // END SOLUTION
}

// `judge()` says which of two rules is better: a[i] and b[i] have the same seed, so the same start
// and the same images, and their n differences d are what counts. One is better if the mean of d is
// more than CERTAIN standard errors, sqrt(sum of (d - mean)^2 / (n (n - 1))), from 0.
Verdict judge(const double a[], const double b[], int n) {
    // SOLUTION (starter: return NOBODY_KNOWS;)
    double mean = summary_of(a, n).mean - summary_of(b, n).mean, squares = 0;
    for (int i = 0; i < n; i++) {
        double d = summary_of(&a[i], 1).mean - summary_of(&b[i], 1).mean;
        squares += (d - mean) * (d - mean);
    }
    if (!(fabs(mean) > CERTAIN * sqrt(squares / (n * (n - 1.0))))) return NOBODY_KNOWS;
    return mean > 0 ? A_IS_BETTER : B_IS_BETTER;
    // END SOLUTION
}

// `keeps()` says whether a rule keeps the accuracy: whether the base batch is not better.
bool keeps(const double base[], const double rule[], int n) {
    // SOLUTION (starter: return false;)
    return judge(base, rule, n) != A_IS_BETTER;
    // END SOLUTION
}
