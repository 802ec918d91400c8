// wrong: exchanges on the compute queues, so that backward has to wait for it
// loses: 3
// says: unless it stands between communicate_begin\(\) and communicate_end\(\)

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

void gradient_is_final(Overlap *o, int i, int p) {
    Tensor *grads[MAX_COMPUTING];
    o->final[i][p] = device_record(o->devices[i]);
    o->num_final[p]++;
    if (o->num_final[p] < o->k) return;
    for (int j = 0; j < o->k; j++) {
        grads[j] = o->params[j][p]->grad;
        device_wait(o->devices[j], o->final[j][p]);
    }
    allreduce(grads, o->k);
}

void update_all(Overlap *o, float lr, int batch_size) {
    for (int i = 0; i < o->k; i++) sgd(o->params[i], LENET_PARAMS, lr, batch_size);
}
