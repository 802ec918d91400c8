// experiment.c: five ways to sum the gradients of LeNet, from the book's star to chapter 2's: the
// bytes that each device receives, and the time of an allreduce and of a training step.
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/device/timer.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/04_lenet_multi_gpu/exercises/replicas.h"
#include "your_part.h"

#include <math.h>

// ## The methods

// Sums parameter number p of LeNet over k devices.
typedef void Method(Tensor *const data[], int k, int p);

static void star(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_at(data, k, 0);
}

static void at_p_mod_k(Tensor *const data[], int k, int p) { allreduce_at(data, k, p % k); }

// Biggest first, to the devices in turn: W3 W2 W4 W1 b3 b2 b1 b4.
static void largest_first(Tensor *const data[], int k, int p) {
    static const int place[LENET_PARAMS] = {3, 6, 1, 5, 0, 4, 2, 7};
    allreduce_at(data, k, place[p] % k);
}

static void in_parts(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_parts(data, k);
}

static void chapter_2(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_sharded(data, k);
}

enum { STAR, P_MOD_K, LARGEST_FIRST, PARTS, CHAPTER_2, NUM_METHODS };
static const struct {
    const char *name;
    Method *run;
} methods[NUM_METHODS] = {[STAR] = {"star (the book's)", star},
                          [P_MOD_K] = {"parameter p on p mod k", at_p_mod_k},
                          [LARGEST_FIRST] = {"largest first", largest_first},
                          [PARTS] = {"k parts each", in_parts},
                          [CHAPTER_2] = {"chapter 2, sharded", chapter_2}};

// ## What is measured

// Milliseconds of each round; in a round the methods take turns, so that what else the machine does
// meets all alike.
enum { ROUNDS = 15, STEPS = 8 };
typedef struct Measured {
    double received[MAX_DEVICES], busiest; // bytes; each device sends as much as it receives
    double sum_ms[ROUNDS];                 // of one allreduce of all parameters
    double step_ms[ROUNDS];                // of a training step
    double large_ms[ROUNDS];               // of one allreduce of a large vector
} Measured;

// A vector of 16 MB, with which the number of bytes counts for more than the number of copies.
enum { LARGE = 4 << 20 };

// What all methods work on: replicas, a minibatch, and a large vector on each device.
typedef struct Setting {
    Replicas r;
    Tensor *X, *y, *large[MAX_DEVICES];
    float lr;
} Setting;

static void begin_steps(const Replicas *r) {
    for (int i = 0; i < r->k; i++) begin_step(r->devices[i]);
}

static void sum_gradients(Replicas *r, Method *method) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        Tensor *grads[MAX_DEVICES];
        for (int i = 0; i < r->k; i++) grads[i] = r->params[i][p]->grad;
        method(grads, r->k, p);
    }
}

// train_batch() of chapter 4, with another allreduce in it.
static void train_step(Setting *s, Method *method) {
    Replicas *r = &s->r;
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    begin_steps(r);
    split_batch(s->X, s->y, r->devices, r->k, X_shards, y_shards);
    for (int i = 0; i < r->k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], r->params[i]), y_shards[i]));
    for (int i = 0; i < r->k; i++) backward(losses[i]);
    sum_gradients(r, method);
    for (int i = 0; i < r->k; i++) sgd(r->params[i], LENET_PARAMS, s->lr, s->X->shape[0]);
}

static void count_bytes(Replicas *r, Method *method, Measured *m) {
    begin_steps(r);
    ledger_reset();
    sum_gradients(r, method);
    synchronize_all();
    for (int i = 0; i < r->k; i++) {
        m->received[i] = (double)bytes_received(r->devices, r->k, i);
        m->busiest = fmax(m->busiest, m->received[i]);
    }
}

static void time_round(Setting *s, Method *method, Measured *m, int round) {
    Timer timer = {0};
    timer_start(&timer);
    for (int step = 0; step < STEPS; step++) {
        begin_steps(&s->r);
        sum_gradients(&s->r, method);
    }
    m->sum_ms[round] = 1e3 * timer_stop(&timer) / STEPS;
    timer_start(&timer);
    for (int step = 0; step < STEPS; step++) train_step(s, method);
    m->step_ms[round] = 1e3 * timer_stop(&timer) / STEPS;
    begin_steps(&s->r);
    timer_start(&timer);
    method(s->large, s->r.k, 0);
    m->large_ms[round] = 1e3 * timer_stop(&timer);
}

