// traced.h: one step on model devices, and when each piece of it was done.
#pragma once

#include "common/device/trace.h"
#include "common/program/modelled_run.h"
#include "overlap.h"

typedef struct Traced {
    ModelledRun run;
    Overlap *o;
    TraceSpan *spans;
    int count;
} Traced;

extern const char *const gradient_names[LENET_PARAMS];

// A step on k devices, of which device `slow` is half as fast as the others.
void traced_step(Traced *t, int k, int rows, int slow);
void traced_close(Traced *t);

// "exchange 4": 4; -1 if the label begins with something else.
int number_in(const TraceSpan *span, const char *what);
// When gradient p is there: when all is done that its device's compute queue was given by then.
double final_at(const Traced *t, int i, int p);
// Prints such a step.
void print_trace(void);
