// experiment.c: gradients of a minibatch in 2, 4 and 8 parts against those of the whole one, on 1,
// 2 and 4 ranks: equal to the bit, or how far apart? The same with batch norm; then what is saved.
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

enum {
    NUM_SIZES = 7,
    NUM_KS = 3,
    NUM_MS = 3,
    NORM_IMAGES = 64,
    SAVED_IMAGES = 256,
    SAVED_RANKS = 4
};
static const int sizes[NUM_SIZES] = {32, 64, 96, 100, 128, 256, 576};
static const int ks[NUM_KS] = {1, 2, 4}, ms[NUM_MS] = {2, 4, 8};
static const Dataset *data;
static uint64_t seed;

typedef struct Gradients {
    float *values; // of the last rank; free() them
    size_t n, first_layer;
    double bytes, activation_bytes; // between devices; of a device
} Gradients;

// step_in_parts() makes an update. With a learning rate that is so large, what is left of the old
// parameters is nothing, and the new ones show the digits of the gradients. (A power of two: it
// changes no digit itself.)
static Gradients gradients_of(Module *net, Plan plan, int n) {
    Device *devices[MOST_RANKS];
    Tensor *X, *y;
    Gradients g = {0};
    DataIter *iter = data_iter_new(data, n, true, seed);
    data_iter_first(iter, &X, &y);
    initialize(net, seed);
    open_devices(devices, plan.k);
    Ddp *ddp = ddp_new(net, devices, plan.k, (DdpOptions){.keep_buffers = true});
    synchronize_all();
    ledger_reset();
    step_in_parts(ddp, &plan, X, y, 1 << 30);
    synchronize_all();
    g.bytes = (double)ledger_bytes_between_devices();
    g.activation_bytes = (double)arena_used_bytes(devices[0]);
    g.values = ddp_values(ddp, plan.k - 1, &g.n);
    for (int p = 0; p < 2; p++) g.first_layer += numel(ddp->params[p]->start); // weight and bias
    ddp_free(ddp);
    restart(net);
    data_iter_free(iter);
    return g;
}

typedef struct Difference {
    int in_first_layer, in_others; // how many numbers differ in a bit
    double apart;                  // the largest difference, as a part of the largest number
} Difference;

static Difference difference(Module *net, Plan plan, int n, const Gradients *from) {
    Gradients g = gradients_of(net, plan, n);
    Difference d = {.apart = relative_difference(g.values, from->values, NULL, g.n)};
    for (size_t i = 0; i < g.n; i++) {
        int differs = memcmp(&g.values[i], &from->values[i], sizeof(float)) != 0;
        *(i < g.first_layer ? &d.in_first_layer : &d.in_others) += differs;
    }
    free(g.values);
    return d;
}

// Returns whether two parts of 64 images on one device have the bits of all 128, but for layer 1.
static bool compare_lenet(Module *lenet, FILE *csv) {
    bool equal = false;
    say("\n  LeNet, m parts (2, 4 and 8) against the whole minibatch");
    Table t =
        TABLE(NULL, WHOLE("images"), {"k=1, m=%d", .count = NUM_MS, .of = ms},
              {"k=2, m=%d", .count = NUM_MS, .of = ms}, {"k=4, m=%d", .count = NUM_MS, .of = ms});
    for (int a = 0; a < NUM_SIZES; a++) {
        int n = sizes[a];
        table_numbers(&t, n);
        for (int j = 0; j < NUM_KS; j++) {
            Gradients whole = gradients_of(lenet, shards_in_parts(n, ks[j], 1), n);
            for (int p = 0; p <= NUM_MS;
                 p++) { // the last one: two parts, each split over the ranks
                Plan plan =
                    p < NUM_MS ? shards_in_parts(n, ks[j], ms[p]) : parts_in_shards(n, ks[j], 2);
                Difference d = difference(lenet, plan, n, &whole);
                fprintf(csv, "lenet%s,%d,%d,%d,%d,%d,%.6g,,,,\n", p < NUM_MS ? "" : " by parts",
                        ks[j], n, plan.m, d.in_first_layer, d.in_others, d.apart);
                if (n == 128 && ks[j] == 1 && p == 0) equal = d.in_others == 0;
                if (p < NUM_MS && d.in_others > 0)
                    table_text(&t, "%.0e", d.apart);
                else if (p < NUM_MS)
                    table_text(&t, d.in_first_layer > 0 ? "(=)" : "=");
            }
            free(whole.values);
        }
    }
    say("  =: equal to the bit; (=): but for the first layer; else the largest difference, as a "
        "part of the largest number.");
    return equal;
}

