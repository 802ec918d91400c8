// wrong: updates at once, although the sums are still on their way in the communication queues
// loses: 4 5
// says: the compute queue knows nothing of the communication queue: device_wait

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

void gradient_is_final(Overlap *o, int i, int p) {
    Tensor *grads[MAX_COMPUTING];
    o->final[i][p] = device_record(o->devices[i]);
    o->num_final[p]++;
    if (o->num_final[p] < o->k) return;
    for (int j = 0; j < o->k; j++) {
        grads[j] = o->params[j][p]->grad;
        queue_wait(comm_queue(o->devices[j]), o->final[j][p]);
    }
    communicate_begin();
    allreduce(grads, o->k);
    communicate_end();
}

void update_all(Overlap *o, float lr, int batch_size) {
    for (int i = 0; i < o->k; i++) sgd(o->params[i], LENET_PARAMS, lr, batch_size);
}
