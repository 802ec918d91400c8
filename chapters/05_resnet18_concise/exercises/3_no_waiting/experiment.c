// experiment.c: LeNet and ResNet-18, the host 0, 1, 2 and any number of steps ahead, with nothing
// else to do, with work of its own in each step, and with as much of it in bursts.
#include "common/base/platform.h"
#include "common/device/timer.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>

enum { NUM_AHEAD = 4, UNLIMITED = NUM_AHEAD - 1 };

// What the host has to do for its own in each step: nothing, half of what the devices need, or as
// much all in all but in every fourth step only.
enum { NO_WORK, EACH_STEP, BURSTS, NUM_WORK, BURST = 4 };
static const char *const work_names[NUM_WORK] = {"none", "half a step", "in bursts"};

// Chapter 4's LeNet.
static Module *lenet_modules(void) {
    return Sequential(Conv2d(1, 20, .kernel_size = 3), ReLU(), AvgPool2d(2),
                      Conv2d(20, 50, .kernel_size = 5), ReLU(), AvgPool2d(2), Flatten(),
                      Linear(800, 128), ReLU(), Linear(128, FASHION_MNIST_CLASSES));
}

// A network with its minibatches, and seconds of its steps.
typedef struct Study {
    const char *name;
    Module *net;
    Dataset *data;
    const Flags *flags;
    int steps, rounds;
    double device_seconds, enqueue_seconds, arena_mb; // for a step; the arenas of all devices
} Study;

// The host's own time for a step if nothing makes it wait, not even a full queue.
static double measure_enqueue(DataParallel *dp, Loader *loader) {
    Tensor *losses[MAX_DEVICES];
    double fastest = INFINITY;
    for (int round = 0; round < 5; round++) {
        synchronize_all();
        double begun = seconds_now();
        Slot *slot = prepare(loader, 0);
        train_step(dp, slot->X, slot->y, 0, losses);
        keep_losses(loader, slot, losses);
        fastest = fmin(fastest, seconds_now() - begun);
    }
    synchronize_all();
    return fastest;
}

// Of a step, in the fastest of some rounds. In each, training begins anew.
static double time_ahead(const Study *s, Loader *loader, int ahead) {
    double losses[MOST_STEPS], fastest = INFINITY;
    for (int round = 0; round < s->rounds; round++) {
        Timer timer = {0};
        DataParallel dp = network_on(s->net, s->flags->devices, BN_AVERAGED, s->flags->seed);
        timer_start(&timer);
        train_ahead(&dp, loader, s->steps, ahead, s->flags->lr, losses);
        fastest = fmin(fastest, timer_stop(&timer) / s->steps);
    }
    return fastest;
}

// Device time of a step, and the host's: from runs in which neither waits for the other.
static void measure_parts(Study *s) {
    int k = s->flags->devices;
    Loader *loader = loader_new(s->data, s->flags->batch_size, k, s->steps);
    time_ahead(s, loader, s->steps - 1); // memory used the first time is slow
    s->device_seconds = time_ahead(s, loader, s->steps - 1);
    DataParallel dp = network_on(s->net, s->flags->devices, BN_AVERAGED, s->flags->seed);
    s->enqueue_seconds = measure_enqueue(&dp, loader);
    for (int i = 0; i < k; i++) s->arena_mb += (double)arena_reserved_bytes(dp.devices[i]) / 1e6;
    loader_free(loader);
}

// Prints and writes a row; returns the seconds of a step.
static double measure_ahead(const Study *s, int work, int a, Table *t) {
    int ahead = a == UNLIMITED ? s->steps - 1 : a;
    double host_seconds[MOST_STEPS];
    size_t before = device_bytes(host());
    Loader *loader = loader_new(s->data, s->flags->batch_size, s->flags->devices, ahead + 1);
    double host_mb = (double)(device_bytes(host()) - before) / 1e6;
    for (int n = 0; n < s->steps; n++) {
        if (work == EACH_STEP) loader->work[n] = s->device_seconds / 2;
        if (work == BURSTS && n % BURST == 1) loader->work[n] = BURST * s->device_seconds / 2;
        host_seconds[n] = s->enqueue_seconds + loader->work[n];
    }
    double said = predict(s->steps, ahead, host_seconds, s->device_seconds) / s->steps;
    double seconds = time_ahead(s, loader, ahead);
    table_text(t, "%s", s->name);
    table_text(t, "%s", work_names[work]);
    table_numbers(t, ahead, work, a, 1e3 * seconds, 1e3 * said, loader->most_under_way, host_mb,
                  s->arena_mb);
    loader_free(loader);
    return seconds;
}

// Returns what one step ahead saves of a step, in percent, if the host has no work.
static double run_study(Study *s, Table *t) {
    double seconds[NUM_WORK][NUM_AHEAD];
    measure_parts(s);
    say("\n%s, %d steps: the devices need %.2f ms for a step, the host %.2f ms to enqueue it; "
        "arenas of all devices: %.1f MB",
        s->name, s->steps, 1e3 * s->device_seconds, 1e3 * s->enqueue_seconds, s->arena_mb);
    table_head(t);
    for (int work = 0; work < NUM_WORK; work++)
        for (int a = 0; a < NUM_AHEAD; a++) seconds[work][a] = measure_ahead(s, work, a, t);
    leave_devices(s->net, s->flags->seed);
    module_free(s->net);
    dataset_free(s->data);
    return 100 * (1 - seconds[NO_WORK][1] / seconds[NO_WORK][0]);
}

static void experiment(const Flags *flags, FILE *csv) {
    Table t = TABLE(csv, {.csv = "network"}, WORDS("host's own work", 15, .csv = "work"),
                    WHOLE("ahead", .csv = "ahead"), {.csv = "work_number"}, {.csv = "ahead_number"},
                    FIXED("a step, ms", 2, .csv = "ms"), FIXED("said, ms", 2, .csv = "said_ms"),
                    WHOLE("seen ahead", .csv = "most_ahead"),
                    FIXED("minibatches, MB", 2, .csv = "host_mb"), {.csv = "arena_mb"});
    say("%d devices, minibatches of %d; ResNet-18 with images of 14 x 14; said: by predict()",
        flags->devices, flags->batch_size);
    Prediction shorter = predict_first(
        "The host has nothing to do but to enqueue LeNet's steps. By how many percent will a step "
        "be shorter if the host may be one step ahead of the devices, instead of waiting at the "
        "end of each step?");
    Study lenet = {.name = "LeNet", .steps = 100, .rounds = rounds, .flags = flags};
    lenet.net = lenet_modules();
    lenet.data = fashion_mnist_open(flags->data, true, 640);
    predict_compare(shorter, run_study(&lenet, &t), "%");
    Study resnet = {.name = "ResNet-18", .steps = 6, .rounds = (rounds + 1) / 2, .flags = flags};
    resnet.net = resnet18(FASHION_MNIST_CLASSES, 1);
    resnet.data = small_images(flags->data, true, 640);
    run_study(&resnet, &t);
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: training without a wait at the end of each step.",
                    .flags = "devices=2 batch-size=16 lr=0.02 seed -machine",
                    .experiment = experiment,
                    .plot = "exercise_no_waiting.gp",
                    .program = {.own = rounds_flag, .quick_means = "--batch-size 8 --rounds 1"}});
}
