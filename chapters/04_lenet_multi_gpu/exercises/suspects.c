// suspects.c: see suspects.h.
#include "suspects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What is done wrong (the rest is done right), and what is then said.
typedef struct Mistake {
    bool batch_of_b, last_left_out;      // the minibatches
    bool epoch_0, epochs_from_1, seed_0; // their order
    bool in_file_order, one_epoch;
    int power_of_k; // lr is multiplied by k to this power,
    bool by_batch;  // and divided by k * b
    const char *hint;
} Mistake;

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
    {.one_epoch = true,
     .hint = "a single epoch ends with these parameters: each one begins with data_iter_start()"},
    {.power_of_k = 1,
     .hint = "k * lr ends with these parameters: train_batch() needs lr as it is; whether a larger "
             "one is better, the experiment asks"},
    {.power_of_k = -1,
     .hint = "lr / k ends with these parameters: train_batch() needs lr as it is"},
    {.by_batch = true,
     .hint = "lr / (k*b) ends with these parameters: train_batch() needs lr as it is, since it "
             "divides by the size of the minibatch itself"}};

static void train_with(const Mistake *m, const Training *t, Replicas *r) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    int batch_size = m->batch_of_b ? t->b : t->k * t->b;
    float lr = t->lr * powf((float)t->k, (float)m->power_of_k);
    if (m->by_batch) lr /= (float)batch_size;
    DataIter *iter = data_iter_new(t->data, batch_size, !m->in_file_order, m->seed_0 ? 0 : t->seed);
    for (int epoch = 0; epoch < (m->one_epoch ? 1 : t->epochs); epoch++) {
        data_iter_start(iter, m->epoch_0 ? 0 : epoch + m->epochs_from_1);
        while (data_iter_next(iter, &X, &y))
            if (X->shape[0] == batch_size || !m->last_left_out)
                train_batch(X, y, r->params, r->devices, r->k, lr, losses);
    }
    data_iter_free(iter);
}

// On as many devices, so that no rounding differs: the same steps end with the same bits.
static bool explains(const Mistake *m, const Training *t, const float *came) {
    Replicas r;
    replicas_open_from(&r, t->k, t->start->params[0]);
    train_with(m, t, &r);
    float *end = replica_values(&r, 0);
    bool same = memcmp(came, end, replica_numel() * sizeof *came) == 0;
    replicas_close(&r);
    free(end);
    return same;
}

static bool nothing_happened(const Training *t, const float *came) {
    float *start = replica_values(t->start, 0);
    bool same = memcmp(came, start, replica_numel() * sizeof *came) == 0;
    free(start);
    return same;
}

const char *suspect_of(const Training *t, const float *came) {
    if (nothing_happened(t, came))
        return "this device was not trained at all: call train_batch() with each minibatch, and "
               "with all r->k devices";
    for (size_t m = 0; m < sizeof mistakes / sizeof *mistakes; m++)
        if (explains(&mistakes[m], t, came)) return mistakes[m].hint;
    return "suspects: the k*b images of a minibatch, true and the seed for data_iter_new(), the "
           "epoch for data_iter_start(), all minibatches, lr as it is; no single one explains it";
}
