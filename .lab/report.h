// report.h: grades, told to people and to other programs.
#ifndef REPORT_H
#define REPORT_H

#include "grading.h"

#include <jansson.h>
#include <stdio.h>

// ---- our own format --------------------------------------------------------------------------

// What one has handed in, graded:
//
//     {"format": "training-on-multiple-gpus grades 2", "name": "ada", "contained": true,
//      "points": 7, "of": 10, "exercises": [
//          {"id": "04-3", "title": "efficient allreduce", "points": 7, "of": 10, "seconds": 0.1,
//           "parts": [{"what": "..", "points": 3, "of": 3, "passed": true},
//                     {"what": "..", "points": 0, "of": 2, "passed": false, "reason": "..",
//                      "hint": ".."}]}]}
//
// An exercise of which no part could be tried has "reason" and "hint", too; one that a person
// should look at has a "note". The caller has to json_decref() it.
json_t *report_json(const char *name, bool contained, const Grade grades[], size_t n);

// The same for one that could not be graded, because of a mistake of the grader or of this machine:
// it has "error".
json_t *report_error(const char *name, const char *error);

// ---- others, made of it ----------------------------------------------------------------------

// For people: a line for each exercise, and below it what was lost, and why.
void report_print(const json_t *report);
// A line for each hand-in: name,points,of,04-1,04-3,remarks. `reports` is an array of them.
void report_csv(FILE *csv, const json_t *reports, const ExerciseList *list);
// Gradescope's results.json: each part is a test. (gradescope-autograders.readthedocs.io, "Output
// Format")
json_t *report_gradescope(const json_t *report);

#endif
