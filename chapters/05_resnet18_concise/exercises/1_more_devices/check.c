// check.c: what a linear layer learns from black images is worked out by hand; with synchronised
// batch norm k devices must make the updates of one, with local statistics they make others. The
// bytes that cross are counted.
#include "common/program/black_images.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { CHECKED_EPOCHS = 2, CHECKED_BATCH = 16, CHECKED_IMAGES = 90, SEED = 7, SIDE = 14 };
enum { CLASSES = FASHION_MNIST_CLASSES };
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

// Black images, and a network of one layer, which can learn nothing from them but its biases.
static Lab black_lab_open(void) {
    return (Lab){.data = black_images(SIDE, CHECKED_IMAGES),
                 .net = Sequential(Flatten(), Linear(SIDE * SIDE, CLASSES))};
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
//
// With lr 0 nothing is learned: each label has the same loss in each minibatch.

// What a mean loss could be taken for.
typedef struct Losses {
    double mean, sum, mean_of_means;
} Losses;

static Losses losses_by_hand(const Dataset *data, const float biases[CLASSES]) {
    double exact[CLASSES];
    int batches = (data->count + CHECKED_BATCH - 1) / CHECKED_BATCH;
    int in_last = data->count - (batches - 1) * CHECKED_BATCH;
    Losses all = {0};
    for (int c = 0; c < CLASSES; c++) exact[c] = (double)biases[c];
    for (int i = 0; i < data->count; i++) {
        double loss = loss_of_label(exact, data->labels[i]);
        bool is_in_last = i / CHECKED_BATCH == batches - 1;
        all.sum += loss;
        all.mean_of_means += loss / (is_in_last ? in_last : CHECKED_BATCH) / batches;
    }
    all.mean = all.sum / data->count;
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

// Twice the same epoch, in the order of the file.
static void check_loss_by_hand(const Lab *lab, int k) {
    const float biases[CLASSES] = {0, -1, 2, 0.5f, 1, -0.5f, -2, 0.25f, 1.5f, -3};
    Losses one = losses_by_hand(lab->data, biases);
    DataParallel dp = network_on(lab->net, k, BN_SYNC, SEED);
    DataIter *iter = data_iter_new(lab->data, CHECKED_BATCH, false, 0);
    for (int i = 0; i < k; i++)
        tensor_write(parameter_data(find_parameter(lab->net, "1.bias"), dp.devices[i]), biases);
    for (int call = 1; call <= 2; call++) {
        double loss = train_epoch(&dp, iter, 0, 0);
        EXPECT(near(loss, one.mean), hint_for_loss(loss, &one, k),
               "train_epoch(), k = %d, lr 0, %d black images in minibatches of %d, call %d: a mean "
               "loss of %.6f, expected %.6f",
               k, CHECKED_IMAGES, CHECKED_BATCH, call, loss, one.mean);
    }
    data_iter_free(iter);
}

// A mean loss, of a network with batch norm that is not trained.
static double loss_of(const Lab *lab, int k, BatchNormMode bn) {
    DataParallel dp = network_on(lab->net, k, bn, SEED);
    DataIter *iter = data_iter_new(lab->data, CHECKED_BATCH, true, SEED);
    double loss = train_epoch(&dp, iter, 0, 0);
    data_iter_free(iter);
    return loss;
}

static void check_loss_with_batch_norm(const Lab *lab) {
    double one = loss_of(lab, 1, BN_SYNC), four = loss_of(lab, 4, BN_SYNC);
    double sixteen = loss_of(lab, 16, BN_LOCAL); // a single image for each device, or none
    EXPECT(near(four, one), "add up item(losses[i]) of all k shards of all minibatches",
           "train_epoch(), k = 4, sync, lr 0, %d images in minibatches of %d: a mean loss of %.6f, "
           "expected %.6f, that of k = 1",
           CHECKED_IMAGES, CHECKED_BATCH, four, one);
    EXPECT(isfinite(sixteen) && sixteen > 0,
           "shards may be without images: divide once, by the number of all images",
           "train_epoch(), k = 16, local, lr 0, %d images in minibatches of %d: a mean loss of "
           "%.6f, expected about %.6f",
           CHECKED_IMAGES, CHECKED_BATCH, sixteen, one);
}

static void check_loss(const Flags *flags) {
    Lab black = black_lab_open(), lab = lab_open(flags);
    for (int k = 1; k <= 16; k = after(k)) check_loss_by_hand(&black, k);
    check_loss_with_batch_norm(&lab);
    lab_close(&black);
    lab_close(&lab);
}

// ## The parameters

// What comes of the biases by hand. Or comes of them by a mistake that is often made.
typedef struct Mistake {
    bool epoch_0, epochs_from_1;  // the orders of the images
    bool by_batch, by_k, times_k; // lr divided by minibatch or k, or multiplied
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
             "number of the epoch"},
    {.epochs_from_1 = true,
     .hint = "epochs that count from 1 end with these parameters: data_iter_start() needs the "
             "number as it is"}};

static void biases_by_hand(const Mistake *m, const Dataset *data, int k, float came[CLASSES]) {
    uint8_t labels[CHECKED_IMAGES];
    double biases[CLASSES] = {0}, lr = (double)checked_lr;
    if (m->times_k) lr *= k;
    if (m->by_k) lr /= k;
    for (int epoch = 0; epoch < CHECKED_EPOCHS; epoch++) {
        shuffled_labels(data, SEED, m->epoch_0 ? 0 : epoch + m->epochs_from_1, labels);
        for (int at = 0; at < CHECKED_IMAGES; at += CHECKED_BATCH) {
            int left = CHECKED_IMAGES - at, n = left < CHECKED_BATCH ? left : CHECKED_BATCH;
            learn_labels(biases, labels + at, n, m->by_batch ? lr / n : lr);
        }
    }
    for (int c = 0; c < CLASSES; c++) came[c] = (float)biases[c];
}

static double biases_apart(const Mistake *m, const Dataset *data, int k,
                           const float came[CLASSES]) {
    float end[CLASSES];
    biases_by_hand(m, data, k, end);
    return relative_difference(came, end, NULL, CLASSES);
}

static const char *hint_for_biases(const Dataset *data, int k, const float came[CLASSES]) {
    for (size_t m = 0; m < sizeof mistakes / sizeof *mistakes; m++)
        if (biases_apart(&mistakes[m], data, k, came) <= 1e-4) return mistakes[m].hint;
    return "suspects: the number of the epoch for data_iter_start(), lr as it is for train_step(), "
           "one train_step() for each minibatch; no single one explains it";
}

static void check_biases(const Lab *lab, int k) {
    float came[CLASSES];
    DataParallel dp = network_on(lab->net, k, BN_SYNC, SEED);
    train_yours(lab, &dp);
    tensor_read(parameter_data(find_parameter(lab->net, "1.bias"), dp.devices[k - 1]), came);
    double apart = biases_apart(&(Mistake){0}, lab->data, k, came);
    EXPECT(apart <= 1e-4, hint_for_biases(lab->data, k, came),
           "train_epoch(), k = %d, %d epochs of %d black images in minibatches of %d: the biases "
           "differ from those that such images lead to by %.2g of what training changes, expected "
           "at most 0.0001",
           k, CHECKED_EPOCHS, CHECKED_IMAGES, CHECKED_BATCH, apart);
}

// Of device k - 1, after your training; free() them.
static float *values_after(const Lab *lab, int k, BatchNormMode bn) {
    DataParallel dp = network_on(lab->net, k, bn, SEED);
    train_yours(lab, &dp);
    return network_values(lab->net, dp.devices[k - 1]);
}

// Your k devices against your one device.
static void check_parameters_of(const Lab *lab, int k, BatchNormMode bn) {
    network_on(lab->net, 1, BN_SYNC, SEED);
    float *start = network_values(lab->net, try_gpu(0));
    float *one = values_after(lab, 1, BN_SYNC), *came = values_after(lab, k, bn);
    double difference = relative_difference(came, one, start, network_numel(lab->net));
    // Not less: rounding may put a value that is nearly zero on the other side of ReLU. Local
    // statistics lead 0.1 and more away.
    if (bn == BN_SYNC)
        EXPECT(difference <= 1e-2,
               "what is done with a minibatch must not depend on k: train_step() sees to all k "
               "devices",
               "train_epoch(), k = %d, %s: the parameters differ from those of k = 1 by %.2g of "
               "what training changed, expected at most 0.01",
               k, name_of(bn), difference);
    else
        EXPECT(difference >= 1e-2, "leave dp->bn, by which train_step() normalises, as it is",
               "train_epoch(), k = %d, %s: the parameters differ from those of k = 1 by %.2g of "
               "what training changed, expected at least 0.01",
               k, name_of(bn), difference);
    free(start);
    free(one);
    free(came);
}

static void check_parameters(const Flags *flags) {
    Lab black = black_lab_open(), lab = lab_open(flags);
    for (int k = 1; k <= 16; k = after(k)) check_biases(&black, k);
    for (int k = 2; k <= 16; k = after(k)) check_parameters_of(&lab, k, BN_SYNC);
    check_parameters_of(&lab, 2, BN_LOCAL);
    check_parameters_of(&lab, 16, BN_LOCAL);
    lab_close(&black);
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
           "floats of 4 bytes";
}

static void check_bytes(const Lab *lab, int k, BatchNormMode bn) {
    DataParallel local = network_on(lab->net, k, BN_LOCAL, SEED);
    uint64_t gradients = count_bytes(lab, &local);
    DataParallel dp = network_on(lab->net, k, bn, SEED);
    uint64_t counted = count_bytes(lab, &dp), said = bytes_of_step(lab->net, k, bn);
    EXPECT(said == counted, hint_for_bytes(said, gradients, counted - gradients, k),
           "bytes_of_step(), a small network (N = %llu bytes of parameters, one batch norm of C = "
           "%d channels), k = %d, %s: %llu, expected %llu, which were counted",
           (unsigned long long)parameter_bytes(lab->net), SMALL_NETWORK_CHANNELS, k, name_of(bn),
           (unsigned long long)said, (unsigned long long)counted);
}

// Two batch norms, each of which sends messages of its own.
static void check_two_batch_norms(const Flags *flags, int k) {
    Lab lab = lab_open(flags);
    module_free(lab.net);
    lab.net = Sequential(Conv2d(1, 3, .kernel_size = 3), BatchNorm2d(3), ReLU(),
                         Conv2d(3, 5, .kernel_size = 3), BatchNorm2d(5), Flatten(),
                         Linear(5 * 10 * 10, CLASSES));
    DataParallel dp = network_on(lab.net, k, BN_SYNC, SEED);
    uint64_t counted = count_bytes(&lab, &dp), said = bytes_of_step(lab.net, k, BN_SYNC);
    EXPECT(said == counted, "each batch norm sends 4 C + 1 floats, C being its own channels",
           "bytes_of_step(), a network with batch norms of 3 and of 5 channels, k = %d, sync: "
           "%llu, expected %llu, which were counted",
           k, (unsigned long long)said, (unsigned long long)counted);
    lab_close(&lab);
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
    check_two_batch_norms(flags, 2);
}

const CheckPart check_parts[] = {
    {"train_epoch(): all images, once in an epoch, on 1 to 16 devices", 2, check_images},
    {"train_epoch(): the mean loss is that of all images", 2, check_loss},
    {"train_epoch(): with synchronised batch norm k devices end as one does", 2, check_parameters},
    {"bytes_of_step(): gradients", 2, check_bytes_local},
    {"bytes_of_step(): gradients and synchronised batch norm", 2, check_bytes_sync},
    {0}};
