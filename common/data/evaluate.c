// evaluate.c: each device counts its correct answers; the host adds up the counts at the end.
#include "evaluate.h"
#include "common/tensor/functional.h"

#include <math.h>

Accuracy accuracy_begin(Device *const devices[], int k) {
    Accuracy a = {.k = k};
    for (int i = 0; i < k; i++) {
        a.correct[i] = tensor_new(devices[i], 1);
        tensor_fill(a.correct[i], 0);
    }
    set_grad_enabled(false);
    return a;
}

void accuracy_count(Accuracy *a, Tensor *const y_hat[], Tensor *const y[]) {
    for (int i = 0; i < a->k; i++) {
        count_correct(a->correct[i], y_hat[i], y[i]);
        a->observations += y[i]->shape[0];
    }
}

double accuracy_end(Accuracy *a) {
    float counts[MAX_DEVICES];
    set_grad_enabled(true);
    items(a->correct, a->k, counts);
    for (int i = 0; i < a->k; i++) {
        a->num_correct += (double)counts[i];
        tensor_free(a->correct[i]);
    }
    return a->num_correct / (double)a->observations;
}

double evaluate_accuracy_gpu(Net *net, Tensor *const params[], DataIter *data_iter,
                             Device *device) {
    Accuracy a = accuracy_begin(&device, 1);
    Tensor *X, *y;
    data_iter_start(data_iter, 0);
    while (data_iter_next(data_iter, &X, &y)) {
        begin_step(device);
        Tensor *X_here = arena_tensor(device, X->ndim, X->shape, false);
        Tensor *y_here = arena_tensor(device, y->ndim, y->shape, false);
        tensor_copy(X_here, X);
        tensor_copy(y_here, y);
        accuracy_count(&a, (Tensor *[]){net(X_here, params)}, &y_here);
    }
    return accuracy_end(&a);
}

const char *divergence(double train_loss) {
    bool diverged = train_loss > 10 * log(FASHION_MNIST_CLASSES);
    return diverged ? ": diverged (guessing has a loss of 2.303), start again with a smaller --lr"
                    : "";
}
