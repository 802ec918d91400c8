// launch.h: what started this process, and as which of how many: read from the environment, before
// anything is opened.
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stddef.h>

typedef struct Launch {
    const char *by;             // "mpirun", "srun", ..; NULL: nothing that starts several
    int rank, size;             // 0 and 1 if nothing did
    int local_rank, local_size; // among those on this host; -1 where the launcher does not say
} Launch;

Launch launch_read(void);

// Before Open MPI is opened. Of what srun has started without PMI (--mpi=none, on most clusters
// what srun does by itself) Open MPI ends each process with a page of text. Here several are
// refused, with a line from rank 0. One alone (srun --pty bash, then the program) just works: Open
// MPI is not told that srun has started it.
void launch_prepare(const Launch *launch);

// die()s if the launcher started more processes than found each other. (srun without the PMI that
// MPI was built for, or the mpirun of another MPI: each process then believes to be alone, and all
// do the same work.) `found`: the size of the world. All find the same, so only rank 0 says it.
void launch_check(const Launch *launch, int found);

// The name of this host up to the first dot.
void launch_host_name(char name[], size_t size);

// From now on somebody sees to it that a rank does not end without a word: if it is killed, or gone
// by an exit() in the middle of its work, a line of ours says which one it was, whatever launcher
// has started it. (Who is alone needs nobody.) To be called before there are threads.
void launch_have_witness(const Launch *launch);
// Now it may end.
void launch_dismiss_witness(void);

// To be called before this process ends the job: sees to it that the launcher's process on this
// host ends, too. (Open MPI's first tells the other hosts to end, and waits for their answer: from
// a host that cannot be reached, for as long as TCP tries, a quarter of an hour.)
void launch_ends_with_us(void);

#endif
