// check.c: on k devices with b images each, an epoch must make the updates that one device makes
// with minibatches of k * b: as many, and the same ones, in an order of their own for each epoch.
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { CHECKED_EPOCHS = 2 };

static void check_epoch(Replicas *many, const Dataset *data, int epoch, int b, float lr) {
    int k = many->k, batches = (data->count + k * b - 1) / (k * b);
    double share = (double)data->count / k;
    ledger_reset();
    int updates = train_epoch(many, data, epoch, b, lr, 7);
    synchronize_all();
    EXPECT(updates == batches,
           "is a minibatch k*b images? and the last one, which may be shorter, counts too",
           "train_epoch(), %d images, k = %d, b = %d: %d updates, expected %d", data->count, k, b,
           updates, batches);
    for (int i = 0; i < k; i++) {
        double images = images_received(many, i, data);
        EXPECT(fabs(images - share) <= batches,
               "train_batch() splits each minibatch over all r->k devices: once for each is enough",
               "train_epoch(), %d images, k = %d, b = %d: device %d got %g images, expected %g",
               data->count, k, b, i, images, share);
    }
}

static void check_k(const Dataset *data, int k, int b) {
    Replicas one, many;
    const float lr = 0.5f;
    replicas_open(&one, 1, 1);
    float *start = replica_values(&one, 0);
    train_one_replica(&one, data, k * b, lr, CHECKED_EPOCHS, 7);
    replicas_open(&many, k, 1);
    for (int epoch = 0; epoch < CHECKED_EPOCHS; epoch++) check_epoch(&many, data, epoch, b, lr);
    for (int i = 0; i < k; i++) {
        float *expected = replica_values(&one, 0), *came = replica_values(&many, i);
        double difference = relative_difference(came, expected, start, replica_numel());
        // Not less: rounding may put a pixel that is nearly zero on the other side of ReLU.
        EXPECT(difference <= 1e-2,
               "does data_iter_start() get the epoch, data_iter_new() true and the seed, and "
               "train_batch() lr as it is? else other images, or other steps, are trained on",
               "train_epoch(), k = %d, b = %d: after %d epochs the parameters of device %d are "
               "%.2g of their change away from those of one device with minibatches of %d, "
               "expected at most 0.01",
               k, b, CHECKED_EPOCHS, i, difference, k * b);
        free(expected);
        free(came);
    }
    free(start);
    replicas_close(&one);
    replicas_close(&many);
}

void check(const Flags *flags) {
    Dataset *data = fashion_mnist_open(flags->data, false, 300);
    check_k(data, 1, 32);
    check_k(data, 2, 32);
    check_k(data, 4, 32);
    check_k(data, 3, 7);
    dataset_free(data);
}
