// modelled_times.c: see modelled_times.h.
#include "modelled_times.h"

#include "common/program/modelled_run.h"
#include "common/tensor/autograd.h"
#include "../get_params.h"

double modelled_allreduce(const Machine *machine, void (*run)(Tensor *const data[], int k), int k,
                          int n) {
    ModelledRun modelled = {.machine = machine, .k = k};
    Tensor *data[MAX_DEVICES];
    modelled_begin(&modelled);
    for (int i = 0; i < k; i++) {
        data[i] = tensor_new(modelled.devices[i], n);
        tensor_fill(data[i], 0); // as in training, each queue has had work: then waits take time
        begin_step(data[i]->device);
    }
    while (modelled_run(&modelled)) run(data, k);
    free_params(data, k);
    modelled_end(&modelled);
    return modelled.seconds;
}
