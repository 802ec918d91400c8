// watch.h: which rank keeps the others waiting?
//
// Each rank has a thread that knows how long the rank has been waiting. When that is too long, it
// asks all others where they are, and names the rank that does not answer or that is behind.
#pragma once

#include <mpi.h>
#include <stdbool.h>

enum { WHAT_LENGTH = 96 };

// Starts the thread, if there are several ranks. comm has all ranks and is for the watch alone;
// hosts[r] is where rank r runs. timeout: seconds without progress until the job is ended.
void watch_start(MPI_Comm comm, const char *const hosts[], double timeout);
void watch_stop(void);

// By the thread that communicates. This rank begins a collective. what: "all_reduce"; why: "bucket
// 1, step 42".
void watch_enter(const char *what, const char *why);
void watch_progress(void); // something has arrived
// It is done. While the job is being ended, this does not return, so nothing computes with numbers
// that have not arrived.
void watch_leave(void *unused);

// Whether ranks that answer may keep the others waiting.
void watch_patiently(bool on);
