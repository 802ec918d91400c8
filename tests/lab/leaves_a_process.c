// loses: all, "."
// Leaves a process behind that would disturb the next one, and says nothing.
#include "your_part.h"
#include <stdlib.h>
#include <unistd.h>

void allreduce_at(Tensor *const data[], int k, int hub) {
    (void)data, (void)k, (void)hub;
    if (fork() == 0) {
        setsid();
        if (fork() > 0) _exit(0);
        execlp("sleep", "left-by-a-hand-in", "1000", NULL);
    }
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
