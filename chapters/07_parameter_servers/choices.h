// choices.h: what the flags of this chapter ask for. die_usage()s where they clash, or have no
// effect.
#ifndef CHOICES_H
#define CHOICES_H

#include "common/program/flags.h"
#include "schedule.h"

// The flags that this chapter adds; -1 and NULL: not given.
typedef struct Choices {
    int workers, servers, staleness, backup;
    const char *slow, *dies, *schedule;
    bool staleness_lr, real;
} Choices;
extern Choices choices;
extern const Flag choice_flags[];

// Whether the program trains in one way only, instead of comparing all.
bool one_way(void);
// Which: asynchronously, if nothing else is asked for.
Discipline chosen_discipline(void);
// To be called first: flags that do not go together.
void check_choices(const Flags *flags);

// slow[0..workers-1]: how many times as long each worker takes; without --slow the last of several
// takes 4 times as long.
void read_slow(double slow[]);
// Of --dies: who, when, and after which time the others give it up: twice what the slowest needs
// for a step, if nobody else is at the servers.
void read_dies(Pace *pace);

#endif
