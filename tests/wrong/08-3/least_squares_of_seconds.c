// wrong: the usual least squares: errors in seconds, not as parts of the time
// loses: 4
// says: the latency drowns in its noise

#include "your_part.h"

int fuse(const Cycle *c, size_t threshold, int message_of[]) {
    int message = -1;
    size_t room = 0;
    for (int p = c->n - 1; p >= 0; p--) {
        bool all = true;
        for (int r = 0; r < c->ranks; r++) all = all && c->ready[r][p];
        message_of[p] = -1;
        if (!all) continue;
        if (message < 0 || c->bytes[p] > room) {
            message++;
            room = threshold;
        }
        room = c->bytes[p] < room ? room - c->bytes[p] : 0;
        message_of[p] = message;
    }
    return message + 1;
}

Line fit_line(const Timings sizes[], int n) {
    double x = 0, t = 0, xx = 0, xt = 0;
    for (int s = 0; s < n; s++) {
        double seconds = median(sizes[s].seconds, sizes[s].n);
        x += sizes[s].bytes;
        t += seconds;
        xx += sizes[s].bytes * sizes[s].bytes;
        xt += sizes[s].bytes * seconds;
    }
    double per_byte = (n * xt - x * t) / (n * xx - x * x);
    return (Line){(t - per_byte * x) / n, per_byte};
}

double predict(const Cycle *c, size_t threshold, const Costs *costs) {
    int message_of[MOST_GRADIENTS], in_message[MOST_GRADIENTS] = {0};
    double seconds = costs->talk;
    seconds += fuse(c, threshold, message_of) * costs->sum.latency;
    for (int p = 0; p < c->n; p++)
        if (message_of[p] >= 0) in_message[message_of[p]]++;
    for (int p = 0; p < c->n; p++) {
        if (message_of[p] < 0) continue;
        double bytes = (double)c->bytes[p];
        seconds += bytes * costs->sum.per_byte;
        if (in_message[message_of[p]] > 1) seconds += 2 * line_at(costs->copy, bytes);
    }
    return seconds;
}
