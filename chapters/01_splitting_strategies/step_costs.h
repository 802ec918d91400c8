// step_costs.h: what a step on k devices costs: what it holds, moves and waits for, counted while
// it ran, and beside it what the formulas say.
#ifndef STEP_COSTS_H
#define STEP_COSTS_H

#include "problem.h"

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
    StepCosts of[NUM_STRATEGIES][MOST_KS]; // [strategies[i]][ks[j]]
} StepTable;

// The costs of the problem's step with `s`, which computes it some times, after one that touches
// new memory. Ends the program with an error if bytes or synchronization points are not what the
// formulas say. Measured seconds are those of the fastest step, which is the one that other
// programs disturbed least: of `steps`, or with -1 of 15 or of those that two seconds suffice for.
StepCosts step_costs(Spread *s, const Problem *problem, int steps);

// A line for each device: the bytes that it holds, and which channels (or units) of which layer;
// and how much of the work the busiest has.
void print_holdings(const Spread *s, const Problem *problem);

// The table's figures, and what there is to say of them.
void print_memory(const StepTable *table, const Problem *problem);
void print_traffic(const StepTable *table, const Problem *problem); // num_ks > 1
void print_seconds(const StepTable *table);

#endif
