// factors.c: see factors.h. The book's second run differs from its first one in more than the
// number of devices. Here each of these things is changed alone.
#include "factors.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/statistics.h"
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/progress.h"
#include "common/program/say.h"
#include "data_parallel.h"
#include "resnet18.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ## The ways to train
//
// Seven ways, each from ten seeds: 70 short trainings. What differs between two of them is known,
// so the mean of the difference over the seeds, and how much it varies, tell what a change does.

typedef struct Way {
    const char *name;
    int devices;
    int times_batch, times_lr; // of --batch-size and --lr
    BatchNormMode bn;
    bool goes_on; // from what the training before it has left
} Way;

typedef enum {
    BOOKS_FIRST,
    BOOKS_SECOND,
    TWICE_BATCH,
    TWICE_LR,
    TWICE_BOTH,
    TWO_DEVICES,
    SYNCHRONISED,
    NUM_WAYS
} WayNumber;

static const Way ways[NUM_WAYS] = {
    [BOOKS_FIRST] = {"the book's first run", 1, 1, 1, BN_RANK0, false},
    [BOOKS_SECOND] = {"the book's second run", 2, 2, 2, BN_RANK0, true},
    [TWICE_BATCH] = {"twice the batch size", 1, 2, 1, BN_RANK0, false},
    [TWICE_LR] = {"twice the learning rate", 1, 1, 2, BN_RANK0, false},
    [TWICE_BOTH] = {"twice both", 1, 2, 2, BN_RANK0, false},
    [TWO_DEVICES] = {"twice both on 2 devices", 2, 2, 2, BN_RANK0, false},
    [SYNCHRONISED] = {"on 2 with --bn sync", 2, 2, 2, BN_SYNC, false},
};

// Accuracies after the last epoch, on the test images: with the running statistics that the way to
// train says, with others, and with those of each test minibatch itself, as in training.
typedef enum { AS_TRAINED, LOCAL, AVERAGED, OWN, NUM_EVALUATIONS } Evaluation;

typedef struct Outcome {
    double loss; // the mean of the last epoch
    double acc[NUM_EVALUATIONS];
} Outcome;

// ## One training

// Returns the mean loss.
static double train_epoch(DataParallel *dp, DataIter *iter, int epoch, float lr) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    float values[MAX_DEVICES];
    double sum = 0;
    long images = 0;
    data_iter_start(iter, epoch);
    while (!interrupted() && data_iter_next(iter, &X, &y)) {
        train_step(dp, X, y, lr, losses);
        items(losses, dp->k, values);
        for (int i = 0; i < dp->k; i++) sum += (double)values[i];
        images += X->shape[0];
    }
    return sum / (double)images;
}

// Accuracy of device 0, each test minibatch normalised by its own mean and variance.
static double accuracy_by_own_statistics(DataParallel *dp, DataIter *iter) {
    Device *device = dp->devices[0];
    Tensor *X, *y, *correct = tensor_new(device, 1);
    long observations = 0;
    float count;
    tensor_fill(correct, 0);
    set_grad_enabled(false);
    data_iter_start(iter, 0);
    while (data_iter_next(iter, &X, &y)) {
        Tensor *X_there, *y_there;
        begin_step(device);
        split_batch(X, y, &device, 1, &X_there, &y_there);
        count_correct(correct, forward(dp->net, X_there), y_there);
        observations += X->shape[0];
    }
    set_grad_enabled(true);
    items(&correct, 1, &count);
    tensor_free(correct);
    return (double)count / (double)observations;
}

static double accuracy_as(BatchNormMode bn, DataParallel dp, DataIter *iter) {
    dp.bn = bn;
    return evaluate_accuracy_gpus(&dp, iter);
}

