// experiment.c: gradients of a minibatch in 2, 4 and 8 parts against those of the whole one, on 1,
// 2 and 4 ranks: equal to the bit, or how far apart? The same with batch norm; then what is saved.
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES = 7, KS = 3, MS = 3, NORMED = 64, SAVED = 256, RANKS = 4 };
static const int sizes[SIZES] = {32, 64, 96, 100, 128, 256, 576};
static const int ks[KS] = {1, 2, 4}, ms[MS] = {2, 4, 8};
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

// Returns the largest difference, as a part of the largest number. differ[]: how many numbers
// differ in a bit, in the first layer and in the others.
static double difference(Module *net, Plan plan, Plan from, int n, int differ[2]) {
    Gradients a = gradients_of(net, plan, n), b = gradients_of(net, from, n);
    double apart = relative_difference(a.values, b.values, NULL, a.n);
    differ[0] = differ[1] = 0;
    for (size_t i = 0; i < a.n; i++)
        differ[i >= a.first_layer] += memcmp(&a.values[i], &b.values[i], sizeof(float)) != 0;
    free(a.values);
    free(b.values);
    return apart;
}

// Besides m parts of each shard, the CSV has two parts that are each split over the ranks.
static void compare_lenet(Module *lenet, FILE *csv) {
    int differ[2];
    say("\n  LeNet, m parts (2, 4 and 8) against the whole minibatch");
    Table t = TABLE(NULL, WHOLE("images"), {"k=1, m=%d", .count = MS, .of = ms},
                    {"k=2, m=%d", .count = MS, .of = ms}, {"k=4, m=%d", .count = MS, .of = ms});
    for (int a = 0; a < SIZES * KS; a++) {
        int n = sizes[a / KS], k = ks[a % KS];
        Plan whole = shards_in_parts(n, k, 1);
        if (a % KS == 0) table_numbers(&t, n);
        for (int p = 0; p < MS; p++) {
            double apart = difference(lenet, shards_in_parts(n, k, ms[p]), whole, n, differ);
            fprintf(csv, "lenet,%d,%d,%d,%d,%d,%.6g,,,,\n", k, n, ms[p], differ[0], differ[1],
                    apart);
            if (differ[1] > 0) table_text(&t, "%.0e", apart);
            if (differ[1] == 0) table_text(&t, differ[0] > 0 ? "(=)" : "=");
        }
        double apart = difference(lenet, parts_in_shards(n, k, 2), whole, n, differ);
        fprintf(csv, "lenet by parts,%d,%d,2,%d,%d,%.6g,,,,\n", k, n, differ[0], differ[1], apart);
    }
    say("  =: equal to the bit; (=): but for the first layer; else the largest difference, as a "
        "part of the largest number.");
}

static void compare_normed(Module *lenet, Module *resnet, FILE *csv) {
    int differ[2];
    const Plan whole = shards_in_parts(NORMED, 1, 1);
    say("\n  A small ResNet, with batch norm, %d images, one device: m parts against", NORMED);
    Table t = TABLE(NULL, WHOLE("m"), DIGITS("the whole minibatch", 2),
                    DIGITS("m devices with a part each", 2));
    for (int p = 0; p < MS; p++) {
        Plan plan = shards_in_parts(NORMED, 1, ms[p]);
        Plan ranks = shards_in_parts(NORMED, ms[p], 1);
        double from_whole = difference(resnet, plan, whole, NORMED, differ);
        double from_ranks = difference(resnet, plan, ranks, NORMED, differ);
        double plain = difference(lenet, plan, whole, NORMED, differ);
        table_numbers(&t, ms[p], from_whole, from_ranks);
        fprintf(csv, "batch norm,1,%d,%d,,,%.6g,%.6g,,,\nno batch norm,1,%d,%d,,,%.6g,,,,\n",
                NORMED, ms[p], from_whole, from_ranks, NORMED, ms[p], plain);
    }
}

static void count_saved(Module *lenet, FILE *csv) {
    say("\n  LeNet, k = %d, %d images: for an update", RANKS, SAVED);
    Table t = TABLE(NULL, WHOLE("m"), WHOLE("bytes, one exchange"), WHOLE("bytes, m exchanges"),
                    FIXED("activations of a device", 2, .unit = "MB"));
    for (int m = 1; m <= 8; m *= 2) {
        Gradients g = gradients_of(lenet, shards_in_parts(SAVED, RANKS, m), SAVED);
        table_numbers(&t, m, g.bytes, m * g.bytes, g.activation_bytes);
        fprintf(csv, "saved,%d,%d,%d,,,,,%.0f,%.0f,%.0f\n", RANKS, SAVED, m, g.bytes, m * g.bytes,
                g.activation_bytes);
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
    choose_allreduce(flags->allreduce);
    say("Question: a minibatch in m parts, has it the bits of the whole one? Gradients, summed "
        "over k ranks (allreduce: %s), exchanged once.",
        flags->allreduce);
    fprintf(csv, "part,devices,images,m,differ_in_first_layer,differ_in_others,apart,from_ranks,"
                 "bytes_once,bytes_each,activation_bytes\n");
    compare_lenet(lenet, csv);
    compare_normed(lenet, resnet, csv);
    count_saved(lenet, csv);
    module_free(lenet);
    module_free(resnet);
    dataset_free((Dataset *)data);
}

int main(int argc, char *argv[]) {
    const Exercise exercise = {.about = "Exercise 4: a large minibatch, in parts.",
                               .flags = "seed allreduce -machine",
                               .defaults = default_flags,
                               .experiment = experiment,
                               .plot = "exercise_accumulation.gp"};
    return exercise_main(argc, argv, &exercise);
}
