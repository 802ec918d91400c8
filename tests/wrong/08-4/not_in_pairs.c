// wrong: the errors of a and of b are taken apart, as if their seeds had nothing in common
// loses: 4
// says: seeds are pairs

#include "your_part.h"

double lr_of(LrRule rule, double base_lr, double times, long step, long warm_up_steps) {
    double factor = 1;
    if (rule == RULE_SQRT) factor = sqrt(times);
    if (rule == RULE_LINEAR || rule == RULE_WARM_UP) factor = times;
    if (rule == RULE_WARM_UP && step < warm_up_steps)
        factor = 1 + (times - 1) * ((double)step / (double)warm_up_steps);
    return base_lr * factor;
}

static double counts(double accuracy) { return isfinite(accuracy) ? accuracy : GUESSING; }

Summary summary_of(const double accuracy[], int n) {
    Summary s = {.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < n; i++) {
        s.mean += counts(accuracy[i]) / n;
        s.low = fmin(s.low, counts(accuracy[i]));
        s.high = fmax(s.high, counts(accuracy[i]));
    }
    return s;
}

// The square of the standard error of the mean.
static double error_squared(const double accuracy[], int n) {
    double mean = summary_of(accuracy, n).mean, squares = 0;
    for (int i = 0; i < n; i++) squares += pow(counts(accuracy[i]) - mean, 2);
    return squares / (n * (n - 1.0));
}

Verdict judge(const double a[], const double b[], int n) {
    double difference = summary_of(a, n).mean - summary_of(b, n).mean;
    double error = sqrt(error_squared(a, n) + error_squared(b, n));
    if (!(fabs(difference) > CERTAIN * error)) return NOBODY_KNOWS;
    return difference > 0 ? A_IS_BETTER : B_IS_BETTER;
}

bool keeps(const double base[], const double rule[], int n) {
    return judge(base, rule, n) != A_IS_BETTER;
}