static void measure_methods(Setting *s, Measured m[NUM_METHODS]) {
    train_step(s, star);
    for (int i = 0; i < NUM_METHODS; i++) count_bytes(&s->r, methods[i].run, &m[i]);
    for (int i = 0; i < NUM_METHODS; i++) // without counting: memory used the first time is slow
        time_round(s, methods[i].run, &m[i], 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int turn = 0; turn < NUM_METHODS; turn++) { // each is first, second, .. equally often
            int i = (round + turn) % NUM_METHODS;
            time_round(s, methods[i].run, &m[i], round);
        }
}

static void measure_all(const Flags *flags, Measured m[NUM_METHODS]) {
    Setting s = {.lr = flags->lr};
    Dataset *data = fashion_mnist_open(flags->data, true, flags->batch_size);
    DataIter *iter = data_iter_new(data, flags->batch_size, false, 0);
    data_iter_first(iter, &s.X, &s.y);
    replicas_open(&s.r, flags->devices, flags->seed);
    for (int i = 0; i < s.r.k; i++) {
        s.large[i] = tensor_new(s.r.devices[i], LARGE);
        tensor_fill(s.large[i], 0);
    }
    measure_methods(&s, m);
    for (int i = 0; i < s.r.k; i++) tensor_free(s.large[i]);
    data_iter_free(iter);
    dataset_free(data);
    replicas_close(&s.r);
}

// ## Figures

// What a method saves of the star's step, round by round.
static Quartiles saved_by(const Measured *method, const Measured *star_method) {
    double saved[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) saved[r] = star_method->step_ms[r] - method->step_ms[r];
    return quartiles(saved, ROUNDS);
}

static void write_csv(FILE *csv, int k, const Measured m[NUM_METHODS]) {
    fprintf(csv, "method,devices,allreduce_ms,step_ms,large_ms,saved_ms,saved_low,saved_high");
    for (int d = 0; d < k; d++) fprintf(csv, ",device%d_bytes", d);
    for (int i = 0; i < NUM_METHODS; i++) {
        Quartiles saved = saved_by(&m[i], &m[STAR]);
        fprintf(csv, "\n\"%s\",%d,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f", methods[i].name, k,
                median(m[i].sum_ms, ROUNDS), median(m[i].step_ms, ROUNDS),
                median(m[i].large_ms, ROUNDS), saved.median, saved.low, saved.high);
        for (int d = 0; d < k; d++) fprintf(csv, ",%.0f", m[i].received[d]);
    }
    fprintf(csv, "\n");
}

static void print_table(int k, const Measured m[NUM_METHODS]) {
    printf("                             bytes received by    allreduce, ms   step    saved in a "
           "step\n"
           "                            busiest      least    LeNet   16 MB     ms   ms (half the "
           "rounds)\n");
    for (int i = 0; i < NUM_METHODS; i++) {
        double least = m[i].busiest;
        for (int d = 0; d < k; d++) least = fmin(least, m[i].received[d]);
        printf("  %-23s %9.0f  %9.0f  %7.2f %7.1f %6.1f", methods[i].name, m[i].busiest, least,
               median(m[i].sum_ms, ROUNDS), median(m[i].large_ms, ROUNDS),
               median(m[i].step_ms, ROUNDS));
        Quartiles saved = saved_by(&m[i], &m[STAR]);
        if (i != STAR) printf("   %4.1f (%.1f .. %.1f)", saved.median, saved.low, saved.high);
        printf("\n");
    }
    say("  (A single vector of 16 MB is one parameter: the second and third lines are a star "
        "there.)");
}

// ## What they say

static void explain_bytes(int k, const Measured m[NUM_METHODS]) {
    double all = 0;
    for (int i = 0; i < k; i++) all += m[STAR].received[i];
    say("- Bytes: every method moves the same %.0f bytes in all. With the star, half of them "
        "arrive at device 0, which then sends the other half out. With k parts each, every device "
        "has 1/k of all, and all links work at once: the busiest device has %.2f times less to "
        "do%s.",
        all, m[STAR].busiest / m[PARTS].busiest,
        k == 2 ? "; with k = 2 each device moves as much anyway, and it is the additions that are "
                 "shared"
               : "");
    say("  Whole parameters balance badly: W3 alone is 79%% of LeNet. And p mod k is worse than it "
        "looks: weights have even numbers, so where k is even, devices with an odd number sum "
        "biases at most; with k = 2 device 0 makes all additions of weights.");
}

