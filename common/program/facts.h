// facts.h: what the functions of an exercise did, told as facts: names with values. Nothing in this
// process knows what is right.
//
// cases.c of an exercise draws cases from a seed, calls the reader's functions on them, and records
// what came of each. The facts go to a file, a line each. Another program, the judge
// (tests/grader/judge.c), has the facts of the solution for the same seed, and compares the two. So
// no verdict, hint or expected value is near the reader's code.
//
// Rules for cases.c:
// - A fact is a value that the reader's code made from the seed, never "right" or "wrong".
// - What is drawn, and which cases there are, never depends on what the reader's code returns.
// - An expression draws once, for which of two is drawn first, compilers decide (gcc: by the CPU).
// - Small cases come first, because the judge shows the first one that differs.
// - What the work leaves behind is a fact, too: bytes, cargo, launches, modelled times.
// - If several answers are right, record what all of them share.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "common/device/queue.h"

// A process of a group ends with this status if the machine is at fault, not the reader. The
// program then ends with the same status, and nobody is judged.
enum { STATUS_MACHINE = 126 };

// What points are given for. Parts count from 1, and all their points add up to 10.
typedef struct Part {
    const char *what; // what holds if it passes: "each device has the sum"
    int points;
} Part;

// Cases that run in one process, after devices_init(BACKEND_CPU, 2). If one of them crashes or does
// not end, the other groups are not lost.
typedef struct Group {
    const char *name;
    void (*cases)(void);
    int seconds; // of processor time, or of waiting, that it may take; 0: 10
} Group;

extern const Part parts[];   // in cases.c; the last is {0}
extern const Group groups[]; // as above

// The part of a fact that counts for `part`, but only if the hand-in has the points of `other`, an
// earlier part. A mistake there would show here, too, and should not cost points twice.
// PART_IF(PART_IF(5, 2), 4) needs the points of both.
#define PART_IF(part, other) ((part) + (128 << (other)))

// The next random number of the seed: a whole number from `least` to `most`.
long draw(long least, long most);

// Begins a case: "allreduce_at(), k = 3, hub 1, n = 10".
void begin_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Records a fact of this case. Two facts of a case with the same name end the program. With
// tolerance 0 a value must be equal, and floats equal in all bits. Otherwise each number may differ
// by tolerance times the solution's largest number. A NaN is equal to nothing. Of more than 64
// numbers with tolerance 0, the file has the first 8, the last 8 and a hash of all.
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

// Cargo is the sum of all floats that were copied from one device to another since
// ledger_watch_cargo(), exact if they are whole numbers. So it says what was copied, not only how
// much. It works between CPU devices only. Read it after synchronize_all().
void ledger_watch_cargo(void);
double ledger_cargo(const Device *from, const Device *to);

// For cases in several processes (MPI). Another process can add facts to the case that was begun
// here by calling facts_go_on() with the text of facts_pass_on(). The next call replaces the text.
const char *facts_pass_on(void);
void facts_go_on(const char *passed_on);

// PROGRAM --facts FILE SEED: runs all groups and writes their facts to the file. (To a file because
// MPI closes other descriptors.) Returns main()'s status. exercise_main() calls it.
int facts_main(int argc, char *argv[]);
