// behind.h: how long the chapter's work takes, as tables and as a picture, and what is shown with
// --backend model.
//
// To time some work, call time_work(); to show it, times_table() and add_times(), or draw_queues().
// Do not use measured times where devices compute nothing: they are NAN there.
#ifndef CHAPTER_00_BEHIND_H
#define CHAPTER_00_BEHIND_H

#include "common/program/table.h"

typedef struct Job Job; // what the functions work on: main.c defines it

// In seconds. NAN: there is no such time (--backend model measures nothing, --machine none models
// nothing).
typedef struct Seconds {
    double measured, modelled;
} Seconds;

typedef struct WorkTimes {
    Seconds enqueued, done; // since the host began to enqueue
    double slowest;         // done, measured, in the slowest round
} WorkTimes;

// Waits until all devices are idle, calls enqueue(job), and waits again. Measured is the fastest of
// some rounds, the one that other programs disturbed least (of long work there is one round);
// modelled times are always the same. Each round begins with prepare(job), if it is not NULL; its
// time does not count.
WorkTimes time_work(Job *job, void (*prepare)(Job *job), void (*enqueue)(Job *job));

// How many times as long as `a` did `b` take until it was done: modelled if there is a machine,
// else measured; NAN if that is too noisy to compare.
double times_as_long(const WorkTimes *a, const WorkTimes *b);
// What the table says of k devices, in words.
void say_times_as_long(int k, const WorkTimes *alone, const WorkTimes *all,
                       const WorkTimes *ordered);

// A table of them in milliseconds, whose head is printed at once; and a row of it.
Table times_table(void);
void add_times(Table *t, const char *label, const WorkTimes *times);

// Some work that is enqueued by a call, and what the picture calls it.
typedef struct Shown {
    const char *name;
    void (*enqueue)(Job *job);
} Shown;

// Runs each of the n once, prepare(job) before it, and draws to the PNG which queue did what and
// when: measured here and, below that, on the machine of the modelled clock.
void draw_queues(const char *path, Job *job, void (*prepare)(Job *job), const Shown shown[], int n);

// ---- modelled.c: --backend model ---------------------------------------------------------------

// The parts of the story (main.c) that are about times and bytes.
void enqueue_in_three_ways(Job *job);
void draw_the_queues(Job *job);
void copy_and_count(Job *job);

// All of the chapter that needs no values: these parts.
void queues_without_values(Job *job);

#endif
