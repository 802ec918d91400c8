// program.h: a small training by several ranks, in which four functions have a mistake each.
// program.c has them as they were found.
#pragma once

#include "chapters/08_many_machines/ranks.h"

// ---- what all of it is made of -----------------------------------------------------------------
//
// Collectives, called by all ranks, that wait until they are done. `why` stands in the message of
// whoever waits for too long, and in what each rank prints of the collectives that it begins.

void sum_over_ranks(float *x, const char *why);   // an all_reduce: *x = the sum of all ranks' *x
void copy_from_rank_0(float *x, const char *why); // a broadcast
void wait_for_all(const char *why);               // a barrier

// A parameter, and what this rank learns from. (Whole numbers, so that sums are exact.)
typedef struct Training {
    float w;         // the parameter: the same on all ranks
    int step;        // steps made
    int rows;        // of this rank
    int most_rows;   // of the rank that has most
    float mean_loss; // of all ranks, for rank 0 to print
} Training;

float my_loss(const Training *t);                       // of this rank's rows, after t->step steps
float my_gradient(const Training *t, int first, int n); // of n rows of this rank

// ---- buckets of gradients ----------------------------------------------------------------------

enum { NUM_BUCKETS = 3 };
typedef struct Buckets {
    float unit;                 // bucket i of rank r has 16^i (1 + r) of it
    float value[NUM_BUCKETS];   // each of one gradient; there when it has arrived
    int arrived;                // how many have
    int sum_began[NUM_BUCKETS]; // how many had arrived then
} Buckets;

// Waits for the gradients of another bucket, and returns its number. On each rank they come in an
// order of its own.
int next_arrived(Buckets *b);
void sum_bucket(Buckets *b, int i); // over all ranks

// ---- the functions, as they were found ---------------------------------------------------------

enum { REPORT, TRAIN_UNTIL, EXCHANGE, TRAIN_EPOCH, NUM_FUNCTIONS };
extern const char *const function_names[NUM_FUNCTIONS];

void report_as_found(Training *t);
int train_until_as_found(Training *t, float goal);
void exchange_as_found(Buckets *b);
void train_epoch_as_found(Training *t, int batch);

// ---- for who runs them -------------------------------------------------------------------------

// This rank begins with such a function; and what the caller of all of them does next: a barrier.
void before_function(int f);
void after_function(void);
