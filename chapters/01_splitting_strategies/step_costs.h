// step_costs.h: what a step on k devices costs: what it holds, moves and waits for, counted while
// it ran, and beside it what the formulas say.
#ifndef STEP_COSTS_H
#define STEP_COSTS_H

#include "problem.h"

typedef struct StepCosts {
    const Strategy *strategy;
    int k, syncs;
    double most_params, most_activations, all_params, all_activations; // bytes on a device, on all
    double moved, formula, from_host;                                  // bytes
    double measured, modelled; // seconds; NAN: nothing is computed here, no machine
    double launching;          // modelled seconds that the host needs to enqueue a step
} StepCosts;

// Of the gradients that were computed since ledger_reset(), all but the seconds. Ends the program
// with an error if they are not what the formulas say.
StepCosts step_costs(const Spread *s, const Problem *problem);

// Fills in the seconds. Measured: the fastest of some steps, which is the one that other programs
// disturbed least: of `steps`, or with -1 of 15 or of those that two seconds suffice for. Modelled:
// of the last one; they all take the same.
void time_steps(StepCosts *costs, Spread *s, const Problem *problem, int steps);

// A line for each device: the bytes that it holds, and of which layers.
void print_holdings(const Spread *s);

// A table with a line for each, and what there is to say of it.
void print_step_costs(const StepCosts costs[], int n, const Problem *problem);
void explain_step_costs(const StepCosts costs[], int n, const Problem *problem);

#endif
