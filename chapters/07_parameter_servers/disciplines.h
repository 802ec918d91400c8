// disciplines.h: the same training with workers that wait for each other in different ways.
#ifndef DISCIPLINES_H
#define DISCIPLINES_H

#include "replay.h"

enum { NUM_SEEDS = 5, NUM_POINTS = 10 };

// One way, trained from several seeds.
typedef struct WaitingWay {
    char *name; // "SSP 3"
    Discipline how;
    PsResult results[NUM_SEEDS]; // from the lesson's seed and those that follow it
} WaitingWay;

// A figure of the trainings of one way: the mean over the seeds, and the seeds with the least and
// the most.
typedef struct Spread {
    double mean, least, most;
} Spread;
typedef double FigureOf(const PsResult *result);
Spread spread_of(const WaitingWay *way, FigureOf *figure);

// Figures: modelled seconds, mean staleness, its maximum; the test accuracy at the end, and its
// mean over all points.
FigureOf modelled_time, mean_staleness, greatest_staleness, last_accuracy, mean_accuracy;

// The curve of a way: point p of all seeds. `pushes` and `time` are means.
typedef struct CurvePoint {
    double pushes, time;
    Spread accuracy;
} CurvePoint;
CurvePoint curve_point(const WaitingWay *way, int p);

// "synchronous", "asynchronous", "SSP 3", "1 backup"; free() it.
char *discipline_name(Discipline how);

// One training as the table of compare_disciplines() has it, from scaled_start(lesson->seed), with
// the accuracy at the end. For ps_result_free().
PsResult train_in_one_way(const PsLesson *lesson, const Schedule *schedule);

// So many steps of each worker that the pushes that count are as many as those of W workers in
// `clocks` steps, or fewer, by less than W: with backup workers an update takes some.
long steps_in(Discipline how, int W, long clocks);

// Trains in five ways, synchronous, asynchronous, SSP 1 and 3, and one backup worker (not with one
// worker), W times `clocks` pushes each: a table, a CSV and a plot (accuracy over pushes, and over
// modelled time), and what they show, in words; and eight asynchronous workers at two learning
// rates. The files are book_csv("_disciplines.csv") and book_output("_disciplines.png"). Returns
// how many times as long the synchronous training takes as the asynchronous one; NaN: interrupted.
double compare_disciplines(const PsLesson *lesson, const Pace *pace, long clocks);

// Trains in one way; with a file's name, replays the schedule in it, or writes it if it is not
// there. die()s, naming it, if a worker is lost that the others cannot do without.
void train_one_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks,
                   const char *schedule);

#endif
