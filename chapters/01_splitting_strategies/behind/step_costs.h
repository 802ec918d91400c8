// step_costs.h: what a step on k devices costs: what it holds, moves and waits for, counted while
// it ran, and beside it what the formulas say.
#ifndef STEP_COSTS_H
#define STEP_COSTS_H

#include "../parity.h"

// Of one step. k = 0: there is none, the network has not so many layers.
typedef struct StepCosts {
    int k, syncs;
    double most_params, most_activations, all_params, all_activations; // bytes on a device, on all
    double moved, formula;     // bytes between devices: counted, and by the formula
    double measured, modelled; // seconds; NAN: nothing is computed here, no machine
    double launching;          // modelled seconds that the host needs to enqueue a step
} StepCosts;

// The steps of all strategies, each with ks[0] < ks[1] < ... devices; ks[0] is 1.
enum { MOST_KS = 3 };
typedef struct StepTable {
    int num_ks, ks[MOST_KS];
    int steps; // that are measured; -1: as many as two seconds suffice for, up to 15
    StepCosts of[NUM_STRATEGIES][MOST_KS]; // [strategies[i]][ks[j]]
} StepTable;

// Runs the step on each number of devices, and fills in the line of the strategy. Prints, where
// there are values, that each gives what one device gives (check_same_step(), which ends the
// program if not), and of the most devices what each holds. Ends the program with an error if bytes
// or synchronization points are not what the formulas say. Measured seconds are those of the
// fastest step, the one that other programs disturbed least.
void run_strategy(const Strategy *strategy, StepTable *table, const Problem *problem,
                  const Reference *r);

#endif
