// schedule.h: when each worker pulls and pushes, for given speeds. Nothing is computed here. Source
// of bounded staleness: [@ho2013]; of backup workers: [@chen2016].
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MOST_WORKERS = 64, NO_BOUND = 1 << 30 };

// How workers wait for each other.
typedef struct Discipline {
    // How many steps a worker may be ahead of the slowest. 0: synchronous, NO_BOUND: asynchronous,
    // between them: bounded staleness (SSP).
    int staleness;
    // More than 0: synchronous, and each update takes the first W - backup pushes.
    int backup;
} Discipline;

bool in_rounds(Discipline how);        // whether it is synchronous, with or without backup workers
char *discipline_name(Discipline how); // "synchronous", "SSP 3", "1 backup"; free() it

// How long everything takes, in seconds.
typedef struct Pace {
    int W;
    double compute;  // one worker's time for the gradients of its shard
    double *slow;    // [W]: a worker takes this many times as long for everything. NULL: 1
    bool even_links; // it takes longer only for computing
    double jitter;   // a computation takes 1 + jitter * (-1..1) times as long, by the seed,
    double odds;     // and with this probability, in any step of any worker,
    double stall;    // this many times as long
    double transfer; // a push or a pull, if no other worker uses the servers' links,
    double busy;     // and how long it keeps these links busy
    uint64_t seed;
} Pace;

typedef enum { EVENT_PULL, EVENT_PUSH, EVENT_DROP } EventKind;

typedef struct Happening {
    double time; // when a pull began, or when a push had arrived (and was taken or dropped)
    EventKind kind;
    int worker;
    long clock;      // the number of the worker's step, or with backup workers of the update
    double computed; // of a push: when its gradients were complete
} Happening;

typedef struct Schedule {
    int W, count, room;
    Discipline how;
    Happening *list; // in the order of time
} Schedule;

// The events until (W - backup) * clocks pushes have been taken. For schedule_free().
Schedule schedule_make(const Pace *pace, Discipline how, long clocks);
void schedule_free(Schedule *schedule);

double schedule_seconds(const Schedule *schedule);
long schedule_events(const Schedule *schedule, EventKind kind);
