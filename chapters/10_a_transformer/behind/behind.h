// behind.h: the tables and pictures of chapter 10.
#pragma once

#include "../runs.h"

enum { MOST_COMPARED = 5 };

// tables.c: n runs on different numbers of devices: whether they have the bits of the first.
void print_bits(const VitRun runs[], int n);
// What the devices send in a step, counted and by the formula, beside data parallelism. Returns how
// many times as much splitting the layers sends.
double print_sent(const VitRun *run);
// What a device needs in each run. runs[0] is one device without a limit, and the others have this
// limit (in bytes; INFINITY: none).
void print_split_memory(const VitRun runs[], int n, double limit);
// Each mistake, beside the right run (runs[0]).
void print_mistakes(const VitRun runs[], const VitRun first[]);
// A step of a large network on four devices of three machines, split in both ways. Returns the
// largest number of images for which, on the first, splitting the layers is faster.
double print_when_it_pays(void);
// For the figure to move: one step on the machine of the modelled clock, split in both ways, as a
// table and as book_output("_costs.csv").
void tell_costs(const VitPlan *plan);
// The second block of a large network on four GPUs, forward and backward, as a picture; nothing
// with --machine none.
void draw_block(const char *png);