// All evaluations of one training. To evaluate with device 0's statistics overwrites those of
// device 1, so these are put back.
static void evaluate(DataParallel *dp, DataIter *iter, Outcome *outcome) {
    outcome->acc[LOCAL] = accuracy_as(BN_LOCAL, *dp, iter);
    outcome->acc[AVERAGED] = outcome->acc[LOCAL];
    if (dp->k == 2 && dp->bn == BN_RANK0) {
        Tensor *second = flat_parameters(dp->net, dp->devices[1]).buffers;
        Tensor *kept = tensor_to(second, host());
        outcome->acc[AS_TRAINED] = accuracy_as(BN_RANK0, *dp, iter);
        tensor_copy(second, kept);
        outcome->acc[AVERAGED] = accuracy_as(BN_AVERAGED, *dp, iter);
        tensor_free(kept);
    } else
        outcome->acc[AS_TRAINED] = accuracy_as(dp->bn, *dp, iter);
}

// What the book's second run begins with. Its train() is given the same net again, and draws new
// weights for Linear and Conv2d only: their biases, and all of batch norm, stay as the first run
// left them. (Here the weights are those of the first run's start.)
static void leave_what_the_book_leaves(Module *net, const Device *device) {
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++) {
        bool is_drawn = all.list[p]->deviation > 0;
        if (!is_drawn) tensor_copy(all.list[p]->start, parameter_data(all.list[p], device));
    }
    synchronize_all();
}

typedef struct Images {
    Dataset *train, *test;
} Images;

// From the start that the network has.
static Outcome train(Module *net, const Way *way, const Flags *flags, const Images *images,
                     uint64_t seed) {
    enum { TEST_BATCH = 250 };
    int batch_size = way->times_batch * flags->batch_size;
    DataIter *train_iter = data_iter_new(images->train, batch_size, flags->shuffle, seed);
    DataIter *test_iter = data_iter_new(images->test, TEST_BATCH, false, 0);
    Device *devices[MAX_DEVICES] = {NULL};
    Outcome outcome = {0};
    open_devices(devices, way->devices);
    restart(net);
    DataParallel dp = data_parallel(net, devices, way->devices, way->bn);
    for (int epoch = 0; epoch < flags->epochs && !interrupted(); epoch++)
        outcome.loss = train_epoch(&dp, train_iter, epoch, (float)way->times_lr * flags->lr);
    evaluate(&dp, test_iter, &outcome);
    leave_what_the_book_leaves(net, devices[0]);
    outcome.acc[OWN] = accuracy_by_own_statistics(&dp, test_iter); // changes the running ones
    data_iter_free(train_iter);
    data_iter_free(test_iter);
    return outcome;
}

// ## All trainings

// The second table has many lines, and by chance alone one of 20 would be further off than 95 of
// 100 are. So MARGIN is wider: in 95 of 100 tables, none of the means lies further than MARGIN
// standard errors from the truth (Student's t with SEEDS - 1 degrees of freedom, for 0.05 divided
// by the 13 lines, after Bonferroni).
enum { SEEDS = 10 };
static const double MARGIN = 3.86;

typedef struct Experiment {
    Outcome outcome[NUM_WAYS][SEEDS];
} Experiment;

static void write_outcomes(FILE *csv, const Flags *flags, const Experiment *e) {
    fprintf(csv, "way,devices,batch_size,lr,seed,train_loss,test_acc,test_acc_local,"
                 "test_acc_averaged,test_acc_own_statistics\n");
    for (int w = 0; w < NUM_WAYS; w++)
        for (int s = 0; s < SEEDS; s++) {
            const Outcome *o = &e->outcome[w][s];
            fprintf(csv, "%s,%d,%d,%g,%llu,%.4f,%.4f,%.4f,%.4f,%.4f\n", ways[w].name,
                    ways[w].devices, ways[w].times_batch * flags->batch_size,
                    ways[w].times_lr * (double)flags->lr,
                    (unsigned long long)flags->seed + (unsigned)s, o->loss, o->acc[AS_TRAINED],
                    o->acc[LOCAL], o->acc[AVERAGED], o->acc[OWN]);
        }
}

