// # Exercise 3: no wait at the end of a step
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 3: "What
// happens if we drop npx.waitall()? How would you modify training such that you have an overlap of
// up to two steps for parallelism?"
//
// Difficulty: ★★★☆
//
// How to run
//   make exercise-05-3                       the question, the answer, the evidence
//   make exercise-05-3 ARGS=--check          only check the solution: seconds
//   make exercise-05-3 ARGS='--devices 1'    on 1 device instead of 2
//
// The host only enqueues. What makes it wait at the end of a step?
//   - item(loss) does, because the loss has to be computed before it can be read;
//   - data_iter_next() does, until no device reads the last minibatch from host memory any more;
//   - begin_step() does not, although it gives the arena away: what will overwrite it stands in the
//     same queue behind what still uses it.
// So the host may run ahead if it has a minibatch, and a place for the losses, for each step that
// is under way: slots, used in turn. Nothing has to be doubled on the devices.
#include "common/base/error.h"
#include "common/base/clock.h"
#include "common/device/timer.h"
#include "common/device/trace.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static Flags flags;

// ## Slots, and the host's own work

enum { MOST_STEPS = 128 };

// What a step needs on the host: its minibatch, its losses (one for each device), and the point of
// each device's queue at which the step is done.
typedef struct Slot {
    Tensor *X, *y, *losses[MAX_DEVICES];
    Event done[MAX_DEVICES];
} Slot;

typedef struct Loader {
    const Dataset *data;
    int batch_size, k, num_slots;
    Slot slots[MOST_STEPS];
    double work[MOST_STEPS];     // seconds that prepare() takes besides, in each step
    double prepared[MOST_STEPS]; // when it began, in seconds since `began`
    double began;
} Loader;

// Slot of a step; with `ahead` + 1 of them, step n uses that of step n - 1 - ahead again.
static Slot *slot_of(Loader *loader, int step) { return &loader->slots[step % loader->num_slots]; }

// Writes minibatch number `step` into its slot, over what is there. This is the host's own work, in
// which a real one would read files and decode pictures; here it may sleep as long.
static Slot *prepare(Loader *loader, int step) {
    const Dataset *data = loader->data;
    Slot *slot = slot_of(loader, step);
    int pixels = data->rows * data->cols;
    loader->prepared[step] = seconds_now() - loader->began;
    for (int i = 0; i < loader->batch_size; i++) {
        int from = (step * loader->batch_size + i) % data->count;
        const uint8_t *image = data->images + (size_t)(from * pixels);
        for (int p = 0; p < pixels; p++) slot->X->data[i * pixels + p] = image[p] / 255.0f;
        slot->y->data[i] = data->labels[from];
    }
    double seconds = loader->work[step], whole = floor(seconds);
    if (seconds > 0)
        nanosleep(&(struct timespec){(time_t)whole, (long)((seconds - whole) * 1e9)}, NULL);
    char label[32];
    snprintf(label, sizeof label, "%d", step); // of all that is enqueued from now on
    trace_label(label);
    return slot;
}

// Enqueues copies of the losses to the slot, and notes where in the queues the step ends.
static void keep_losses(Loader *loader, Slot *slot, Tensor *const losses[]) {
    for (int i = 0; i < loader->k; i++) {
        tensor_copy(slot->losses[i], losses[i]);
        slot->done[i] = device_record(losses[i]->device);
    }
}

// Waits until the step is done. Returns its mean loss.
static double wait_for(Loader *loader, const Slot *slot) {
    double loss = 0;
    for (int i = 0; i < loader->k; i++) {
        device_wait(host(), slot->done[i]);
        loss += (double)slot->losses[i]->data[0];
    }
    return loss / loader->batch_size;
}

// ## Your part
//
// Trains for `steps` steps, the host being up to `ahead` steps ahead of the devices: 0 means that
// it waits for step n - 1 before it begins with step n, 1 that it waits for step n - 2, and so on.
// A step is: prepare() its slot, train_step() of chapter 5 with the slot's X and y, keep_losses().
// wait_for(loader, slot_of(loader, n)) waits for step n and returns its loss, which belongs in
// losses[n]. Two things to think of:
//   - prepare() writes over the slot of an earlier step: that one must be done by then;
//   - at the end all steps must be done, and all losses be there.
static void train_ahead(DataParallel *dp, Loader *loader, int steps, int ahead, float lr,
                        double losses[]) {
    // SOLUTION
    Tensor *shard_losses[MAX_DEVICES];
    for (int n = 0; n < steps; n++) {
        int before = n - 1 - ahead;
        if (before >= 0) losses[before] = wait_for(loader, slot_of(loader, before));
        Slot *slot = prepare(loader, n);
        train_step(dp, slot->X, slot->y, lr, shard_losses);
        keep_losses(loader, slot, shard_losses);
    }
    for (int n = steps - 1 - ahead > 0 ? steps - 1 - ahead : 0; n < steps; n++)
        losses[n] = wait_for(loader, slot_of(loader, n));
    // END SOLUTION
}

