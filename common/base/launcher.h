// launcher.h: what started this process, and as which of how many: read from the environment.
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include <stdbool.h>

typedef struct Launch {
    const char *by;             // "mpirun", "srun", ..; NULL: nothing that starts several
    const char *variable;       // that says the size
    int rank, size;             // 0 and 1 if nothing did
    int local_rank, local_size; // among those on this host; -1 where the launcher does not say
    bool by_mpi;                // MPI's processes are told how to find each other
} Launch;

Launch launch_read(void);

// For a program that is one process: die()s if it was started as one of several, all of which would
// do the same. Rank 0 says so; the others do only if it is still there after 3 seconds.
void launch_must_be_one(void);

#endif
