// lenet_step.c: our half of tests/bench/lenet.py, which times the book's training step here and in
// PyTorch by turns. Not made to be run by hand, but it can be:
//
//     printf 'run 10\nquit\n' | build/bench_lenet_step [threads [cpu|cuda]]
//
// A line "run N" makes N training steps and prints "<seconds per step> <mean loss of the last>";
// "quit" or the end of the input ends the program. A step is what the book's train() does for a
// minibatch on one device: copy X and y to the device, forward, backward, update, wait. Parameters,
// images and labels are those of lenet.py, so the losses of the two programs must agree; the driver
// checks that.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/error.h"
#include "../../common/functional.h"
#include "../../common/safetensors.h"
#include "../../common/timer.h"
#include "../../chapters/04_lenet_multi_gpu/lenet.h"

enum { BATCH_SIZE = 256, PIXELS = 28 * 28 };
static const float LR = 0.05f;

// As in lenet.py: grey noise (the top byte of a multiplicative hash of the pixel's number) whose
// contrast tells the label, so that there is something to learn.
static Tensor *synthetic_images(void) {
    float *pixels = xmalloc(sizeof(float) * BATCH_SIZE * PIXELS);
    for (uint32_t i = 0; i < BATCH_SIZE * PIXELS; i++) {
        uint32_t noise = i * 2654435761u >> 24, label = i / PIXELS % 10;
        pixels[i] = (float)(noise * (1 + label)) / 2550;
    }
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
    Tensor *X, *y;                          // the minibatch, on the host
    Tensor *device_params[1][LENET_PARAMS]; // of one device
} Training;

static void run(Training *t, int steps) {
    Tensor *loss = NULL;
    double begin = seconds_now();
    for (int i = 0; i < steps; i++) {
        train_batch(t->X, t->y, t->device_params, &t->device, 1, LR, &loss);
        synchronize(t->device);
    }
    double seconds = seconds_now() - begin;
    printf("%.9f %.6f\n", seconds / steps, item(loss) / BATCH_SIZE);
    fflush(stdout); // the driver is waiting for this line
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    bool cuda = argc > 2 && strcmp(argv[2], "cuda") == 0;
    devices_init(cuda ? BACKEND_CUDA : BACKEND_CPU, threads);
    Training training = {.device = try_gpu(0), .X = synthetic_images(), .y = synthetic_labels()};
    start_params(training.device, training.device_params[0]);

    char line[64];
    int steps;
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "run %d", &steps) != 1 || steps < 1)
            die("the lines are \"run N\" and \"quit\"", "unknown line: %.*s",
                (int)strcspn(line, "\n"), line);
        run(&training, steps);
    }
    devices_close();
    return 0;
}
