// cases.c: accuracies of a small network that notes what it is called with. Its scores are whole
// numbers, so no rounding decides what is right.
#include "common/program/facts.h"
#include "chapters/04_lenet_multi_gpu/exercises/drawn.h"
#include "your_part.h"

#include <math.h>
#include <string.h>

enum { EQUAL = 1, SHARES, MEMORY, ONCE, AFTERWARDS, UNEQUAL };
const Part parts[] = {{"equal shards: the accuracy is right, to the last image", 2},
                      {"each device gets its share of the images", 2},
                      {"a device holds its shard of one minibatch, not of all", 2},
                      {"each device tells its count once, at the end", 1},
                      {"nothing is recorded for backward(), and training can go on afterwards", 1},
                      {"unequal shards, and some without images: the accuracy is still right", 2},
                      {0}};

enum { SIDE = 4, PIXELS = SIDE * SIDE, CLASSES = FASHION_MNIST_CLASSES };

// ## The network, and what it sees

static struct {
    Device *devices[MAX_DEVICES];
    int k;
    double most[MAX_DEVICES];  // bytes that the device's arena held
    int minibatches, recorded; // of device 0, with images; of these, how many for backward()
} seen;

static Tensor *network(Tensor *X, Tensor *const params[]) {
    int n = X->shape[0], i = 0;
    while (i < seen.k - 1 && seen.devices[i] != X->device) i++;
    seen.most[i] = fmax(seen.most[i], (double)arena_used_bytes(X->device));
    Tensor *scores = mm(reshape(X, n, PIXELS), params[0]);
    if (i == 0 && n > 0) seen.minibatches++, seen.recorded += scores->requires_grad;
    return scores;
}

// The score of a class is the pixel of the same number. Parameters but the first are not used.
static Tensor *weights(Device *device) {
    float values[PIXELS * CLASSES] = {0};
    Tensor *W = tensor_new(device, PIXELS, CLASSES);
    for (int c = 0; c < CLASSES; c++) values[c * CLASSES + c] = 1;
    tensor_write(W, values);
    W->requires_grad = true;
    return W;
}

// One bright pixel, which is the label's for two images of three.
static Dataset *images(int count) {
    Dataset *data = black_images(SIDE, count);
    for (int i = 0; i < count; i++) {
        int bright = (int)draw(0, CLASSES - 1);
        data->images[i * PIXELS + bright] = 255;
        data->labels[i] = (uint8_t)(draw(0, 2) ? bright : draw(0, CLASSES - 1));
    }
    return data;
}

// ## A case

static void record_devices(void) {
    double read = 0;
    size_t image = sizeof(float) * (PIXELS + 1); // and its label
    for (int i = 0; i < seen.k; i++) {
        Device *d = seen.devices[i];
        record_real(SHARES, (double)ledger_bytes(host(), d) / (double)image, 1e-9,
                    "images that device %d got", i);
        record_real(SHARES, ledger_cargo(host(), d), 1e-9,
                    "sum of their bright pixels and labels on device %d", i);
        record_at_most(PART_IF(MEMORY, SHARES), seen.most[i],
                       "most bytes in the arena of device %d", i);
        record_at_most(ONCE, (double)ledger_bytes(d, host()),
                       "bytes that the host read of device %d", i);
        read += ledger_cargo(d, host());
    }
    record_int(MEMORY, seen.minibatches, "minibatches of which device 0 had images");
    record_text(ONCE, ledger_bytes(seen.devices[0], host()) ? "yes" : "no",
                "the host read of device 0");
    record_real(PART_IF(ONCE, EQUAL), read, 0, "sum of all that the host read");
    record_int(AFTERWARDS, seen.minibatches - seen.recorded,
               "minibatches of device 0 that were not recorded for backward()");
}

static void evaluate(int k, int count, int batch_size, int accuracy) {
    Tensor *params[MAX_DEVICES][LENET_PARAMS] = {{0}};
    begin_case("evaluate_accuracy_on_all(), %d images in minibatches of %d, k = %d", count,
               batch_size, k);
    Dataset *data = images(count);
    DataIter *iter = data_iter_new(data, batch_size, false, 0);
    memset(&seen, 0, sizeof seen);
    seen.k = k;
    open_devices(seen.devices, k);
    for (int i = 0; i < k; i++) {
        begin_step(seen.devices[i]);
        params[i][0] = weights(seen.devices[i]);
    }
    synchronize_all();
    ledger_reset();
    ledger_watch_cargo();
    double came = evaluate_accuracy_on_all(network, params, iter, seen.devices, k);
    synchronize_all();
    record_real(accuracy, count * came, 1e-6,
                "images that are right, which is the accuracy times %d", count);
    record_devices();
    begin_step(seen.devices[0]);
    Tensor *X = arena_tensor(seen.devices[0], 2, (const int[]){1, PIXELS}, false);
    record_text(AFTERWARDS, mm(X, params[0][0])->requires_grad ? "recorded" : "not recorded",
                "afterwards, operations are");
    set_grad_enabled(true);
    for (int i = 0; i < k; i++) tensor_free(params[i][0]);
    data_iter_free(iter);
    dataset_free(data);
}

static void equal_shards(void) {
    static const int ks[] = {1, 2, 4, 5};
    for (int c = 0; c < 4; c++) {
        int batch_size = 20 * (int)draw(1, 3);
        evaluate(ks[c], batch_size * (int)draw(2, 5), batch_size, EQUAL);
    }
}

// The first have more devices than images. Of the others one image is left for the last minibatch,
// and then some.
static void unequal_shards(void) {
    evaluate(3, 5, 2, UNEQUAL);
    for (int k = 1; k <= 4; k++) evaluate(k, 60 * (int)draw(2, 5) + 1, 60, UNEQUAL);
    int full = 64 * (int)draw(2, 4);
    evaluate(7, full + (int)draw(2, 50), 64, UNEQUAL);
}

const Group groups[] = {
    {"equal shards", equal_shards, 0}, {"unequal shards", unequal_shards, 0}, {0}};
