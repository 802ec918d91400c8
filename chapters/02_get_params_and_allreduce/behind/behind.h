// behind.h: the chapter's tables and figures, and what is shown with --backend model.
//
// For the time of one allreduce on a machine that need not be here, call modelled_allreduce(). The
// tables print themselves and write their rows of the CSV: compare_four_ways() first, because it
// writes the CSV's head, then model_up_to_1024_devices() and show_bandwidth(). Where they take a
// machine, it is the one of the modelled clock, or NULL with --machine none.
#ifndef CHAPTER_02_BEHIND_H
#define CHAPTER_02_BEHIND_H

#include "common/model/machine.h"
#include "common/tensor/tensor.h"

#include <stdio.h>

// ---- replicas.c: vectors on k devices ----------------------------------------------------------

// One vector of n floats on each of the devices 0..k-1, contents undefined; the devices share the
// cores. Free them with free_params().
void vectors_on_devices(Tensor *data[], int k, int n);

// Whether two tensors, wherever they are, have the same shape and the same bits. Waits.
bool same_bits(const Tensor *a, const Tensor *b);
bool all_replicas_equal(Tensor *const data[], int k);

// ---- figures.c: modelled times, rows of the CSV, and the picture of them -----------------------

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

// Draws the modelled times of the CSV, when it is complete. Does nothing without a machine, or if
// the CSV went into a pipe, which cannot be read again.
void draw_figures(const Machine *machine, const char *csv, const char *png);

// ---- book_example.c: the book's figures for four GPUs ------------------------------------------
//
// Book: "Parameter Servers", section "Data-Parallel Training".

// A table, modelled on d2l-pcie; CHECK()s that the times are the book's. Returns the ring's
// milliseconds.
double show_book_example(void);

// The book's aggregation on the CPU: all vectors to the host, and the sum back to all. It moves the
// bytes and adds nothing, because the book counts only bytes; so it is for devices without values.
void bytes_through_the_host(Tensor *const data[], int k);

// ---- four_ways.c: steps, bytes and modelled times of the four ways -----------------------------

// Prints the table for k devices, checks bytes and sums, and writes the CSV from its first line on.
// Returns what the ring's busiest device sends on 8 devices, in vectors; NAN if there cannot be 8.
double compare_four_ways(const Machine *machine, int k, uint64_t seed, FILE *csv);
// The same where devices have no values: it checks the bytes only.
double compare_bytes_of_four_ways(const Machine *machine, int k, uint64_t seed, FILE *csv);

// Rows of the CSV for 8 KB and 160 MB on 2 to 1024 devices, if the machine has a network.
void model_up_to_1024_devices(const Machine *machine, FILE *csv);

// The CSV of times on k devices alone, from its first line on. There must be a machine.
void model_curves(const Machine *machine, int k, FILE *csv);

// ---- bandwidth.c: the bandwidth of the ring ----------------------------------------------------

// A table for the longest vector that k devices have memory for: measured here, modelled, and
// beside it NCCL's. Writes the rows of the CSV that compare_four_ways() does not.
void show_bandwidth(const Machine *machine, int k, FILE *csv);
// The same without the measured row. There must be a machine.
void show_modelled_bandwidth(const Machine *machine, int k, FILE *csv);

// ---- modelled.c: --backend model ----------------------------------------------------------------

// All of the chapter that needs no values, on k devices: bytes and modelled times. `many`: the CSV
// gets rows for up to 1024 devices, too.
void allreduce_without_values(const Machine *machine, int k, bool many, uint64_t seed, FILE *csv);

#endif
