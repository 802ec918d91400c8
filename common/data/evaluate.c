// evaluate.c: see evaluate.h.
#include "evaluate.h"
#include "common/tensor/functional.h"

double evaluate_accuracy_gpu(Net *net, Tensor *const params[], DataIter *data_iter,
                             Device *device) {
    // Counts stay below 2^24, where floats are exact.
    Tensor *correct = tensor_new(device, 1), *X, *y;
    long observations = 0;
    tensor_fill(correct, 0);
    set_grad_enabled(false);
    data_iter_start(data_iter, 0);
    while (data_iter_next(data_iter, &X, &y)) {
        begin_step(device);
        Tensor *X_here = arena_tensor(device, X->ndim, X->shape, false);
        Tensor *y_here = arena_tensor(device, y->ndim, y->shape, false);
        tensor_copy(X_here, X);
        tensor_copy(y_here, y);
        count_correct(correct, net(X_here, params), y_here);
        observations += X->shape[0];
    }
    set_grad_enabled(true);
    double accuracy = (double)item(correct) / (double)observations;
    tensor_free(correct);
    return accuracy;
}
