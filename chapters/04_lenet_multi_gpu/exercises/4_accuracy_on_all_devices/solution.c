// solution.c: each device counts in its shards of all minibatches; the counts are added up once.
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

double evaluate_accuracy_on_all(Net *net, Tensor *device_params[][LENET_PARAMS],
                                DataIter *data_iter, Device *const devices[], int k) {
    Tensor *correct[MAX_DEVICES], *X, *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    double total = 0;
    long observations = 0;
    for (int i = 0; i < k; i++) {
        correct[i] = tensor_new(devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    set_grad_enabled(false);
    data_iter_start(data_iter, 0);
    while (data_iter_next(data_iter, &X, &y)) {
        for (int i = 0; i < k; i++) begin_step(devices[i]);
        split_batch(X, y, devices, k, X_shards, y_shards);
        for (int i = 0; i < k; i++)
            count_correct(correct[i], net(X_shards[i], device_params[i]), y_shards[i]);
        observations += X->shape[0];
    }
    set_grad_enabled(true);
    for (int i = 0; i < k; i++) {
        total += (double)item(correct[i]);
        tensor_free(correct[i]);
    }
    return total / (double)observations;
}
