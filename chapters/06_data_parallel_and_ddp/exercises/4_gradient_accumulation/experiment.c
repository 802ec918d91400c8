// experiment.c: gradients of a minibatch in 2, 4 and 8 parts against those of the whole one, on 1,
// 2 and 4 ranks: equal to the bit, or how far apart? The same with batch norm; then what is saved.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

// ## Gradients
//
// step_in_parts() makes an update. With a learning rate that is so large, what is left of the old
// parameters is nothing, and the new ones show the digits of the gradients. (A power of two: it
// changes no digit itself.)

static const float LARGE_LR = 1 << 30;

typedef struct Setting {
    const Dataset *data;
    uint64_t seed;
    Module *lenet, *resnet;
} Setting;

typedef struct Gradients {
    float *values; // of the last rank; free() them
    size_t n, activation_bytes;
    uint64_t bytes; // between devices
} Gradients;

static Gradients gradients_of(const Setting *s, Module *net, const Plan *plan, int n) {
    Device *devices[MOST_RANKS];
    Tensor *X, *y;
    Gradients g = {0};
    DataIter *iter = data_iter_new(s->data, n, true, s->seed);
    data_iter_first(iter, &X, &y);
    initialize(net, s->seed);
    open_devices(devices, plan->k);
    Ddp *ddp = ddp_new(net, devices, plan->k, (DdpOptions){.keep_buffers = true});
    synchronize_all();
    uint64_t before = ledger_bytes_between_devices();
    step_in_parts(ddp, plan, X, y, LARGE_LR);
    synchronize_all();
    g.bytes = ledger_bytes_between_devices() - before;
    g.activation_bytes = arena_used_bytes(devices[0]);
    g.values = ddp_values(ddp, plan->k - 1, &g.n);
    ddp_free(ddp);
    restart(net);
    data_iter_free(iter);
    return g;
}

// Numbers that differ in a bit, and by how much, as a part of the largest number.
typedef struct Difference {
    size_t in_first_layer, in_others;
    double apart;
} Difference;

static size_t first_layer_numel(const Module *net) { // weight and bias
    Parameters all = parameters_of(net);
    return numel(all.list[0]->start) + numel(all.list[1]->start);
}

static Difference difference_of(const Module *net, const Gradients *a, const Gradients *b) {
    Difference d = {0};
    size_t first = first_layer_numel(net);
    for (size_t i = 0; i < a->n; i++) {
        bool differ = memcmp(&a->values[i], &b->values[i], sizeof(float)) != 0;
        if (i < first)
            d.in_first_layer += differ;
        else
            d.in_others += differ;
    }
    d.apart = relative_difference(a->values, b->values, NULL, a->n);
    return d;
}

static Difference compare(const Setting *s, Module *net, const Plan *parts, int n,
                          const Gradients *with) {
    Gradients g = gradients_of(s, net, parts, n);
    Difference d = difference_of(net, &g, with);
    free(g.values);
    return d;
}

// ## LeNet

enum { NUM_SIZES = 7, NUM_KS = 3, NUM_MS = 3 };
static const int sizes[NUM_SIZES] = {32, 64, 96, 100, 128, 256, 576};
static const int ks[NUM_KS] = {1, 2, 4}, ms[NUM_MS] = {2, 4, 8};

typedef struct Lenet {
    Difference by_shards[NUM_SIZES][NUM_KS][NUM_MS]; // each rank's shard in m parts
    Difference by_parts[NUM_SIZES][NUM_KS];          // two parts, each split over the ranks
} Lenet;

static void add_difference(Table *t, const Difference *d) {
    if (d->in_others > 0)
        table_text(t, "%.0e", d->apart);
    else
        table_text(t, d->in_first_layer > 0 ? "(=)" : "=");
}

static void compare_lenet(const Setting *s, Lenet *l) {
    say("\n  LeNet, m parts (2, 4 and 8) against the whole minibatch");
    Table t =
        TABLE(NULL, WHOLE("images"), {"k=1, m=%d", .count = NUM_MS, .of = ms},
              {"k=2, m=%d", .count = NUM_MS, .of = ms}, {"k=4, m=%d", .count = NUM_MS, .of = ms});
    for (int a = 0; a < NUM_SIZES; a++) {
        table_numbers(&t, sizes[a]);
        for (int j = 0; j < NUM_KS; j++) {
            Plan all = shards_in_parts(sizes[a], ks[j], 1);
            Plan parts = parts_in_shards(sizes[a], ks[j], 2);
            Gradients whole = gradients_of(s, s->lenet, &all, sizes[a]);
            l->by_parts[a][j] = compare(s, s->lenet, &parts, sizes[a], &whole);
            for (int p = 0; p < NUM_MS; p++) {
                parts = shards_in_parts(sizes[a], ks[j], ms[p]);
                l->by_shards[a][j][p] = compare(s, s->lenet, &parts, sizes[a], &whole);
                add_difference(&t, &l->by_shards[a][j][p]);
            }
            free(whole.values);
        }
    }
    say("  =: equal to the bit; (=): but for the first layer; else the largest difference, as a "
        "part of the largest number.");
}

// ## A network with batch norm

static Module *small_resnet(void) {
    return Sequential(Conv2d(1, 8, .kernel_size = 3, .stride = 2, .padding = 1), BatchNorm2d(8),
                      ReLU(), Residual(8, 8), Residual(8, 16, .use_1x1conv = true, .strides = 2),
                      AdaptiveAvgPool2d(1, 1), Flatten(), Linear(16, FASHION_MNIST_CLASSES));
}

enum { NORM_IMAGES = 64 };
typedef struct Normed {
    double whole[NUM_MS], ranks[NUM_MS]; // apart: from the whole minibatch; from m ranks
    double lenet[NUM_MS];                // LeNet from the whole, with as many images
} Normed;

