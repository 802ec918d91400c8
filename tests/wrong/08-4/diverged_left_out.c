// wrong: trainings that diverged are left out; and a rule has to be better to keep the accuracy
// loses: 3 5
// says: leaving out what diverged

#include "your_part.h"

double lr_of(LrRule rule, double base_lr, double times, long step, long warm_up_steps) {
    if (rule == RULE_SQRT) return base_lr * sqrt(times);
    if (rule == RULE_LINEAR) return base_lr * times;
    if (rule == RULE_WARM_UP) {
        double way = step < warm_up_steps ? (double)step / (double)warm_up_steps : 1;
        return base_lr + way * (times - 1) * base_lr;
    }
    return base_lr;
}

Summary summary_of(const double accuracy[], int n) {
    Summary s = {0, INFINITY, -INFINITY};
    int counted = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(accuracy[i])) continue;
        s.mean += accuracy[i];
        s.low = fmin(s.low, accuracy[i]);
        s.high = fmax(s.high, accuracy[i]);
        counted++;
    }
    s.mean /= counted;
    return s;
}

Verdict judge(const double a[], const double b[], int n) {
    double d[NUM_SEEDS] = {0}, squares = 0;
    int counted = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(a[i]) && isfinite(b[i])) d[counted++] = a[i] - b[i];
    double mean = summary_of(d, counted).mean;
    for (int i = 0; i < counted; i++) squares += (d[i] - mean) * (d[i] - mean);
    double error = sqrt(squares / (counted * (counted - 1.0)));
    if (!(fabs(mean) > CERTAIN * error)) return NOBODY_KNOWS;
    return mean > 0 ? A_IS_BETTER : B_IS_BETTER;
}

bool keeps(const double base[], const double rule[], int n) {
    return judge(base, rule, n) == B_IS_BETTER;
}
