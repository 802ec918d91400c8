// wrong: a rank fuses what is ready on itself; and nothing is copied back from the buffer
// loses: 2 5
// says: fusing what is ready on this rank alone

#include "your_part.h"

int fuse(const Cycle *c, size_t threshold, int message_of[]) {
    size_t filled = 0;
    int n = 0;
    for (int p = c->n - 1; p >= 0; p--) {
        if (!c->ready[c->me][p]) {
            message_of[p] = -1;
            continue;
        }
        if (n == 0 || filled + c->bytes[p] > threshold) {
            n++;
            filled = 0;
        }
        filled += c->bytes[p];
        message_of[p] = n - 1;
    }
    return n;
}

// By the two equations a A + b B = P, a B + b C = Q of the line a + b x.
Line fit_line(const Timings sizes[], int n) {
    double A = 0, B = 0, C = 0, P = 0, Q = 0;
    for (int s = 0; s < n; s++) {
        double t = median(sizes[s].seconds, sizes[s].n), x = sizes[s].bytes / t;
        A += 1 / t / t;
        B += x / t;
        C += x * x;
        P += 1 / t;
        Q += x;
    }
    double det = A * C - B * B;
    return (Line){.latency = (P * C - Q * B) / det, .per_byte = (A * Q - B * P) / det};
}

double predict(const Cycle *c, size_t threshold, const Costs *costs) {
    int message_of[MOST_GRADIENTS], together[MOST_GRADIENTS] = {0};
    int n = fuse(c, threshold, message_of);
    double seconds = costs->talk + n * costs->sum.latency;
    for (int p = 0; p < c->n; p++)
        if (message_of[p] >= 0) together[message_of[p]]++;
    for (int p = 0; p < c->n; p++) {
        if (message_of[p] < 0) continue;
        seconds += costs->sum.per_byte * (double)c->bytes[p];
        if (together[message_of[p]] > 1) seconds += line_at(costs->copy, (double)c->bytes[p]);
    }
    return seconds;
}
