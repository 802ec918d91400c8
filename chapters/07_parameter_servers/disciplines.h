// disciplines.h: the same training with workers that wait for each other in different ways.
#ifndef DISCIPLINES_H
#define DISCIPLINES_H

#include "replay.h"

typedef struct WaitingWay {
    const char *name; // "SSP 3"
    Discipline how;
    Schedule schedule;
    PsResult result;
} WaitingWay;

// "synchronous", "asynchronous", "SSP 3", "1 backup"; free() it.
char *discipline_name(Discipline how);

// Trains in five ways, synchronous, asynchronous, SSP 1 and 3, and one backup worker, `clocks`
// steps of all workers each: a table, a CSV and a plot (accuracy over pushes, and over modelled
// time), and what they show, in words. The files are book_csv("_disciplines.csv") and
// book_output("_disciplines.png"). Returns how many times as long the synchronous training takes as
// the asynchronous one.
double compare_disciplines(const PsLesson *lesson, const Pace *pace, long clocks);

// Trains in one way; with a file's name, replays the schedule in it, or writes it if it is not
// there. die()s, naming it, if a worker is lost that the others cannot do without.
void train_one_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks,
                   const char *schedule);

#endif
