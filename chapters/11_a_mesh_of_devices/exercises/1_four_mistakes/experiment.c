// experiment.c: facts about your functions: trainings on five meshes beside one that is not
// divided: losses, norms, Adam's averages, copies, and bytes inside and across hosts.
#include "common/data/fashion_mnist.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 12, RUNS = 6 };
static const int meshes[RUNS][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 4}, {4, 2}};
static const char *const names[RUNS] = {"not divided", "1 x 2", "2 x 1", "2 x 2", "2 x 4", "4 x 2"};
static const float MAX_NORM = 1;

typedef struct Run {
    double losses[STEPS], norms[STEPS], lengths[STEPS]; // of Adam's averages
    int apart[STEPS];
    HostBytes bytes; // of the last step, as of each
} Run;

static double length_of(const Mesh *m, Tensor *const of[NUM_PARAMS][MOST_DEVICES]) {
    double squares = 0;
    float *whole = small_mesh_join(m, of);
    for (size_t j = 0; j < small_mesh_numbers(m); j++)
        squares += (double)whole[j] * (double)whole[j];
    free(whole);
    return sqrt(squares);
}

// None of your functions.
static float undivided_step(Mesh *m, float lr) {
    float norm = (float)length_of(m, m->grads) / (float)m->rows;
    for (int p = 0; p < NUM_PARAMS; p++)
        if (norm > MAX_NORM) multiply(m->grads[p][0], MAX_NORM / norm);
    adam_step(m->adam, lr, m->rows);
    return norm;
}

static void train(int r, const Flags *flags, const Dataset *data, Run *run) {
    Tensor *X, *y;
    DataIter *iter = data_iter_new(data, flags->batch_size, true, flags->seed);
    Mesh *m = small_mesh_new(meshes[r][0], meshes[r][1], (Sizes){784, 64, FASHION_MNIST_CLASSES},
                             flags->seed);
    data_iter_start(iter, 0);
    for (int s = 0; s < STEPS && data_iter_next(iter, &X, &y); s++) {
        ledger_reset();
        Tensor *rows = reshape(X, X->shape[0], 784);
        run->losses[s] = (double)compute_gradients(m, rows, y);
        if (r > 0) reduce_gradients(m);
        run->norms[s] =
            (double)(r > 0 ? step(m, flags->lr, MAX_NORM) : undivided_step(m, flags->lr));
        synchronize_all();
        run->bytes = small_mesh_bytes(m);
        run->lengths[s] = length_of(m, m->averages);
        run->apart[s] = small_mesh_copies_apart(m);
    }
    small_mesh_free(m);
    data_iter_free(iter);
}

static void experiment(const Flags *flags, FILE *csv) {
    static Run runs[RUNS];
    Dataset *data = fashion_mnist_open(flags->data, true, STEPS * flags->batch_size);
    for (int r = 0; r < RUNS; r++) train(r, flags, data, &runs[r]);
    say("Mean losses, %d images in each step, on dp x tp devices. All trainings begin with the "
        "same parameters and clip the mean gradient to the length %g.",
        flags->batch_size, (double)MAX_NORM);
    Table t = TABLE(NULL, WHOLE("step"), FIXED("not divided", 4), FIXED("1 x 2", 4),
                    FIXED("2 x 1", 4), FIXED("2 x 2", 4), FIXED("2 x 4", 4), FIXED("4 x 2", 4));
    for (int s = 0; s < STEPS; s++) {
        table_numbers(&t, s + 1);
        for (int r = 0; r < RUNS; r++) table_numbers(&t, runs[r].losses[s]);
    }
    say("\nIn step 1: the norm of the gradient that step() returns, the length of Adam's moving "
        "averages after it, tensors that differ from their first copy, and bytes. A host has tp "
        "devices.");
    Table facts = TABLE(NULL, WORDS("devices", 12), FIXED("norm", 4), FIXED("length", 4),
                        WHOLE("copies apart"), WHOLE("inside hosts"), WHOLE("across hosts"));
    Table all = TABLE(csv, {.csv = "devices", .text = 12}, {.csv = "step"}, {.csv = "loss"},
                      {.csv = "norm"}, {.csv = "length"}, {.csv = "apart"}, {.csv = "inside"},
                      {.csv = "across"});
    for (int r = 0; r < RUNS; r++)
        for (int s = 0; s < STEPS; s++) {
            const Run *run = &runs[r];
            double in = (double)run->bytes.inside, across = (double)run->bytes.across;
            table_text(&all, "%s", names[r]);
            table_numbers(&all, s + 1, run->losses[s], run->norms[s], run->lengths[s],
                          run->apart[s], in, across);
            if (s > 0) continue;
            table_text(&facts, "%s", names[r]);
            table_numbers(&facts, run->norms[s], run->lengths[s], run->apart[s], in, across);
        }
    dataset_free(data);
}

int main(int argc, char *argv[]) {
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 1: four mistakes on a 2-D mesh.",
                                     .flags = "seed batch-size=256 lr=0.001 -machine",
                                     .experiment = experiment,
                                     .plot = "exercise_four_mistakes.gp"});
}
