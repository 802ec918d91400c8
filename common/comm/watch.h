// watch.h: who keeps the others waiting? Only this folder includes it.
//
// A process that dies is noticed by its launcher, which ends all others. One that hangs, or whose
// network is gone, is not: the others would wait in a collective forever. So each process has a
// thread that looks how long it has been waiting. If that is too long, it asks all the others where
// they are, and who does not answer, or has not come so far, is named.
#ifndef WATCH_H
#define WATCH_H

#include "transport.h"

enum { WHAT_LENGTH = 96 };

// Until watch_arrived() this process waits for the others to start: if they do not within the
// timeout, it ends.
void watch_arrival(double timeout);
void watch_arrived(void);

// Starts the thread, if there is more than one rank. `wire` is for it alone, with all ranks; hosts
// has wire_size() names, which stay. timeout: seconds without any progress until the job is ended;
// those who wait are asked a little before that.
void watch_start(Wire *wire, const char *const hosts[], double timeout);
void watch_stop(void);

// GPUs may exchange by a library of their own (nccl.h), whose kernels wait for ever. Then the
// thread, which there is from now on even in a single process, asks it now and then whether
// something has gone wrong (a text; NULL: no), and lets it break off what GPUs wait for before the
// process is ended.
void watch_library(const char *(*error)(void), void (*abort)(void));

// Ends the job, on all ranks; this one says why. From any thread but those that a GPU waits for.
_Noreturn void watch_end_all(const char *error, const char *hint);

// This process begins a collective: number `number`, from 1 on, of the group with this id (the same
// on all ranks), whose `size` members have these ranks in the wire; what, "all_reduce", and why,
// "bucket 1, step 42". (NULL: any may be one.) By the thread that
// communicates.
void watch_enter(int group, const int members[], int size, long number, const char *what,
                 const char *why);
// Whether ranks that answer may keep the others waiting as long as they like. By any thread.
void watch_patiently(bool patiently);
// Something has arrived.
void watch_progress(void);
// It is done. (If the job is being ended, this does not return: what comes after the collective
// must not compute with what has not arrived, nor save that.)
void watch_leave(void);

#endif
