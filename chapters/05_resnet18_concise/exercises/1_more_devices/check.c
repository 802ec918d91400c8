// check.c: with synchronised batch norm k devices must make the updates of one; with local
// statistics they make others. The bytes that cross are counted.
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { CHECKED_EPOCHS = 2, CHECKED_BATCH = 16, CHECKED_IMAGES = 90, SEED = 7 };
static const float checked_lr = 0.5f;

static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

// What all parts need: images, of which the last minibatch has 10, and a network.
typedef struct Lab {
    Dataset *data;
    Module *net;
} Lab;

static Lab lab_open(const Flags *flags) {
    return (Lab){.data = small_images(flags->data, false, CHECKED_IMAGES), .net = small_network()};
}

static void lab_close(Lab *lab) {
    leave_devices(lab->net, 0);
    module_free(lab->net);
    dataset_free(lab->data);
}

// The number of devices after k: 1, 2, 3, 4, 8, 16.
static int after(int k) { return k < 4 ? k + 1 : 2 * k; }

// Trains k devices with your part. Returns what it returned of the last epoch.
static double train_yours(const Lab *lab, DataParallel *dp) {
    double loss = NAN;
    DataIter *iter = data_iter_new(lab->data, CHECKED_BATCH, true, SEED);
    synchronize_all();
    ledger_reset();
    for (int epoch = 0; epoch < CHECKED_EPOCHS; epoch++)
        loss = train_epoch(dp, iter, epoch, checked_lr);
    synchronize_all();
    data_iter_free(iter);
    return loss;
}

// ## The images

static void check_images_of(const Lab *lab, int k, BatchNormMode bn) {
    DataParallel dp = network_on(lab->net, k, bn, SEED);
    train_yours(lab, &dp);
    size_t image = sizeof(float) * (size_t)(lab->data->rows * lab->data->cols + 1); // and its label
    double images = (double)ledger_bytes_host() / (double)image;
    double expected = CHECKED_IMAGES * CHECKED_EPOCHS;
    EXPECT(
        images >= expected && images <= 1.5 * expected, // losses cross, too
        "one train_step() for each minibatch that data_iter_next() gives, until there is none",
        "train_epoch(), k = %d, %d epochs of %d images: the devices got %.0f images, expected %.0f",
        k, CHECKED_EPOCHS, CHECKED_IMAGES, images, expected);
}

static void check_images(const Flags *flags) {
    Lab lab = lab_open(flags);
    for (int k = 1; k <= 16; k = after(k)) check_images_of(&lab, k, BN_SYNC);
    check_images_of(&lab, 2, BN_LOCAL);
    check_images_of(&lab, 16, BN_LOCAL); // a single image for each device, or none
    lab_close(&lab);
}

// ## The loss

// What a mean loss could be taken for, of a network that is not trained: lr is 0.
typedef struct Losses {
    double mean, sum, mean_of_means;
} Losses;

static Losses losses_of(const Lab *lab, DataIter *iter) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Losses all = {0};
    DataParallel one = network_on(lab->net, 1, BN_SYNC, SEED);
    data_iter_start(iter, 0);
    while (data_iter_next(iter, &X, &y)) {
        train_step(&one, X, y, 0, losses);
        double loss = (double)item(losses[0]);
        all.sum += loss;
        all.mean_of_means += loss / X->shape[0] / data_iter_batches(iter);
    }
    all.mean = all.sum / lab->data->count;
    return all;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-4 * fabs(b); }

static const char *hint_for_loss(double came, const Losses *one, int k) {
    if (near(came, one->mean_of_means))
        return "the mean of the minibatches' means: the last one is shorter, so add up all losses, "
               "and divide once, by the number of images";
    if (near(came, one->sum)) return "the sum of all losses: divide it by the number of images";
    if (k > 1 && came < 0.9 * one->mean)
        return "add up item(losses[i]) of all k shards, not of the first alone, and divide by the "
               "number of all images";
    return "add up item(losses[i]) of all k shards of all minibatches, from 0 in each epoch, then "
           "divide once, by the number of images";
}

