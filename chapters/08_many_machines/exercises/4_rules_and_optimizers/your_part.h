// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/program/exercise.h"
#include "trainings.h"

#include <math.h>

#define GUESSING (1.0 / FASHION_MNIST_CLASSES)
// Standard errors. With six seeds, two equal rules are further apart once in 20 times (Student's
// t).
#define CERTAIN 2.57

typedef struct Summary {
    double mean, low, high;
} Summary;
typedef enum { NOBODY_KNOWS, A_IS_BETTER, B_IS_BETTER } Verdict;

double lr_of(LrRule rule, double base_lr, double times, long step, long warm_up_steps);
Summary summary_of(const double accuracy[], int n);
Verdict judge(const double a[], const double b[], int n);
bool keeps(const double base[], const double rule[], int n);

extern const CheckPart check_parts[]; // check.c: is it right?

#endif
