// modelled_run.h: how long a step takes on a machine that you do not need to have. The clock that
// was running before runs again afterwards, from zero.
//
//     ModelledRun run = {.machine = machine, .k = 2, .warm_up = 1};
//     modelled_begin(&run);
//     ... what the step needs, on run.devices ...
//     while (modelled_run(&run)) train_batch(..);
//     ... free it ...
//     modelled_end(&run);
//
// Then run.seconds says how long a step took. (Between begin and end, the loop may be used again.)
#pragma once

#include "common/model/modelled_clock.h"

typedef struct ModelledRun {
    // Given by the caller:
    const Machine *machine;
    int k;
    int warm_up;           // steps before the one that is timed: the first ones allocate memory
    bool framework, ranks; // see modelled_clock.h
    bool traced;           // by a trace that begins here; other traces leave the run out
    // Returned: k devices without values, and the timed step.
    Device *devices[MAX_DEVICES];
    double seconds;
    // For modelled_run.c:
    const Machine *before;
    int step;
    double begun, memory_before;
} ModelledRun;

void modelled_begin(ModelledRun *run);
bool modelled_run(ModelledRun *run); // whether there is one more step to do; waits for all devices
void modelled_end(ModelledRun *run);