static void explain_copies(int k, const Measured m[NUM_METHODS]) {
    double star_ms = median(m[STAR].sum_ms, ROUNDS), parts_ms = median(m[PARTS].sum_ms, ROUNDS);
    say("- Copies: LeNet's 8 parameters need %d of them with the star, and %d with k parts each, "
        "most of them tiny. Here each copy also makes two devices wait for each other; chapter 2 "
        "orders the same copies by events. %.2f ms with the star, %.2f ms in parts, %.2f ms with "
        "chapter 2's.",
        2 * (k - 1) * LENET_PARAMS, 2 * (k - 1) * k * LENET_PARAMS, star_ms, parts_ms,
        median(m[CHAPTER_2].sum_ms, ROUNDS));
    if (parts_ms > star_ms)
        say("  So the time of so few bytes does not fall with those of the busiest device.");
}

static void explain_large(const Measured m[NUM_METHODS]) {
    double star_ms = median(m[STAR].large_ms, ROUNDS), parts_ms = median(m[PARTS].large_ms, ROUNDS);
    double chapter_2_ms = median(m[CHAPTER_2].large_ms, ROUNDS);
    bool saves = fmin(parts_ms, chapter_2_ms) <= 0.95 * star_ms;
    say("- One vector of 16 MB: %.1f ms with the star, %.1f ms in parts, %.1f ms with chapter "
        "2's.%s",
        star_ms, parts_ms, chapter_2_ms, saves ? "" : " Nothing to speak of is saved here.");
}

static void explain_training(const Measured m[NUM_METHODS]) {
    double step = median(m[STAR].step_ms, ROUNDS), sum_ms = median(m[STAR].sum_ms, ROUNDS);
    say("- In training: a step takes %.1f ms with the star; an allreduce by itself takes %.1f ms "
        "(%.0f%%).",
        step, sum_ms, 100 * sum_ms / step);
    for (int i = PARTS; i <= CHAPTER_2; i++) {
        Quartiles saved = saved_by(&m[i], &m[STAR]);
        bool costs = saved.median < 0;
        // Fewer than three quarters of the rounds agree whether there is anything to save.
        bool within_noise = saved.low <= 0 && saved.high >= 0;
        say("  %s %s %.1f ms of a step (in half of the rounds %.1f to %.1f)%s.", methods[i].name,
            costs ? "costs" : "saves", fabs(saved.median), costs ? -saved.high : saved.low,
            costs ? -saved.low : saved.high, within_noise ? ": within the noise" : "");
    }
}

static void explain_links(int k) {
    if (num_gpus() >= k) return;
    say("- These devices share %s, and a copy is memory traffic, of which all methods have as "
        "much. Where each device has links of its own, the busiest one is what counts: for a "
        "model of 160 MB, 4 devices and 16 GB/s each way the formula says 60 ms for the star and "
        "15 ms in parts.",
        num_gpus() ? "GPUs" : "cores");
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Measured m[NUM_METHODS] = {0};
    int k = flags->devices;
    say("Question: what does it save to sum different parameters on different devices?");
    say("LeNet, k = %d, minibatches of %d, medians of %d rounds\n", k, flags->batch_size, ROUNDS);
    measure_all(flags, m);
    print_table(k, m);
    say("\nAnswer");
    explain_bytes(k, m);
    explain_copies(k, m);
    explain_large(m);
    explain_training(m);
    explain_links(k);
    write_csv(csv, k, m);
}

static void refuse_one_device(const Flags *flags) {
    if (flags->devices < 2) die_usage("--devices 2 or more", "one device has nothing to sum up");
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 4;
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: gradients summed on all devices.",
                    .flags = "devices batch-size lr seed",
                    .defaults = defaults,
                    .prepare = refuse_one_device,
                    .check = check,
                    .passed =
                        "sums are exact on all devices; bytes per device are those of the formula",
                    .experiment = experiment,
                    .plot = "exercise_allreduce.gp"});
}
