// experiment.c: trainings on 1, 4 and 8 devices with your step, and with gradients each of whose
// parts was clipped by its own norm: losses, and how long and in which direction the steps are.
#include "common/data/fashion_mnist.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 40, PRINTED = 8, NUM_KS = 3, NUM_CLIPS = 2 };
static const int ks[NUM_KS] = {1, 4, 8};
typedef enum Clip { WHOLE_NORM, OWN_NORM } Clip;
static const float MAX_NORM = 0.5f;

typedef struct Run {
    double losses[STEPS];
    double norm[STEPS], length[STEPS], angle[STEPS]; // of the mean gradient; after it was clipped
    double bytes, floats;                            // sent in all; parameters
} Run;

// Adds the squares of part j of parameter p's gradient, summed over all devices, to squares[j].
static void add_parts(const Sharded *s, int p, double squares[]) {
    static double sums[64 << 10];
    size_t n = numel(s->grads[p][0]);
    for (int i = 0; i < s->k; i++) {
        float *values = tensor_values(s->grads[p][i]);
        for (size_t at = 0; at < n; at++) sums[at] = (i > 0 ? sums[at] : 0) + (double)values[at];
        free(values);
    }
    for (int j = 0; j < s->k; j++) {
        Range part = equal_range((long)n, s->k, j);
        for (long at = part.first; at < part.first + part.count; at++)
            squares[j] += sums[at] * sums[at];
    }
}

// The factors of the parts, if all are clipped by one norm or each by its own, and what they do.
static void find_factors(const Sharded *s, Clip clip, int rows, double factors[], Run *run,
                         int step) {
    double squares[MOST_SHARDS] = {0}, all = 0, clipped = 0, product = 0;
    for (int p = 0; p < s->n; p++) add_parts(s, p, squares);
    for (int j = 0; j < s->k; j++) all += squares[j];
    for (int j = 0; j < s->k; j++) {
        factors[j] = fmin(1, MAX_NORM * rows / sqrt(clip == OWN_NORM ? squares[j] : all));
        clipped += factors[j] * factors[j] * squares[j];
        product += factors[j] * squares[j];
    }
    run->norm[step] = sqrt(all) / rows;
    run->length[step] = sqrt(clipped) / rows;
    run->angle[step] = 180 / acos(-1) * acos(fmin(1, product / sqrt(all * clipped)));
}

static void scale_parts(const Sharded *s, const double factors[]) {
    for (int p = 0; p < s->n; p++)
        for (int i = 0; i < s->k; i++) {
            float *values = tensor_values(s->grads[p][i]);
            for (int j = 0; j < s->k; j++) {
                Range part = equal_range((long)numel(s->grads[p][i]), s->k, j);
                for (long at = part.first; at < part.first + part.count; at++)
                    values[at] *= (float)factors[j];
            }
            tensor_write(s->grads[p][i], values);
            free(values);
        }
}

static void train(Run *run, int k, Clip clip, const Flags *flags, const Dataset *data) {
    Module *net = Sequential(Flatten(), Linear(784, 64), ReLU(), Linear(64, FASHION_MNIST_CLASSES));
    Tensor *X, *y;
    DataIter *iter = data_iter_new(data, flags->batch_size, true, flags->seed);
    initialize(net, flags->seed);
    Sharded *s = sharded_new(net, k, 0, false);
    data_iter_start(iter, 0);
    ledger_reset();
    for (int step = 0; step < STEPS && data_iter_next(iter, &X, &y); step++) {
        double factors[MOST_SHARDS];
        run->losses[step] = (double)compute_gradients(s, X, y);
        find_factors(s, clip, flags->batch_size, factors, run, step);
        if (clip == OWN_NORM) scale_parts(s, factors);
        clipped_step(s, flags->lr, clip == OWN_NORM ? INFINITY : MAX_NORM, flags->batch_size);
    }
    synchronize_all();
    run->bytes = (double)ledger_bytes_between_devices();
    run->floats = (double)parameter_bytes(net) / sizeof(float);
    sharded_free(s);
    module_free(net);
    data_iter_free(iter);
}

static void show_lengths(const Run own[NUM_KS]) {
    say("\nThe mean gradients of the trainings that clip by parts: norm before and after clipping, "
        "and the angle between the two, in degrees.");
    Table t =
        TABLE(NULL, WHOLE("step"), {"before, k = %d", .decimals = 2, .count = 2, .of = ks + 1},
              {"after, k = %d", .decimals = 2, .count = 2, .of = ks + 1},
              {"angle, k = %d", .count = 2, .of = ks + 1});
    for (int step = 0; step < STEPS; step += STEPS / PRINTED)
        table_numbers(&t, step, own[1].norm[step], own[2].norm[step], own[1].length[step],
                      own[2].length[step], own[1].angle[step], own[2].angle[step]);
}

static void experiment(const Flags *flags, FILE *csv) {
    static Run runs[NUM_CLIPS][NUM_KS];
    Dataset *data = fashion_mnist_open(flags->data, true, STEPS * flags->batch_size);
    for (int c = 0; c < NUM_CLIPS; c++)
        for (int i = 0; i < NUM_KS; i++) train(&runs[c][i], ks[i], (Clip)c, flags, data);
    say("Losses of a network of two layers, %d images in each step, max_norm %g: your step, and if "
        "each device's part of the gradient is clipped by the norm of that part.",
        flags->batch_size, (double)MAX_NORM);
    Table t = TABLE(NULL, WHOLE("step"), {"yours, k = %d", .decimals = 4, .count = 3, .of = ks},
                    {"by parts, k = %d", .decimals = 4, .count = 3, .of = ks});
    fprintf(csv, "step,devices,clip,loss,norm,length,angle\n");
    for (int step = 0; step < STEPS; step++) {
        if (step % (STEPS / PRINTED) == 0) table_numbers(&t, step);
        for (int j = 0; j < NUM_CLIPS * NUM_KS; j++) {
            const Run *r = &runs[j / NUM_KS][j % NUM_KS];
            if (step % (STEPS / PRINTED) == 0) table_numbers(&t, r->losses[step]);
            fprintf(csv, "%d,%d,%s,%.9g,%.9g,%.9g,%.9g\n", step, ks[j % NUM_KS],
                    j < NUM_KS ? "yours" : "by parts", r->losses[step], r->norm[step],
                    r->length[step], r->angle[step]);
        }
    }
    show_lengths(runs[OWN_NORM]);
    const Run *most = &runs[WHOLE_NORM][NUM_KS - 1];
    int k = ks[NUM_KS - 1];
    say("\nBytes that all %d devices send in a step of yours: %.0f. A reduce-scatter and an "
        "all-gather of %.0f floats send %.0f.",
        k, most->bytes / STEPS, most->floats, 2 * (k - 1) * most->floats * sizeof(float));
    dataset_free(data);
}

int main(int argc, char *argv[]) {
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 1: ZeRO-1 with a clipped gradient.",
                                     .flags = "seed lr=0.5 -machine",
                                     .experiment = experiment,
                                     .plot = "exercise_clipped_step.gp"});
}
