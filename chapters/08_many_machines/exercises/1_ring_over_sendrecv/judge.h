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

// Ends the program if something is wrong.
void judge(const Outcome *o);

#endif
