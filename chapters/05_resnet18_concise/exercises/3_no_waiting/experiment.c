// experiment.c: LeNet and ResNet-18, the host 0, 1, 2 and any number of steps ahead, with nothing
// else to do, with work of its own in each step, and with as much of it in bursts.
#include "common/base/clock.h"
#include "common/device/timer.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_AHEAD = 4, UNLIMITED = NUM_AHEAD - 1 };

// What the host has to do for its own in each step: nothing, half of what the devices need, or as
// much all in all but in every fourth step only.
enum { NO_WORK, EACH_STEP, BURSTS, NUM_WORK };
enum { BURST = 4 };
static const char *const work_names[NUM_WORK] = {"none", "half a step", "in bursts"};

// A network with its minibatches, and what came out.
typedef struct Study {
    const char *name;
    Module *net;
    Dataset *data;
    int steps, rounds;
    int k, batch_size; // from here to the seed: the flags
    float lr;
    uint64_t seed;
    double device_seconds, enqueue_seconds; // of a step
    double host_mb[NUM_AHEAD], arena_mb;    // the slots; the arenas of all devices
    struct {
        double seconds, said; // of a step
    } of[NUM_WORK][NUM_AHEAD];
    int most[NUM_AHEAD]; // steps that were under way when another began, without work
    float *values;       // the parameters at the end, the same in all runs
} Study;

static int ahead_of(int a, int steps) { return a == UNLIMITED ? steps - 1 : a; }

// ## What is measured

static double work_of_step(const Study *s, int work, int step) {
    double half_a_step = s->device_seconds / 2;
    if (work == EACH_STEP) return half_a_step;
    if (work == BURSTS && step % BURST == 1) return half_a_step * BURST;
    return 0;
}

static void set_work(Loader *loader, const Study *s, int work) {
    for (int n = 0; n < s->steps; n++) loader->work[n] = work_of_step(s, work, n);
}

static DataParallel start(const Study *s) { return network_on(s->net, s->k, BN_AVERAGED, s->seed); }

// The host's own time for a step if nothing makes it wait, not even a full queue.
static double measure_enqueue(DataParallel *dp, Loader *loader) {
    enum { ROUNDS = 5 };
    Tensor *losses[MAX_DEVICES];
    double fastest = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        synchronize_all();
        double start = seconds_now();
        Slot *slot = prepare(loader, 0);
        train_step(dp, slot->X, slot->y, 0, losses);
        keep_losses(loader, slot, losses);
        fastest = fmin(fastest, seconds_now() - start);
    }
    synchronize_all();
    return fastest;
}

static void check_bits(Study *s, const DataParallel *dp, int ahead) {
    float *values = network_values(s->net, dp->devices[0]);
    if (!s->values) {
        s->values = values;
        return;
    }
    EXPECT(memcmp(values, s->values, parameter_bytes(s->net)) == 0,
           "the check has found nothing; is a slot written over too early?",
           "train_ahead(), %s, ahead %d: other parameters than with another number of steps ahead",
           s->name, ahead);
    free(values);
}

// The fastest of some rounds. In each, training begins anew.
static double time_ahead(Study *s, Loader *loader, int ahead) {
    double losses[MOST_STEPS], fastest = INFINITY;
    for (int round = 0; round < s->rounds; round++) {
        Timer timer = {0};
        DataParallel dp = start(s);
        timer_start(&timer);
        train_ahead(&dp, loader, s->steps, ahead, s->lr, losses);
        fastest = fmin(fastest, timer_stop(&timer) / s->steps);
        check_bits(s, &dp, ahead);
    }
    EXPECT(isfinite(losses[s->steps - 1]), "take a smaller --lr", "%s: the loss became %g", s->name,
           losses[s->steps - 1]);
    return fastest;
}

static double said(const Study *s, const Loader *loader, int ahead) {
    double host_seconds[MOST_STEPS];
    for (int n = 0; n < s->steps; n++) host_seconds[n] = s->enqueue_seconds + loader->work[n];
    return predict(s->steps, ahead, host_seconds, s->device_seconds) / s->steps;
}

// Device time of a step, and the host's: from runs in which neither waits for the other.
static void measure_parts(Study *s) {
    Loader *loader = loader_new(s->data, s->batch_size, s->k, s->steps);
    time_ahead(s, loader, s->steps - 1); // memory used the first time is slow
    s->device_seconds = time_ahead(s, loader, s->steps - 1);
    DataParallel dp = start(s);
    s->enqueue_seconds = measure_enqueue(&dp, loader);
    for (int i = 0; i < s->k; i++) s->arena_mb += (double)arena_reserved_bytes(dp.devices[i]) / 1e6;
    loader_free(loader);
}

static void measure_ahead(Study *s, int a) {
    int ahead = ahead_of(a, s->steps);
    double losses[MOST_STEPS];
    size_t before = device_bytes(host());
    Loader *loader = loader_new(s->data, s->batch_size, s->k, ahead + 1);
    s->host_mb[a] = (double)(device_bytes(host()) - before) / 1e6;
    for (int work = 0; work < NUM_WORK; work++) {
        set_work(loader, s, work);
        s->of[work][a].said = said(s, loader, ahead);
        s->of[work][a].seconds = time_ahead(s, loader, ahead);
    }
    set_work(loader, s, NO_WORK);
    DataParallel dp = start(s);
    s->most[a] = trace_run(&dp, loader, s->steps, ahead, s->lr, losses);
    loader_free(loader);
}

