// behind.h: the tables and pictures of chapter 11, and a mesh over ranks beside one device.
#pragma once

#include "chapters/10_a_transformer/runs.h"

// ranks.c, or no_ranks.c where there is one process. In a program of several ranks, this comes
// before everything else.
void ranks_before_flags(void);
// Makes the first steps on a mesh over all ranks, and on one device alone, and prints both.
void compare_over_ranks(const VitPlan *plan, const Dataset *data, int threads);

// tables.c: meshes beside one device (runs[0]): whether they have its bits, and what a device
// sends.
void print_meshes(const VitRun runs[], int n);
// A run that was not stopped (runs[0]), one that wrote its checkpoint (runs[1]), and those that
// went on from there.
void print_resharded(const VitRun runs[], int n);
// Steps of a large network on eight devices as a mesh. Returns over how many devices a network is
// split in the fastest mesh on the first machine, with the fewest images.
double print_best_mesh(void);
// The shortest possible times: gradients overlap with all that is computed. Also in bfloat16.
void print_best_hidden(void);
// A step on a mesh of two hosts, as a picture.
void draw_mesh_step(const char *png);

// bfloat16.c: up to 1,024 gradients in bfloat16, added in three ways, as book_output("_bf16.csv")
// and a picture. Returns how many times as large the error is along a ring as up a tree.
double draw_sums(const VitPlan *plan, const Dataset *data);
// How many weights do not move in a short training, with and without a float32 copy.
void print_unmoved(VitPlan plan, const Dataset *data);
