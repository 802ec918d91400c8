// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/base/statistics.h"
#include "exchange_times.h"

#include <stdio.h>

enum { MOST_RANKS = 16 };

// What all ranks know at the end of a cycle, when they have told each other.
typedef struct Cycle {
    int ranks, me;                          // this is rank `me`
    int n;                                  // gradients,
    size_t bytes[MOST_GRADIENTS];           // of each
    bool ready[MOST_RANKS][MOST_GRADIENTS]; // ready[r][p]: on rank r, p is ready and not sent yet
} Cycle;

// A vector of so many bytes takes latency + per_byte * bytes.
typedef struct Line {
    double latency, per_byte; // seconds
} Line;
static inline double line_at(Line line, double bytes) {
    return line.latency + line.per_byte * bytes;
}

typedef struct Costs {
    Line sum, copy; // over all ranks; on a rank, from one place to another
    double talk;    // seconds: ranks tell each other what is ready
} Costs;

int fuse(const Cycle *c, size_t threshold, int message_of[]);
Line fit_line(const Timings sizes[], int n);
double predict(const Cycle *c, size_t threshold, const Costs *costs);

// For the experiment: a threshold, and what it takes.
typedef struct Row {
    size_t threshold;
    int messages;
    double said, took, low, high; // seconds: predicted; median and quartiles
} Row;
void write_rows(FILE *csv, const char *part, int ranks, const char *network, const Row rows[]);

// All gradients of a network, ready on one rank: what a rank sends if nothing is missing.
Cycle whole_network(const NetworkKind *kind);

#endif
