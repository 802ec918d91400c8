// counted.h: what your part does with MPI, seen from between the two.
//
// Each function of MPI has two names, MPI_Send() and PMPI_Send(): its *profiling interface*. A
// program may define the first itself, and do its work by the second. counted.c does that with all
// by which a student may send. So nobody has to believe what a program says that it sends.
#pragma once

#include <mpi.h>

enum { MOST_RANKS = 5 };

// What this rank has done since counted_begin().
typedef struct Counted {
    int messages, empty; // sent by it; of these, without anything in it
    int elsewhere;       // over another communicator than the one that was given
    int bytes_to[MOST_RANKS];
    double cargo; // the sum of all numbers that it sent
} Counted;

// From now on calls are counted, on this communicator. If a rank has used `patience` seconds of CPU
// time and enters or leaves no call (however busy the machine is), or MPI finds an error, `tell` is
// called with where this rank is, "is in MPI_Send(), to rank 1", and the rank ends.
void counted_begin(MPI_Comm comm, double patience, void (*tell)(const char *where));
// What was counted. Then another rank may still be in it: so all ranks call counted_end(), which
// stops the watch, after they have met.
Counted counted_so_far(void);
void counted_end(void);
