// behind.h: what the chapter prints of times and copies, and its picture.
//
// Tables show one kind of time: modelled or, with --machine none, measured.
#pragma once

#include "common/program/table.h"
#include "../time_by.h"

// Prints how long the work takes by both clocks, if there are both.
void show_both_times(Enqueue *enqueue, Job *job);

typedef struct Way {
    const char *name;
    Enqueue *enqueue;
} Way;

// Runs each of the n ways once, prints a table of their times with this title, and draws them.
// Returns how many times as long as the first way the second one took.
double show_ways(const char *path, const char *title, const Way ways[], int n, Job *job);

// The table of copies. add_copy() adds a row: from where to where, bytes, and the time of a copy
// alone.
Table table_of_copies(void);
void add_copy(Table *t, Tensor *copy, const Tensor *original, uint64_t bytes);
