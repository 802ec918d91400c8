// cases.c: mean and spread of drawn values; runs on 1 to 4 devices: what LeNet learned, and which
// accuracy came back.
#include "common/program/facts.h"
#include "chapters/04_lenet_multi_gpu/exercises/drawn.h"
#include "your_part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MEAN = 1, SPREAD, ONE, MANY, ACCURACY };
const Part parts[] = {{"mean_and_spread(): the mean", 1},
                      {"mean_and_spread(): the standard deviation, also of a single value", 2},
                      {"accuracy_after(): one device ends with the right parameters", 2},
                      {"accuracy_after(): k devices end with those of one with k*b", 3},
                      {"accuracy_after(): the accuracy is that after the last epoch", 2},
                      {0}};

static void values(void) {
    static const int ns[] = {1, 2, 3, 5, 12};
    for (int c = 0; c < 5; c++) {
        char text[128];
        double v[12], mean = NAN, spread = NAN;
        for (int i = 0, at = 0; i < ns[c]; i++) {
            v[i] = (double)draw(100, 999) / 1000;
            at += snprintf(text + at, sizeof text - (size_t)at, " %g", v[i]);
        }
        begin_case("mean_and_spread(), n = %d:%s", ns[c], text);
        mean_and_spread(v, ns[c], &mean, &spread);
        record_real(MEAN, mean, 1e-9, "mean");
        record_real(SPREAD, spread, 1e-9, "standard deviation");
    }
}

// Some images are left for a shorter minibatch.
static void train(int k, bool black, int part) {
    int b = (int)draw(5, 12), images = k * b * (int)draw(2, 3), rest = (int)draw(k, k * b - 1);
    images += rest;
    int epochs = (int)draw(2, 3);
    float lr = black ? (float)draw(50, 150) / 100 : (float)draw(10, 30) / 1000;
    uint64_t seed = (uint64_t)draw(1, 1000000);
    Replicas r;
    begin_case("accuracy_after(), %d %s images, k = %d, b = %d, lr %g, %d epochs", images,
               black ? "black" : "grey", k, b, (double)lr, epochs);
    Dataset *data = draw_images(images, black), *test_data = draw_images(10, true);
    DataIter *test_iter = data_iter_new(test_data, 10, false, 0);
    replicas_open(&r, k, seed + 1);
    if (!black) replicas_scale(&r, 10);
    float *start = tensor_values(r.params[0][0]);
    ledger_reset();
    accuracy_after(&r, data, epochs, b, lr, seed, test_iter);
    synchronize_all();
    record_int(part, (long)ledger_bytes_between_devices(), "bytes between devices");
    if (black)
        record_biases(part, &r);
    else
        record_change(part, &r, start);
    free(start);
    replicas_close(&r);
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
}

static void one_device(void) {
    for (int c = 0; c < 2; c++) train(1, true, ONE);
    train(1, false, ONE);
}
static void k_devices(void) {
    for (int black = 1; black >= 0; black--)
        for (int k = 2; k <= 4; k++) train(k, black, MANY);
}

// ## Accuracy
//
// To a black image LeNet gives the class with the largest of the last biases, whatever it shows to
// others. So the accuracy is the part of the test images that have this label. Most of these have
// label 1, which is also what LeNet says at first. It is trained with label 0 alone, two updates in
// an epoch: then it says 1 after the first epoch, and 0 after the second.
//
//     before        bias 1 is ahead of bias 0 by 2.00
//     2 updates                              by 0.17
//     4 updates                              by -1.15

enum { TESTED = 50 };

static Dataset *with_labels(int count, int ones) {
    Dataset *data = black_images(28, count);
    for (int i = 0; i < count; i++) data->labels[i] = (i * 7 + 3) % count < ones;
    return data;
}

// The accuracy of device 0, be its parameters right or not.
static double accuracy_of(const Replicas *r, const Dataset *test_data) {
    float biases[FASHION_MNIST_CLASSES];
    int largest = 0, right = 0;
    tensor_read(r->params[0][LENET_PARAMS - 1], biases);
    for (int c = 1; c < FASHION_MNIST_CLASSES; c++)
        if (biases[c] > biases[largest]) largest = c;
    for (int i = 0; i < test_data->count; i++) right += test_data->labels[i] == largest;
    return (double)right / test_data->count;
}

static void accuracies(void) {
    static const int ks[] = {1, 4, 2};
    for (int c = 0; c < 3; c++) {
        const float ahead[FASHION_MNIST_CLASSES] = {0, 2};
        int k = ks[c], ones = (int)draw(TESTED / 2 + 1, TESTED - 5);
        Dataset *data = with_labels(32, 0), *test_data = with_labels(TESTED, ones);
        DataIter *test_iter = data_iter_new(test_data, 20, false, 0);
        Replicas r;
        replicas_open(&r, k, 1);
        for (int i = 0; i < k; i++) tensor_write(r.params[i][LENET_PARAMS - 1], ahead);
        begin_case("accuracy_after(), black images with label 0, k = %d, b = %d, lr 0.7, 2 epochs; "
                   "of the test images %d of %d have label 1",
                   k, 16 / k, ones, TESTED);
        double came = accuracy_after(&r, data, 2, 16 / k, 0.7f, 7, test_iter);
        record_real(PART_IF(PART_IF(ACCURACY, ONE), MANY), came, 1e-6, "accuracy");
        record_int(ACCURACY, lround(1000 * (came - accuracy_of(&r, test_data))),
                   "thousandths above the accuracy of the parameters at the end");
        replicas_close(&r);
        data_iter_free(test_iter);
        dataset_free(data);
        dataset_free(test_data);
    }
}

const Group groups[] = {{"mean and spread", values, 0},
                        {"one device", one_device, 0},
                        {"k devices", k_devices, 0},
                        {"accuracies", accuracies, 0},
                        {0}};