// The seconds that this takes: the host needs host_seconds[n] for step n and then hands it to the
// devices, which need device_seconds for each step and do one after the other. The host begins with
// step n when it has handed over step n - 1 and step n - 1 - ahead is done.
static double predict(int steps, int ahead, const double host_seconds[], double device_seconds) {
    // SOLUTION (starter: return 0;)
    double handed_over = 0, done[MOST_STEPS] = {0};
    for (int n = 0; n < steps; n++) {
        double begin = n > ahead ? fmax(handed_over, done[n - 1 - ahead]) : handed_over;
        handed_over = begin + host_seconds[n];
        done[n] = fmax(handed_over, n > 0 ? done[n - 1] : 0) + device_seconds;
    }
    return done[steps - 1];
    // END SOLUTION
}

// ## Running it

static Loader *loader_new(const Dataset *data, int batch_size, int k, int num_slots) {
    Loader *loader = xcalloc(1, sizeof *loader);
    *loader = (Loader){.data = data, .batch_size = batch_size, .k = k, .num_slots = num_slots};
    for (int s = 0; s < num_slots; s++) {
        Slot *slot = &loader->slots[s];
        slot->X = tensor_new(host(), batch_size, 1, data->rows, data->cols);
        slot->y = tensor_new(host(), batch_size);
        for (int i = 0; i < k; i++) slot->losses[i] = tensor_new(host(), 1);
    }
    return loader;
}

static void loader_free(Loader *loader) {
    for (int s = 0; s < loader->num_slots; s++) {
        tensor_free(loader->slots[s].X);
        tensor_free(loader->slots[s].y);
        for (int i = 0; i < loader->k; i++) tensor_free(loader->slots[s].losses[i]);
    }
    free(loader);
}

// How many steps were under way, at most, when prepare() began with another one. By the clocks of
// the devices: see trace.h.
static int most_ahead(const Loader *loader, int steps, const TraceSpan *spans, int count) {
    double end[MOST_STEPS] = {0};
    int most = 0;
    for (int s = 0; s < count; s++) {
        if (!spans[s].label[0]) continue;
        int step = atoi(spans[s].label);
        end[step] = fmax(end[step], spans[s].end);
    }
    for (int n = 1; n < steps; n++) {
        int under_way = 0;
        for (int before = 0; before < n; before++) under_way += end[before] > loader->prepared[n];
        most = under_way > most ? under_way : most;
    }
    return most;
}

// train_ahead() while the devices say what they do when. Returns most_ahead().
static int trace_run(DataParallel *dp, Loader *loader, int steps, int ahead, float lr,
                     double losses[]) {
    int count;
    synchronize_all();
    loader->began = seconds_now();
    trace_begin();
    train_ahead(dp, loader, steps, ahead, lr, losses);
    TraceSpan *spans = trace_end(&count);
    int most = most_ahead(loader, steps, spans, count);
    free(spans);
    return most;
}

// ## The check

enum { CHECKED_STEPS = 8, CHECKED_BATCH = 24 };

// As chapter 5's program: waits for the losses of each step.
static float *train_waiting(Module *net, const Dataset *data, int k, double losses[]) {
    Tensor *shard_losses[MAX_DEVICES];
    DataParallel dp = network_on(net, k, BN_AVERAGED, 7);
    Loader *loader = loader_new(data, CHECKED_BATCH, k, 1);
    for (int n = 0; n < CHECKED_STEPS; n++) {
        Slot *slot = prepare(loader, n);
        train_step(&dp, slot->X, slot->y, 0.5f, shard_losses);
        losses[n] = 0;
        for (int i = 0; i < k; i++) losses[n] += (double)item(shard_losses[i]);
        losses[n] /= CHECKED_BATCH;
    }
    loader_free(loader);
    return network_values(net, dp.devices[k - 1]);
}

