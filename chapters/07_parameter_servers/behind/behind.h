// behind.h: the tables and pictures of the chapter, and its flags.
#ifndef CHAPTER_07_BEHIND_H
#define CHAPTER_07_BEHIND_H

#include "../replay.h"
#include "common/model/machine.h"
#include "common/program/flags.h"

// ---- choices.c: the flags that this chapter adds; -1 and NULL: not given -----------------------

typedef struct Choices {
    int workers, servers, staleness, backup;
    const char *slow;
    bool staleness_lr, schedule;
} Choices;
extern Choices choices;
extern const Flag choice_flags[];

// die_usage()s if flags do not go together.
void check_choices(const Flags *flags);
// Whether the program trains in one way only, and which one: asynchronously if nothing was given.
bool one_way(void);
Discipline chosen_discipline(void);
// slow[0..workers-1]: how many times as long each worker takes. Without --slow, the last of several
// workers takes 4 times as long.
void read_slow(double slow[]);
// Checks that the outputs can be written.
void name_outputs(void);

// ---- exchange.c: what push and pull cost -------------------------------------------------------

// The pace of workers and servers on hosts like those of this machine, with one device each: a
// worker computes its shard of the lesson's minibatch, and all parameters go over the network.
Pace pace_on(const Machine *machine, const PsLesson *lesson, double slow[]);

// Modelled push and pull of 1 to 16 workers on `laptops-1gbe`, with 1, W/2 and W servers, beside
// the formula and a ring: book_csv("_exchange.csv") and book_output("_exchange.png").
void draw_exchanges(void);

// ---- ways.c: the same training with workers that wait for each other in different ways ----------

enum { NUM_SEEDS = 10 };

// Modelled times of synchronous and asynchronous training, and their first steps as a timeline,
// book_timeline("_slow_worker.png"). Returns how many times as long the first one takes.
double show_slow_worker(const Pace *pace, long clocks);
// The first steps of SSP 3 and of one backup worker: book_timeline("_bounds.png").
void draw_bounds(const Pace *pace);
// Trains in five ways, with NUM_SEEDS seeds each, from scaled_params(): a table, a histogram of the
// asynchronous pushes, book_csv("_disciplines.csv") and book_output("_disciplines.png").
void compare_ways(const PsLesson *lesson, const Pace *pace, long clocks);
// A table of four machines: the pace there, and how many times as long synchronous training takes
// as asynchronous, also with links that are never busy, and with no slow worker.
void show_machines(const PsLesson *lesson, const Pace *pace, long clocks);
// Eight workers, none of them slow, at two learning rates, with and without staleness: a table.
// Returns the accuracy of synchronous training at the higher rate; NAN if interrupted.
double compare_rates(const PsLesson *lesson, long clocks);
// The same table for one way.
void train_one_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks);
// --schedule, for the figure to move: times and staleness of this way and of synchronous and
// asynchronous training (CSV), and its first steps as a timeline (SVG). No images are read.
void model_schedule(const Pace *pace, Discipline how, long clocks);

// ---- checks.c: what is computed, beside what must come out --------------------------------------

// Synchronous steps, next to chapter 4's on as many devices. CHECKs that they are bit-identical.
void show_synchronous(const PsLesson *lesson, int steps);
// Gradients that are all 1: a table of wrong parameters and torn pulls, without and with the
// planted mistake. CHECKs that there are none without it.
void check_ones(const PsLesson *lesson);
// An asynchronous training without a schedule: a table.
void train_for_real(const PsLesson *lesson, const Pace *pace, long clocks);
// Steps of four towers beside one, with the sum and the mean, with plain gradient descent and with
// Adam: a table. CHECKs what the text says of it.
void show_towers(const PsLesson *lesson);

#endif
