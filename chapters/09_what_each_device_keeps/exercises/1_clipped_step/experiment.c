// experiment.c: a training with your step on one device and on several: losses, the norm of the
// gradient and of each device's parts of it, and the bytes that are sent.
#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 40, PRINTED = 8 };

typedef struct Run {
    float losses[STEPS];
    double norm[STEPS], norm_of[STEPS][MOST_SHARDS]; // of the mean gradient; of parts
    double bytes, floats;                            // sent in all; parameters
} Run;

// Sums parameter p's gradients over all devices, and adds the squares of part j to squares[j].
static void add_parts(const Sharded *s, int p, double squares[]) {
    size_t n = numel(s->grads[p][0]);
    double *sums = xcalloc(n, sizeof *sums);
    for (int i = 0; i < s->k; i++) {
        float *values = tensor_values(s->grads[p][i]);
        for (size_t at = 0; at < n; at++) sums[at] += (double)values[at];
        free(values);
    }
    for (int j = 0; j < s->k; j++) {
        Range part = equal_range((long)n, s->k, j);
        for (long at = part.first; at < part.first + part.count; at++)
            squares[j] += sums[at] * sums[at];
    }
    free(sums);
}

static void find_norms(const Sharded *s, int rows, Run *run, int step) {
    double squares[MOST_SHARDS] = {0}, all = 0;
    for (int p = 0; p < s->n; p++) add_parts(s, p, squares);
    for (int j = 0; j < s->k; j++) {
        all += squares[j];
        run->norm_of[step][j] = sqrt(squares[j]) / rows;
    }
    run->norm[step] = sqrt(all) / rows;
}

static void train(Run *run, int k, const Flags *flags, const Dataset *data, float max_norm) {
    Module *net = Sequential(Flatten(), Linear(784, 64), ReLU(), Linear(64, FASHION_MNIST_CLASSES));
    Tensor *X, *y;
    DataIter *iter = data_iter_new(data, flags->batch_size, true, flags->seed);
    initialize(net, flags->seed);
    Sharded *s = sharded_new(net, k, 0, false);
    data_iter_start(iter, 0);
    ledger_reset();
    for (int step = 0; step < STEPS && data_iter_next(iter, &X, &y); step++) {
        run->losses[step] = compute_gradients(s, X, y);
        find_norms(s, flags->batch_size, run, step);
        clipped_step(s, flags->lr, max_norm, flags->batch_size);
    }
    synchronize_all();
    run->bytes = (double)ledger_bytes_between_devices();
    run->floats = (double)parameter_bytes(net) / sizeof(float);
    sharded_free(s);
    module_free(net);
    data_iter_free(iter);
}

static void experiment(const Flags *flags, FILE *csv) {
    static Run one, several;
    const float MAX_NORM = 1;
    int k = flags->devices;
    Dataset *data = fashion_mnist_open(flags->data, true, STEPS * flags->batch_size);
    train(&one, 1, flags, data, MAX_NORM);
    train(&several, k, flags, data, MAX_NORM);
    say("A network of two layers, %d images in each step, max_norm %g: norms of the mean gradient "
        "before it is clipped, of all of it and of the parts of each of %d devices.",
        flags->batch_size, (double)MAX_NORM, k);
    Table t = TABLE(NULL, WHOLE("step"), FIXED("loss, k = 1", 4), FIXED("loss", 4),
                    FIXED("norm", 3), {"of %d", .decimals = 3, .count = k});
    fprintf(csv, "step,loss_of_one,loss,max_norm,norm");
    for (int j = 0; j < k; j++) fprintf(csv, ",norm%d", j);
    for (int step = 0; step < STEPS; step++) {
        fprintf(csv, "\n%d,%.9g,%.9g,%g,%.9g", step, (double)one.losses[step],
                (double)several.losses[step], (double)MAX_NORM, several.norm[step]);
        for (int j = 0; j < k; j++) fprintf(csv, ",%.9g", several.norm_of[step][j]);
        if (step % (STEPS / PRINTED) > 0) continue;
        table_numbers(&t, step, (double)one.losses[step], (double)several.losses[step],
                      several.norm[step]);
        table_add_numbers(&t, (size_t)k, several.norm_of[step]);
    }
    fprintf(csv, "\n");
    double halves = 2 * (k - 1) * several.floats * sizeof(float);
    say("\nBytes that all devices send in a step: %.0f. A reduce-scatter and an all-gather of "
        "%.0f floats send %.0f.",
        several.bytes / STEPS, several.floats, halves);
    dataset_free(data);
}

static void prepare(const Flags *flags) {
    if (flags->devices < 2 || flags->devices > MOST_SHARDS)
        die_usage("--devices 2 to 8", "one device has all of the gradient");
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 4;
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 1: ZeRO-1 with a clipped gradient.",
                                     .flags = "devices seed lr -machine",
                                     .defaults = defaults,
                                     .prepare = prepare,
                                     .experiment = experiment,
                                     .plot = "exercise_clipped_step.gp"});
}
