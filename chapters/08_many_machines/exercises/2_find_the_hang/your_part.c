// # Exercise 2: find the hang
//
// Chapter 8: "all ranks must call the same collectives in the same order". Four functions in
// program.c do not ensure this.
//
// Difficulty: ★★★☆
//
// **Aim.** A hang has no line number. A deadline (`--timeout`) and a message show which rank waits
// for which, and where. Some mistakes do not hang, but give wrong numbers.
//
// **Your task.** (a) Run each function as it was found, with 3 ranks, and read what the watch says.
// Write into `found` what each rank is in when nothing moves any more: ALL_REDUCE, BROADCAST or
// BARRIER. A rank that has finished the function is in the barrier after it. NOWHERE means that no
// rank waits forever. (b) Fix each function. The comment above it in program.c states its task.
//
// **How it is checked.** The check runs the functions as they were found, and compares your answers
// with what the ranks were in. Then your functions run with 2 and with 3 ranks. All must finish
// with the right results on every rank. If they do not, the check says what each rank was in.
//
// **How to run.** (Use the first line also for train_until, exchange and train_epoch.)
//
//     sh .make/ranks.sh 3 build/08_many_machines_exercise_2 --case report      as it was found
//     make exercise-08-2 ARGS=--check     the check alone: half a minute at most
//     make exercise-08-2                  the check, then a picture of who is where
//
// **What to hand in.** This file, and your answer. Which of the four would you have noticed without
// a deadline? Which one would give right results with some numbers of ranks or rows?
#include "your_part.h"

// (a) What ranks 0, 1 and 2 are in.
const Where found[NUM_FUNCTIONS][RANKS_WATCHED] = {
    {UNKNOWN}, // YOUR CODE HERE: instead, for each function, [REPORT] = {.., .., ..},
};

// (b) The functions, fixed. Collectives, rows and buckets: see program.h.
void report(Training *t) {
    // YOUR CODE HERE
    report_as_found(t);
}

int train_until(Training *t, float goal) {
    // YOUR CODE HERE
    return train_until_as_found(t, goal);
}

// Each bucket's sum must begin as soon as it and all those before it have arrived.
void exchange(Buckets *b) {
    // YOUR CODE HERE
    exchange_as_found(b);
}

void train_epoch(Training *t, int batch) {
    // YOUR CODE HERE
    train_epoch_as_found(t, batch);
}
