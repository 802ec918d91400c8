// loses: all, "does not link: .*graded_passed"
#include "common/program/graded.h"
#include "your_part.h"

void allreduce_at(Tensor *const data[], int k, int hub) {
    (void)data, (void)k, (void)hub;
    graded_passed();
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
