// lenet_float64.h: the gradients of LeNet in float64, in plain loops, to compare ours with. For
// tests; to be included after cmocka.h.
//
// From the book's own start, biases of zero, and with real images. Photographs of clothes are
// mostly blank: most windows of the second convolution see nothing but zeros, and what they give is
// exactly the bias, 0: the edge of ReLU's gate. A fast algorithm that leaves its rounding errors
// there opens the gate at random, and all gradients below are then wrong in the third digit.
#ifndef LENET_FLOAT64_H
#define LENET_FLOAT64_H

#include "common/data/fashion_mnist.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The largest error of a parameter's gradient, as a part of its largest number. PyTorch's is 6e-6.
static const double TOLERANCE = 2e-5;

enum { LENET_TENSORS = 8 };
enum {
    IMAGE = 28,
    C1 = 20,
    S1 = 26,
    P1 = 13,
    C2 = 50,
    S2 = 9,
    P2 = 4,
    FLAT = 800,
    H3 = 128,
    OUT = 10
};
static const int SIZES[LENET_TENSORS] = {C1 * 9, C1, C2 *C1 * 25, C2, FLAT *H3, H3, H3 *OUT, OUT};
enum { ALL_PARAMS = C1 * 9 + C1 + C2 * C1 * 25 + C2 + FLAT * H3 + H3 + H3 * OUT + OUT };

typedef struct Params {
    double *W1, *b1, *W2, *b2, *W3, *b3, *W4, *b4;
} Params;

static inline Params params_in(double *all) {
    Params p;
    double **each[LENET_TENSORS] = {&p.W1, &p.b1, &p.W2, &p.b2, &p.W3, &p.b3, &p.W4, &p.b4};
    for (int i = 0; i < LENET_TENSORS; all += SIZES[i++]) *each[i] = all;
    return p;
}

// Y (M,side-k+1 squared) = X (C,side squared) * W (M,C,k,k) + b
static inline void convolve(int C, int side, int M, int k, const double *X, const double *W,
                            const double *b, double *Y) {
    int out = side - k + 1;
    for (int m = 0; m < M; m++, Y += out * out) {
        for (int i = 0; i < out * out; i++) Y[i] = b[m];
        for (int c = 0; c < C; c++)
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++) {
                    double w = W[((m * C + c) * k + p) * k + q];
                    for (int i = 0; i < out; i++)
                        for (int j = 0; j < out; j++)
                            Y[i * out + j] += w * X[(c * side + i + p) * side + j + q];
                }
    }
}

// Adds to dW and db; dX (or NULL) is overwritten.
static inline void convolve_backward(int C, int side, int M, int k, const double *X,
                                     const double *W, const double *dY, double *dW, double *db,
                                     double *dX) {
    int out = side - k + 1;
    if (dX) memset(dX, 0, sizeof *dX * (size_t)(C * side * side));
    for (int m = 0; m < M; m++, dY += out * out) {
        for (int i = 0; i < out * out; i++) db[m] += dY[i];
        for (int c = 0; c < C; c++)
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++) {
                    double w = W[((m * C + c) * k + p) * k + q], sum = 0;
                    for (int i = 0; i < out; i++) {
                        size_t at = (size_t)((c * side + i + p) * side + q);
                        for (int j = 0; j < out; j++) sum += dY[i * out + j] * X[at + (size_t)j];
                        if (!dX) continue;
                        for (int j = 0; j < out; j++) dX[at + (size_t)j] += w * dY[i * out + j];
                    }
                    dW[((m * C + c) * k + p) * k + q] += sum;
                }
    }
}

// ReLU and the mean of windows of 2x2, and back through both: d becomes the gradient before them.
static inline void relu_pool(int C, int side, double *Y, double *pooled) {
    int half = side / 2;
    for (int i = 0; i < C * side * side; i++) Y[i] = fmax(Y[i], 0);
    for (int c = 0; c < C; c++)
        for (int i = 0; i < half; i++)
            for (int j = 0; j < half; j++) {
                const double *y = Y + (c * side + 2 * i) * side + 2 * j;
                pooled[(c * half + i) * half + j] = (y[0] + y[1] + y[side] + y[side + 1]) / 4;
            }
}

