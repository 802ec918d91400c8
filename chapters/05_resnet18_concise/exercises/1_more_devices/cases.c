// cases.c: two epochs on drawn images, of which the last minibatch has fewer: what went to the
// devices, the loss without learning, the biases with it. Then the bytes of drawn networks.
#include "common/device/ledger.h"
#include "common/program/facts.h"
#include "your_part.h"

enum { IMAGES = 1, LOSS, PARAMETERS, BYTES_LOCAL, BYTES_SYNC };
const Part parts[] = {{"train_epoch(): all images, once in an epoch, on 1 to 16 devices", 2},
                      {"train_epoch(): the mean loss is that of all images", 2},
                      {"train_epoch(): with synchronised batch norm k devices end as one does", 2},
                      {"bytes_of_step(): gradients", 2},
                      {"bytes_of_step(): gradients and synchronised batch norm", 2},
                      {0}};

static const int ks[] = {1, 2, 3, 5, 16};
enum { NUM_KS = 5, EPOCHS = 2 };
static const char *const modes[] = {"local", "rank0", "averaged", "sync"};

// ---- train_epoch() -----------------------------------------------------------------------------

// (Which images a device gets depends on the order in the epoch; what all get does not.)
static void record_images(const DataParallel *dp, int epoch) {
    double cargo = 0;
    for (int i = 0; i < dp->k; i++) {
        cargo += ledger_cargo(host(), dp->devices[i]);
        record_int(IMAGES, (long)ledger_bytes(host(), dp->devices[i]),
                   "bytes that device %d got from the host in epoch %d", i, epoch);
    }
    record_real(IMAGES, cargo, 1e-6, "sum of all numbers that the devices got in epoch %d", epoch);
}

static void train(Module *net, int k, BatchNormMode bn, float lr) {
    int batch = (int)draw(4, 20), left = (int)draw(1, batch - 1);
    uint64_t seed = (uint64_t)draw(1, 1000000);
    Dataset *data = drawn_images((int)draw(1, 2) * batch + left);
    DataIter *iter = data_iter_new(data, batch, lr > 0, seed);
    DataParallel dp = network_on(net, k, bn, seed);
    begin_case("train_epoch(), k = %d, %s, lr %g, %d images in minibatches of %d", k, modes[bn],
               (double)lr, data->count, batch);
    synchronize_all();
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        ledger_reset();
        ledger_watch_cargo();
        double loss = train_epoch(&dp, iter, epoch, lr);
        synchronize_all();
        record_images(&dp, epoch);
        if (lr == 0) record_real(LOSS, loss, 1e-5, "returned for epoch %d", epoch);
    }
    record_biases(PARAMETERS, net, dp.devices[0]);
    if (k > 1) record_biases(PARAMETERS, net, dp.devices[k - 1]);
    data_iter_free(iter);
    dataset_free(data);
    leave_devices(net, 0);
}

// One layer, then batch norm, too: synchronised, and with each device's own statistics.
static void train_each(float lr) {
    Module *linear = Sequential(Flatten(), Linear(DRAWN_SIDE * DRAWN_SIDE, FASHION_MNIST_CLASSES));
    Module *net = small_network();
    for (int c = 0; c < NUM_KS; c++) train(linear, ks[c], BN_SYNC, lr);
    for (int c = 0; c < NUM_KS; c++)
        if (c % 2 == 0) train(net, ks[c], BN_SYNC, lr);
    train(net, 2, BN_LOCAL, lr);
    train(net, 16, BN_LOCAL, lr);
    module_free(linear);
    module_free(net);
}

static void losses(void) { train_each(0); } // in the order of the data, nothing is learned
static void learning(void) { train_each((float)draw(5, 50) / 100); }

// ---- bytes_of_step() ---------------------------------------------------------------------------

static Module *layer(int from, int to) {
    return Sequential(Conv2d(from, to, .kernel_size = 3, .padding = 1), BatchNorm2d(to), ReLU());
}

static void bytes(int part, Module *net, int batch_norms, BatchNormMode bn) {
    initialize(net, 1);
    for (int c = 0; c < NUM_KS; c++) {
        begin_case("bytes_of_step(), N = %zu bytes of parameters, %d batch norms, k = %d, %s",
                   parameter_bytes(net), batch_norms, ks[c], modes[bn]);
        record_int(part, (long)bytes_of_step(net, ks[c], bn), "bytes");
    }
    module_free(net);
}

static void bytes_of_networks(void) {
    for (int bn = BN_LOCAL; bn <= BN_SYNC; bn++) {
        int part = bn == BN_SYNC ? BYTES_SYNC : BYTES_LOCAL, a = (int)draw(1, 9);
        bytes(part, Sequential(layer(1, a), Flatten()), 1, (BatchNormMode)bn);
        bytes(part, Sequential(layer(1, a), layer(a, a + (int)draw(1, 9))), 2, (BatchNormMode)bn);
    }
}

const Group groups[] = {{"loss", losses, 20},
                        {"learning", learning, 20},
                        {"bytes_of_step()", bytes_of_networks, 0},
                        {0}};
