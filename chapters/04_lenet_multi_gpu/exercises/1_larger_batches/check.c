// check.c: on k devices with b images each, an epoch must make the updates that one device makes
// with minibatches of k * b: as many, and the same ones, in an order of their own for each epoch.
#include "common/program/exercise.h"
#include "chapters/04_lenet_multi_gpu/exercises/by_hand.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ## What is looked at

static int batches_of(const Training *t, int batch_size) {
    return (t->data->count + batch_size - 1) / batch_size;
}

static const char *hint_for_updates(const Training *t, int updates) {
    if (updates == batches_of(t, t->b))
        return "as many as there are minibatches of b images: each needs k*b, so that each device "
               "has b";
    if (updates == t->data->count / (t->k * t->b))
        return "the last, shorter minibatch counts too: train until data_iter_next() returns false";
    return "one update for each minibatch of k*b images: count the calls of train_batch()";
}

static void check_number(const Training *t, int updates) {
    int expected = batches_of(t, t->k * t->b);
    EXPECT(updates == expected, hint_for_updates(t, updates),
           "train_epoch(), %d images, k = %d, b = %d: %d updates, expected %d", t->data->count,
           t->k, t->b, updates, expected);
}

// Minibatches of b instead of k*b do no harm here: their shards may differ by an image, too.
static void check_shares(const Training *t, const Replicas *many) {
    double share = (double)t->data->count / t->k;
    for (int i = 0; i < t->k; i++) {
        double images = images_received(many, i, t->data) / t->epochs;
        EXPECT(fabs(images - share) <= batches_of(t, t->b),
               "train_batch() itself splits a minibatch over the devices: call it once for each "
               "minibatch, with all r->k devices",
               "train_epoch(), %d images, k = %d, b = %d: in an epoch device %d got %.0f images, "
               "expected %.0f",
               t->data->count, t->k, t->b, i, images, share);
    }
}

static const char *hint_for_biases(const Training *t, const Replicas *many, int i) {
    float first[FASHION_MNIST_CLASSES], last[FASHION_MNIST_CLASSES], came[FASHION_MNIST_CLASSES];
    last_biases(many, 0, first);
    last_biases(many, t->k - 1, last);
    last_biases(many, i, came);
    return memcmp(first, last, sizeof first) == 0
               ? suspect_of(t, came)
               : "the devices end with different parameters: give all r->k to each call of "
                 "train_batch(), which sums their gradients";
}

static void check_biases(const Training *t, const Replicas *many) {
    for (int i = 0; i < t->k; i++) {
        float came[FASHION_MNIST_CLASSES];
        last_biases(many, i, came);
        double apart = biases_apart(t, came);
        EXPECT(apart <= 1e-4, hint_for_biases(t, many, i),
               "train_epoch(), %d black images, k = %d, b = %d: epochs trained: %d; the biases of "
               "the last layer on device %d differ from those of minibatches of %d by %.2g of what "
               "training changes, expected at most 0.0001",
               t->data->count, t->k, t->b, t->epochs, i, t->k * t->b, apart);
    }
}

// ## The parts

typedef enum { NUMBER = 1, SHARES = 2, PARAMETERS = 4 } Looked; // to be added up

static void check_training(const Training *t, Looked at) {
    Replicas many;
    replicas_open(&many, t->k, 1);
    ledger_reset();
    for (int epoch = 0; epoch < t->epochs; epoch++) {
        int updates = train_epoch(&many, t->data, epoch, t->b, t->lr, t->seed);
        if (at & NUMBER) check_number(t, updates);
    }
    synchronize_all();
    if (at & SHARES) check_shares(t, &many);
    if (at & PARAMETERS) check_biases(t, &many);
    replicas_close(&many);
}

// So many images. 252 fill minibatches of 4, 12, 28, 36 and 84; of 300 some are left.
enum { FILLED = 252, WITH_A_REST = 300 };

static void check_k(int k, int b, int images, int epochs, Looked at) {
    Dataset *data = black_images(LENET_SIDE, images);
    Training t = {.data = data, .k = k, .b = b, .epochs = epochs, .lr = 1, .seed = 7};
    check_training(&t, at);
    dataset_free(data);
}

// One epoch with images of the data set, on k devices and, with minibatches as large, on one.
static void check_as_one(const Flags *flags, int k, int b) {
    Dataset *data = fashion_mnist_open(flags->data, false, FILLED);
    Replicas many, one;
    replicas_open(&many, k, 1);
    replicas_open(&one, 1, 1);
    float *start = replica_values(&one, 0);
    train_epoch(&many, data, 0, b, 0.5f, 7);
    train_epoch(&one, data, 0, k * b, 0.5f, 7);
    float *came = replica_values(&many, k - 1), *expected = replica_values(&one, 0);
    double difference = relative_difference(came, expected, start, replica_numel());
    // Not less: rounding may put a pixel that is nearly zero on the other side of ReLU.
    EXPECT(difference <= 1e-2,
           "k devices with b images each should do what one does with k*b: give train_batch() "
           "minibatches of k*b, lr as it is and all r->k devices",
           "train_epoch(), %d images, k = %d, b = %d: the parameters of device %d differ from "
           "those of your train_epoch() with k = 1, b = %d by %.2g of what training changed, "
           "expected at most 0.01",
           data->count, k, b, k - 1, k * b, difference);
    free(start);
    free(came);
    free(expected);
    replicas_close(&many);
    replicas_close(&one);
    dataset_free(data);
}

static void check_one_device(const Flags *flags) {
    (void)flags;
    check_k(1, 28, FILLED, 1, PARAMETERS);
}
static void check_who_works(const Flags *flags) {
    (void)flags;
    check_k(2, 18, FILLED, 1, SHARES);
    check_k(4, 21, FILLED, 1, SHARES);
    check_k(3, 7, FILLED, 1, SHARES);
}
static void check_k_devices(const Flags *flags) {
    check_k(2, 18, FILLED, 1, NUMBER | PARAMETERS);
    check_k(4, 21, FILLED, 1, NUMBER | PARAMETERS);
    check_k(3, 7, FILLED, 1, NUMBER | PARAMETERS);
    check_as_one(flags, 2, 18);
    check_as_one(flags, 3, 7);
}
static void check_second_epoch(const Flags *flags) {
    (void)flags;
    check_k(1, 28, FILLED, 2, PARAMETERS);
}
static void check_rest(const Flags *flags) {
    (void)flags;
    check_k(1, 32, WITH_A_REST, 2, NUMBER | SHARES | PARAMETERS);
    check_k(2, 32, WITH_A_REST, 2, NUMBER | SHARES | PARAMETERS);
    check_k(4, 32, WITH_A_REST, 2, NUMBER | SHARES | PARAMETERS);
    check_k(3, 7, WITH_A_REST, 2, NUMBER | SHARES | PARAMETERS);
}

const CheckPart check_parts[] = {
    {"one device: an epoch ends with the right parameters", 2, check_one_device},
    {"k devices: each gets its share of the images", 2, check_who_works},
    {"k devices: as many updates as one device with k*b, and the same", 3, check_k_devices},
    {"each epoch has an order of its own", 1, check_second_epoch},
    {"the last, shorter minibatch counts too, on 1 to 4 devices", 2, check_rest},
    {0}};
