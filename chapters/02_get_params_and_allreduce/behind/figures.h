// figures.h: the chapter's figures: modelled times, rows of the CSV, and the picture of them.
#ifndef FIGURES_H
#define FIGURES_H

#include "common/model/machine.h"
#include "common/tensor/tensor.h"

#include <stdio.h>

// Seconds of one allreduce of vectors of n floats on k devices of a machine that need not be here:
// the same code runs on devices that compute nothing.
double modelled_allreduce(const Machine *machine, void (*run)(Tensor *const data[], int k), int k,
                          int n);

// Sizes of vectors, in bytes: each is four times the one before.
enum { SMALLEST = 1 << 10, LARGEST = 64 << 20 };

// nccl-tests' bandwidths, in bytes per second: bytes / time, and that times 2 (k-1)/k, to be
// compared with the speed of a link.
double algbw(size_t bytes, double seconds);
double busbw(size_t bytes, double seconds, int k);

// A row of the CSV: one allreduce. machine NULL: measured here.
void write_figure(FILE *csv, const Machine *machine, const char *algorithm, int k, size_t bytes,
                  double seconds);

// Draws the modelled times of the CSV, when it is complete.
void draw_figures(const char *csv, const char *png);

#endif
