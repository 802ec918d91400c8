// figures.h: times of the allreduces, as rows of the chapter's figures (CSV) and in its tables.
//
// A time is either measured, on the machine that the program runs on, or modelled, on one that is
// described in a file (common/model/machine.h). Each row says which, and no table mixes them up.
#ifndef FIGURES_H
#define FIGURES_H

#include "common/model/machine.h"
#include "common/program/table.h"
#include "allreduce.h"

#include <stdio.h>

// Seconds that each allreduce took.
typedef struct Times {
    double seconds[NUM_ALLREDUCES];
} Times;

// Which is the fastest: its place in allreduces[]. And its name with those that take as long, to a
// thousandth: "sharded, ring"; the text is replaced by the next call.
int fastest(const Times *times);
const char *fastest_names(const Times *times);

// algbw and busbw, as nccl-tests calls them, in bytes per second. The caller of an allreduce sees N
// bytes summed in so much time: N/time is the algorithm's bandwidth. That becomes less with k even
// if all links stay as busy, since more bytes have to move. So it is multiplied by 2 (k-1)/k, the
// bytes per byte that the busiest device has to send at least: the bus bandwidth, which does not
// depend on k and can be compared with the speed of a link. (For the star it is no link's actual
// speed; it is how fast links would have to be for the best allreduce to take as long.)
double algbw(size_t bytes, double seconds);
double busbw(size_t bytes, double seconds, int k);

// The first line of the CSV; a row, and the rows of all algorithms, for k devices and one size.
// machine NULL: measured here.
void write_figures_header(FILE *csv);
void write_figure(FILE *csv, const Machine *machine, const char *algorithm, int k, size_t bytes,
                  double seconds);
void write_figures(FILE *csv, const Machine *machine, int k, size_t bytes, const Times *times);

// Draws the CSV, when it is complete, as the two pictures, and prints where they are: times against
// sizes, and against numbers of devices (growth_png NULL: not that one). Nothing, for a pipe.
void draw_figures(const char *csv, const char *png, const char *growth_png);

// "4 KB", "64 MB", "160 MB" (a million bytes each, as the book has it); the text is replaced by the
// next call.
const char *size_text(size_t bytes);

// The columns of all algorithms in a table, and their cells, in a unit (1e-6: microseconds).
#define TIMES_COLUMNS(shown, star)                                                                 \
    DIGITS((shown) ? (star) : NULL, 3), DIGITS((shown) ? "sharded" : NULL, 3),                     \
        DIGITS((shown) ? "ring" : NULL, 3), {                                                      \
        (shown) ? "tree" : NULL, .digits = 3                                                       \
    }
void add_times(Table *t, const Times *times, double unit);

#endif
