// behind.h: the chapter's tables and figures, and what is shown with --backend model.
//
// The tables print themselves and write their rows of the CSV, between figures_open() and
// figures_close().
#pragma once

#include "common/base/file.h"
#include "common/model/machine.h"
#include "common/tensor/tensor.h"

// ---- replicas.c: vectors on k devices ----------------------------------------------------------

// One vector of n floats on each of the devices 0..k-1, contents undefined; the devices share the
// cores. Free them with free_params().
void vectors_on_devices(Tensor *data[], int k, int n);

// Whether two tensors, wherever they are, have the same shape and the same bits. Waits.
bool same_bits(const Tensor *a, const Tensor *b);
bool all_replicas_equal(Tensor *const data[], int k);

// Check what the chapter demonstrates, and print that it is so: that copies of n parameters have
// the same bits, their own memory and gradients of zero (their values are lost); and that two
// vectors on two devices are both [3, 3].
void check_copies(Tensor *const copies[], Tensor *const params[], int n);
void check_sum_of_1_and_2(Tensor *const data[2]);
// The two silent mistakes: an allreduce that gives the list new tensors, and the replicas after a
// step with it; and two devices that share one buffer, which allreduce() refuses.
void show_rebinding(void (*mistaken)(Tensor *data[], int k));
void show_sharing(void);

// ---- figures.c: rows of the CSV, and the picture of its modelled times -------------------------

// The CSV, and the machine of its modelled times.
typedef struct Figures {
    const Machine *machine; // of the modelled clock; NULL with --machine none
    OutputFile csv;
} Figures;

// Begins the CSV at this path, with its head.
Figures figures_open(const char *csv);
// Completes it, and draws its modelled times to the PNG (NULL: it does not). Draws nothing without
// a machine.
void figures_close(Figures *figures, const char *png);

// Sizes of vectors, in bytes: each is four times the one before.
enum { SMALLEST = 1 << 10, LARGEST = 64 << 20 };

// nccl-tests' bandwidths, in bytes per second: bytes / time, and that times 2 (k-1)/k, to be
// compared with the speed of a link.
double algbw(size_t bytes, double seconds);
double busbw(size_t bytes, double seconds, int k);

// A row of the CSV: one allreduce. machine NULL: measured here.
void write_figure(const Figures *figures, const Machine *machine, const char *algorithm, int k,
                  size_t bytes, double seconds);

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

// Prints the table for k devices, and checks bytes and sums. The result of the program
// (book_result()) is what the ring's busiest device sends on 8 devices, if there can be 8.
void compare_four_ways(const Figures *figures, int k, uint64_t seed);
// The same where devices have no values: it checks the bytes only.
void compare_bytes_of_four_ways(const Figures *figures, int k, uint64_t seed);

// Rows of the CSV for 8 KB and 160 MB on 2 to 1024 devices, if the machine has a network.
void model_up_to_1024_devices(const Figures *figures);

// Rows of the CSV for all sizes on k devices. There must be a machine.
void model_curves(const Figures *figures, int k);

// ---- bandwidth.c: the bandwidth of the ring ----------------------------------------------------

// A table for the longest vector that k devices have memory for: measured here, modelled, and
// beside it NCCL's. Writes the rows of the CSV that compare_four_ways() does not.
void show_bandwidth(const Figures *figures, int k);
// The same without the measured row. There must be a machine.
void show_modelled_bandwidth(const Figures *figures, int k);

// ---- modelled.c: --backend model ----------------------------------------------------------------

// All of the chapter that needs no values, on k devices: bytes and modelled times. `many`: the CSV
// gets rows for up to 1024 devices, too.
void allreduce_without_values(const Figures *figures, int k, bool many, uint64_t seed);
