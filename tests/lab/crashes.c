// loses: all, "crash: Segmentation fault, in: allreduce_(at|parts)\(\), k = 1"
#include "your_part.h"

void allreduce_at(Tensor *const data[], int k, int hub) { data[k + hub]->data[1 << 30] = 0; }
void allreduce_parts(Tensor *const data[], int k) {
    *(volatile float *)(16 * k) = data[0]->data[0];
}
