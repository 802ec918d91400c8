// check.c: with synchronised batch norm k devices must make the updates of one; with local
// statistics they make others. The bytes that cross are counted.
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { CHECKED_EPOCHS = 2, CHECKED_BATCH = 16 };

static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

static void check_images(const DataParallel *dp, const Dataset *data) {
    size_t image = sizeof(float) * (size_t)(data->rows * data->cols + 1); // and its label
    double images = (double)ledger_bytes_host() / (double)image;
    double expected = data->count * CHECKED_EPOCHS;
    EXPECT(
        images >= expected && images <= 1.5 * expected, // losses cross, too
        "one train_step() for each minibatch that data_iter_next() gives, until there is none",
        "train_epoch(), k = %d, %d epochs of %d images: the devices got %.0f images, expected %.0f",
        dp->k, CHECKED_EPOCHS, data->count, images, expected);
}

static void check_bytes(const Module *net, const DataParallel *dp, const Dataset *data) {
    uint64_t steps = (uint64_t)(data->count + CHECKED_BATCH - 1) / CHECKED_BATCH * CHECKED_EPOCHS;
    uint64_t counted = ledger_bytes_between_devices() / steps;
    uint64_t said = bytes_of_step(net, dp->k, dp->bn);
    EXPECT(said == counted,
           dp->bn == BN_SYNC && dp->k > 1
               ? "2 (k-1) N for the gradients, and for each batch norm k (k-1) messages of 4 C + 1 "
                 "floats of 4 bytes"
               : "2 (k-1) N for the gradients, and nothing else: batch norm sends something only "
                 "if it is synchronised, and one device has nobody to send to",
           "bytes_of_step(), a small network (N = %llu bytes of parameters, one batch norm of C = "
           "%d channels), k = %d, %s: %llu, expected %llu, which were counted",
           (unsigned long long)parameter_bytes(net), SMALL_NETWORK_CHANNELS, dp->k, name_of(dp->bn),
           (unsigned long long)said, (unsigned long long)counted);
}

// What one device makes of the same data.
typedef struct Expected {
    float *start, *end;
    double loss;
} Expected;

static void check_loss(const DataParallel *dp, double loss, double expected) {
    const char *hint =
        "add up item(losses[i]) of all k shards of all minibatches, then divide once, "
        "by the number of images";
    if (dp->bn == BN_SYNC || dp->k == 1)
        EXPECT(fabs(loss - expected) <= 1e-2 * expected, hint,
               "train_epoch(), k = %d: a mean loss of %.6f, expected %.6f", dp->k, loss, expected);
    EXPECT(isfinite(loss), hint, "train_epoch(), k = %d: a mean loss of %g", dp->k, loss);
}

static void check_parameters(const Module *net, const DataParallel *dp, Expected one) {
    float *came = network_values(net, dp->devices[dp->k - 1]);
    double difference = relative_difference(came, one.end, one.start, network_numel(net));
    // Not less: rounding may put a value that is nearly zero on the other side of ReLU. Local
    // statistics lead 0.1 and more away.
    if (dp->bn == BN_SYNC || dp->k == 1)
        EXPECT(difference <= 1e-2,
               "suspects: the number of the epoch for data_iter_start(), lr as it is for "
               "train_step() (it divides by the size of the whole minibatch itself), one "
               "train_step() for each minibatch",
               "train_epoch(), k = %d, %s: the parameters differ from those of one device by %.2g "
               "of what training changed, expected at most 0.01",
               dp->k, name_of(dp->bn), difference);
    else
        EXPECT(difference >= 1e-2, "leave dp->bn, by which train_step() normalises, as it is",
               "train_epoch(), k = %d, %s: the parameters differ from those of one device by %.2g "
               "of what training changed, expected at least 0.01",
               dp->k, name_of(dp->bn), difference);
    free(came);
}

static void check_run(Module *net, int k, BatchNormMode bn, const Dataset *data, Expected one) {
    double loss = NAN;
    DataParallel dp = network_on(net, k, bn, 7);
    DataIter *iter = data_iter_new(data, CHECKED_BATCH, true, 7);
    synchronize_all();
    ledger_reset();
    for (int epoch = 0; epoch < CHECKED_EPOCHS; epoch++) loss = train_epoch(&dp, iter, epoch, 0.5f);
    synchronize_all();
    check_images(&dp, data);
    check_bytes(net, &dp, data);
    check_parameters(net, &dp, one);
    check_loss(&dp, loss, one.loss);
    data_iter_free(iter);
}

static void check(const Flags *flags) {
    Dataset *data = small_images(flags->data, false, 90); // the last minibatch has 10
    Module *net = small_network();
    Expected one;
    network_on(net, 1, BN_SYNC, 7);
    one.start = network_values(net, try_gpu(0));
    one.loss = train_one_network(net, data, CHECKED_BATCH, 0.5f, CHECKED_EPOCHS, 7);
    one.end = network_values(net, try_gpu(0));
    for (int k = 1; k <= 16; k = k < 4 ? k + 1 : 2 * k) check_run(net, k, BN_SYNC, data, one);
    check_run(net, 2, BN_LOCAL, data, one);
    check_run(net, 16, BN_LOCAL, data, one); // a single image for each device, or none
    free(one.start);
    free(one.end);
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
}

const CheckPart check_parts[] = {{"with synchronised batch norm k devices make the updates of one; "
                                  "the bytes are those of the formula",
                                  10, check},
                                 {0}};
