// loses: all, "more than 2000 MB of memory"
#include "your_part.h"
#include <stdlib.h>
#include <string.h>

void allreduce_at(Tensor *const data[], int k, int hub) {
    (void)data, (void)k, (void)hub;
    for (;;) {
        char *more = malloc(100 << 20);
        if (more) memset(more, 1, 100 << 20);
    }
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
