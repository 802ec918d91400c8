// by_hand.c: see by_hand.h.
#include "by_hand.h"

#include "common/base/error.h"
#include "common/program/exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = FASHION_MNIST_CLASSES, LAST_BIASES = LENET_PARAMS - 1 };

void last_biases(const Replicas *r, int i, float biases[CLASSES]) {
    tensor_read(r->params[i][LAST_BIASES], biases);
}

// ## By hand

// What is done wrong (the rest is done right), and what is then said.
typedef struct Mistake {
    bool batch_of_b, last_left_out;                           // the minibatches
    bool epoch_0, epochs_from_1, seed_0, in_file_order, once; // their orders
    int power_of_k; // lr is multiplied by k to this power,
    bool by_batch;  // and divided by k * b
    const char *hint;
} Mistake;

static void labels_of(const Mistake *m, const Training *t, int epoch, uint8_t labels[]) {
    if (m->in_file_order)
        memcpy(labels, t->data->labels, (size_t)t->data->count);
    else
        shuffled_labels(t->data, m->seed_0 ? 0 : t->seed, m->epoch_0 ? 0 : epoch + m->epochs_from_1,
                        labels);
}

static void by_hand(const Mistake *m, const Training *t, float came[CLASSES]) {
    double biases[CLASSES] = {0}, lr = (double)t->lr * pow(t->k, m->power_of_k);
    int all = t->data->count, size = m->batch_of_b ? t->b : t->k * t->b;
    uint8_t *labels = xmalloc((size_t)all);
    if (m->by_batch) lr /= size;
    for (int epoch = 0; epoch < (m->once ? 1 : t->epochs); epoch++) {
        labels_of(m, t, epoch, labels);
        for (int at = 0; at < all; at += size) {
            int n = size < all - at ? size : all - at;
            if (n == size || !m->last_left_out) learn_labels(biases, labels + at, n, lr);
        }
    }
    free(labels);
    for (int c = 0; c < CLASSES; c++) came[c] = (float)biases[c];
}

static double apart(const Mistake *m, const Training *t, const float came[CLASSES]) {
    float end[CLASSES];
    by_hand(m, t, end);
    return relative_difference(came, end, NULL, CLASSES);
}

double biases_apart(const Training *t, const float came[CLASSES]) {
    return apart(&(Mistake){0}, t, came);
}

// ## What may have gone wrong

static const Mistake mistakes[] = {
    {.batch_of_b = true,
     .hint = "minibatches of b images end with these parameters: each needs k*b"},
    {.last_left_out = true,
     .hint = "training without the last, shorter minibatch ends with these parameters: go on until "
             "data_iter_next() returns false"},
    {.epoch_0 = true,
     .hint = "one order for all epochs ends with these parameters: data_iter_start() needs the "
             "number of the epoch"},
    {.epochs_from_1 = true,
     .hint = "epochs that count from 1 end with these parameters: the first one is 0"},
    {.seed_0 = true,
     .hint = "seed 0 ends with these parameters: data_iter_new() needs the seed that is given"},
    {.in_file_order = true,
     .hint = "images in the order of the file end with these parameters: data_iter_new() needs "
             "true, to shuffle them"},
    {.once = true,
     .hint = "a single epoch ends with these parameters: each one begins with data_iter_start()"},
    {.power_of_k = 1,
     .hint = "k * lr ends with these parameters: train_batch() needs lr as it is; whether a larger "
             "one is better, the experiment asks"},
    {.power_of_k = -1,
     .hint = "lr / k ends with these parameters: train_batch() needs lr as it is"},
    {.by_batch = true,
     .hint = "lr / (k*b) ends with these parameters: train_batch() needs lr as it is, since it "
             "divides by the size of the minibatch itself"}};

const char *suspect_of(const Training *t, const float came[CLASSES]) {
    bool changed = false;
    for (int c = 0; c < CLASSES; c++) changed = changed || came[c] != 0;
    if (!changed)
        return "this device was not trained at all: call train_batch() with each minibatch, and "
               "with all r->k devices";
    for (size_t m = 0; m < sizeof mistakes / sizeof *mistakes; m++)
        if (apart(&mistakes[m], t, came) <= 1e-4) return mistakes[m].hint;
    return "suspects: the k*b images of a minibatch, true and the seed for data_iter_new(), the "
           "epoch for data_iter_start(), all minibatches, lr as it is; no single one explains it";
}
