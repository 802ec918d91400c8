// exchange_times.h: the messages of an exchange, what ranks of this machine need for them, and what
// lines through the times of single messages say that they need.
#pragma once

#include "chapters/06_data_parallel_and_ddp/networks.h"

enum { MOST_MESSAGES = 160, NUM_THRESHOLDS = 10 };

// Of the fusion buffer: from 0 (each gradient goes alone) to Horovod's 128 MiB.
extern const size_t thresholds[NUM_THRESHOLDS];

typedef struct Message {
    int gradients;
    size_t bytes;
} Message;

// What fusion.c sends if all gradients are ready. They go in from the last to the first, and one
// that has no room in a message of `threshold` bytes begins the next. Returns how many messages.
int fuse(const Module *net, size_t threshold, Message messages[]);

// Something that takes latency + per_byte * bytes.
typedef struct Line {
    double latency, per_byte; // seconds
} Line;

// Seconds for all copies: a gradient that travels with others goes into the buffer, and back.
double copy_seconds(const Message messages[], int n, Line copy);

// What each rank does for main(), in a quarter of a minute. Rank 0 prints what came out, and rows
// of the CSV among it. Returns the exit status.
int measure_as_rank(void);
