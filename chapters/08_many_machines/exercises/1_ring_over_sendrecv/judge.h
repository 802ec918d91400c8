// judge.h: is a sum right, and if not, which of the usual mistakes comes to that?
#ifndef JUDGE_H
#define JUDGE_H

#include "counted.h"

// What came of one sum, on all ranks.
typedef struct Outcome {
    int k;
    long n;
    bool whole;             // whether whole numbers were summed
    const float *came;      // rank r's from came + r n on
    const float *expected;  // n; the bits of chapter 2's ring
    const Counted *counted; // of each rank
} Outcome;

// What rank r of k has at first. Whole numbers tell who was added, and how often; others, in which
// order.
float given_number(int r, long i, bool whole);

// Each ends the program if that is wrong, whatever the rest is like.
void judge_calls(const Outcome *o);   // MPI's own collectives are no answer
void judge_values(const Outcome *o);  // sums of whole numbers
void judge_traffic(const Outcome *o); // bytes and messages
void judge_bits(const Outcome *o);    // sums of other numbers
void judge_share(const Outcome *o);   // each rank has sent what another one cannot know

// Whether it is right, without a word.
bool values_are_right(const Outcome *o);
bool traffic_is_right(const Outcome *o);
bool bits_are_right(const Outcome *o);

#endif
