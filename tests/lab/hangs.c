// loses: all, "not ended after"
#include "your_part.h"

void allreduce_at(Tensor *const data[], int k, int hub) {
    (void)data, (void)k, (void)hub;
    for (volatile int i = 0;; i++) continue;
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