// Twice the same epoch: without learning its loss is the same.
static void check_loss_of(const Lab *lab, int k, BatchNormMode bn) {
    DataIter *iter = data_iter_new(lab->data, CHECKED_BATCH, true, SEED);
    Losses one = losses_of(lab, iter);
    DataParallel dp = network_on(lab->net, k, bn, SEED);
    for (int call = 1; call <= 2; call++) {
        double loss = train_epoch(&dp, iter, 0, 0);
        EXPECT(bn == BN_SYNC ? near(loss, one.mean) : isfinite(loss) && loss > 0,
               hint_for_loss(loss, &one, k),
               "train_epoch(), k = %d, %s, lr 0, %d images in minibatches of %d, call %d: a mean "
               "loss of %.6f, expected %s%.6f",
               k, name_of(bn), CHECKED_IMAGES, CHECKED_BATCH, call, loss,
               bn == BN_SYNC ? "" : "about ", one.mean);
    }
    data_iter_free(iter);
}

static void check_loss(const Flags *flags) {
    Lab lab = lab_open(flags);
    for (int k = 1; k <= 16; k = after(k)) check_loss_of(&lab, k, BN_SYNC);
    check_loss_of(&lab, 16, BN_LOCAL);
    lab_close(&lab);
}

// ## The parameters

// What one device makes of the same data. Or makes of it by a mistake that is often made.
typedef struct Mistake {
    bool epoch_0, by_batch, by_k, times_k; // one order; lr divided by minibatch or k, or multiplied
    const char *hint;
} Mistake;

static const Mistake mistakes[] = {
    {.by_batch = true,
     .hint = "lr divided by the size of the minibatch ends with these parameters: train_step() "
             "needs lr as it is, since it divides by that itself"},
    {.by_k = true, .hint = "lr / k ends with these parameters: train_step() needs lr as it is"},
    {.times_k = true, .hint = "k * lr ends with these parameters: train_step() needs lr as it is"},
    {.epoch_0 = true,
     .hint = "one order for all epochs ends with these parameters: data_iter_start() needs the "
             "number of the epoch"}};

// The parameters that one device ends with; free() them.
static float *train_with(const Mistake *m, const Lab *lab, int k) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataParallel one = network_on(lab->net, 1, BN_SYNC, SEED);
    DataIter *iter = data_iter_new(lab->data, CHECKED_BATCH, true, SEED);
    for (int epoch = 0; epoch < CHECKED_EPOCHS; epoch++) {
        data_iter_start(iter, m->epoch_0 ? 0 : epoch);
        while (data_iter_next(iter, &X, &y)) {
            float lr = checked_lr * (m->times_k ? (float)k : 1) / (m->by_k ? (float)k : 1);
            train_step(&one, X, y, m->by_batch ? lr / (float)X->shape[0] : lr, losses);
        }
    }
    data_iter_free(iter);
    return network_values(lab->net, one.devices[0]);
}

static const char *hint_for_parameters(const Lab *lab, const float *came, const float *start,
                                       int k) {
    for (size_t m = 0; m < sizeof mistakes / sizeof *mistakes; m++) {
        float *end = train_with(&mistakes[m], lab, k);
        bool same = relative_difference(came, end, start, network_numel(lab->net)) <= 1e-2;
        free(end);
        if (same) return mistakes[m].hint;
    }
    return "suspects: the number of the epoch for data_iter_start(), lr as it is for train_step(), "
           "one train_step() for each minibatch; no single one explains it";
}

