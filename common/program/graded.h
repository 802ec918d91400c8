// graded.h: an exercise that a grader has started (.lab/grade.c). It runs one part of the check,
// and tells the grader what came out.
//
// The grader sets EXERCISE_GRADED to "FD PART" and keeps the other end of FD, a socket. Through it
// comes first a line that nobody can guess, and back goes, with that line in front, "passed" or
// "failed" and the two lines of the error. So to print "check passed", or to end with status 0
// before the check, is worth nothing. (What is handed in and the check share a process: whoever
// wants to deceive the check from within can. The grader says so, and who tries is seen.)
//
// With EXERCISE_GRADED=parts the program prints its parts, "POINTS WHAT" in a line each, and ends.
#ifndef GRADED_H
#define GRADED_H

#include "exercise.h"

enum { NOT_GRADED = -1 };

// To be called first. Returns the part that a grader asks for, from 0, or NOT_GRADED.
int graded_begin(const CheckPart parts[]);

// That part has passed, or failed. Nothing happens if no grader waits.
void graded_passed(void);
void graded_failed(const char *hint, const char *error);

#endif
