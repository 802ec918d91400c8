// wrong: gives each device the whole minibatch, as evaluate_accuracy_gpu() does on one
// loses: 1 2 5
// says: each image was counted k times

#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

double evaluate_accuracy_on_all(Net *net, Tensor *device_params[][LENET_PARAMS],
                                DataIter *data_iter, Device *const devices[], int k) {
    Tensor *correct[MAX_DEVICES], *X, *y;
    double total = 0;
    long observations = 0;
    for (int i = 0; i < k; i++) {
        correct[i] = tensor_new(devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    set_grad_enabled(false);
    data_iter_start(data_iter, 0);
    while (data_iter_next(data_iter, &X, &y)) {
        for (int i = 0; i < k; i++) {
            begin_step(devices[i]);
            Tensor *X_here = arena_tensor(devices[i], X->ndim, X->shape, false);
            Tensor *y_here = arena_tensor(devices[i], y->ndim, y->shape, false);
            tensor_copy(X_here, X);
            tensor_copy(y_here, y);
            count_correct(correct[i], net(X_here, device_params[i]), y_here);
        }
        observations += X->shape[0];
    }
    set_grad_enabled(true);
    for (int i = 0; i < k; i++) {
        total += (double)item(correct[i]);
        tensor_free(correct[i]);
    }
    return total / (double)observations;
}