static void check_parameters_of(const Lab *lab, int k, BatchNormMode bn) {
    network_on(lab->net, 1, BN_SYNC, SEED);
    float *start = network_values(lab->net, try_gpu(0));
    float *expected = train_with(&(Mistake){0}, lab, k);
    DataParallel dp = network_on(lab->net, k, bn, SEED);
    train_yours(lab, &dp);
    float *came = network_values(lab->net, dp.devices[k - 1]);
    double difference = relative_difference(came, expected, start, network_numel(lab->net));
    // Not less: rounding may put a value that is nearly zero on the other side of ReLU. Local
    // statistics lead 0.1 and more away.
    if (bn == BN_SYNC)
        EXPECT(difference <= 1e-2, hint_for_parameters(lab, came, start, k),
               "train_epoch(), k = %d, %s: the parameters differ from those of one device by %.2g "
               "of what training changed, expected at most 0.01",
               k, name_of(bn), difference);
    else
        EXPECT(difference >= 1e-2, "leave dp->bn, by which train_step() normalises, as it is",
               "train_epoch(), k = %d, %s: the parameters differ from those of one device by %.2g "
               "of what training changed, expected at least 0.01",
               k, name_of(bn), difference);
    free(start);
    free(expected);
    free(came);
}

static void check_parameters(const Flags *flags) {
    Lab lab = lab_open(flags);
    for (int k = 1; k <= 16; k = after(k)) check_parameters_of(&lab, k, BN_SYNC);
    check_parameters_of(&lab, 2, BN_LOCAL);
    check_parameters_of(&lab, 16, BN_LOCAL);
    lab_close(&lab);
}

// ## The bytes

// The bytes that cross in one step; your train_epoch() has no part in it.
static uint64_t count_bytes(const Lab *lab, DataParallel *dp) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(lab->data, CHECKED_BATCH, false, 0);
    data_iter_first(iter, &X, &y);
    synchronize_all();
    ledger_reset();
    train_step(dp, X, y, checked_lr, losses);
    synchronize_all();
    data_iter_free(iter);
    return ledger_bytes_between_devices();
}

static const char *hint_for_bytes(uint64_t said, uint64_t gradients, uint64_t batch_norm, int k) {
    if (batch_norm == 0)
        return "2 (k-1) N for the gradients, and nothing else: batch norm sends something only if "
               "it is synchronised, and one device has nobody to send to";
    if (said == gradients)
        return "that is what the gradients take: synchronised batch norm sends something, too";
    if ((said - gradients) * (uint64_t)k == batch_norm)
        return "the gradients are right; of batch norm, that is what one device sends: all k do";
    if ((said - gradients) * sizeof(float) == batch_norm)
        return "the gradients are right; batch norm sends 4 C + 1 floats, and each has 4 bytes";
    return "2 (k-1) N for the gradients, and for each batch norm k (k-1) messages of 4 C + 1 "
           "floats "
           "of 4 bytes";
}

static void check_bytes(const Lab *lab, int k, BatchNormMode bn) {
    DataParallel dp = network_on(lab->net, k, bn, SEED);
    uint64_t counted = count_bytes(lab, &dp), said = bytes_of_step(lab->net, k, bn);
    uint64_t gradients = 2 * (uint64_t)(k - 1) * parameter_bytes(lab->net);
    EXPECT(said == counted, hint_for_bytes(said, gradients, counted - gradients, k),
           "bytes_of_step(), a small network (N = %llu bytes of parameters, one batch norm of C = "
           "%d channels), k = %d, %s: %llu, expected %llu, which were counted",
           (unsigned long long)parameter_bytes(lab->net), SMALL_NETWORK_CHANNELS, k, name_of(bn),
           (unsigned long long)said, (unsigned long long)counted);
}

static void check_bytes_local(const Flags *flags) {
    Lab lab = lab_open(flags);
    for (int k = 1; k <= 16; k = after(k)) check_bytes(&lab, k, BN_LOCAL);
    lab_close(&lab);
}

static void check_bytes_sync(const Flags *flags) {
    Lab lab = lab_open(flags);
    for (int k = 1; k <= 16; k = after(k)) check_bytes(&lab, k, BN_SYNC);
    lab_close(&lab);
}

const CheckPart check_parts[] = {
    {"train_epoch(): all images, once in an epoch, on 1 to 16 devices", 2, check_images},
    {"train_epoch(): the mean loss is that of all images", 2, check_loss},
    {"train_epoch(): with synchronised batch norm k devices end as one does", 2, check_parameters},
    {"bytes_of_step(): gradients", 2, check_bytes_local},
    {"bytes_of_step(): gradients and synchronised batch norm", 2, check_bytes_sync},
    {0}};
