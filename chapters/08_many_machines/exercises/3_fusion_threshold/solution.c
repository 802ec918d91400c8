// solution.c: exercise 3, solved.
#include "your_part.h"

int fuse(const Cycle *c, size_t threshold, int message_of[]) {
    size_t filled = 0;
    int messages = 0;
    for (int p = c->n - 1; p >= 0; p--) {
        int ready = 0;
        for (int r = 0; r < c->ranks; r++) ready += c->ready[r][p];
        message_of[p] = -1;
        if (ready < c->ranks) continue;
        if (messages == 0 || filled + c->bytes[p] > threshold) {
            messages++;
            filled = 0;
        }
        filled += c->bytes[p];
        message_of[p] = messages - 1;
    }
    return messages;
}

// Both derivatives of the sum are 0: two equations, with each size weighted by 1/t^2.
Line fit_line(const Timings sizes[], int n) {
    double w = 0, wx = 0, wt = 0, wxx = 0, wxt = 0;
    for (int s = 0; s < n; s++) {
        double t = median(sizes[s].seconds, sizes[s].n);
        double x = sizes[s].bytes, weight = 1 / (t * t);
        w += weight;
        wx += weight * x;
        wt += weight * t;
        wxx += weight * x * x;
        wxt += weight * x * t;
    }
    double per_byte = (w * wxt - wx * wt) / (w * wxx - wx * wx);
    return (Line){.latency = (wt - per_byte * wx) / w, .per_byte = per_byte};
}

double predict(const Cycle *c, size_t threshold, const Costs *costs) {
    int message_of[MOST_GRADIENTS], together[MOST_GRADIENTS] = {0};
    int messages = fuse(c, threshold, message_of);
    double seconds = costs->talk + messages * costs->sum.latency;
    for (int p = 0; p < c->n; p++)
        if (message_of[p] >= 0) together[message_of[p]]++;
    for (int p = 0; p < c->n; p++) {
        if (message_of[p] < 0) continue;
        double bytes = (double)c->bytes[p];
        seconds += costs->sum.per_byte * bytes;
        if (together[message_of[p]] > 1) seconds += 2 * line_at(costs->copy, bytes);
    }
    return seconds;
}
