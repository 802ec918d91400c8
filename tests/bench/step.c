// step.c: our half of tests/bench/bench.py, which times training steps here and in PyTorch by
// turns. By hand: echo run 10 | build/tests/bench/step --train lenet --threads 2
//
// A line "run N" makes N training steps and prints "<seconds per step> <mean loss of the last>". A
// step is what the book's train() does for a minibatch: copy X and y to the devices, forward,
// backward, update, wait. Parameters, images and labels are those of bench.py, so the losses of the
// two programs must agree; the driver checks that. `epoch` takes its minibatches from
// Fashion-MNIST, with the book's iterator. `sgemm` is no training: a step is our product of two
// large matrices, and what it prints is its operations.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/program/flags.h"
#include "common/tensor/nn.h"
#include "common/data/safetensors.h"
#include "common/base/platform.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "chapters/10_a_transformer/vit.h"
#include "kernels/cpu/cpu.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char *model = "lenet";
static bool graph = true;
static const Flag own_flags[] = {
    {"train", FLAG_CHOICE, &model, "M", .help = "or what bench.py asks for",
     .choices = "lenet|epoch|resnet|vit|vit-start|sgemm|about"},
    {"no-graph", FLAG_OFF, &graph, .help = "without CUDA graphs"},
    {0},
};
static Flags flags;

enum { PIXELS = 28 * 28, RESNET_SEED = 0, VIT_SEED = 0, VIT_WIDTH = 64 };
static const float LENET_LR = 0.05f, RESNET_LR = 0.01f, VIT_LR = 0.001f;

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
    Tensor *X, *y;  // the minibatch, on the host
    DataIter *iter; // where the next one comes from; NULL: it is always the same
    int epoch;
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS]; // of LeNet
    DataParallel resnet;                              // net is NULL: another
    Vit *vit;                                         // NULL: another
    Tensor *factors[2], *product;                     // of sgemm, else NULL
} Training;

enum { SIDE_ON_CPU = 1536, SIDE_ON_GPU = 8192 };

static void next_minibatch(Training *t) {
    if (!t->iter || data_iter_next(t->iter, &t->X, &t->y)) return;
    data_iter_start(t->iter, ++t->epoch);
    if (!data_iter_next(t->iter, &t->X, &t->y)) die("it has 60000 images", "no minibatches");
}

static void step(Training *t, Tensor *losses[]) {
    if (t->product) {
        int n = t->product->shape[0];
        launch(t->devices[0], gemm, .A = t->factors[0]->data, .B = t->factors[1]->data,
               .C = t->product->data, .M = n, .N = n, .K = n);
    } else {
        next_minibatch(t);
        if (t->vit)
            vit_train_batch(t->vit, t->X, t->y, VIT_LR, losses);
        else if (t->resnet.net)
            train_step(&t->resnet, t->X, t->y, RESNET_LR, losses);
        else
            (graph ? train_batch_as_graph : train_batch)(t->X, t->y, t->device_params, t->devices,
                                                         t->k, LENET_LR, losses);
    }
    synchronize_all();
}

static void run(Training *t, int steps) {
    Tensor *losses[MAX_DEVICES];
    double begin = seconds_now(), loss = 0;
    for (int i = 0; i < steps; i++) step(t, losses);
    double seconds = (seconds_now() - begin) / steps;
    if (t->product) {
        printf("%.9f %.0f\n", seconds, 2 * pow(t->product->shape[0], 3));
        return;
    }
    for (int i = 0; i < t->k; i++) loss += (double)item(losses[i]);
    if (t->vit) loss /= t->k; // each device has all images
    printf("%.9f %.6f\n", seconds, loss / t->X->shape[0]);
}

static bool is(const char *name) { return strcmp(model, name) == 0; }

static Training prepare(void) {
    Training t = {.k = flags.devices};
    open_devices(t.devices, t.k);
    choose_allreduce("sharded"); // all devices at work, not the book's device 0 alone
    if (is("sgemm")) {
        int n = num_gpus() ? SIDE_ON_GPU : SIDE_ON_CPU;
        for (int i = 0; i < 2; i++) tensor_fill(t.factors[i] = tensor_new(t.devices[0], n, n), 1);
        t.product = tensor_zeros_like(t.factors[0]);
        synchronize_all();
        return t;
    }
    if (is("epoch")) {
        t.iter = data_iter_new(fashion_mnist_open(NULL, true, 0), flags.batch_size, false, 0);
        data_iter_start(t.iter, 0);
    } else {
        t.X = synthetic_images(flags.batch_size);
        t.y = synthetic_labels(flags.batch_size);
    }
    if (is("resnet")) {
        Module *net = resnet18(10, 1);
        initialize(net, RESNET_SEED);
        t.resnet = data_parallel(net, t.devices, t.k, BN_SYNC);
    } else if (is("vit")) {
        float *start = vit_start(VIT_WIDTH, VIT_SEED);
        t.vit = vit_new((VitOptions){.width = VIT_WIDTH}, t.devices, t.k, start);
        free(start);
    } else {
        for (int i = 0; i < t.k; i++) start_params(t.devices[i], t.device_params[i]);
    }
    return t;
}

int main(int argc, char *argv[]) {
    flags = parse_flags(argc, argv, "Times training steps; \"run N\" in the input makes N of them.",
                        "devices=1 batch-size machine=none", (Program){.own = own_flags});
    if (is("about")) {
        printf("%s\n%s\n", cpu_instruction_set()->name, COMPILER);
        return 0;
    }
    if (is("vit-start")) { // all parameters, for bench.py
        fwrite(vit_start(VIT_WIDTH, VIT_SEED), sizeof(float), vit_numbers(VIT_WIDTH), stdout);
        return 0;
    }
    Training training = prepare();
    for (int steps; scanf(" run %d", &steps) == 1 && steps > 0;) run(&training, steps);
    if (!feof(stdin)) die("each line is \"run N\"", "unknown line in the input");
    devices_close();
    return 0;
}