static void compare_normed(Module *lenet, Module *resnet, FILE *csv) {
    const Plan all = shards_in_parts(NORM_IMAGES, 1, 1);
    Gradients normed = gradients_of(resnet, all, NORM_IMAGES);
    Gradients plain = gradients_of(lenet, all, NORM_IMAGES);
    say("\n  A small ResNet, with batch norm, %d images, one device: m parts against", NORM_IMAGES);
    Table t = TABLE(NULL, WHOLE("m"), DIGITS("the whole minibatch", 2),
                    DIGITS("m devices with a part each", 2));
    for (int p = 0; p < NUM_MS; p++) {
        Plan plan = shards_in_parts(NORM_IMAGES, 1, ms[p]);
        Gradients ranks = gradients_of(resnet, shards_in_parts(NORM_IMAGES, ms[p], 1), NORM_IMAGES);
        double from_whole = difference(resnet, plan, NORM_IMAGES, &normed).apart;
        double from_ranks = difference(resnet, plan, NORM_IMAGES, &ranks).apart;
        table_numbers(&t, ms[p], from_whole, from_ranks);
        fprintf(csv, "batch norm,1,%d,%d,,,%.6g,%.6g,,,\n", NORM_IMAGES, ms[p], from_whole,
                from_ranks);
        fprintf(csv, "no batch norm,1,%d,%d,,,%.6g,,,,\n", NORM_IMAGES, ms[p],
                difference(lenet, plan, NORM_IMAGES, &plain).apart);
        free(ranks.values);
    }
    free(normed.values);
    free(plain.values);
}

static void count_saved(Module *lenet, FILE *csv) {
    double one = 0;
    say("\n  LeNet, k = %d, %d images: for an update", SAVED_RANKS, SAVED_IMAGES);
    Table t = TABLE(NULL, WHOLE("m"), WHOLE("bytes, one exchange"), WHOLE("bytes, m exchanges"),
                    FIXED("activations of a device", 2, .unit = "MB"));
    for (int m = 1; m <= 8; m *= 2) {
        Gradients g =
            gradients_of(lenet, shards_in_parts(SAVED_IMAGES, SAVED_RANKS, m), SAVED_IMAGES);
        if (m == 1) one = g.bytes;
        table_numbers(&t, m, g.bytes, m * one, g.activation_bytes);
        fprintf(csv, "saved,%d,%d,%d,,,,,%.0f,%.0f,%.0f\n", SAVED_RANKS, SAVED_IMAGES, m, g.bytes,
                m * one, g.activation_bytes);
        free(g.values);
    }
}

static void experiment(const Flags *flags, FILE *csv) {
    Module *lenet = lenet_modules(FASHION_MNIST_CLASSES);
    Module *resnet =
        Sequential(Conv2d(1, 8, .kernel_size = 3, .stride = 2, .padding = 1), BatchNorm2d(8),
                   ReLU(), Residual(8, 8), Residual(8, 16, .use_1x1conv = true, .strides = 2),
                   AdaptiveAvgPool2d(1, 1), Flatten(), Linear(16, FASHION_MNIST_CLASSES));
    data = fashion_mnist_open(flags->data, true, 1024);
    seed = flags->seed;
    say("Question: a minibatch in m parts, has it the bits of the whole one?");
    say("Gradients, summed over k ranks (allreduce: %s), exchanged once.", flags->allreduce);
    Prediction bits = predict_yes_no(
        "One device goes through 128 images in two parts of 64, and adds up the gradients of "
        "LeNet. Will those of the last layer be equal to the bit to those of all 128 at once?");
    fprintf(csv, "part,devices,images,m,differ_in_first_layer,differ_in_others,apart,from_ranks,"
                 "bytes_once,bytes_each,activation_bytes\n");
    predict_compare_yes_no(bits, compare_lenet(lenet, csv));
    compare_normed(lenet, resnet, csv);
    count_saved(lenet, csv);
    module_free(lenet);
    module_free(resnet);
    dataset_free((Dataset *)data);
}

static void prepare(const Flags *flags) { choose_allreduce(flags->allreduce); }

int main(int argc, char *argv[]) {
    const Exercise exercise = {.about = "Exercise 4: a large minibatch, in parts.",
                               .flags = "seed allreduce -machine",
                               .defaults = default_flags,
                               .prepare = prepare,
                               .experiment = experiment,
                               .plot = "exercise_accumulation.gp"};
    return exercise_main(argc, argv, &exercise);
}
