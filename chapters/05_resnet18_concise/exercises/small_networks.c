// small_networks.c: see small_networks.h.
#include "small_networks.h"
#include "common/base/error.h"
#include "common/program/facts.h"

#include <stdlib.h>

int rounds = 4;
const Flag rounds_flag[] = {
    {"rounds", FLAG_INTEGER, &rounds, "N", .help = "measure each time N times", .least = 1,
     .most = 99, .counts = "rounds"},
    {0},
};

// ## Images

Dataset *small_images(const char *directory, bool train, int limit) {
    Dataset *data = fashion_mnist_open(directory, train, limit);
    int rows = data->rows / 2, cols = data->cols / 2;
    size_t pixels = (size_t)(data->rows * data->cols);
    for (int i = 0; i < data->count; i++) {
        const uint8_t *from = data->images + (size_t)i * pixels;
        uint8_t *to = data->images + (size_t)i * pixels / 4; // never ahead of what is read
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++) {
                const uint8_t *p = from + 2 * r * data->cols + 2 * c;
                to[r * cols + c] = (uint8_t)((p[0] + p[1] + p[data->cols] + p[data->cols + 1]) / 4);
            }
    }
    data->rows = rows;
    data->cols = cols;
    return data;
}

Dataset *drawn_images(int count) {
    Dataset *data = xcalloc(1, sizeof *data);
    size_t pixels = (size_t)count * DRAWN_SIDE * DRAWN_SIDE;
    *data = (Dataset){.count = count, .rows = DRAWN_SIDE, .cols = DRAWN_SIDE};
    data->images = xmalloc(pixels);
    data->labels = xmalloc((size_t)count);
    for (size_t p = 0; p < pixels; p++) data->images[p] = (uint8_t)draw(0, 255);
    for (int i = 0; i < count; i++) data->labels[i] = (uint8_t)draw(0, FASHION_MNIST_CLASSES - 1);
    return data;
}

// ## Networks

Module *small_network(void) {
    enum { C = 4, SIDE = DRAWN_SIDE / 2 };
    return Sequential(Conv2d(1, C, .kernel_size = 3, .stride = 2, .padding = 1), BatchNorm2d(C),
                      Flatten(), Linear(C * SIDE * SIDE, FASHION_MNIST_CLASSES));
}

void record_biases(int part, const Module *net, Device *device) {
    Parameters all = parameters_of(net);
    float *values = tensor_values(parameter_data(all.list[all.n - 1], device));
    record_floats(part, values, FASHION_MNIST_CLASSES, 1e-4, "biases of the last layer on %s",
                  device_name(device));
    free(values);
}

Module *quarter_resnet18(void) {
    return Sequential(Conv2d(1, 16, .kernel_size = 3, .padding = 1), BatchNorm2d(16), ReLU(),
                      Residual(16, 16), Residual(16, 16), //
                      Residual(16, 32, .use_1x1conv = true, .strides = 2), Residual(32, 32),
                      Residual(32, 64, .use_1x1conv = true, .strides = 2), Residual(64, 64),
                      Residual(64, 128, .use_1x1conv = true, .strides = 2), Residual(128, 128),
                      AdaptiveAvgPool2d(1, 1), Flatten(), Linear(128, FASHION_MNIST_CLASSES));
}

Module *lenet_modules(int pixels) {
    int left = ((pixels - 2) / 2 - 4) / 2; // 3x3, halved, 5x5, halved
    return Sequential(Conv2d(1, 20, .kernel_size = 3), ReLU(), AvgPool2d(2),
                      Conv2d(20, 50, .kernel_size = 5), ReLU(), AvgPool2d(2), Flatten(),
                      Linear(50 * left * left, 128), ReLU(), Linear(128, FASHION_MNIST_CLASSES));
}

DataParallel network_on(Module *net, int k, BatchNormMode bn, uint64_t seed) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    initialize(net, seed);
    return data_parallel(net, devices, k, bn);
}

void leave_devices(Module *net, uint64_t seed) {
    synchronize_all();
    initialize(net, seed);
    autograd_close();
}
