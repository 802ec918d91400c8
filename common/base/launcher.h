// launcher.h: which launcher (mpirun, srun, torchrun) started this process, with which rank. It is
// read from the environment. A program of one process calls launch_must_be_one().
#pragma once

#include <stdbool.h>

typedef struct Launch {
    const char *by;             // "mpirun", "srun", ..; NULL: no launcher
    const char *variable;       // the one that holds the size
    int rank, size;             // 0 and 1 if there is no launcher
    int local_rank, local_size; // among the processes on this host; -1 if unknown
    bool by_mpi;                // MPI tells the processes how to find each other
} Launch;

Launch launch_read(void);

// die()s if several processes were started, because all of them would do the same. Rank 0 prints
// that. The others print it only if they have not been ended after 3 seconds.
void launch_must_be_one(void);
