// step.c: our half of tests/bench/bench.py, which times training steps here and in PyTorch by
// turns. Not made to be run by hand, but it can be:
//
//     printf 'run 10\nquit\n' | build/bench_step lenet|resnet batch [threads [cpu|cuda [devices]]]
//
// A line "run N" makes N training steps and prints "<seconds per step> <mean loss of the last>";
// "quit" or the end of the input ends the program. A step is what the book's train() does for a
// minibatch: copy X and y to the devices, forward, backward, update, wait. Parameters, images and
// labels are those of bench.py, so the losses of the two programs must agree; the driver checks
// that.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/error.h"
#include "../../common/nn.h"
#include "../../common/safetensors.h"
#include "../../common/timer.h"
#include "../../chapters/04_lenet_multi_gpu/lenet.h"
#include "../../chapters/05_resnet18_concise/data_parallel.h"
#include "../../chapters/05_resnet18_concise/resnet18.h"

enum { PIXELS = 28 * 28, RESNET_SEED = 0 };
static const float LENET_LR = 0.05f, RESNET_LR = 0.01f;

// As in bench.py: grey noise (the top byte of a multiplicative hash of the pixel's number) whose
// contrast tells the label, so that there is something to learn.
static Tensor *synthetic_images(int n) {
    float *pixels = xmalloc(sizeof(float) * (size_t)n * PIXELS);
    for (uint32_t i = 0; i < (uint32_t)n * PIXELS; i++) {
        uint32_t noise = i * 2654435761u >> 24, label = i / PIXELS % 10;
        pixels[i] = (float)(noise * (1 + label)) / 2550;
    }
    Tensor *X = tensor_new(host(), n, 1, 28, 28);
    tensor_write(X, pixels);
    free(pixels);
    return X;
}

static Tensor *synthetic_labels(int n) {
    Tensor *y = tensor_new(host(), n);
    for (int i = 0; i < n; i++) y->data[i] = (float)(i % 10);
    return y;
}

static void start_params(Device *device, Tensor *params[LENET_PARAMS]) {
    static const char *const names[] = {"W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"};
    const char *path = "tests/reference/lenet.safetensors";
    SafetensorsFile file = safetensors_open(path);
    for (int i = 0; i < LENET_PARAMS; i++) {
        const SafetensorsEntry *entry = safetensors_find(&file, names[i]);
        if (!entry) die("run tests/reference/make_reference.py again", "%s: no %s", path, names[i]);
        params[i] = tensor_of_shape(device, entry->ndim, entry->shape);
        tensor_write(params[i], entry->values);
        attach_grad(params[i]);
    }
    safetensors_close(&file);
}

typedef struct Training {
    Device *devices[MAX_DEVICES];
    int k;
    Tensor *X, *y;                                    // the minibatch, on the host
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS]; // of LeNet
    DataParallel resnet;                              // net is NULL: LeNet
} Training;

static void step(Training *t, Tensor *losses[]) {
    if (t->resnet.net)
        train_step(&t->resnet, t->X, t->y, RESNET_LR, losses);
    else
        train_batch(t->X, t->y, t->device_params, t->devices, t->k, LENET_LR, losses);
    synchronize_all();
}

static void run(Training *t, int steps) {
    Tensor *losses[MAX_DEVICES];
    double begin = seconds_now(), loss = 0;
    for (int i = 0; i < steps; i++) step(t, losses);
    double seconds = seconds_now() - begin;
    for (int i = 0; i < t->k; i++) loss += (double)item(losses[i]);
    printf("%.9f %.6f\n", seconds / steps, loss / t->X->shape[0]);
    fflush(stdout); // the driver is waiting for this line
}

static Training prepare(const char *model, int batch, int k) {
    Training t = {.k = k, .X = synthetic_images(batch), .y = synthetic_labels(batch)};
    for (int i = 0; i < k; i++) t.devices[i] = try_gpu(i);
    share_cores(t.devices, k);
    if (strcmp(model, "resnet") == 0) {
        Module *net = resnet18(10, 1);
        initialize(net, RESNET_SEED);
        t.resnet = data_parallel(net, t.devices, k, BN_SYNC);
    } else {
        for (int i = 0; i < k; i++) start_params(t.devices[i], t.device_params[i]);
    }
    return t;
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    if (argc < 3)
        die("lenet|resnet batch [threads [cpu|cuda [devices]]]", "what is to be trained?");
    bool cuda = argc > 4 && strcmp(argv[4], "cuda") == 0;
    devices_init(cuda ? BACKEND_CUDA : BACKEND_CPU, argc > 3 ? atoi(argv[3]) : 0);
    Training training = prepare(argv[1], atoi(argv[2]), argc > 5 ? atoi(argv[5]) : 1);

    char line[64];
    int steps;
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "run %d", &steps) != 1 || steps < 1)
            die("the lines are \"run N\" and \"quit\"", "unknown line: %.*s",
                (int)strcspn(line, "\n"), line);
        run(&training, steps);
    }
    autograd_close();
    devices_close();
    return 0;
}
