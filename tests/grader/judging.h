// judging.h: compares the facts of a hand-in with those that are expected, and finds the known
// mistake, a rival, whose facts are the same.
#pragma once

#include "transcript.h"

#include <stdio.h>

typedef struct Judgement {
    const Transcript *expected, *came;
    const Fact **of; // what came for fact i; NULL: nothing
    bool *right;     // whether fact i is as expected
    bool forged;     // what no case records has come, so something else wrote: none is right
    bool passed[MOST_PARTS + 1];
    int points, out_of;
} Judgement;

Judgement judge(const Transcript *expected, const Transcript *came);
void judgement_free(Judgement *j);

// Of a part that has not passed: the first case with a fact that differs, in a line, as
// "allreduce_at(), k = 3: bytes that device 0 received: 48, expected 32"; and what to look at.
// free() both.
char *judgement_reason(const Judgement *j, int part);
char *judgement_hint(const Judgement *j, int part);
// The number of the rival whose mistake it is, or -1.
int judgement_rival(const Judgement *j, int part);

// All parts with their points and, of those that have not passed, the first case that differs, and
// the hint if hinted[part].
void judgement_print(const Judgement *j, const bool hinted[], FILE *to);

// What `judge derive` needs: whether a value is as expected, and how a rival's is written down.
bool same_value(const char *came, const Fact *expected);
const char *short_value(const char *value);
