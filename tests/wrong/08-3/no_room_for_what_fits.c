// wrong: a gradient that just fits into the message begins the next one
// loses: 1
// says: what fits exactly has room

#include "your_part.h"

static bool is_ready(const Cycle *c, int p) {
    for (int r = 0; r < c->ranks; r++)
        if (!c->ready[r][p]) return false;
    return true;
}

int fuse(const Cycle *c, size_t threshold, int message_of[]) {
    int n = 0;
    size_t filled = 0;
    for (int p = c->n - 1; p >= 0; p--) {
        message_of[p] = -1;
        if (!is_ready(c, p)) continue;
        if (n == 0 || filled + c->bytes[p] >= threshold) {
            n++;
            filled = 0;
        }
        filled += c->bytes[p];
        message_of[p] = n - 1;
    }
    return n;
}

Line fit_line(const Timings sizes[], int n) {
    double w = 0, wx = 0, wt = 0, wxx = 0, wxt = 0;
    for (int s = 0; s < n; s++) {
        double t = median(sizes[s].seconds, sizes[s].n), x = sizes[s].bytes;
        w += 1 / (t * t);
        wx += x / (t * t);
        wt += t / (t * t);
        wxx += x * x / (t * t);
        wxt += x * t / (t * t);
    }
    double per_byte = (w * wxt - wx * wt) / (w * wxx - wx * wx);
    return (Line){(wt - per_byte * wx) / w, per_byte};
}

double predict(const Cycle *c, size_t threshold, const Costs *costs) {
    int message_of[MOST_GRADIENTS];
    int n = fuse(c, threshold, message_of);
    double seconds = costs->talk;
    for (int m = 0; m < n; m++) {
        double bytes = 0, copies = 0;
        int together = 0;
        for (int p = 0; p < c->n; p++) {
            if (message_of[p] != m) continue;
            together++;
            bytes += (double)c->bytes[p];
            copies += 2 * line_at(costs->copy, (double)c->bytes[p]);
        }
        seconds += line_at(costs->sum, bytes) + (together > 1 ? copies : 0);
    }
    return seconds;
}