static void train_all(const Flags *flags, Experiment *e) {
    Images images = {fashion_mnist_open(flags->data, true, flags->train_size),
                     fashion_mnist_open(flags->data, false, flags->test_size)};
    Module *net = narrow_resnet18(FASHION_MNIST_CLASSES);
    Progress progress = progress_start((long)NUM_WAYS * SEEDS);
    for (int s = 0; s < SEEDS; s++)
        for (int w = 0; w < NUM_WAYS && !interrupted(); w++) {
            uint64_t seed = flags->seed + (unsigned)s;
            if (!ways[w].goes_on) initialize(net, seed);
            e->outcome[w][s] = train(net, &ways[w], flags, &images, seed);
            progress_step(&progress, ways[w].name);
        }
    progress_clear(&progress);
    module_free(net);
    dataset_free(images.train);
    dataset_free(images.test);
}

// ## What they say

// The mean over the seeds, and its standard error.
typedef struct Estimate {
    double mean, error, lowest, highest;
} Estimate;

static Estimate estimate(const double values[SEEDS]) {
    Estimate e = {mean(values, SEEDS), 0, minimum(values, SEEDS), maximum(values, SEEDS)};
    for (int s = 0; s < SEEDS; s++) e.error += pow(values[s] - e.mean, 2);
    e.error = sqrt(e.error / (SEEDS - 1) / SEEDS);
    return e;
}

static Estimate accuracy(const Experiment *e, WayNumber way, Evaluation evaluation) {
    double values[SEEDS];
    for (int s = 0; s < SEEDS; s++) values[s] = e->outcome[way][s].acc[evaluation];
    return estimate(values);
}

static double mean_loss(const Experiment *e, WayNumber way) {
    double values[SEEDS];
    for (int s = 0; s < SEEDS; s++) values[s] = e->outcome[way][s].loss;
    return estimate(values).mean;
}

static void print_ways(const Flags *flags, const Experiment *e) {
    printf(
        "\n                                               train  test accuracy           with own\n"
        "                          devices  batch   lr   loss   mean  lowest  highest  "
        "statistics\n");
    for (int w = 0; w < NUM_WAYS; w++) {
        Estimate acc = accuracy(e, (WayNumber)w, AS_TRAINED), own = accuracy(e, (WayNumber)w, OWN);
        printf("  %-23s %7d %6d %4g %6.3f %6.3f %7.3f %8.3f %9.3f\n", ways[w].name, ways[w].devices,
               ways[w].times_batch * flags->batch_size, ways[w].times_lr * (double)flags->lr,
               mean_loss(e, (WayNumber)w), acc.mean, acc.lowest, acc.highest, own.mean);
    }
}

// What changes from some ways to others, or from one evaluation to another. Where there are several
// ways, their mean counts, which is less noisy.
typedef struct Factor {
    const char *name;
    unsigned from; // sets of ways, 1 << its number
    Evaluation from_evaluation;
    unsigned to;
    Evaluation to_evaluation;
} Factor;

enum {
    FIRST = 1 << BOOKS_FIRST,
    SECOND = 1 << BOOKS_SECOND,
    BATCH = 1 << TWICE_BATCH,
    LR = 1 << TWICE_LR,
    ONE = 1 << TWICE_BOTH,
    TWO = 1 << TWO_DEVICES,
    SYNC = 1 << SYNCHRONISED,
    DOUBLED = ONE | TWO | SYNC | SECOND, // twice both: the mean is less noisy than one of them
    ALL = FIRST | BATCH | LR | DOUBLED,
};

// To train on 2 devices with --bn sync is to train on 1, but for the order of additions: that line
// says how far apart two trainings come which should be the same.
typedef enum {
    THE_BATCH,
    THE_LR,
    BOTH_ON_ONE,
    ON_ONE_DEVICE,
    BOTH,
    DEVICES,
    DEVICES_SYNC,
    EVALUATED_LOCAL,
    EVALUATED_AVERAGED,
    SYNC_FOR_RANK0,
    WHAT_IS_LEFT,
    THE_BOOK,
    OWN_STATISTICS,
    NUM_FACTORS
} FactorNumber;

