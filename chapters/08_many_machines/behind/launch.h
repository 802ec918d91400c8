// launch.h: what a rank has to do with what started it (common/base/launcher.h says what that was).
#ifndef LAUNCH_H
#define LAUNCH_H

#include "common/base/launcher.h"

#include <stddef.h>

// die()s if the launcher started more processes than found each other. (srun without the PMI that
// MPI was built for, the mpirun of another MPI, torchrun: each process then believes to be alone,
// and all do the same work.) `found`: the size of the world. All find the same, so only rank 0 says
// it.
void launch_check(const Launch *launch, int found);

// The name of this host up to the first dot.
void launch_host_name(char name[], size_t size);

// From now on somebody sees to it that a rank does not end without a word: if it is killed, or gone
// by an exit() in the middle of its work, a line of ours says which one it was, whatever launcher
// has started it. (Who is alone needs nobody.) To be called before there are threads.
void launch_have_witness(const Launch *launch);
// Now it may end.
void launch_dismiss_witness(void);

#endif