static void check_run(Module *net, const Dataset *data, int k, int ahead) {
    double expected_losses[CHECKED_STEPS], losses[CHECKED_STEPS];
    float *expected = train_waiting(net, data, k, expected_losses);
    DataParallel dp = network_on(net, k, BN_AVERAGED, 7);
    Loader *loader = loader_new(data, CHECKED_BATCH, k, ahead + 1);
    for (int n = 0; n < CHECKED_STEPS; n++) losses[n] = NAN;
    // Slow devices, so that a host that can run ahead does.
    for (int i = 0; i < k && num_gpus() == 0; i++) device_set_slowdown(dp.devices[i], 8);
    int most = trace_run(&dp, loader, CHECKED_STEPS, ahead, 0.5f, losses);
    for (int i = 0; i < k && num_gpus() == 0; i++) device_set_slowdown(dp.devices[i], 1);
    float *came = network_values(net, dp.devices[k - 1]);
    EXPECT(most <= ahead, "k = %d: %d steps were under way when another began, not up to %d", k,
           most, ahead);
    int least = ahead < 2 ? ahead : 2; // how far beyond that depends on who else wants the cores
    EXPECT(most >= least || num_gpus() > 0,
           "k = %d: the host was never more than %d steps ahead of slow devices, not %d", k, most,
           ahead);
    for (int n = 0; n < CHECKED_STEPS; n++)
        EXPECT(losses[n] == expected_losses[n], "k = %d, ahead %d: loss of step %d is %g, not %g",
               k, ahead, n, losses[n], expected_losses[n]);
    EXPECT(memcmp(came, expected, parameter_bytes(net)) == 0,
           "k = %d, ahead %d: the parameters differ from those of a host that waits", k, ahead);
    loader_free(loader);
    free(expected);
    free(came);
}

static void check_prediction(void) {
    static const double none[4] = {0}, half[4] = {1, 1, 1, 1}, burst[4] = {0, 0, 4, 0};
    static const struct {
        const double *host_seconds;
        int ahead;
        double expected;
    } cases[] = {{none, 0, 8},   {half, 0, 12},  {half, 1, 9}, {half, 3, 9},
                 {burst, 0, 12}, {burst, 1, 10}, {burst, 3, 8}};
    for (int c = 0; c < 7; c++) {
        double came = predict(4, cases[c].ahead, cases[c].host_seconds, 2);
        EXPECT(fabs(came - cases[c].expected) <= 1e-9,
               "predict(), case %d: 4 steps of 2 s, ahead %d: %g s, not %g s", c, cases[c].ahead,
               came, cases[c].expected);
    }
}

static void check(void) {
    Dataset *data = small_images(flags.data, false, 100);
    Module *net = small_network();
    for (int ahead = 0; ahead <= 2; ahead++) check_run(net, data, 2, ahead);
    check_run(net, data, 1, 1);
    check_run(net, data, 3, CHECKED_STEPS - 1);
    check_prediction();
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
    printf("check passed: never further ahead than said, and the bits of a host that waits\n\n");
}

// ## The experiment

enum { NUM_AHEAD = 4, NUM_WORK = 3, UNLIMITED = NUM_AHEAD - 1, NO_WORK = 0, EACH_STEP, BURSTS };
enum { BURST = 4, MOST_ROUNDS = 5 };
static const char *const work_names[NUM_WORK] = {"none", "half a step", "in bursts"};

static int ahead_of(int a, int steps) { return a == UNLIMITED ? steps - 1 : a; }

// A network with its minibatches, and what came out.
typedef struct Study {
    const char *name;
    Module *net;
    Dataset *data;
    int steps, rounds;
    double device_seconds, enqueue_seconds; // of a step
    double host_mb[NUM_AHEAD], arena_mb;    // the slots; the arenas of all devices
    struct {
        double seconds, said; // of a step
    } of[NUM_WORK][NUM_AHEAD];
    int most[NUM_AHEAD]; // steps that were under way when another began, without work
    float *values;       // the parameters at the end, the same in all runs
} Study;

