// schedule.h: who pulls and who pushes when: the order of events in a training with parameter
// servers, on workers whose speeds are stated.
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

// How workers wait for each other.
typedef struct Discipline {
    // How many steps a worker may be ahead of the slowest: 0 is synchronous, NO_BOUND asynchronous,
    // between them bounded staleness (SSP: Ho and others, NIPS 2013).
    int staleness;
    // Backup workers: with more than 0, synchronous, and each update takes the first W - backup
    // pushes and drops the others (Chen et al., "Revisiting distributed synchronous SGD", 2016).
    int backup;
} Discipline;
enum { NO_BOUND = 1 << 30 };

// Whether it goes in rounds, each with one update: synchronous, with or without backup workers.
bool in_rounds(Discipline how);

// What takes how long, in seconds. (What is added here goes into the first line of a schedule's
// file, too: made_from() in schedule.c.)
typedef struct Pace {
    int W;
    double compute;  // of one worker for its shard
    double *slow;    // [W]: the worker takes so many times as long for all that it does
    double jitter;   // each computation takes 1 + jitter * (-1..1) times that, by the seed,
    double odds;     // and with this probability, of any worker in any step,
    double stall;    // so many times that
    double transfer; // of a push, or of a pull, if nobody else is at the servers,
    double busy;     // for which it keeps the servers' links
    double timeout;  // after which a worker that does not push is given up
    // Worker `dies` (-1: none) never pushes its step number `at`, from 0; with backup workers, who
    // leave steps out, nor the first one after it that it begins.
    int dies, at;
    uint64_t seed;
} Pace;

typedef enum { EVENT_PULL, EVENT_PUSH, EVENT_DROP, EVENT_LOST } EventKind;
extern const char *const event_names[]; // "pull", "push", "drop", "lost"

typedef struct Happening {
    double time; // when it was done
    EventKind kind;
    int worker;
    long clock; // the number of the worker's step; with backup workers that of the update
} Happening;

typedef struct Schedule {
    int W;
    Discipline how;
    int count, room;
    Happening *list; // in the order of time
    char *made_from; // all that it was made from, as the first line of its file has it
} Schedule;

// What becomes of a push with backup workers: its round is over; it is one of the round; or it is
// the last that the round needs, and the update is made.
typedef enum { PUSH_DROPPED, PUSH_TAKEN, PUSH_COMPLETES } PushFate;

// What a discipline decides. schedule.c has rules for it; exercise 3 has them written again.
typedef struct Rules {
    // A worker has made `mine` steps, and each of n workers, itself among them, `steps` of them.
    // May it begin another one?
    bool (*may_begin)(long mine, const long steps[], int n, int staleness);
    // A push of that step arrives. So many updates were made by now, and so many pushes of the
    // present round were taken, which W workers take part in.
    PushFate (*fate)(long step, long updates, int taken, int W, int backup);
} Rules;

// The events until each worker has made `clocks` steps (asynchronous: until as many pushes were
// made, whoever made them; with backup workers: until there were as many updates). A worker that is
// given up leaves EVENT_LOST; with a synchronous discipline that is the last event. For
// schedule_free().
Schedule schedule_make(const Pace *pace, Discipline discipline, long clocks);
Schedule schedule_by_rules(const Pace *pace, Discipline discipline, long clocks,
                           const Rules *rules);
void schedule_free(Schedule *schedule);

// As a text: a line with all that the schedule was made from, "workers 4 seed 0 ...", then one for
// each event: "time kind worker step". schedule_read() die()s, with file and line, at what is no
// schedule, or not all of one, and if it was made from something else than this.
void schedule_write(const Schedule *schedule, const char *path);
Schedule schedule_read(const char *path, const Pace *pace, Discipline discipline, long clocks);

#endif
