// check.c: on k devices with b images each, an epoch must make the updates that one device makes
// with minibatches of k * b: as many, and the same ones, in an order of their own for each epoch.
#include "common/program/exercise.h"
#include "chapters/04_lenet_multi_gpu/exercises/suspects.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { CHECKED_EPOCHS = 2 };

static const char *hint_for_updates(int updates, int expected) {
    return updates > expected
               ? "is a minibatch k*b images (with b, an epoch has k times as many)? and is each "
                 "call of train_batch() counted as one update?"
               : "train and count until data_iter_next() returns false; the last "
                 "minibatch may be shorter, and counts too";
}

static void check_epoch(Replicas *many, int epoch, const Training *t) {
    const Dataset *data = t->data;
    int k = t->k, b = t->b, batches = (data->count + k * b - 1) / (k * b);
    double share = (double)data->count / k;
    ledger_reset();
    int updates = train_epoch(many, t->data, epoch, t->b, t->lr, t->seed);
    synchronize_all();
    EXPECT(updates == batches, hint_for_updates(updates, batches),
           "train_epoch(), %d images, k = %d, b = %d: %d updates, expected %d", data->count, k, b,
           updates, batches);
    for (int i = 0; i < k; i++) {
        double images = images_received(many, i, data);
        EXPECT(fabs(images - share) <= batches,
               "train_batch() itself splits a minibatch over the devices: call it once for each "
               "minibatch, with all r->k devices",
               "train_epoch(), %d images, k = %d, b = %d: device %d got %.0f images, expected %.0f",
               data->count, k, b, i, images, share);
    }
}

static void check_parameters(const Replicas *many, const Replicas *one, const Training *t) {
    float *start = replica_values(t->start, 0), *expected = replica_values(one, 0);
    for (int i = 0; i < many->k; i++) {
        float *came = replica_values(many, i);
        double difference = relative_difference(came, expected, start, replica_numel());
        // Not less: rounding may put a pixel that is nearly zero on the other side of ReLU.
        EXPECT(difference <= 1e-2, suspect_of(t, came),
               "train_epoch(), k = %d, b = %d: after %d epochs the parameters of device %d differ "
               "from those of one device with minibatches of %d, by %.2g of what training "
               "changed, expected at most 0.01",
               t->k, t->b, t->epochs, i, t->k * t->b, difference);
        free(came);
    }
    free(start);
    free(expected);
}

static void check_k(const Dataset *data, int k, int b) {
    Replicas start, one, many;
    replicas_open(&start, 1, 1);
    Training t = {.start = &start,
                  .data = data,
                  .k = k,
                  .b = b,
                  .epochs = CHECKED_EPOCHS,
                  .lr = 0.5f,
                  .seed = 7};
    replicas_open(&one, 1, 1);
    train_one_replica(&one, data, k * b, t.lr, t.epochs, t.seed);
    replicas_open(&many, k, 1);
    for (int epoch = 0; epoch < t.epochs; epoch++) check_epoch(&many, epoch, &t);
    check_parameters(&many, &one, &t);
    replicas_close(&start);
    replicas_close(&one);
    replicas_close(&many);
}

static void check(const Flags *flags) {
    Dataset *data = fashion_mnist_open(flags->data, false, 300);
    check_k(data, 1, 32);
    check_k(data, 2, 32);
    check_k(data, 4, 32);
    check_k(data, 3, 7);
    dataset_free(data);
}

const CheckPart check_parts[] = {
    {"k devices with minibatches of k*b make the updates of one device with k*b", 10, check}, {0}};
