// pipeline.h: chapter 1's pipeline, with the order of a stage's work to be given; and with memory
// for the microbatches that are under way at a time, and no more.
#pragma once

#include "chapters/01_splitting_strategies/problem.h"

// A piece of a stage's work: microbatch j forward, or backward.
typedef struct Turn {
    bool backward;
    int j;
} Turn;

// Writes the order of stage i of k for m microbatches: turns[0], turns[1], .. Returns how many.
typedef int Order(int i, int k, int m, Turn turns[]);

enum { MOST_STAGES = 8, MOST_MICROBATCHES = 32, MOST_TURNS = 4 * MOST_MICROBATCHES };

// Chapter 1's: all forward, then all backward, the last one first.
int fill_drain(int i, int k, int m, Turn turns[]);

// How far the stages come if each does its work in its order: a forward needs what the stage before
// has computed, a backward the gradient from the stage after it. at[i] is the number of turns that
// stage i has done when nobody can go on. Returns how long that takes if a forward takes 1, and a
// backward 2.
int play(Order *order, int k, int m, int at[MOST_STAGES]);

// Chapter 1's strategy with that order, to be used until the next call. Each order must come to its
// end (see play()), all stages go back in the same order, and k and m be no more than MOST_STAGES
// and MOST_MICROBATCHES, m a divisor of the minibatch.
const Strategy *pipeline_in_order(Order *order);

// Bytes of activations and what belongs to them that stage i held in the last step, at most.
size_t pipeline_peak(const Spread *s, int i);
