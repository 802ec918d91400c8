// solution.c: chapter 6's exercise 3.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

void gradient_is_final(Overlap *o, int i, int p) {
    Tensor *grads[MAX_COMPUTING];
    o->final[i][p] = device_record(o->devices[i]);
    if (++o->num_final[p] < o->k) return;
    for (int j = 0; j < o->k; j++) {
        queue_wait(comm_queue(o->devices[j]), o->final[j][p]);
        grads[j] = o->params[j][p]->grad;
    }
    communicate_begin();
    allreduce(grads, o->k);
    communicate_end();
}

void update_all(Overlap *o, float lr, int batch_size) {
    for (int i = 0; i < o->k; i++) {
        device_wait(o->devices[i], queue_record(comm_queue(o->devices[i])));
        sgd(o->params[i], LENET_PARAMS, lr, batch_size);
    }
}