// What the host has to do for its own in each step: nothing, half of what the devices need, or as
// much all in all but in every fourth step only.
static void set_work(Loader *loader, const Study *s, int work) {
    for (int n = 0; n < s->steps; n++)
        loader->work[n] = work == NO_WORK     ? 0
                          : work == EACH_STEP ? s->device_seconds / 2
                          : n % BURST == 1    ? s->device_seconds / 2 * BURST
                                              : 0;
}

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
    if (!s->values)
        s->values = values;
    else
        EXPECT(memcmp(values, s->values, parameter_bytes(s->net)) == 0,
               "%s, ahead %d: other parameters than with another number of steps ahead", s->name,
               ahead);
    if (s->values != values) free(values);
}

// The fastest of some rounds. In each, training begins anew.
static double time_ahead(Study *s, Loader *loader, int ahead) {
    double losses[MOST_STEPS], fastest = INFINITY;
    for (int round = 0; round < s->rounds; round++) {
        Timer timer = {0};
        DataParallel dp = network_on(s->net, loader->k, BN_AVERAGED, flags.seed);
        timer_start(&timer);
        train_ahead(&dp, loader, s->steps, ahead, flags.lr, losses);
        fastest = fmin(fastest, timer_stop(&timer) / s->steps);
        check_bits(s, &dp, ahead);
    }
    EXPECT(isfinite(losses[s->steps - 1]), "%s: the loss became %g", s->name, losses[s->steps - 1]);
    return fastest;
}

static double said(const Study *s, const Loader *loader, int ahead) {
    double host_seconds[MOST_STEPS];
    for (int n = 0; n < s->steps; n++) host_seconds[n] = s->enqueue_seconds + loader->work[n];
    return predict(s->steps, ahead, host_seconds, s->device_seconds) / s->steps;
}

// Device time of a step, and the host's: from runs in which neither waits for the other.
static void measure_parts(Study *s, int k) {
    Loader *loader = loader_new(s->data, flags.batch_size, k, s->steps);
    time_ahead(s, loader, s->steps - 1); // memory used the first time is slow
    s->device_seconds = time_ahead(s, loader, s->steps - 1);
    DataParallel dp = network_on(s->net, k, BN_AVERAGED, flags.seed);
    s->enqueue_seconds = measure_enqueue(&dp, loader);
    for (int i = 0; i < k; i++) s->arena_mb += (double)arena_reserved_bytes(dp.devices[i]) / 1e6;
    loader_free(loader);
}

static void measure_ahead(Study *s, int k, int a) {
    int ahead = ahead_of(a, s->steps);
    double losses[MOST_STEPS];
    size_t before = device_bytes(host());
    Loader *loader = loader_new(s->data, flags.batch_size, k, ahead + 1);
    s->host_mb[a] = (double)(device_bytes(host()) - before) / 1e6;
    for (int work = 0; work < NUM_WORK; work++) {
        set_work(loader, s, work);
        s->of[work][a].said = said(s, loader, ahead);
        s->of[work][a].seconds = time_ahead(s, loader, ahead);
    }
    set_work(loader, s, NO_WORK);
    DataParallel dp = network_on(s->net, k, BN_AVERAGED, flags.seed);
    s->most[a] = trace_run(&dp, loader, s->steps, ahead, flags.lr, losses);
    loader_free(loader);
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
    printf("    arenas of all devices: %.1f MB, however far the host is ahead\n\n", s->arena_mb);
}

static void run_study(Study *s) {
    int k = flags.devices;
    measure_parts(s, k);
    for (int a = 0; a < NUM_AHEAD; a++) measure_ahead(s, k, a);
    print_study(s);
    leave_devices(s->net, flags.seed);
}

// ### The answer

static double percent_saved(const Study *s, int work, int a) {
    return 100 * (1 - s->of[work][a].seconds / s->of[work][0].seconds);
}

static void explain_same(void) {
    printf("Answer\n"
           "  What happens without the wait: the same. All runs of a network ended with the same "
           "bits, however far\n    the host was ahead: the queues keep the order. Only what the "
           "host itself reads and writes has to\n    wait: losses, and minibatches, for which "
           "there are slots in turn.\n");
}

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

