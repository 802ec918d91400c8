// check.c: counts are whole numbers, so the accuracy must be that of one device exactly. And the
// work must be shared: each device gets about 1/k of the images.
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>

// Whether the network's operations are recorded, so that it can be trained.
static bool records_gradients(const Replicas *r) {
    Device *device = r->devices[0];
    begin_step(device);
    Tensor *X = arena_tensor(device, 4, (const int[]){1, 1, 28, 28}, false);
    tensor_fill(X, 0);
    return lenet(X, r->params[0])->requires_grad;
}

static void check_shares(const Replicas *r, const Dataset *data, int batches) {
    double share = (double)data->count / r->k;
    for (int i = 0; i < r->k; i++) {
        double images = images_received(r, i, data);
        EXPECT(fabs(images - share) <= batches,
               "split_batch() gives each device its shard of a minibatch: call it once for each "
               "minibatch, with all k devices",
               "evaluate_accuracy_on_all(), %d images, k = %d: device %d got %.0f images, "
               "expected %.0f",
               data->count, r->k, i, images, share);
    }
}

static const char *hint_for_count(double came, double expected, int k) {
    if (fabs(came - round(came)) > 1e-3)
        return "that is no whole number: add up counts, not accuracies, and divide once, by the "
               "number of all images (the last minibatch is shorter)";
    if (came == 0) return "are the counts of the devices read, with item(), and added up?";
    if (k > 1 && fabs(came - k * expected) < 1e-3)
        return "each image was counted k times: each device gets its shard of a minibatch alone";
    if (came < expected) return "are the counts of all devices added, and of all minibatches?";
    return "does each device's count begin at 0, and is it added once?";
}

// Begins a step, so that the activations that were there are gone: called last.
static size_t bytes_of_minibatch(const Replicas *r, DataIter *iter) {
    Tensor *X, *y;
    Device *device = r->devices[0];
    data_iter_first(iter, &X, &y);
    begin_step(device);
    Tensor *X_here = arena_tensor(device, X->ndim, X->shape, false);
    tensor_copy(X_here, X);
    lenet(X_here, r->params[0]);
    synchronize_all();
    return arena_used_bytes(device);
}

// A device that begins a step with each minibatch holds the activations of one, at most.
static void check_memory(const Replicas *r, DataIter *iter) {
    size_t bytes[MAX_DEVICES];
    for (int i = 0; i < r->k; i++) bytes[i] = arena_used_bytes(r->devices[i]);
    size_t most = bytes_of_minibatch(r, iter);
    for (int i = 0; i < r->k; i++)
        EXPECT(bytes[i] <= most,
               "begin_step() for each device, with each minibatch: else what one leaves in the "
               "device's memory is still there with the next",
               "evaluate_accuracy_on_all(), k = %d: device %d holds %zu bytes of activations at "
               "the end, expected at most those of one minibatch, %zu",
               r->k, i, bytes[i], most);
}

static void check_accuracy(const Replicas *one, Replicas *many, const Dataset *data, DataIter *iter,
                           int batch_size) {
    double expected = evaluate_accuracy_gpu(lenet, one->params[0], iter, one->devices[0]);
    ledger_reset();
    double came = evaluate_accuracy_on_all(lenet, many->params, iter, many->devices, many->k);
    double count = round(expected * data->count);
    int k = many->k;
    EXPECT(fabs(came * data->count - count) < 1e-3, hint_for_count(came * data->count, count, k),
           "evaluate_accuracy_on_all(), %d images in minibatches of %d, k = %d: %.6f, that is %.6g "
           "right images, expected %.6f, that is %.0f",
           data->count, batch_size, k, came, came * data->count, expected, count);
    check_shares(many, data, data_iter_batches(iter));
    check_memory(many, iter);
    EXPECT(records_gradients(many), "set_grad_enabled(true) at the end: training goes on",
           "after evaluate_accuracy_on_all(), k = %d: no gradients are recorded any more", many->k);
}

static void check_k(const Dataset *data, int batch_size, int k) {
    Replicas one, many;
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, batch_size, false, 0);
    replicas_open(&one, 1, 1);
    replicas_open(&many, k, 1);
    replicas_scale(&one, 10);
    replicas_scale(&many, 10);
    check_accuracy(&one, &many, data, iter, batch_size);
    data_iter_first(iter, &X, &y); // and training goes on as before
    train_batch(X, y, many.params, many.devices, k, 0.1f, losses);
    synchronize_all();
    data_iter_free(iter);
    replicas_close(&one);
    replicas_close(&many);
}

static void check(const Flags *flags) {
    Dataset *data = fashion_mnist_open(flags->data, false, 501);
    for (int k = 1; k <= 4; k++) check_k(data, 100, k); // the last minibatch has one image
    check_k(data, 64, 7);
    dataset_free(data);
    data = fashion_mnist_open(flags->data, false, 5);
    check_k(data, 2, 3); // more devices than images
    dataset_free(data);
}

const CheckPart check_parts[] = {
    {"the accuracy of one device, to the last image, for 1, 2, 3, 4 and 7 devices", 10, check},
    {0}};
