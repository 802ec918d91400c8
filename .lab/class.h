// class.h: a class is graded: each hand-in by a process of its own, some of them side by side.
#ifndef CLASS_H
#define CLASS_H

#include "grading.h"

#include <jansson.h>

// The report of one hand-in (report.h), which has this name and lies at this path.
json_t *grade_one(const Grader *grader, const ExerciseList *list, const char *name,
                  const char *path);

// An array of reports, one for each folder and archive in the folder, in the order of names. Ends
// the program, and what it has started, once interrupted().
json_t *grade_class(const Grader *grader, const ExerciseList *list, const char *folder, int jobs);

#endif