static inline void relu_pool_backward(int C, int side, const double *Y, const double *dpooled,
                                      double *d) {
    int half = side / 2;
    for (int c = 0; c < C; c++)
        for (int i = 0; i < side; i++)
            for (int j = 0; j < side; j++) {
                int at = (c * side + i) * side + j;
                bool counts = Y[at] > 0 && i / 2 < half && j / 2 < half;
                d[at] = counts ? dpooled[(c * half + i / 2) * half + j / 2] / 4 : 0;
            }
}

// y (n) = x (k) W (k,n) + b; backward adds to dW and db, dx is overwritten.
static inline void connect(int k, int n, const double *x, const double *W, const double *b,
                           double *y) {
    for (int j = 0; j < n; j++) y[j] = b[j];
    for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++) y[j] += x[i] * W[i * n + j];
}

static inline void connect_backward(int k, int n, const double *x, const double *W,
                                    const double *dy, double *dW, double *db, double *dx) {
    for (int j = 0; j < n; j++) db[j] += dy[j];
    for (int i = 0; i < k; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++) sum += dy[j] * W[i * n + j], dW[i * n + j] += x[i] * dy[j];
        dx[i] = sum;
    }
}

// Adds the gradients of one image's loss.
static inline void add_gradients(Params w, const float *image, int label, Params d) {
    static _Thread_local double X[IMAGE * IMAGE], Y1[C1 * S1 * S1], h1[C1 * P1 * P1],
        Y2[C2 * S2 * S2], h2[FLAT], h3[H3], out[OUT], dh3[H3], dh2[FLAT], dY2[C2 * S2 * S2],
        dh1[C1 * P1 * P1], dY1[C1 * S1 * S1];
    for (int i = 0; i < IMAGE * IMAGE; i++) X[i] = (double)image[i];
    convolve(1, IMAGE, C1, 3, X, w.W1, w.b1, Y1);
    relu_pool(C1, S1, Y1, h1);
    convolve(C1, P1, C2, 5, h1, w.W2, w.b2, Y2);
    relu_pool(C2, S2, Y2, h2);
    connect(FLAT, H3, h2, w.W3, w.b3, h3);
    for (int i = 0; i < H3; i++) h3[i] = fmax(h3[i], 0);
    connect(H3, OUT, h3, w.W4, w.b4, out);

    double largest = out[0], total = 0;
    for (int i = 0; i < OUT; i++) largest = fmax(largest, out[i]);
    for (int i = 0; i < OUT; i++) total += out[i] = exp(out[i] - largest);
    for (int i = 0; i < OUT; i++) out[i] = out[i] / total - (i == label);

    connect_backward(H3, OUT, h3, w.W4, out, d.W4, d.b4, dh3);
    for (int i = 0; i < H3; i++) dh3[i] = h3[i] > 0 ? dh3[i] : 0;
    connect_backward(FLAT, H3, h2, w.W3, dh3, d.W3, d.b3, dh2);
    relu_pool_backward(C2, S2, Y2, dh2, dY2);
    convolve_backward(C1, P1, C2, 5, h1, w.W2, dY2, d.W2, d.b2, dh1);
    relu_pool_backward(C1, S1, Y1, dh1, dY1);
    convolve_backward(1, IMAGE, C1, 3, X, w.W1, dY1, d.W1, d.b1, NULL);
}

// All gradients of the summed loss. The caller frees them.
static inline double *in_float64(Tensor *const params[], const Tensor *X, const Tensor *y) {
    double *all = malloc(sizeof *all * ALL_PARAMS), *grads = calloc(ALL_PARAMS, sizeof *grads);
    for (int p = 0, at = 0; p < LENET_TENSORS; p++)
        for (int i = 0; i < SIZES[p]; i++) all[at++] = (double)params[p]->data[i];
    enum { GROUPS = 8 };
#pragma omp parallel for
    for (int g = 0; g < GROUPS; g++) {
        double *mine = calloc(ALL_PARAMS, sizeof *mine);
        for (int i = g; i < X->shape[0]; i += GROUPS)
            add_gradients(params_in(all), X->data + (size_t)i * IMAGE * IMAGE, (int)y->data[i],
                          params_in(mine));
#pragma omp critical
        for (int i = 0; i < ALL_PARAMS; i++) grads[i] += mine[i];
        free(mine);
    }
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
