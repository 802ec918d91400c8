// findings.h: what a comparison of ways to wait shows: the program says it, from its own figures.
#ifndef FINDINGS_H
#define FINDINGS_H

#include "disciplines.h"

// n ways, as compare_disciplines() trains them, one backup worker last (n = 4: without it). Prints
// a table of accuracies, what the figures say of time, staleness and accuracy, and the answers to
// the text. Returns how many times as long the synchronous way takes as the asynchronous one.
double tell_findings(const WaitingWay ways[], int n, const PsLesson *lesson, const Pace *pace,
                     long clocks);

#endif