static void explain_time(const Study *s) {
    if (was_busy(s)) {
        printf("  %s: the same work took very different times, so something else was using the "
               "cores, and\n    nothing follows from them.\n",
               s->name);
        return;
    }
    printf(
        "  %s: to be up to 1 step ahead saves %.0f%% of a step if the host only enqueues, %.0f%% "
        "if it also\n    works for half a step, %.0f%% if that comes in bursts; 2 steps ahead "
        "save %.0f%%, %.0f%% and %.0f%%.\n",
        s->name, percent_saved(s, NO_WORK, 1), percent_saved(s, EACH_STEP, 1),
        percent_saved(s, BURSTS, 1), percent_saved(s, NO_WORK, 2), percent_saved(s, EACH_STEP, 2),
        percent_saved(s, BURSTS, 2));
    printf("    Enqueueing is %.1f%% of a step, and that is all that can be hidden where the host "
           "has nothing else\n    to do. (A few percent more or less are noise.)\n",
           100 * s->enqueue_seconds / s->device_seconds);
}

static void explain_limits(const Study *lenet_study, const Study *resnet_study) {
    printf("  How far: one step ahead hides regular work, since the devices always have a step to "
           "do while the\n    host prepares the next. More helps against bursts only. Without a "
           "limit the host was %d steps\n    ahead of LeNet and %d of ResNet-18, which has more "
           "tasks in a step: what stops it is the queue,\n    which holds so many tasks and no "
           "more.\n",
           lenet_study->most[UNLIMITED], resnet_study->most[UNLIMITED]);
    printf("  Memory: a minibatch more on the host for each step ahead. Arenas are not doubled: "
           "what overwrites\n    stands in the queue behind what is overwritten. What does get "
           "worse is that losses are read\n    late: a nan is seen so many steps after it "
           "appeared, and Ctrl-C takes effect as late.\n");
    if (num_gpus() == 0)
        printf("  These devices are CPU workers: enqueueing is a store into a list, and the host "
               "takes its time for\n    it from the cores that the devices compute on. On a GPU "
               "each launch costs the host some\n    microseconds and the devices none, so a "
               "network of many small kernels gains more: run it there.\n");
}

static void write_csv(const char *path, const Study *studies[2]) {
    OutputFile file = output_open(path);
    fprintf(file.stream,
            "network,work,ahead,work_number,ahead_number,ms,said_ms,most_ahead,host_mb,"
            "arena_mb\n");
    for (int i = 0; i < 2; i++)
        for (int work = 0; work < NUM_WORK; work++)
            for (int a = 0; a < NUM_AHEAD; a++) {
                const Study *s = studies[i];
                fprintf(file.stream, "%s,%s,%d,%d,%d,%.4f,%.4f,%d,%.4f,%.2f\n", s->name,
                        work_names[work], ahead_of(a, s->steps), work, a,
                        1e3 * s->of[work][a].seconds, 1e3 * s->of[work][a].said, s->most[a],
                        s->host_mb[a], s->arena_mb);
            }
    output_close(&file);
}

static void study_free(Study *s) {
    module_free(s->net);
    dataset_free(s->data);
    free(s->values);
}

static void experiment(void) {
    Study lenet = {.name = "LeNet", .net = lenet_modules(28), .steps = 100, .rounds = 4};
    Study resnet = {.name = "ResNet-18", .net = resnet18(FASHION_MNIST_CLASSES, 1), .steps = 6};
    resnet.rounds = 2;
    lenet.data = fashion_mnist_open(flags.data, true, 640);
    resnet.data = small_images(flags.data, true, 640);
    make_directory(flags.out);
    char *csv = out_file(flags.out, ".csv"), *png = out_file(flags.out, ".png");
    printf("Question: what if the host does not wait at the end of each step, but runs up to so "
           "many steps ahead?\n"
           "%d device%s, minibatches of %d; ResNet-18 with images of 14 x 14; in brackets what "
           "predict() says\n\n",
           flags.devices, flags.devices > 1 ? "s" : "", flags.batch_size);
    run_study(&lenet);
    run_study(&resnet);
    explain_same();
    explain_time(&lenet);
    explain_time(&resnet);
    explain_limits(&lenet, &resnet);
    write_csv(csv, (const Study *[]){&lenet, &resnet});
    draw_plot("exercise_no_waiting.gp", csv, png);
    free(csv);
    free(png);
    study_free(&lenet);
    study_free(&resnet);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 2;
    defaults.batch_size = 16;
    defaults.lr = 0.02f;
    flags = parse_flags(argc, argv, "Exercise 3: training without a wait at the end of each step.",
                        "devices batch-size lr seed data check", defaults);
    check();
    if (!flags.check) experiment();
    devices_close();
    return EXIT_SUCCESS;
}
