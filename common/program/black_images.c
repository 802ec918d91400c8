// black_images.c: see black_images.h.
#include "black_images.h"

#include "common/base/error.h"
#include "common/tensor/random.h"

#include <math.h>
#include <stdlib.h>

enum { CLASSES = FASHION_MNIST_CLASSES };

Dataset *black_images(int side, int count) {
    Dataset *data = xcalloc(1, sizeof *data);
    *data = (Dataset){.count = count, .rows = side, .cols = side};
    data->images = xcalloc((size_t)count, (size_t)(side * side));
    data->labels = xcalloc((size_t)count, 1);
    for (int i = 0; i < count; i++) data->labels[i] = (uint8_t)(i * i / 10 % CLASSES);
    return data;
}

void shuffled_labels(const Dataset *data, uint64_t seed, int epoch, uint8_t labels[]) {
    int *order = xmalloc(sizeof *order * (size_t)data->count);
    random_order(order, data->count, seed, STREAM_SHUFFLE + (uint32_t)epoch);
    for (int i = 0; i < data->count; i++) labels[i] = data->labels[order[i]];
    free(order);
}

static double sum_of_exp(const double biases[CLASSES]) {
    double sum = 0;
    for (int c = 0; c < CLASSES; c++) sum += exp(biases[c]);
    return sum;
}

// The gradient is softmax(biases) - (how often each label comes) / n.
void learn_labels(double biases[CLASSES], const uint8_t labels[], int n, double lr) {
    double sum = sum_of_exp(biases), gradient[CLASSES];
    for (int c = 0; c < CLASSES; c++) gradient[c] = exp(biases[c]) / sum;
    for (int i = 0; i < n; i++) gradient[labels[i]] -= 1.0 / n;
    for (int c = 0; c < CLASSES; c++) biases[c] -= lr * gradient[c];
}

double loss_of_label(const double biases[CLASSES], int label) {
    return log(sum_of_exp(biases)) - biases[label];
}
