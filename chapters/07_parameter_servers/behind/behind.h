// behind.h: the tables and pictures of the chapter, and its flags.
#pragma once

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

void check_choices(const Flags *flags); // die_usage()s if flags do not go together
void name_outputs(void);                // checks that they can be written
bool one_way(void);                     // whether the program trains in one way only, and
Discipline chosen_discipline(void);     // which one: asynchronously if nothing was given
// slow[0..workers-1]: how many times as long each takes. Without --slow: the last of several, 4.
void read_slow(double slow[]);

// ---- exchange.c: what push and pull cost -------------------------------------------------------
// The pace of workers and servers on hosts like this machine's, with one device each.
Pace pace_on(const Machine *machine, const PsLesson *lesson, double slow[]);
// Modelled push and pull of 1 to 16 workers on `laptops-1gbe`, with 1, W/2 and W servers, beside
// the formula and a ring: book_output("_exchange.csv") and book_output("_exchange.png").
void draw_exchanges(void);

// ---- ways.c: the same training with workers that wait for each other in different ways ----------
enum { NUM_SEEDS = 10 };

// Modelled times of synchronous and asynchronous training, and book_timeline("_slow_worker.png").
// Returns how many times as long the first one takes.
double show_slow_worker(const Pace *pace, long clocks);
// Modelled times of five ways, with this pace and if any step may be slow, and the first steps of
// SSP 3 and of one backup worker: book_timeline("_bounds.png").
void show_bounds(const Pace *pace, long clocks);
// Five ways, NUM_SEEDS trainings each, from scaled_params(): a table,
// book_output("_disciplines.csv") and book_output("_disciplines.png").
void compare_ways(const PsLesson *lesson, const Pace *pace, long clocks);
void train_one_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks);
// A table of two machines: the pace, and how many times as long synchronous training takes as
// asynchronous: if a worker is slow, if only its GPU is, if none is, and also no link is ever busy.
void show_machines(const PsLesson *lesson, const Pace *pace, long clocks);
// Eight workers, none of them slow, at four learning rates, with and without staleness, and one
// worker: a table. Returns the accuracy of synchronous training at the highest rate.
double compare_rates(const PsLesson *lesson, long clocks);
// --schedule, for the figure to move: this way, synchronous and asynchronous training (CSV), and
// this way's first steps as a timeline (SVG). No images are read.
void model_schedule(const Pace *pace, Discipline how, long clocks);

// ---- checks.c: tables that CHECK() what the text says -------------------------------------------
// Synchronous steps are bit-identical to chapter 4's on W devices.
void show_synchronous(const PsLesson *lesson, int steps);
// Gradients that are all 1: no parameter is wrong, and no pull from one server is torn.
void check_ones(const PsLesson *lesson);
void train_for_real(const PsLesson *lesson, const Pace *pace, long clocks); // in threads
// Four towers beside one, with sum and mean, SGD and Adam.
void show_towers(const PsLesson *lesson);
