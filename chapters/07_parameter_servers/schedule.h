// schedule.h: when each worker pulls and pushes, for given speeds. Nothing is computed here. Source
// of bounded staleness: [@ho2013]; of backup workers: [@chen2016].
#ifndef SCHEDULE_H
#define SCHEDULE_H

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

// With backup workers, a push is dropped if its round is over. Otherwise it is taken, and may be
// the last one that the update needs.
typedef enum { PUSH_DROPPED, PUSH_TAKEN, PUSH_COMPLETES } PushFate;

// What a discipline decides. (In exercise 3 you write your own functions.)
typedef struct Rules {
    // May a worker that has taken `mine` steps begin another? The n workers, including this one,
    // have taken steps[i].
    bool (*may_begin)(long mine, const long steps[], int n, int staleness);
    // What happens to a push of step number `step` that arrives after `updates` updates, when
    // `taken` pushes of the present round have been taken? W workers take part.
    PushFate (*fate)(long step, long updates, int taken, int W, int backup);
} Rules;

// The events until (W - backup) * clocks pushes have been taken. For schedule_free().
Schedule schedule_make(const Pace *pace, Discipline how, long clocks);
Schedule schedule_by_rules(const Pace *pace, Discipline how, long clocks, const Rules *rules);
void schedule_free(Schedule *schedule);

double schedule_seconds(const Schedule *schedule);
long schedule_events(const Schedule *schedule, EventKind kind);

#endif
