// counted.h: what your part does with MPI, seen from between the two.
//
// Each function of MPI has two names, MPI_Send() and PMPI_Send(): its *profiling interface*. A
// program may define the first itself, and do its work by the second. counted.c does that with all
// that a student may want to sum with. So nobody has to believe what a program says that it sends.
#ifndef COUNTED_H
#define COUNTED_H

#include <mpi.h>
#include <stdbool.h>

enum { MOST_RANKS = 5 };

// What this rank has done since counted_begin().
typedef struct Counted {
    long messages, empty; // sent by it; of these, without anything in it
    long bytes;           // sent
    long bytes_to[MOST_RANKS];
    long elsewhere;      // messages over another communicator than the one that was given
    char collective[32]; // the first one that it called, "MPI_Allreduce"; else ""
} Counted;

// From now on calls are counted, on this communicator. If nothing moves any more for so many
// seconds, all ranks say where they are (lines that begin with "stuck: "), and end.
void counted_begin(MPI_Comm comm, double patience);
// What was counted. Then another rank may still be in it: so all ranks call counted_end(), which
// stops the watch, after they have met.
Counted counted_so_far(void);
void counted_end(void);

#endif
