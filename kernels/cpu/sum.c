// sum.c: the sum of a vector (of the losses of a minibatch, say) and its backward.
#include "cpu.h"

// In double, in order: a few hundred numbers are not worth a parallel sum.
CPU_KERNEL(sum_forward) {
    double total = 0;
    for (size_t i = 0; i < a->n; i++) total += a->x[i];
    a->out[0] = (float)total;
}

CPU_KERNEL(sum_backward) {
    float d = a->dout[0];
    for (size_t i = 0; i < a->n; i++) a->dx[i] = a->beta != 0 ? a->dx[i] + d : d;
}
