// zero0.c: DDP (chapter 6). Each device keeps everything.
#include "zero.h"

void zero0_step(Zero *z, Tensor *const X[], Tensor *const y[], float lr, int batch_size,
                Tensor *losses[]) {
    Tensor *Y[MAX_DEVICES];
    for (int i = 0; i < z->k; i++) Y[i] = X[i];
    forward_unit(z, 0, Y); // the whole network is one unit

    sum_losses(z, Y, y, losses);
    ddp_backward(z->ddp, losses); // sums the gradients, bucket by bucket

    update_own(z, lr, batch_size);
}
