// exercise_list.h: the exercises that can be graded here. `make grade` (lab.mk) prepares a folder
// for each, with what does not depend on what is handed in:
//
//     BUILD/lab/exercises/04-1/expected.tsv  the facts of its solution (transcript.h), and its
//     parts
//                              folder        chapters/04_lenet_multi_gpu/exercises/1_larger_batches
//                              given.o       cases.c, experiment.c and what else it was given
//                              compile       commands of the shell, for $OWN/your_part.c
//                              link          to $OWN/program
#ifndef EXERCISE_LIST_H
#define EXERCISE_LIST_H

#include "transcript.h"

#include <stddef.h>

typedef struct GradedPart {
    const char *what;
    int points;
    int number; // as expected.tsv counts it, from 1
} GradedPart;

typedef struct ExerciseFolder {
    char id[8];   // "04-1"
    char *folder; // chapters/..
    char *title;  // "larger batches"
    char *given;  // absolute path of given.o
    char *compile, *link;
    Transcript expected;
    GradedPart parts[MOST_PARTS];
    int num_parts, points;
} ExerciseFolder;

typedef struct ExerciseList {
    ExerciseFolder *all;
    size_t n;
} ExerciseList;

// Those in BUILD/lab/exercises that `ids` names ("04-1 06-2"; "": all), in order. die()s on a name
// that is not there.
ExerciseList exercise_list_read(const char *build, const char *ids);
// Leaves one part of each exercise only, counted from 1; die()s if one has fewer.
void exercise_list_keep_part(ExerciseList *list, int part);
void exercise_list_free(ExerciseList *list);

#endif