static const Factor factors[NUM_FACTORS] = {
    [THE_BATCH] = {"twice the batch size", FIRST, AS_TRAINED, BATCH, AS_TRAINED},
    [THE_LR] = {"twice the learning rate", FIRST, AS_TRAINED, LR, AS_TRAINED},
    [BOTH_ON_ONE] = {"both, on 1 device", FIRST, AS_TRAINED, ONE, AS_TRAINED},
    [ON_ONE_DEVICE] = {"mean of these three", FIRST, AS_TRAINED, BATCH | LR | ONE, AS_TRAINED},
    [BOTH] = {"both, mean of all 4 ways", FIRST, AS_TRAINED, DOUBLED, AS_TRAINED},
    [DEVICES] = {"2 devices for 1, rank0", ONE, AS_TRAINED, TWO, AS_TRAINED},
    [DEVICES_SYNC] = {"2 devices for 1, sync", ONE, AS_TRAINED, SYNC, AS_TRAINED},
    [EVALUATED_LOCAL] = {"--bn local for rank0", TWO, AS_TRAINED, TWO, LOCAL},
    [EVALUATED_AVERAGED] = {"--bn averaged for rank0", TWO, AS_TRAINED, TWO, AVERAGED},
    [SYNC_FOR_RANK0] = {"--bn sync for rank0", TWO, AS_TRAINED, SYNC, AS_TRAINED},
    [WHAT_IS_LEFT] = {"what the first run left", TWO, AS_TRAINED, SECOND, AS_TRAINED},
    [THE_BOOK] = {"the book's 2nd for its 1st", FIRST, AS_TRAINED, SECOND, AS_TRAINED},
    [OWN_STATISTICS] = {"own statistics, all ways", ALL, AS_TRAINED, ALL, OWN},
};

static double mean_accuracy(const Experiment *e, unsigned set, Evaluation evaluation, int seed) {
    double sum = 0;
    int n = 0;
    for (int w = 0; w < NUM_WAYS; w++) {
        if (!(set & 1u << w)) continue;
        sum += e->outcome[w][seed].acc[evaluation];
        n++;
    }
    return sum / n;
}

// By how much a factor changes the accuracy, seed by seed.
static Estimate change(const Experiment *e, FactorNumber number) {
    const Factor *f = &factors[number];
    double values[SEEDS];
    for (int s = 0; s < SEEDS; s++)
        values[s] = mean_accuracy(e, f->to, f->to_evaluation, s) -
                    mean_accuracy(e, f->from, f->from_evaluation, s);
    return estimate(values);
}

static bool is_told_from_noise(Estimate change) {
    return fabs(change.mean) > MARGIN * change.error;
}

static bool matters(const Experiment *e, FactorNumber number) {
    return is_told_from_noise(change(e, number));
}

static void print_factors(const Experiment *e) {
    printf("\n  change                       of the accuracy         told from noise\n");
    for (int f = 0; f < NUM_FACTORS; f++) {
        Estimate c = change(e, (FactorNumber)f);
        printf("  %-26s %+9.3f  +- %.3f         %s\n", factors[f].name, c.mean, MARGIN * c.error,
               is_told_from_noise(c) ? "yes" : "no");
    }
    say("  (The mean over %d seeds. In 95 of 100 such tables, all lines are within +- of the "
        "truth.)\n",
        SEEDS);
}

// The lowest and the highest accuracy of the trainings in a set of ways.
static Estimate range(const Experiment *e, unsigned set) {
    Estimate r = {.lowest = 1, .highest = 0};
    for (int w = 0; w < NUM_WAYS; w++) {
        if (!(set & 1u << w)) continue;
        Estimate acc = accuracy(e, (WayNumber)w, AS_TRAINED);
        r.lowest = fmin(r.lowest, acc.lowest);
        r.highest = fmax(r.highest, acc.highest);
    }
    return r;
}

