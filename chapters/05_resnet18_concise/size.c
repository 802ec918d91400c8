// size.c: see size.h.
#include "size.h"

#include "common/base/error.h"
#include "common/device/modelled_clock.h"
#include "common/program/say.h"

#include <math.h>

// The book's runs, and those for a machine without a GPU: small enough for a few minutes on two
// cores, large enough that the curves show something.
enum { QUICK_TRAIN = 2048, QUICK_TEST = 1000, QUICK_EPOCHS = 5, QUICK_BATCH = 16 };
static const float QUICK_LR = 0.025f;
enum { FULL_EPOCHS = 10, FULL_BATCH = 256 };
enum { MODEL_EPOCHS = 1 }; // without values each epoch is like the first
static const float FULL_LR = 0.1f;
// --experiment: 70 trainings of a small network
enum { EXPERIMENT_TRAIN = 4096, EXPERIMENT_TEST = 2000, EXPERIMENT_EPOCHS = 5 };
enum { EXPERIMENT_BATCH = 32 };

Flags flags_without_size(void) {
    Flags flags = default_flags;
    flags.batch_size = 0;
    flags.epochs = 0;
    flags.lr = -1;
    return flags;
}

static void choose_size_of_experiment(Flags *flags) {
    if (flags->batch_size == 0) flags->batch_size = EXPERIMENT_BATCH;
    if (flags->lr < 0) flags->lr = FULL_LR;
    if (flags->epochs == 0) flags->epochs = EXPERIMENT_EPOCHS;
    if (flags->train_size == 0) flags->train_size = EXPERIMENT_TRAIN;
    if (flags->test_size == 0) flags->test_size = EXPERIMENT_TEST;
}

void choose_size(Flags *flags) {
    if (flags->experiment) {
        choose_size_of_experiment(flags);
        return;
    }
    if (flags->quick && flags->full) die_usage("give one of them", "--quick and --full");
    bool model = flags->backend == BACKEND_MODEL; // which takes no time here
    bool quick = flags->quick || (!flags->full && num_gpus() == 0 && !model);
    flags->quick = quick;
    if (flags->batch_size == 0) flags->batch_size = quick ? QUICK_BATCH : FULL_BATCH;
    if (flags->lr < 0) flags->lr = quick ? QUICK_LR : FULL_LR;
    if (flags->epochs == 0 && model) flags->epochs = MODEL_EPOCHS;
    if (flags->epochs == 0) flags->epochs = quick ? QUICK_EPOCHS : FULL_EPOCHS;
    if (flags->train_size == 0 && quick) flags->train_size = QUICK_TRAIN;
    if (flags->test_size == 0 && quick) flags->test_size = QUICK_TEST;
}

// Seconds per image of training, from a small step that is forgotten afterwards.
static double seconds_per_image(const Notebook *nb) {
    enum { IMAGES = 32 };
    Device *device = try_gpu(0);
    DataIter *iter = data_iter_new(nb->train_data, IMAGES, false, 0);
    DataParallel dp = data_parallel(nb->net, &device, 1, BN_LOCAL);
    Tensor *X, *y, *losses[MAX_DEVICES];
    Timer timer = {0};
    double fastest = INFINITY;
    data_iter_first(iter, &X, &y);
    for (int i = 0; i < 2; i++) { // the first gets memory
        timer_start(&timer);
        train_step(&dp, X, y, 0, losses);
        fastest = fmin(fastest, timer_stop(&timer));
    }
    int images = X->shape[0];
    data_iter_free(iter);
    begin_again(nb->net, &nb->start);
    return fastest / images;
}

// Of all runs together; a forward pass is about a third of a training step.
static double hours_for(int runs, int epochs, int train_images, int test_images, double per_image) {
    return runs * epochs * (train_images + test_images / 3.0) * per_image / 3600;
}

static void say_quick(const Notebook *nb) {
    enum { TRAIN = 60000, TEST = 10000 };
    const Flags *flags = &nb->flags;
    int train = nb->train_data->count, test = nb->test_data->count;
    double per_image = seconds_per_image(nb);
    double hours = hours_for(nb->num_runs, FULL_EPOCHS, TRAIN, TEST, per_image);
    double quick = hours_for(nb->num_runs, flags->epochs, train, test, per_image);
    say("quick: the first %d of %d training images and %d of %d test images, %d epoch%s, batch "
        "size %d: about %.0f minute%s here; the full run (--full) would take about %.*f hours",
        train, TRAIN, test, TEST, flags->epochs, flags->epochs == 1 ? "" : "s", flags->batch_size,
        ceil(60 * quick), ceil(60 * quick) > 1 ? "s" : "", hours < 10, hours);
}

static void say_model(const Notebook *nb) {
    const Flags *flags = &nb->flags;
    say("model: nothing is computed, so there are no values; what is told is the time that %d "
        "epoch%s of %d images would take on the machine %s",
        flags->epochs, flags->epochs == 1 ? "" : "s", nb->train_data->count,
        modelled_machine()->name);
}

void say_size(const Notebook *nb) {
    if (nb->flags.backend == BACKEND_MODEL)
        say_model(nb);
    else if (nb->flags.quick)
        say_quick(nb);
}
