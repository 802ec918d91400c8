// experiment.c: facts about your functions: losses next to the losses of a training that is not
// divided, bytes, and the copies of what is not divided.
#include "common/data/fashion_mnist.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { STEPS = 12, STOP = 6, SMALLEST = 100, RUNS = 5, NONE = 0 };

// Training r is on first[r] devices, and on then[r] from step STOP on; with NONE it is not divided.
static const int first[RUNS] = {NONE, 1, 2, 4, 4}, then[RUNS] = {NONE, 1, 2, 4, 2};
static const char *const names[RUNS] = {"not divided", "k = 1", "k = 2", "k = 4", "k = 4, then 2"};
typedef struct Run {
    float losses[STEPS];
    double bytes, apart; // sent in the last step; largest difference of two copies
} Run;

static void save(const Sharded *s, Saved *saved) {
    for (int p = 0; p < s->n; p++)
        for (int i = 0; i < (s->divided[p] ? s->k : 1); i++) {
            Range part = equal_range((long)numel(s->params[p][0]), s->k, i);
            long at = s->divided[p] ? part.first : 0;
            tensor_read(s->own[p][i], saved->params[p] + at);
            tensor_read(s->moments[p][i], saved->moments[p] + at);
        }
}

static float undivided_step(Sharded *s, const Tensor *X, const Tensor *y, float lr) {
    float loss = compute_gradients(s, X, y);
    for (int p = 0; p < s->n; p++)
        momentum_step(s->params[p][0], s->grads[p][0], s->moments[p][0], lr,
                      1 / (float)X->shape[0]);
    return loss;
}

static double copies_apart(const Sharded *s) {
    double most = 0;
    for (int p = 0; p < s->n; p++)
        for (int i = 1; i < s->k && !s->divided[p]; i++) {
            float *a = tensor_values(s->params[p][0]), *b = tensor_values(s->params[p][i]);
            for (size_t j = 0; j < numel(s->params[p][0]); j++)
                most = fmax(most, fabs((double)a[j] - (double)b[j]));
            free(a);
            free(b);
        }
    return most;
}

// The same training, from now on divided among k devices.
static Sharded *go_on(Sharded *s, Module *net, int k) {
    static Saved saved;
    save(s, &saved);
    sharded_free(s);
    s = sharded_new(net, k, SMALLEST, true);
    load(s, &saved);
    return s;
}

static void train(int r, const Flags *flags, const Dataset *data, Run *run) {
    Module *net = Sequential(Flatten(), Linear(784, 64), ReLU(), Linear(64, FASHION_MNIST_CLASSES));
    Tensor *X, *y;
    DataIter *iter = data_iter_new(data, flags->batch_size, true, flags->seed);
    initialize(net, flags->seed);
    bool divided = first[r] != NONE;
    Sharded *s = sharded_new(net, 1, SIZE_MAX, false);
    if (divided) s = go_on(s, net, first[r]);
    data_iter_start(iter, 0);
    for (int step = 0; step < STEPS && data_iter_next(iter, &X, &y); step++) {
        if (step == STOP && first[r] != then[r]) s = go_on(s, net, then[r]);
        synchronize_all();
        ledger_reset();
        run->losses[step] = (divided ? train_step : undivided_step)(s, X, y, flags->lr);
        synchronize_all();
        run->bytes = (double)ledger_bytes_between_devices();
    }
    run->apart = copies_apart(s);
    sharded_free(s);
    module_free(net);
    data_iter_free(iter);
}

static void experiment(const Flags *flags, FILE *csv) {
    static Run runs[RUNS];
    Dataset *data = fashion_mnist_open(flags->data, true, STEPS * flags->batch_size);
    for (int r = 0; r < RUNS; r++) train(r, flags, data, &runs[r]);
    say("Mean losses of a network of two layers, %d images in each step. The last training is "
        "saved before step %d, and goes on with 2 devices.",
        flags->batch_size, STOP);
    Table t = TABLE(csv, WHOLE("step", .csv = "step"), FIXED("not divided", 4, .csv = "undivided"),
                    FIXED("k = 1", 4, .csv = "k1"), FIXED("k = 2", 4, .csv = "k2"),
                    FIXED("k = 4", 4, .csv = "k4"), FIXED("k = 4, then 2", 4, .csv = "loaded"));
    for (int step = 0; step < STEPS; step++) {
        table_numbers(&t, step);
        for (int r = 0; r < RUNS; r++) table_numbers(&t, (double)runs[r].losses[step]);
    }
    say("\nIn the last step: the bytes that all devices send, and the largest difference between "
        "two devices' copies of a parameter that is not divided. 50816 floats are in parameters "
        "that are divided, and 74 in others.");
    Table last = TABLE(NULL, WORDS("", 14), WHOLE("bytes"), DIGITS("copies apart", 3));
    for (int r = 0; r < RUNS; r++) {
        table_text(&last, "%s", names[r]);
        table_numbers(&last, runs[r].bytes, runs[r].apart);
    }
    dataset_free(data);
}

int main(int argc, char *argv[]) {
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 2: three mistakes in an FSDP.",
                                     .flags = "seed lr=0.1 -machine",
                                     .experiment = experiment,
                                     .plot = "exercise_three_mistakes.gp"});
}