static void compare_normed(const Setting *s, Normed *b) {
    Plan all = shards_in_parts(NORM_IMAGES, 1, 1);
    Gradients resnet = gradients_of(s, s->resnet, &all, NORM_IMAGES);
    Gradients lenet = gradients_of(s, s->lenet, &all, NORM_IMAGES);
    say("\n  A small ResNet, with batch norm, %d images, one device: m parts against", NORM_IMAGES);
    Table t = TABLE(NULL, WHOLE("m"), DIGITS("the whole minibatch", 2),
                    DIGITS("m devices with a part each", 2));
    for (int p = 0; p < NUM_MS; p++) {
        Plan parts = shards_in_parts(NORM_IMAGES, 1, ms[p]);
        Plan each = shards_in_parts(NORM_IMAGES, ms[p], 1);
        Gradients ranks = gradients_of(s, s->resnet, &each, NORM_IMAGES);
        b->whole[p] = compare(s, s->resnet, &parts, NORM_IMAGES, &resnet).apart;
        b->ranks[p] = compare(s, s->resnet, &parts, NORM_IMAGES, &ranks).apart;
        b->lenet[p] = compare(s, s->lenet, &parts, NORM_IMAGES, &lenet).apart;
        table_numbers(&t, ms[p], b->whole[p], b->ranks[p]);
        free(ranks.values);
    }
    free(resnet.values);
    free(lenet.values);
}

// ## What is saved

enum { SAVED_IMAGES = 256, SAVED_RANKS = 4, NUM_SAVED = 4 };
typedef struct Saved {
    int m;
    double once, each, activations; // bytes: between devices, with one exchange and with m; of one
} Saved;

static void count_saved(const Setting *s, Saved saved[NUM_SAVED]) {
    say("\n  LeNet, k = %d, %d images: bytes between devices for an update", SAVED_RANKS,
        SAVED_IMAGES);
    Table t = TABLE(NULL, WHOLE("m"), WHOLE("one exchange"), WHOLE("one for each part"),
                    FIXED("activations of a device", 2, .unit = "MB"));
    for (int p = 0; p < NUM_SAVED; p++) {
        Saved *v = &saved[p];
        v->m = 1 << p;
        Plan plan = shards_in_parts(SAVED_IMAGES, SAVED_RANKS, v->m);
        Gradients g = gradients_of(s, s->lenet, &plan, SAVED_IMAGES);
        v->once = (double)g.bytes;
        v->each = v->m * saved[0].once;
        v->activations = (double)g.activation_bytes;
        table_numbers(&t, v->m, v->once, v->each, v->activations);
        free(g.values);
    }
}

static void write_csv(FILE *csv, const Lenet *l, const Normed *b, const Saved saved[]) {
    fprintf(csv, "part,devices,images,m,differ_in_first_layer,differ_in_others,apart,from_ranks,"
                 "bytes_once,bytes_each,activation_bytes\n");
    for (int a = 0; a < NUM_SIZES; a++)
        for (int j = 0; j < NUM_KS; j++) {
            for (int p = 0; p < NUM_MS; p++) {
                const Difference *d = &l->by_shards[a][j][p];
                fprintf(csv, "lenet,%d,%d,%d,%zu,%zu,%.6g,,,,\n", ks[j], sizes[a], ms[p],
                        d->in_first_layer, d->in_others, d->apart);
            }
            const Difference *d = &l->by_parts[a][j];
            fprintf(csv, "lenet by parts,%d,%d,2,%zu,%zu,%.6g,,,,\n", ks[j], sizes[a],
                    d->in_first_layer, d->in_others, d->apart);
        }
    for (int p = 0; p < NUM_MS; p++) {
        fprintf(csv, "batch norm,1,%d,%d,,,%.6g,%.6g,,,\n", NORM_IMAGES, ms[p], b->whole[p],
                b->ranks[p]);
        fprintf(csv, "no batch norm,1,%d,%d,,,%.6g,,,,\n", NORM_IMAGES, ms[p], b->lenet[p]);
    }
    for (int p = 0; p < NUM_SAVED; p++)
        fprintf(csv, "saved,%d,%d,%d,,,,,%.0f,%.0f,%.0f\n", SAVED_RANKS, SAVED_IMAGES, saved[p].m,
                saved[p].once, saved[p].each, saved[p].activations);
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Lenet l;
    Normed b;
    Saved saved[NUM_SAVED] = {0};
    Setting s = {.data = fashion_mnist_open(flags->data, true, 1024),
                 .seed = flags->seed,
                 .lenet = lenet_modules(FASHION_MNIST_CLASSES),
                 .resnet = small_resnet()};
    say("Question: a minibatch in m parts, has it the bits of the whole one?");
    say("Gradients, summed over k ranks (allreduce: %s), exchanged once.", flags->allreduce);
    Prediction bits = predict_yes_no(
        "One device goes through 128 images in two parts of 64, and adds up the gradients of "
        "LeNet. Will those of the last layer be equal to the bit to those of all 128 at once?");
    compare_lenet(&s, &l);
    predict_compare_yes_no(bits, l.by_shards[4][0][0].in_others == 0);
    compare_normed(&s, &b);
    count_saved(&s, saved);
    write_csv(csv, &l, &b, saved);
    module_free(s.lenet);
    module_free(s.resnet);
    dataset_free((Dataset *)s.data);
}

static void prepare(const Flags *flags) { choose_allreduce(flags->allreduce); }

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 4: a large minibatch, in parts.",
                    .flags = "seed allreduce -machine",
                    .defaults = default_flags,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "m parts make the update of the whole minibatch, with one exchange",
                    .experiment = experiment,
                    .plot = "exercise_accumulation.gp"});
}
