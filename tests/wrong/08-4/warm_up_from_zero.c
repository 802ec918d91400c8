// wrong: the warm-up begins with a learning rate of 0, not with base_lr
// loses: 2
// says: a warm-up that begins with 0

#include "your_part.h"

double lr_of(LrRule rule, double base_lr, double times, long step, long warm_up_steps) {
    switch (rule) {
    case RULE_SQRT:
        return base_lr * sqrt(times);
    case RULE_LINEAR:
        return base_lr * times;
    case RULE_WARM_UP:
        if (step >= warm_up_steps) return base_lr * times;
        return base_lr * times * (double)step / (double)warm_up_steps;
    default:
        return base_lr;
    }
}

static double counts(double accuracy) { return isfinite(accuracy) ? accuracy : GUESSING; }

Summary summary_of(const double accuracy[], int n) {
    double sum = 0, low = counts(accuracy[0]), high = low;
    for (int i = 0; i < n; i++) {
        double a = counts(accuracy[i]);
        sum += a;
        if (a < low) low = a;
        if (a > high) high = a;
    }
    return (Summary){sum / n, low, high};
}

Verdict judge(const double a[], const double b[], int n) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += counts(a[i]) - counts(b[i]);
    double mean = sum / n;
    for (int i = 0; i < n; i++) {
        double d = counts(a[i]) - counts(b[i]);
        squares += (d - mean) * (d - mean);
    }
    double error = sqrt(squares / n / (n - 1));
    if (mean > CERTAIN * error) return A_IS_BETTER;
    if (mean < -CERTAIN * error) return B_IS_BETTER;
    return NOBODY_KNOWS;
}

bool keeps(const double base[], const double rule[], int n) {
    return judge(base, rule, n) != A_IS_BETTER;
}
