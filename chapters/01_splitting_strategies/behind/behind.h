// behind.h: the tables and pictures of the chapter, and what is shown with --backend model.
//
// To fill in a table of steps, call run_strategy() for each strategy; to print it, print_memory(),
// print_traffic() and print_seconds(). Steps as pictures: draw_steps(), show_timeline(). Steps that
// are only calculated: larger_networks(), many_devices().
#ifndef CHAPTER_01_BEHIND_H
#define CHAPTER_01_BEHIND_H

#include "../parity.h"
#include "record.h"

// ---- step_costs.c: what a step costs, counted while it ran, and what the formulas say ---------

// Of one step. k = 0: there is none, because the network does not have so many layers.
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
    int steps; // that are measured; -1: as many as fit into two seconds, at most 15
    StepCosts of[NUM_STRATEGIES][MOST_KS]; // [strategies[i]][ks[j]]
} StepTable;

// Runs the step on each number of devices, and fills in the line of the strategy. Prints that each
// gives what one device gives (check_same_step(), which ends the program if not), and what each of
// the most devices holds. Ends the program with an error if bytes or synchronization points are not
// what the formulas say. Measured seconds are those of the fastest step, the one that other
// programs disturbed least. r NULL: the devices compute nothing, so nothing is compared or
// measured.
void run_strategy(const Strategy *strategy, StepTable *table, const Problem *problem,
                  const Reference *r);

// ---- step_tables.c: the costs of all strategies side by side, and what follows from them ------

// What a device holds, and what all hold together; what activations are made of on one device.
void print_memory(const StepTable *table, const Problem *problem);
// Bytes and synchronization points, for each k except 1. There must be such a k.
void print_traffic(const StepTable *table, const Problem *problem);
// Seconds of a step, measured and modelled.
void print_seconds(const StepTable *table);

// ---- step_pictures.c: recorded steps as pictures ----------------------------------------------

// Draws the steps below each other, a lane for each device, to the PNG book_timeline(suffix).
// Measured steps have one scale of time, modelled ones another. Prints the heading and where the
// picture is.
void draw_steps(const char *suffix, const char *heading, const Recorded steps[], int n);

// Such a picture of the three strategies on k devices: of one problem measured (NULL: nothing is),
// of another (a problem_to_model()) modelled. A strategy that cannot use so many devices is left
// out. Prints how long each modelled step took, and how idle its devices were. The PNG is
// book_timeline("_timeline_K.png").
void show_timeline(const Problem *measured, const Problem *modelled, int k);

// ---- larger_networks.c: bytes by formulas, times on modelled machines -------------------------

// A table of AlexNet and ResNet-18 on 1, 2 and 8 devices, and what follows from it.
void larger_networks(void);

// A CSV, a plot, and a table of the fastest steps: their modelled time on up to 128 devices of
// three machines. The files are book_csv("_model.csv") and book_output("_model.png").
void many_devices(void);

// ---- modelled.c: --backend model ---------------------------------------------------------------

// Whether --part asks for this part: "splitting", "bubble" or "model".
bool is_asked_for(const char *part, const char *name);

// All of the chapter that needs no values: bytes, memory and modelled times.
void splitting_without_values(const Problem *lenet, StepTable *table, const char *part);

#endif
