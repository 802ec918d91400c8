// loses: all, "more than 1 MB printed"
#include "your_part.h"
#include <stdio.h>

void allreduce_at(Tensor *const data[], int k, int hub) {
    (void)data, (void)k, (void)hub;
    for (int i = 0; i < 2000000; i++) puts("check passed: check passed: check passed: sums");
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
