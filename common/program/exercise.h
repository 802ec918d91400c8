// exercise.h: what all exercises share. An exercise is a folder chapters/NN_name/exercises/N_title:
//
//     your_part.c   the book's question, and the functions that a reader writes to answer it
//     your_part.h   their declarations
//     solution.c    the same functions, solved
//     cases.c       calls them and records what they do: see facts.h
//     rivals        known mistakes, as edits of the solution, and a hint for each
//     experiment.c  measures with them, and draws figures, without a conclusion; has main()
//     answers.md    for instructors: what follows from the figures
//     needs_mpi     empty: if it is there, the exercise is compiled only where there is MPI
//     may_call      what your_part.c defines, and what of the book it may call
//
// A question with a command has question.md for your_part.c, and neither solution, cases nor
// rivals: `make exercise-NN-N` prints it and runs the experiment.
//
// Files that the exercises of one chapter share are beside these folders. `make exercise-NN-N` lets
// another program, the judge, compare what your_part.c does with what solution.c does, and then
// runs the experiment.
#pragma once

#include "flags.h"

#include <stdio.h>

typedef struct Exercise {
    const char *about;                   // for --help
    const char *flags;                   // the flags that it has besides --data: "batch-size=32 lr"
    void (*prepare)(const Flags *flags); // die_usage()s if they make no sense; may be NULL
    void (*experiment)(const Flags *flags, FILE *csv); // prints what came out, and writes figures
    const char *plot;                                  // the script in plots/ that draws them
    Program program;
} Exercise;

// The program of an exercise: flags and the experiment, whose CSV and plot go to the folder of
// --out. With --facts FILE SEED it records the facts of cases.c instead. Returns main()'s status.
int exercise_main(int argc, char *argv[], const Exercise *exercise);
