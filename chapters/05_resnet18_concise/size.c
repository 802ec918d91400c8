// size.c: see size.h.
#include "size.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"

#include <math.h>

// 0 images: all.
typedef struct Size {
    int train, test, epochs, batch;
    float lr;
} Size;

// The book's runs; those for a machine without a GPU, small enough for a few minutes on two cores,
// large enough that the curves show something; and those of --quick, for a class: with so few
// images it takes small minibatches, that is, many updates, to get above a guess.
static const Size full_size = {.epochs = 10, .batch = 256, .lr = 0.1f};
static const Size small_size = {2048, 1000, 5, 16, 0.025f};
static const Size quick_size = {256, 100, 2, 4, 0.02f};
// Without values each epoch is like the first.
static const Size model_size = {.epochs = 1, .batch = 256, .lr = 0.1f};
// --experiment: 70 trainings of a small network
static const Size experiment_size = {4096, 2000, 5, 32, 0.1f};

Flags flags_without_size(void) {
    Flags flags = default_flags;
    flags.next = "make exercise-05-1, or make run-06";
    flags.batch_size = 0;
    flags.epochs = 0;
    flags.lr = -1;
    return flags;
}

static const Size *size_of(const Notebook *nb) {
    const Flags *flags = &nb->flags;
    if (nb->experiment) return &experiment_size;
    if (flags->backend == BACKEND_MODEL) return &model_size; // which takes no time here
    if (flags->quick) return &quick_size;
    return nb->full || num_gpus() > 0 ? &full_size : &small_size;
}

void choose_size(Notebook *nb) {
    Flags *flags = &nb->flags;
    const Size *size = size_of(nb);
    if (flags->quick && nb->experiment)
        die_usage(
            "leave one of them out",
            "--quick and --experiment: shorter trainings, or fewer, tell nothing from chance");
    if (flags->batch_size == 0) flags->batch_size = size->batch;
    if (flags->lr < 0) flags->lr = size->lr;
    if (flags->epochs == 0) flags->epochs = size->epochs;
    if (flags->train_size == 0) flags->train_size = size->train;
    if (flags->test_size == 0) flags->test_size = size->test;
}

enum { TRAIN = 60000, TEST = 10000 }; // all images

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
    restart(nb->net);
    return fastest / images;
}

// Of all full runs together; a forward pass is about a third of a training step.
static double full_hours(const Notebook *nb) {
    return nb->num_runs * full_size.epochs * (TRAIN + TEST / 3.0) * seconds_per_image(nb) / 3600;
}

static void say_what_is_left_out(const Notebook *nb) {
    const Flags *flags = &nb->flags;
    double hours = full_hours(nb);
    say("quick: the first %d of %d training images and %d of %d test images, %d epoch%s, batch "
        "size %d; the full run (--full) would take about %.*f hours here",
        nb->train_data->count, TRAIN, nb->test_data->count, TEST, flags->epochs,
        flags->epochs == 1 ? "" : "s", flags->batch_size, hours < 10, hours);
}

static void say_model(const Notebook *nb) {
    const Flags *flags = &nb->flags;
    say("model: nothing is computed, so there are no values; what is told is the time that %d "
        "epoch%s of %d images would take on the machine %s",
        flags->epochs, flags->epochs == 1 ? "" : "s", nb->train_data->count,
        modelled_machine()->name);
}

void say_size(const Notebook *nb) {
    const Flags *flags = &nb->flags;
    if (flags->quick && flags->backend == BACKEND_MODEL)
        say("quick: this run is short anyway, so nothing is left out");
    if (flags->backend == BACKEND_MODEL)
        say_model(nb);
    else if (size_of(nb) != &full_size)
        say_what_is_left_out(nb);
}
