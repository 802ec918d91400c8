// # Exercise 3: what a straggler costs, and who cuts that
//
// Chapter 7, "Who waits for whom": "A bound helps if workers are slow now and then, not if one is
// always slow. A backup worker helps most if one is always slow."
//
// Difficulty: ★★★☆
//
// **Aim.** Two ways to wait less, two prices: with bounded staleness (SSP) gradients are old, with
// backup workers some are thrown away. So seconds per step say little. What counts is the time
// until a test accuracy is reached, the same for all. And there are two kinds of stragglers: one
// worker that is always slow, and workers that are slow now and then. Which way helps against
// which?
//
// **Your task.** Write the two rules, `may_begin()` for SSP and `fate_of_push()` for backup
// workers, and `time_to()`, which reads from a curve when an accuracy was reached.
//
// **How it is checked.** Both rules are asked about situations of a few workers, SSP's first about
// two, that of backup workers push by push. Times are read from curves that rise, dip, and do not
// get there.
//
// **How to run.**
//
//     make exercise-07-3 ARGS=--check        the check alone: seconds
//     make exercise-07-3                     the check, then the experiment: 20 seconds
//     make exercise-07-3 ARGS='--seed 2'     another order of images, others stall
//
// **What to hand in.** This file, and your answer: against which straggler does SSP help, and why
// does a larger bound not help against the other? What do backup workers do there, what do they
// throw away, and how many would you take? What does asynchronous training pay for being fast?
#include "your_part.h"

// `may_begin()` is SSP's rule. A worker has made `mine` steps; steps[0..n-1] are those that each
// worker has made, itself among them. It may begin another one if it is at most `staleness` steps
// ahead of the slowest. (So with 0 all are level: synchronous. A huge bound is asynchronous.)
bool may_begin(long mine, const long steps[], int n, int staleness) {
    // YOUR CODE HERE
    return false;
}

// `fate_of_push()` is the backup workers' rule. W workers take part in each round, and its update
// is made of the first W - backup pushes. A push arrives that belongs to round `step` (from 0);
// `updates` rounds have ended by now, and of the present one `taken` pushes are there already:
//
// - PUSH_DROPPED, if its round has ended without it;
// - PUSH_COMPLETES, if it is the last that the round needs: the update is made, a round begins;
// - PUSH_TAKEN, if the round needs more.
PushFate fate_of_push(long step, long updates, int taken, int W, int backup) {
    // YOUR CODE HERE
    return PUSH_DROPPED;
}

// `time_to()` returns the time at which a curve of n points (.time, .accuracy), in the order of
// time, is at the accuracy `goal` for the first time: that is where one would stop, so it does not
// matter if it dips below again. Between two points it is a straight line; before the first one
// nothing is known, so if that has reached the goal, its time is the answer. INFINITY: never.
double time_to(const PsPoint points[], int n, double goal) {
    // YOUR CODE HERE
    return 0;
}
