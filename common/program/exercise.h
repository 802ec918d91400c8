// exercise.h: what all exercises share. An exercise is a folder chapters/NN_name/exercises/N_title:
//
//     your_part.c   the book's question, and what a reader writes to answer it
//     your_part.h   its declarations
//     check.c       whether that is right: in parts, each worth some points
//     experiment.c  what is then measured with it, and drawn: figures, no conclusion; main()
//     answers.md    for instructors: what follows from the figures
//     needs_mpi     empty: if it is there, the exercise is compiled only where there is MPI
//     may_not_call  if it is there: names that your_part.c does without, as they are the answer
//
// What the exercises of one chapter share stands beside these folders.
//
// your_part.c begins with the aim, the task, how it is checked and run, and what to hand in. The
// solution of each of its functions stands between `// SOLUTION (starter: return 0;)` and
// `// END SOLUTION`. `make exercises` writes the starter, which has `// YOUR CODE HERE` in its
// place, and below that what follows "starter:", if anything, because it needs that to compile.
#ifndef EXERCISE_H
#define EXERCISE_H

#include "flags.h"

#include <stdio.h>

// A part of a check. It stands alone: each can be called without those before it, in a process of
// its own, so that who loses the points of one may have those of the others. A part tells one thing
// apart from the others, which has a reason of its own to be wrong: values, then bytes, then bits.
typedef struct CheckPart {
    const char *what;                  // what is known if it passes: "each device has the sum"
    int points;                        // those of all parts are 10
    void (*check)(const Flags *flags); // ends the program, by EXPECT(), if your part is wrong
} CheckPart;

typedef struct Exercise {
    const char *about; // for --help
    const char *flags; // "batch-size lr": those that it has besides --data and --check
    Flags defaults;
    void (*prepare)(const Flags *flags); // die_usage()s if they make no sense; NULL: nothing to do
    const CheckPart *parts;              // in order; the last one is {0}
    const char *passed;                  // what is known then: "k devices make the updates of one"
    void (*experiment)(const Flags *flags, FILE *csv); // prints what came out, and writes figures
    const char *plot;                                  // the script in plots/ that draws them
} Exercise;

// The program of an exercise: flags, the parts of the check up to the first that fails and, unless
// --check is given, the experiment, whose CSV and plot go to the folder of --out. Returns main()'s
// status. A grader asks for one part alone: see graded.h.
int exercise_main(int argc, char *argv[], const Exercise *exercise);

// EXPECT(sum == 3, "is the last one added too?", "1 + 1 + 1: the sum is %g, expected 3", sum):
// what a reader's part must compute. If it does not, the program ends with status 1; the message
// names the input, what came and what was expected, and the hint the mistakes that lead there: the
// one, where the figures tell which.
// Write the condition so that a NaN fails: EXPECT(x <= limit, ..), not !(x > limit).
//
// CHECK() of error.h is its sister, for mistakes of the program itself.
#define EXPECT(condition, hint, ...)                                                               \
    do {                                                                                           \
        if (!(condition)) check_failed((hint), __VA_ARGS__);                                       \
    } while (0)
_Noreturn void check_failed(const char *hint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The same with what another process has found: `error` is its line without "error: check failed:
// ".
_Noreturn void check_failed_elsewhere(const char *hint, const char *error);

#endif
