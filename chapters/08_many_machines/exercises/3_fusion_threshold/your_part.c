// # Exercise 3: the fusion threshold, by measurement
//
// Chapter 8, "How gradients travel": "Each gradient alone is simple, and each message costs
// microseconds, however small it is; across machines ten times as many." How large should they be?
//
// Difficulty: ★★★☆
//
// **Aim.** Horovod's buffer holds 128 MiB, and its users are told to try others. But an exchange
// can be *computed* from a few measured times: a message has a latency, and each byte adds to it.
// So the best threshold need not be searched for, not even on machines that one lacks.
//
// **Your task.** Write the rule of fusion, the line through the measured times, and the prediction.
//
// **How it is checked.** By sizes that just fit or never do, as each rank sees them; by times with
// outliers and noise; by given costs. The check says which rule is hurt, and what may lead there.
//
// **How to run.**
//
//     make exercise-08-3 ARGS=--check        the check alone: a second
//     make exercise-08-3                     ranks measure on this machine, too: half a minute
//
// **What to hand in.** This file, and your answer: which threshold is best here, which on 512
// ranks, what makes smaller ones slower, what larger ones, and where do predictions miss?
#include "your_part.h"

// `fuse()` writes message_of[p], the number (0, 1, ..) of the message in which gradient p travels,
// or -1: it is not ready on *all* ranks. Returns how many there are. Gradients go in from the last
// to the first; one that has no room in a message of `threshold` bytes begins the next.
int fuse(const Cycle *c, size_t threshold, int message_of[]) {
    // SOLUTION (starter: return 0;)
    size_t filled = 0;
    int messages = 0;
    for (int p = c->n - 1; p >= 0; p--) {
        int ready = 0;
        for (int r = 0; r < c->ranks; r++) ready += c->ready[r][p];
        bool goes = ready == c->ranks, has_room = messages > 0 && filled + c->bytes[p] <= threshold;
        if (goes && !has_room) messages++;
        if (goes) filled = (has_room ? filled : 0) + c->bytes[p];
        message_of[p] = goes ? messages - 1 : -1;
    }
    return messages;
    // END SOLUTION
}

// `fit_line()` returns the line with the least sum of squared *relative* errors, (1 - line/t)^2,
// where t is the median() of what was timed for a size. (Two equations, in latency and per_byte.)
Line fit_line(const Timings sizes[], int n) {
    // SOLUTION (starter: return (Line){0, 0};)
    double yy = 0, xy = 0, xx = 0, y1 = 0, x1 = 0;
    for (int s = 0; s < n; s++) {
        double t = median(sizes[s].seconds, sizes[s].n), y = 1 / t, x = sizes[s].bytes / t;
        yy += y * y;
        xy += x * y;
        xx += x * x;
        y1 += y;
        x1 += x;
    }
    double d = yy * xx - xy * xy;
    return (Line){(y1 * xx - x1 * xy) / d, (x1 * yy - y1 * xy) / d};
    // END SOLUTION
}

// `predict()` returns the seconds until all that is ready has been summed: ranks talk once, then
// one message after the other is summed. A gradient that travels with others is copied into the
// buffer before, and back after it; one that is alone in its message is summed where it is.
double predict(const Cycle *c, size_t threshold, const Costs *costs) {
    // SOLUTION (starter: return 0;)
    int message_of[MOST_GRADIENTS], together[MOST_GRADIENTS] = {0};
    double seconds = costs->talk + fuse(c, threshold, message_of) * costs->sum.latency;
    for (int p = 0; p < c->n; p++)
        if (message_of[p] >= 0) together[message_of[p]]++;
    for (int p = 0; p < c->n; p++) {
        if (message_of[p] >= 0) seconds += costs->sum.per_byte * (double)c->bytes[p];
        if (message_of[p] >= 0 && together[message_of[p]] > 1)
            seconds += 2 * line_at(costs->copy, (double)c->bytes[p]);
    }
    return seconds;
    // END SOLUTION
}
