// experiment.c: gradients of a minibatch in 2, 4 and 8 parts against those of the whole one, on 1,
// 2 and 4 ranks: equal to the bit, or how far apart? The same with batch norm; then what is saved.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <math.h>
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
    float *zeros = xcalloc(a->n, sizeof *zeros);
    size_t first = first_layer_numel(net);
    for (size_t i = 0; i < a->n; i++) {
        bool differ = memcmp(&a->values[i], &b->values[i], sizeof(float)) != 0;
        if (i < first)
            d.in_first_layer += differ;
        else
            d.in_others += differ;
    }
    d.apart = relative_difference(a->values, b->values, zeros, a->n);
    free(zeros);
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

static void print_difference(const Difference *d) {
    if (d->in_others > 0)
        printf("%8.0e", d->apart);
    else
        printf("%8s", d->in_first_layer > 0 ? "(=)" : "=");
}

static void compare_lenet(const Setting *s, Lenet *l) {
    printf("\n  LeNet, m parts against the whole minibatch\n"
           "                     k = 1                   k = 2                   k = 4\n  images");
    for (int j = 0; j < NUM_KS * NUM_MS; j++) printf("   m = %d", ms[j % NUM_MS]);
    for (int a = 0; a < NUM_SIZES; a++) {
        printf("\n  %6d", sizes[a]);
        for (int j = 0; j < NUM_KS; j++) {
            Plan all = shards_in_parts(sizes[a], ks[j], 1);
            Plan parts = parts_in_shards(sizes[a], ks[j], 2);
            Gradients whole = gradients_of(s, s->lenet, &all, sizes[a]);
            l->by_parts[a][j] = compare(s, s->lenet, &parts, sizes[a], &whole);
            for (int p = 0; p < NUM_MS; p++) {
                parts = shards_in_parts(sizes[a], ks[j], ms[p]);
                l->by_shards[a][j][p] = compare(s, s->lenet, &parts, sizes[a], &whole);
                print_difference(&l->by_shards[a][j][p]);
            }
            free(whole.values);
        }
    }
    printf("\n");
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
    printf("\n  A small ResNet, with batch norm, %d images, one device: m parts against\n"
           "   m     the whole minibatch     m devices with a part each\n",
           NORM_IMAGES);
    for (int p = 0; p < NUM_MS; p++) {
        Plan parts = shards_in_parts(NORM_IMAGES, 1, ms[p]);
        Plan each = shards_in_parts(NORM_IMAGES, ms[p], 1);
        Gradients ranks = gradients_of(s, s->resnet, &each, NORM_IMAGES);
        b->whole[p] = compare(s, s->resnet, &parts, NORM_IMAGES, &resnet).apart;
        b->ranks[p] = compare(s, s->resnet, &parts, NORM_IMAGES, &ranks).apart;
        b->lenet[p] = compare(s, s->lenet, &parts, NORM_IMAGES, &lenet).apart;
        printf("  %2d %23.2g %30.2g\n", ms[p], b->whole[p], b->ranks[p]);
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
    printf("\n  LeNet, k = %d, %d images: bytes between devices for an update\n"
           "   m   one exchange   one for each part   activations of a device, MB\n",
           SAVED_RANKS, SAVED_IMAGES);
    for (int p = 0; p < NUM_SAVED; p++) {
        Saved *v = &saved[p];
        v->m = 1 << p;
        Plan plan = shards_in_parts(SAVED_IMAGES, SAVED_RANKS, v->m);
        Gradients g = gradients_of(s, s->lenet, &plan, SAVED_IMAGES);
        v->once = (double)g.bytes;
        v->each = v->m * saved[0].once;
        v->activations = (double)g.activation_bytes;
        printf("  %2d %14.0f %19.0f %29.2f\n", v->m, v->once, v->each, 1e-6 * v->activations);
        free(g.values);
    }
}

// ## What the figures say

// Two parts are halves of the tree if each rank has whole groups of 16 images in each of them, and
// no more than 32 groups in both.
static bool are_halves(int n, int k, int m) { return m == 2 && n % (32 * k) == 0 && n / k <= 512; }

static void explain_equal(const Lenet *l) {
    int equal = 0, halves = 0, wrong = 0, first_differs = 0, all = 0;
    double most = 0;
    for (int a = 0; a < NUM_SIZES; a++)
        for (int j = 0; j < NUM_KS; j++)
            for (int p = 0; p < NUM_MS; p++) {
                const Difference *d = &l->by_shards[a][j][p];
                bool is_equal = d->in_others == 0, said = are_halves(sizes[a], ks[j], ms[p]);
                all++;
                equal += is_equal;
                halves += said;
                wrong += is_equal != said;
                first_differs += is_equal && d->in_first_layer > 0;
                most = fmax(most, d->apart);
            }
    say("- To the bit: a CPU device adds up 16 images one by one, then these sums in pairs, up to "
        "32 of them (chapter 4). Two parts of whole sixteens are the two halves of that tree, and "
        "the second part is added to the first as the tree would do it. So m = 2 should be equal, "
        "if each rank has a multiple of 32 images, not more than 512: %d of these %d. %d are "
        "equal, and that rule is wrong in %d.",
        halves, all, equal, wrong);
    if (num_gpus() > 0) say("  But these devices are GPUs, which add up in an order of their own.");
    say("  With m = 4 it is ((a + b) + c) + d, and the tree has (a + b) + (c + d): other sums, "
        "other roundings. The largest difference of all is %.1g: rounding, and nothing else.",
        most);
    if (first_differs > 0)
        say("  In %d of the %d equal ones the first layer differs in last digits. The gradient "
            "that reaches it has come through the second convolution, whose backward works on "
            "blocks of images, as many as suit the minibatch; only chapter 4's LeNet, with its "
            "operations in one, promises that they do not matter.",
            first_differs, equal);
}

static void explain_plans(const Lenet *l) {
    int by_shards = 0, by_parts = 0, all = 0;
    for (int a = 0; a < NUM_SIZES; a++)
        for (int j = 1; j < NUM_KS; j++) {
            all++;
            by_shards += l->by_shards[a][j][0].in_others == 0;
            by_parts += l->by_parts[a][j].in_others == 0;
        }
    say("- Who has which rows: all that was each rank's shard, in m parts. If instead the "
        "minibatch is cut into two parts, and each of these into shards, rank 0 has rows of the "
        "first and of the third quarter: with k = 2 and 4, %d of %d are equal, not %d.",
        by_parts, all, by_shards);
}

static void explain_norm(const Normed *b) {
    int last = NUM_MS - 1;
    say("- Batch norm: %d parts are %.2g apart from the whole, where LeNet, without it, is %.1g. "
        "That is no rounding. Each part is normalised by the mean and the variance of its own %d "
        "images, and other statistics are another function.",
        ms[last], b->whole[last], b->lenet[last], NORM_IMAGES / ms[last]);
    say("  It is the function that m devices compute with a part each, whose batch norms know "
        "nothing of each other: from that the m parts are %s. So what accumulation gives is not "
        "the large minibatch, but the data parallel one.",
        b->ranks[last] > 0
            ? "apart by rounding"
            : "apart by nothing, not even a bit, for this allreduce adds rank after rank "
              "as parts are added");
    if (b->ranks[last] > 1e-4)
        say("  (Or so it should be: here they are %g apart.)", b->ranks[last]);
}

static void explain_saved(const Saved saved[NUM_SAVED]) {
    const Saved *one = &saved[0], *last = &saved[NUM_SAVED - 1];
    say("- Saved: with m = %d an update moves %.0f bytes between %d devices, as with m = 1; with "
        "an exchange after each part it would be %.0f. And a device's activations take %.2f of "
        "what they take in one go.",
        last->m, last->once, SAVED_RANKS, last->each, last->activations / one->activations);
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
    say("\nAnswer");
    explain_equal(&l);
    explain_plans(&l);
    explain_norm(&b);
    explain_saved(saved);
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
                    .flags = "seed allreduce",
                    .defaults = default_flags,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "m parts make the update of the whole minibatch, with one exchange",
                    .experiment = experiment,
                    .plot = "exercise_accumulation.gp"});
}
