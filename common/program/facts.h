// facts.h: what the functions of an exercise did, told as facts: names with values. Nothing in this
// process knows what is right.
//
// cases.c of an exercise calls the reader's functions on cases that are drawn from a seed, and
// records what came of each. The facts go to a file, a line each. Another program, the judge
// (tests/grader/judge.c), has the facts of the solution for the same seed, and compares the two. So
// there is no verdict, no hint and no expected value beside the reader's code.
//
// What to keep to in cases.c:
// - A value is the reader's own and depends on the seed. "Is it right?", as yes or no, is none.
// - What is drawn, and which cases there are, never depends on what the reader's code returns.
// - Small cases come first: the judge shows the first one that differs.
// - What the work leaves behind is a fact, too: bytes, cargo, launches, modelled times.
// - If several answers are right, record what all of them share.
#ifndef FACTS_H
#define FACTS_H

#include <stddef.h>
#include <stdint.h>
#include "common/device/queue.h"

// If the process of a group ends with this status, the machine is at fault, not the reader. The
// program ends with the same status, and nobody is judged.
enum { STATUS_MACHINE = 126 };

// What points are given for. Parts count from 1; the points of all of them add up to 10.
typedef struct Part {
    const char *what; // what is known if it passes: "each device has the sum"
    int points;
} Part;

// Cases that run in a process of their own, with devices_init(BACKEND_CPU, 2) done: if one of them
// crashes or does not end, those of the other groups are not lost.
typedef struct Group {
    const char *name;
    void (*cases)(void);
    int seconds; // that they may take; 0: 10
} Group;

extern const Part parts[];   // of cases.c; {0} is the last
extern const Group groups[]; // the same

// The part of a fact that counts for `part`, but only if the hand-in has the points of `other`, an
// earlier one: a mistake there would show here, too, and is not to cost twice.
// PART_IF(PART_IF(5, 2), 4): only if it has those of both.
#define PART_IF(part, other) ((part) + (128 << (other)))

// A whole number from `least` to `most`, the next one that comes from the seed.
long draw(long least, long most);

// Begins a case: "allreduce_at(), k = 3, hub 1, n = 10".
void begin_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A fact of this case, with a name that no other fact in it has: else the program die()s. With
// tolerance 0 a value must be equal, floats in their bits; with another one each number may differ
// by tolerance times the largest number of the solution's. A NaN is equal to nothing. Of more than
// 64 numbers with tolerance 0, the first and the last 8 are told, and a hash of all.
void record_int(int part, long value, const char *name, ...) __attribute__((format(printf, 3, 4)));
void record_real(int part, double value, double tolerance, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
void record_ints(int part, const int *values, size_t n, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
void record_floats(int part, const float *values, size_t n, double tolerance, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
void record_text(int part, const char *value, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
// A number that may be smaller than the solution's, but not larger: bytes kept, time taken.
void record_at_most(int part, double value, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

// Cargo: the sum of all floats that were copied from one device to another since
// ledger_watch_cargo(); exact for whole numbers. So it tells what went, not only how much. Between
// CPU devices only; read it after synchronize_all().
void ledger_watch_cargo(void);
double ledger_cargo(const Device *from, const Device *to);

// For cases in several processes (MPI): what another process of this program needs to add facts to
// the case that was begun here, and the call by which it does. The text is replaced by the next
// call.
const char *facts_pass_on(void);
void facts_go_on(const char *passed_on);

// PROGRAM --facts FILE SEED: runs all groups and writes their facts to the file. (A file, as MPI
// closes other descriptors.) Returns main()'s status. exercise_main() calls it.
int facts_main(int argc, char *argv[]);

#endif
