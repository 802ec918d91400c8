// wrong: waits for the gradient of the device that called last, and not for those of the others
// loses: 2 5
// says: the communication queue of each device must queue_wait\(\)

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

void gradient_is_final(Overlap *o, int i, int p) {
    Tensor *grads[MAX_COMPUTING];
    if (++o->num_final[p] < o->k) return;
    queue_wait(comm_queue(o->devices[i]), device_record(o->devices[i]));
    for (int j = 0; j < o->k; j++) grads[j] = o->params[j][p]->grad;
    communicate_begin();
    allreduce(grads, o->k);
    communicate_end();
}

void update_all(Overlap *o, float lr, int batch_size) {
    for (int i = 0; i < o->k; i++) {
        Event exchanged = queue_record(comm_queue(o->devices[i]));
        device_wait(o->devices[i], exchanged);
        sgd(o->params[i], LENET_PARAMS, lr, batch_size);
    }
}
