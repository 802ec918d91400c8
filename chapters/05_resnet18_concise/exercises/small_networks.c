// small_networks.c: see small_networks.h.
#include "small_networks.h"

int rounds;
const Flag rounds_flag[] = {
    {"rounds", FLAG_INTEGER, &rounds, "N", .help = "measure each time N times", .least = 1,
     .most = 99, .counts = "rounds", .standard = "4"},
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

// ## Networks

Module *quarter_resnet18(void) {
    return Sequential(Conv2d(1, 16, .kernel_size = 3, .padding = 1), BatchNorm2d(16), ReLU(),
                      Residual(16, 16), Residual(16, 16), //
                      Residual(16, 32, .use_1x1conv = true, .strides = 2), Residual(32, 32),
                      Residual(32, 64, .use_1x1conv = true, .strides = 2), Residual(64, 64),
                      Residual(64, 128, .use_1x1conv = true, .strides = 2), Residual(128, 128),
                      AdaptiveAvgPool2d(1, 1), Flatten(), Linear(128, FASHION_MNIST_CLASSES));
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
