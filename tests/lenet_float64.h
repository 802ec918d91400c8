// lenet_float64.h: the gradients of LeNet in float64, by chapter 4's in_one_file.c, to compare ours
// with.
//
// From the book's own start, biases of zero, and with real images. Photographs of clothes are
// mostly blank: most windows of the second convolution see only zeros, and the result is exactly
// the bias, 0: the edge of ReLU's gate. A fast algorithm that leaves its rounding errors there
// opens the gate at random, and all gradients below are then wrong in the third digit.
#ifndef LENET_FLOAT64_H
#define LENET_FLOAT64_H

#include "common/data/fashion_mnist.h"
#include "test.h"

// The largest error of a parameter's gradient, as a part of its largest number. PyTorch's is 6e-6.
static const double TOLERANCE = 2e-5;

enum { LENET_TENSORS = 8, ALL_PARAMS = 129068 };
static const int SIZES[LENET_TENSORS] = {180, 20, 25000, 50, 102400, 128, 1280, 10};

// lenet_float64.c: of the summed loss of n images, at most 256.
double *gradients_in_float64(const float *params, const float *X, const float *y, int n);

// All gradients of the summed loss. The caller frees them.
static inline double *in_float64(Tensor *const params[], const Tensor *X, const Tensor *y) {
    float *all = malloc(sizeof *all * ALL_PARAMS);
    for (int p = 0, at = 0; p < LENET_TENSORS; at += SIZES[p++])
        memcpy(all + at, params[p]->data, sizeof *all * (size_t)SIZES[p]);
    double *grads = gradients_in_float64(all, X->data, y->data, X->shape[0]);
    free(all);
    return grads;
}

static inline void check_gradient(const float *got, const double *expected, size_t n,
                                  const char *format, ...) {
    char what[160];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    double largest = 0, error = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(expected[i]));
        double e = fabs((double)got[i] - expected[i]);
        if (!(e <= error)) error = e; // a NaN too
    }
    assert_true(largest > 0);
    if (!(error <= TOLERANCE * largest))
        fail_msg("%s differs from float64 by %.2g of its largest number", what, error / largest);
}

// A minibatch of real images; `seed` picks them and their order.
static inline void real_minibatch(int images, uint64_t seed, Tensor **X, Tensor **y) {
    Tensor *images_there, *labels_there;
    Dataset *data = fashion_mnist_open(NULL, true, 4096);
    DataIter *iter = data_iter_new(data, images, true, seed);
    data_iter_start(iter, 0);
    assert_true(data_iter_next(iter, &images_there, &labels_there));
    *X = tensor_to(images_there, host());
    *y = tensor_to(labels_there, host());
    data_iter_free(iter);
    dataset_free(data);
}

#endif