// ## What came out

// Where the host only enqueues, how far it is ahead can save no more than the enqueueing. If times
// differ by much more, something else wanted the cores.
static bool was_busy(const Study *s) {
    double least = INFINITY, most = 0;
    for (int a = 0; a < NUM_AHEAD; a++) {
        least = fmin(least, s->of[NO_WORK][a].seconds);
        most = fmax(most, s->of[NO_WORK][a].seconds);
    }
    return most > 1.25 * least + s->enqueue_seconds;
}

static void print_study(const Study *s) {
    printf("  %s, %d steps: the devices need %.2f ms for a step, the host %.2f ms to enqueue it\n"
           "    steps       ms per step (said), by the host's own work        steps ahead  "
           "minibatches\n"
           "    ahead       none             half a step      in bursts           (seen)       "
           "MB\n",
           s->name, s->steps, 1e3 * s->device_seconds, 1e3 * s->enqueue_seconds);
    for (int a = 0; a < NUM_AHEAD; a++) {
        char ahead[16] = "unlimited";
        if (a != UNLIMITED) snprintf(ahead, sizeof ahead, "%d", a);
        printf("    %-9s", ahead);
        for (int work = 0; work < NUM_WORK; work++)
            printf(" %7.2f (%.2f)%s", 1e3 * s->of[work][a].seconds, 1e3 * s->of[work][a].said,
                   1e3 * s->of[work][a].said < 100 ? " " : "");
        printf(" %9d %12.2f\n", s->most[a], s->host_mb[a]);
    }
    if (was_busy(s)) say("    too noisy to compare: something else is using the cores");
    say("    arenas of all devices: %.1f MB, however far the host is ahead\n", s->arena_mb);
}

static void run_study(Study *s) {
    measure_parts(s);
    for (int a = 0; a < NUM_AHEAD; a++) measure_ahead(s, a);
    print_study(s);
    leave_devices(s->net, s->seed);
}

static void write_study(FILE *csv, const Study *s) {
    for (int work = 0; work < NUM_WORK; work++)
        for (int a = 0; a < NUM_AHEAD; a++)
            fprintf(csv, "%s,%s,%d,%d,%d,%.4f,%.4f,%d,%.4f,%.2f\n", s->name, work_names[work],
                    ahead_of(a, s->steps), work, a, 1e3 * s->of[work][a].seconds,
                    1e3 * s->of[work][a].said, s->most[a], s->host_mb[a], s->arena_mb);
}

static double percent_saved(const Study *s, int work, int a) {
    return 100 * (1 - s->of[work][a].seconds / s->of[work][0].seconds);
}

// ## The experiment

static Study study_of(const Flags *flags, const char *name, Module *net, Dataset *data) {
    return (Study){.name = name,
                   .net = net,
                   .data = data,
                   .k = flags->devices,
                   .batch_size = flags->batch_size,
                   .lr = flags->lr,
                   .seed = flags->seed};
}

static void study_free(Study *s) {
    module_free(s->net);
    dataset_free(s->data);
    free(s->values);
}

static void experiment(const Flags *flags, FILE *csv) {
    Study lenet =
        study_of(flags, "LeNet", lenet_modules(28), fashion_mnist_open(flags->data, true, 640));
    Study resnet = study_of(flags, "ResNet-18", resnet18(FASHION_MNIST_CLASSES, 1),
                            small_images(flags->data, true, 640));
    lenet.steps = 100;
    lenet.rounds = flags->rounds;
    resnet.steps = 6;
    resnet.rounds = (flags->rounds + 1) / 2; // a step takes so much longer
    say("Question: what if the host does not wait at the end of each step, but runs up to so many "
        "steps ahead?");
    say("%d device%s, minibatches of %d; ResNet-18 with images of 14 x 14; in brackets what "
        "predict() says\n",
        flags->devices, flags->devices > 1 ? "s" : "", flags->batch_size);
    Prediction shorter = predict_first(
        "The host has nothing to do but to enqueue LeNet's steps. By how many percent will a step "
        "be shorter if the host may be one step ahead of the devices, instead of waiting at the "
        "end of each step?");
    run_study(&lenet);
    if (!was_busy(&lenet)) predict_compare(shorter, percent_saved(&lenet, NO_WORK, 1), "%");
    run_study(&resnet);
    fprintf(csv, "network,work,ahead,work_number,ahead_number,ms,said_ms,most_ahead,host_mb,"
                 "arena_mb\n");
    write_study(csv, &lenet);
    write_study(csv, &resnet);
    study_free(&lenet);
    study_free(&resnet);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 2;
    defaults.batch_size = 16;
    defaults.lr = 0.02f;
    defaults.rounds = 4;
    defaults.quick_means = "--batch-size 8 --rounds 1";
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: training without a wait at the end of each step.",
                    .flags = "devices batch-size lr seed rounds -machine",
                    .defaults = defaults,
                    .parts = check_parts,
                    .passed = "never further ahead than said, and the bits of a host that waits",
                    .experiment = experiment,
                    .plot = "exercise_no_waiting.gp"});
}
