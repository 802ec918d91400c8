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
// **How it is checked.** By sizes that just fit or never do, by gradients that some ranks lack, by
// times with late rounds and noise, and by predictions in which one thing alone costs something.
//
// **How to run.**
//
//     make exercise-08-3 ARGS=--check        the check alone: a second
//     make exercise-08-3                     ranks measure on this machine, too: half a minute
//
// **What to hand in.** This file, and your answers:
// 1. Which threshold is best here, and which on 512 ranks? How sure can you be of each?
// 2. What makes smaller ones slower, and what larger ones?
// 3. Where do predictions miss what was measured, and what does the line not know?
#include "your_part.h"

// `fuse()` writes message_of[p], the number (0, 1, ..) of the message in which gradient p travels,
// or -1: it is not ready on *all* ranks. Returns how many there are. Gradients go in from the last
// to the first; one that has no room in a message of `threshold` bytes begins the next.
int fuse(const Cycle *c, size_t threshold, int message_of[]) {
    // YOUR CODE HERE
    return 0;
}

// `fit_line()` returns the line with the least sum of squared *relative* errors, (1 - line/t)^2,
// where t is the median() of what was timed for a size. (Two equations, in latency and per_byte.)
Line fit_line(const Timings sizes[], int n) {
    // YOUR CODE HERE
    return (Line){0, 0};
}

// `predict()` returns the seconds until all that is ready has been summed: ranks talk once, then
// one message after the other is summed. A gradient that travels with others is copied into the
// buffer before, and back after it; one that is alone in its message is summed where it is.
double predict(const Cycle *c, size_t threshold, const Costs *costs) {
    // YOUR CODE HERE
    return 0;
}
