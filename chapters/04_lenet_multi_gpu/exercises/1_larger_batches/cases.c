// cases.c: epochs on 1 to 4 devices: how many updates, who got which images, and what came of it.
#include "common/program/facts.h"
#include "chapters/04_lenet_multi_gpu/exercises/drawn.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { ONE = 1, SHARES, SAME, ORDERS, REST };
const Part parts[] = {{"one device: an epoch ends with the right parameters", 2},
                      {"k devices: each gets its share of the images", 2},
                      {"k devices: as many updates as one device with k*b, and the same", 3},
                      {"each epoch has an order of its own", 1},
                      {"the last, shorter minibatch counts too, on 1 to 4 devices", 2},
                      {0}};

typedef struct Run {
    int k, b, images, epochs;
    bool black;
    int updates, shares, params; // the parts that these facts count for; 0: none
} Run;

static void record_images(const Run *run, const Replicas *r, const Dataset *data) {
    double sum = 0;
    for (int i = 0; i < r->k; i++) {
        double cargo = ledger_cargo(host(), r->devices[i]);
        record_int(run->shares, lround(images_received(r, i, data)), "images that device %d got",
                   i);
        record_real(run->params, cargo, 1e-6, "sum of pixels and labels that device %d got", i);
        sum += cargo;
    }
    record_real(run->shares, sum, 1e-6, "sum of pixels and labels that all devices got");
}

static void train(const Run *run) {
    uint64_t seed = (uint64_t)draw(1, 1000000);
    float lr = run->black ? (float)draw(50, 150) / 100 : (float)draw(10, 30) / 1000;
    Replicas r;
    begin_case("train_epoch(), %d %s images, k = %d, b = %d, lr %g, %d epoch%s", run->images,
               run->black ? "black" : "grey", run->k, run->b, (double)lr, run->epochs,
               run->epochs > 1 ? "s" : "");
    Dataset *data = draw_images(run->images, run->black);
    replicas_open(&r, run->k, seed + 1);
    if (!run->black) replicas_scale(&r, 10);
    float *start = tensor_values(r.params[0][0]);
    ledger_reset();
    ledger_watch_cargo();
    for (int epoch = 0; epoch < run->epochs; epoch++) {
        int updates = train_epoch(&r, data, epoch, run->b, lr, seed);
        if (run->updates) record_int(run->updates, updates, "updates of epoch %d", epoch);
    }
    synchronize_all();
    if (run->shares) record_images(run, &r, data);
    if (run->updates)
        record_int(run->updates, (long)ledger_bytes_between_devices(), "bytes between devices");
    if (run->black)
        record_biases(run->params, &r);
    else
        record_change(run->params, &r, start);
    free(start);
    replicas_close(&r);
    dataset_free(data);
}

static Run filled(int k, int b, bool black) { // by whole minibatches of k*b
    return (Run){.k = k, .b = b, .images = k * b * (int)draw(2, 4), .epochs = 1, .black = black};
}

static void one_device(void) {
    for (int c = 0; c < 2; c++) {
        Run run = filled(1, (int)draw(10, 30), true);
        run.params = ONE;
        train(&run);
    }
}

// k divides b: so minibatches that are too small, which lose points for the updates, are shared
// equally, too.
static void k_devices(void) {
    for (int black = 1; black >= 0; black--)
        for (int k = 2; k <= 4; k++) {
            Run run = filled(k, k * (int)draw(2, 5), black);
            run.updates = run.params = SAME;
            run.shares = SHARES;
            train(&run);
        }
}

static void second_epoch(void) {
    for (int c = 0; c < 2; c++) {
        Run run = filled(1, (int)draw(10, 30), true);
        run.epochs = 2;
        run.params = ORDERS;
        train(&run);
    }
}

static void with_a_rest(void) {
    for (int k = 1; k <= 4; k++) {
        Run run = filled(k, (int)draw(5, 12), true);
        run.images += (int)draw(k, k * run.b - 1);
        run.epochs = 2;
        run.updates = run.shares = run.params = REST;
        train(&run);
    }
}

const Group groups[] = {{"one device", one_device, 0},
                        {"k devices", k_devices, 0},
                        {"the second epoch", second_epoch, 0},
                        {"a shorter minibatch", with_a_rest, 0},
                        {0}};
