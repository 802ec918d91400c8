// grading.h: what is handed in for an exercise is compiled, linked with what the exercise was given
// and run, in a sandbox and in bounds. What it did, it writes to a file; that is judged here.
#ifndef GRADING_H
#define GRADING_H

#include "exercise_list.h"
#include "handed_in.h"
#include "sandbox.h"

#include <stdbool.h>

typedef struct PartGrade {
    bool passed;
    char *reason, *hint; // of a part that has not passed
} PartGrade;

typedef struct Grade {
    const ExerciseFolder *exercise;
    int points;
    char *reason, *hint; // why no part could be tried; NULL: they were
    char *note;          // what a person should look at; NULL: nothing
    double seconds;      // that the run took
    PartGrade parts[MOST_PARTS];
} Grade;

typedef struct Grader {
    const char *project, *library; // absolute paths
    Trust trust;
    double seconds;  // that the run of an exercise may take
    const char *who; // "ada: ", where it is said what takes long; "": there is but one hand-in
} Grader;

// Grades one exercise of a hand-in. grade_free() it.
Grade grade_exercise(const Grader *grader, const ExerciseFolder *exercise, const HandedFile *file,
                     const char *problem_of_all);
void grade_free(Grade *grade);

#endif
