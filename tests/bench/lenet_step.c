// lenet_step.c: our half of tests/bench/lenet.py, which times the book's training step here and in
// PyTorch by turns. Not made to be run by hand, but it can be:
//
//     printf 'run 10\nquit\n' | build/bench_lenet_step [threads [cpu|cuda]]
//
// A line "run N" makes N training steps and prints "<seconds per step> <mean loss of the last>"; "quit"
// or the end of the input ends the program. A step is what the book's train() does for a minibatch on
// one device: copy X and y to the device, forward, backward, update, wait. Parameters, images and
// labels are those of lenet.py, so the losses of the two programs must agree; the driver checks that.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../common/error.h"
#include "../../common/functional.h"
#include "../../common/safetensors.h"

enum { BATCH_SIZE = 256, PIXELS = 28 * 28, LENET_PARAMS = 8 };
static const float LR = 0.01f;

// To be replaced by chapter 4's own.
static Tensor *lenet(Tensor *X, Tensor *const params[]) {
    Tensor *h1 = avg_pool2d(relu(conv2d(X, params[0], params[1])), .kernel = 2);
    Tensor *h2 = avg_pool2d(relu(conv2d(h1, params[2], params[3])), .kernel = 2);
    h2 = reshape(h2, h2->shape[0], -1);
    Tensor *h3 = relu(add_bias(mm(h2, params[4]), params[5]));
    return add_bias(mm(h3, params[6]), params[7]);
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Grey noise: the top byte of a multiplicative hash of the pixel's number. lenet.py has the same line.
static Tensor *synthetic_images(void) {
    float *pixels = xmalloc(sizeof(float) * BATCH_SIZE * PIXELS);
    for (uint32_t i = 0; i < BATCH_SIZE * PIXELS; i++) pixels[i] = (float)(i * 2654435761u >> 24) / 255;
    Tensor *X = tensor_new(host(), BATCH_SIZE, 1, 28, 28);
    tensor_write(X, pixels);
    free(pixels);
    return X;
}

static Tensor *synthetic_labels(void) {
    float labels[BATCH_SIZE];
    for (int i = 0; i < BATCH_SIZE; i++) labels[i] = (float)(i % 10);
    Tensor *y = tensor_new(host(), BATCH_SIZE);
    tensor_write(y, labels);
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
    Device *device;
    Tensor *host_X, *host_y; // the minibatch, where the data set lives
    Tensor *X, *y;           // and on the device
    Tensor *params[LENET_PARAMS];
} Training;

static Training training_new(Device *device) {
    Training t = {.device = device, .host_X = synthetic_images(), .host_y = synthetic_labels()};
    t.X = tensor_new(device, BATCH_SIZE, 1, 28, 28);
    t.y = tensor_new(device, BATCH_SIZE);
    start_params(device, t.params);
    return t;
}

// Returns the sum of the losses, to be read before the next step.
static Tensor *train_step(Training *t) {
    begin_step(t->device);
    tensor_copy(t->X, t->host_X);
    tensor_copy(t->y, t->host_y);
    Tensor *loss = sum(cross_entropy(lenet(t->X, t->params), t->y));
    backward(loss);
    sgd(t->params, LENET_PARAMS, LR, BATCH_SIZE);
    synchronize(t->device);
    return loss;
}

static void run(Training *t, int steps) {
    Tensor *loss = NULL;
    double begin = seconds_now();
    for (int i = 0; i < steps; i++) loss = train_step(t);
    double seconds = seconds_now() - begin;
    printf("%.9f %.6f\n", seconds / steps, item(loss) / BATCH_SIZE);
    fflush(stdout); // the driver is waiting for this line
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    bool cuda = argc > 2 && strcmp(argv[2], "cuda") == 0;
    devices_init(cuda ? BACKEND_CUDA : BACKEND_CPU, threads);
    Training training = training_new(try_gpu(0));

    char line[64];
    int steps;
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "run %d", &steps) != 1 || steps < 1)
            die("the lines are \"run N\" and \"quit\"", "unknown line: %s", line);
        run(&training, steps);
    }
    devices_close();
    return 0;
}