static void tell_both(const Experiment *e) {
    Estimate first = range(e, FIRST), doubled = range(e, DOUBLED), both = change(e, BOTH);
    say("- Twice the batch size and learning rate change the accuracy by %+.3f: %s.%s", both.mean,
        is_told_from_noise(both) ? "that is more than noise" : "that may be noise",
        matters(e, THE_BATCH) || matters(e, THE_LR) ? ""
                                                    : " Neither of them alone is told from noise.");
    say("- One run says little. The book's first run ended between %.2f and %.2f, and the "
        "trainings with twice both between %.2f and %.2f.",
        first.lowest, first.highest, doubled.lowest, doubled.highest);
}

static void tell_devices(const Experiment *e) {
    double local = fabs(change(e, EVALUATED_LOCAL).mean);
    double averaged = fabs(change(e, EVALUATED_AVERAGED).mean);
    say("- Two devices instead of one: %s.",
        matters(e, DEVICES) || matters(e, DEVICES_SYNC)
            ? "that makes a difference, see the table"
            : "no difference that can be told from noise, with --bn rank0 or sync");
    say("- Whose running statistics the network is evaluated with (--bn local, rank0 or averaged) "
        "changes the accuracy by %.3f at most.",
        fmax(local, averaged));
}

static void tell_own_statistics(const Experiment *e) {
    Estimate own = change(e, OWN_STATISTICS);
    if (is_told_from_noise(own) && own.mean > 0)
        say("- Normalised by the statistics of each test minibatch itself, as in training, the "
            "networks are right for %.3f more of the images. So running statistics cost some "
            "accuracy, in the mean of all ways: they are those of past weights.",
            own.mean);
    else
        say("- Normalised by the statistics of each test minibatch itself, the networks are no "
            "better that could be told from noise.");
}

static void tell_the_book(const Experiment *e) {
    bool devices = matters(e, DEVICES) || matters(e, DEVICES_SYNC) || matters(e, SYNC_FOR_RANK0);
    Estimate one = change(e, ON_ONE_DEVICE);
    if (is_told_from_noise(one) && one.mean < 0 && !devices)
        say("- So it takes no second device to lose accuracy: on 1 device, twice the batch size, "
            "the learning rate or both change it by %+.3f in the mean. Single runs then spread "
            "widely, as the book's do.",
            one.mean);
    say("  This is a small network and a short training. It shows what such changes can do, and "
        "not what happened in the book's own runs.\n");
}

static void conclude(const Experiment *e) {
    static const double LEARNED = 0.2;
    say("What these trainings say");
    if (accuracy(e, BOOKS_FIRST, AS_TRAINED).mean < LEARNED) {
        say("- Nothing is learned yet, as 0.1 is guessing: take more --epochs or a larger "
            "--train-size.\n");
        return;
    }
    tell_both(e);
    tell_devices(e);
    tell_own_statistics(e);
    tell_the_book(e);
}

// ## The experiment

static void check_flags(const Flags *flags) {
    if (flags->backend == BACKEND_MODEL)
        die_usage("leave one of them out",
                  "--experiment and --backend model: there is no accuracy");
    if (flags->devices > 0)
        die_usage("leave --devices out", "--experiment and --devices: it takes 1 and 2 devices");
}

void separate_factors(const Flags *flags) {
    Experiment *e = xcalloc(1, sizeof *e);
    check_flags(flags);
    const char *path = book_output("_factors.csv");
    book_check_outputs();
    say("%d trainings: %d ways from %d seeds, %d epoch%s of %d images", NUM_WAYS * SEEDS, NUM_WAYS,
        SEEDS, flags->epochs, flags->epochs > 1 ? "s" : "", flags->train_size);
    train_all(flags, e);
    if (!interrupted()) {
        print_ways(flags, e);
        print_factors(e);
        conclude(e);
        OutputFile csv = output_open(path);
        write_outcomes(csv.stream, flags, e);
        output_close(&csv);
        printf("figures: %s\n", path);
    }
    free(e);
}
