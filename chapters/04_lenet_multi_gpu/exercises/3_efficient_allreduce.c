// # Exercise 3: an allreduce with which all devices work
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 3: "Implement a more efficient
// allreduce function that aggregates different parameters on different GPUs. Why is it more
// efficient?"
//
// Difficulty: ★★★☆
//
// How to run
//   make exercise-04-3                       the question, the answer, the evidence
//   make exercise-04-3 ARGS=--check          only check the solution: a second
//   make exercise-04-3 ARGS='--devices 8'    on 8 devices instead of 4
//
// The book's allreduce() is a star: device 0 receives all gradients, adds them up and sends the
// sums out, while the others and the links between them are idle. Here different parameters are
// summed on different devices. That alone does not balance the work, because one matrix of LeNet
// has 79% of the parameters; so each parameter is also cut into k parts. Chapter 2 goes on from
// here.
#include "common/base/error.h"
#include "common/device/timer.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags flags;

// ## Your part
//
// As the book's allreduce(): data[i] is on device i, and afterwards each holds the sum of all. But
// the sum is computed on device `hub`, not on device 0. What arrives there needs a place:
// arena_tensor(device, data[hub]->ndim, data[hub]->shape, false). launch(device, add, .y, .x, .n)
// adds x to y; tensor_copy(to, from) copies between devices. Any order of additions will do, but
// all devices must end with the same bits.
static void allreduce_at(Tensor *const data[], int k, int hub) {
    // SOLUTION
    Tensor *sum = data[hub];
    Tensor *received = arena_tensor(sum->device, sum->ndim, sum->shape, false);
    for (int i = 0; i < k; i++) {
        if (i == hub) continue;
        tensor_copy(received, data[i]);
        launch(sum->device, add, .y = sum->data, .x = received->data, .n = numel(sum));
    }
    for (int i = 0; i < k; i++)
        if (i != hub) tensor_copy(data[i], sum);
    // END SOLUTION
}

// The same sum, but each device is the hub of one part of about n/k of the n elements;
// equal_range(n, k, j) of range.h says which elements part j has. A part can be made a tensor of
// its own, which points into data[i]: {.data, .ndim = 1, .shape, .device}.
static void allreduce_parts(Tensor *const data[], int k) {
    // SOLUTION
    for (int j = 0; j < k; j++) {
        Range part = equal_range((long)numel(data[0]), k, j);
        Tensor parts[MAX_DEVICES], *part_of_device[MAX_DEVICES];
        for (int i = 0; i < k; i++) {
            parts[i] = (Tensor){.data = data[i]->data + part.first,
                                .ndim = 1,
                                .shape = {(int)part.count},
                                .device = data[i]->device};
            part_of_device[i] = &parts[i];
        }
        allreduce_at(part_of_device, k, j);
    }
    // END SOLUTION
}

// ## The check
//
// Whole numbers are added without rounding, so the sums must be exact. Device i sends and receives
// what the formula says: see chapter 2.

typedef void Method(Tensor *const data[], int k, int p);

static void at_hub(Tensor *const data[], int k, int p) { allreduce_at(data, k, p % k); }
static void in_parts(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_parts(data, k);
}

static uint64_t bytes_received(Device *const devices[], int k, int i) {
    uint64_t bytes = 0;
    for (int j = 0; j < k; j++)
        if (j != i) bytes += ledger_bytes(devices[j], devices[i]);
    return bytes;
}

static uint64_t bytes_sent(Device *const devices[], int k, int i) {
    uint64_t bytes = 0;
    for (int j = 0; j < k; j++)
        if (j != i) bytes += ledger_bytes(devices[i], devices[j]);
    return bytes;
}

static void check_values(const char *name, Tensor *const data[], int k) {
    int n = (int)numel(data[0]);
    float *values = xmalloc(sizeof(float) * (size_t)n);
    for (int i = 0; i < k; i++) {
        tensor_read(data[i], values);
        for (int j = 0; j < n; j++) {
            float sum = (float)(k * (k + 1) / 2 * (j % 100 + 1));
            EXPECT(values[j] == sum,
                   "%s, k = %d, n = %d: element %d on device %d is %g, the sum is %g", name, k, n,
                   j, i, (double)values[j], (double)sum);
        }
    }
    free(values);
}

static void check_bytes(const char *name, Device *const devices[], int k, int n, int i, int own) {
    uint64_t received = bytes_received(devices, k, i), sent = bytes_sent(devices, k, i);
    uint64_t expected = sizeof(float) * (uint64_t)(n - own + (k - 1) * own);
    EXPECT(received == expected && sent == expected,
           "%s, k = %d, n = %d: device %d received %llu and sent %llu bytes, expected %llu", name,
           k, n, i, (unsigned long long)received, (unsigned long long)sent,
           (unsigned long long)expected);
}

static void check_sum(const char *name, Method *method, int n, int k, int p) {
    Device *devices[MAX_DEVICES];
    Tensor *data[MAX_DEVICES];
    float *values = xmalloc(sizeof(float) * (size_t)n);
    for (int i = 0; i < k; i++) {
        devices[i] = try_gpu(i);
        begin_step(devices[i]);
        data[i] = tensor_new(devices[i], n);
        for (int j = 0; j < n; j++) values[j] = (float)((i + 1) * (j % 100 + 1));
        tensor_write(data[i], values);
    }
    ledger_reset();
    method(data, k, p);
    synchronize_all();
    check_values(name, data, k);
    for (int i = 0; i < k; i++) {
        long own = method == in_parts ? equal_range(n, k, i).count : i == p % k ? n : 0;
        check_bytes(name, devices, k, n, i, own);
    }
    for (int i = 0; i < k; i++) tensor_free(data[i]);
    free(values);
}

static void check(void) {
    for (int k = 1; k <= 5; k++)
        for (int n = 1; n <= 1000; n = 9 * n + 1) {
            for (int hub = 0; hub < k; hub++) check_sum("allreduce_at()", at_hub, n, k, hub);
            check_sum("allreduce_parts()", in_parts, n, k, 0);
        }
    printf("check passed: sums are exact on all devices; bytes per device are those of the "
           "formula\n\n");
}

// ## Four ways to sum the gradients of LeNet

static void star(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_at(data, k, 0);
}

// Biggest first, to the devices in turn: W3 W2 W4 W1 b3 b2 b1 b4.
static void balanced(Tensor *const data[], int k, int p) {
    static const int place[LENET_PARAMS] = {3, 6, 1, 5, 0, 4, 2, 7};
    allreduce_at(data, k, place[p] % k);
}

static void chapter_2(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_sharded(data, k);
}

enum { NUM_METHODS = 5, ROUNDS = 15, STEPS = 8 };
enum { STAR, P_MOD_K, LARGEST_FIRST, PARTS, CHAPTER_2 };
static const struct {
    const char *name;
    Method *run;
} methods[NUM_METHODS] = {{"star (the book's)", star},
                          {"parameter p on p mod k", at_hub},
                          {"largest first", balanced},
                          {"k parts each", in_parts},
                          {"chapter 2, sharded", chapter_2}};

// The middle of some numbers, and the quarter and three quarters of them that lie below.
typedef struct Middle {
    double low, median, high;
} Middle;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Middle middle_of(const double values[ROUNDS]) {
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, by_size);
    return (Middle){sorted[ROUNDS / 4], sorted[ROUNDS / 2], sorted[ROUNDS - 1 - ROUNDS / 4]};
}

// Milliseconds of each round; in a round the methods take turns, so that what else the machine does
// meets all alike.
typedef struct Measured {
    double received[MAX_DEVICES], busiest; // bytes; each device sends as much as it receives
    double sum_ms[ROUNDS];                 // of one allreduce of all parameters
    double step_ms[ROUNDS];                // of a training step
    double large_ms[ROUNDS];               // of one allreduce of a large vector
} Measured;

// What a method saves of the star's step: the middle of the differences, round by round.
static Middle saved_by(const Measured *method, const Measured *star_method) {
    double saved[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) saved[r] = star_method->step_ms[r] - method->step_ms[r];
    return middle_of(saved);
}

// Fewer than three quarters of the rounds agree whether there is anything to save.
static bool within_noise(Middle saved) { return saved.low <= 0 && saved.high >= 0; }

static void sum_gradients(Replicas *r, Method *method) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        Tensor *grads[MAX_DEVICES];
        for (int i = 0; i < r->k; i++) grads[i] = r->params[i][p]->grad;
        method(grads, r->k, p);
    }
}

// train_batch() of chapter 4, with another allreduce in it.
static void train_step(Replicas *r, const Tensor *X, const Tensor *y, Method *method) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    for (int i = 0; i < r->k; i++) begin_step(r->devices[i]);
    split_batch(X, y, r->devices, r->k, X_shards, y_shards);
    for (int i = 0; i < r->k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], r->params[i]), y_shards[i]));
    for (int i = 0; i < r->k; i++) backward(losses[i]);
    sum_gradients(r, method);
    for (int i = 0; i < r->k; i++) sgd(r->params[i], LENET_PARAMS, flags.lr, X->shape[0]);
}

static void count_bytes(Replicas *r, Method *method, Measured *m) {
    for (int i = 0; i < r->k; i++) begin_step(r->devices[i]);
    ledger_reset();
    sum_gradients(r, method);
    synchronize_all();
    for (int i = 0; i < r->k; i++) {
        m->received[i] = (double)bytes_received(r->devices, r->k, i);
        m->busiest = fmax(m->busiest, m->received[i]);
    }
}

// A vector of 16 MB, with which the number of bytes counts for more than the number of copies.
enum { LARGE = 4 << 20 };

static void time_round(Replicas *r, const Tensor *X, const Tensor *y, Tensor *const large[],
                       Method *method, Measured *m, int round) {
    Timer timer = {0};
    timer_start(&timer);
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < r->k; i++) begin_step(r->devices[i]);
        sum_gradients(r, method);
    }
    m->sum_ms[round] = 1e3 * timer_stop(&timer) / STEPS;
    timer_start(&timer);
    for (int s = 0; s < STEPS; s++) train_step(r, X, y, method);
    m->step_ms[round] = 1e3 * timer_stop(&timer) / STEPS;
    for (int i = 0; i < r->k; i++) begin_step(r->devices[i]);
    timer_start(&timer);
    method(large, r->k, 0);
    m->large_ms[round] = 1e3 * timer_stop(&timer);
}

// ## The experiment

static void measure_all(int k, Measured m[NUM_METHODS]) {
    Dataset *data = fashion_mnist_open(flags.data, true, flags.batch_size);
    DataIter *iter = data_iter_new(data, flags.batch_size, false, 0);
    Tensor *X, *y, *large[MAX_DEVICES];
    Replicas r;
    replicas_open(&r, k, flags.seed);
    data_iter_start(iter, 0);
    CHECK(data_iter_next(iter, &X, &y), "there is a minibatch");
    train_step(&r, X, y, star);
    for (int i = 0; i < k; i++) {
        large[i] = tensor_new(r.devices[i], LARGE);
        tensor_fill(large[i], 0);
    }
    for (int i = 0; i < NUM_METHODS; i++) count_bytes(&r, methods[i].run, &m[i]);
    for (int i = 0; i < NUM_METHODS; i++) // without counting: memory used the first time is slow
        time_round(&r, X, y, large, methods[i].run, &m[i], 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int turn = 0; turn < NUM_METHODS; turn++) { // each is first, second, .. equally often
            int i = (round + turn) % NUM_METHODS;
            time_round(&r, X, y, large, methods[i].run, &m[i], round);
        }
    for (int i = 0; i < k; i++) tensor_free(large[i]);
    data_iter_free(iter);
    dataset_free(data);
    replicas_close(&r);
}

static void write_csv(const char *path, int k, const Measured m[NUM_METHODS]) {
    OutputFile file = output_open(path);
    fprintf(file.stream,
            "method,devices,allreduce_ms,step_ms,large_ms,saved_ms,saved_low,saved_high");
    for (int d = 0; d < k; d++) fprintf(file.stream, ",device%d_bytes", d);
    for (int i = 0; i < NUM_METHODS; i++) {
        Middle saved = saved_by(&m[i], &m[STAR]);
        fprintf(file.stream, "\n\"%s\",%d,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f", methods[i].name, k,
                middle_of(m[i].sum_ms).median, middle_of(m[i].step_ms).median,
                middle_of(m[i].large_ms).median, saved.median, saved.low, saved.high);
        for (int d = 0; d < k; d++) fprintf(file.stream, ",%.0f", m[i].received[d]);
    }
    fprintf(file.stream, "\n");
    output_close(&file);
}

static void print_table(int k, const Measured m[NUM_METHODS]) {
    printf("                             bytes received by    allreduce, ms   step    saved in a "
           "step\n"
           "                            busiest      least    LeNet   16 MB     ms   ms (half the "
           "rounds)\n");
    for (int i = 0; i < NUM_METHODS; i++) {
        double least = m[i].busiest;
        Middle saved = saved_by(&m[i], &m[STAR]);
        for (int d = 0; d < k; d++) least = fmin(least, m[i].received[d]);
        printf("  %-23s %9.0f  %9.0f  %7.2f %7.1f %6.1f", methods[i].name, m[i].busiest, least,
               middle_of(m[i].sum_ms).median, middle_of(m[i].large_ms).median,
               middle_of(m[i].step_ms).median);
        if (i == STAR)
            printf("\n");
        else
            printf("   %4.1f (%.1f .. %.1f)\n", saved.median, saved.low, saved.high);
    }
    printf("  (A single vector of 16 MB is one parameter: the second and third lines are a star "
           "there.)\n");
}

static void explain_bytes(int k, const Measured m[NUM_METHODS]) {
    double all = 0;
    for (int i = 0; i < k; i++) all += m[STAR].received[i];
    printf("\nAnswer\n"
           "  Bytes: every method moves the same %.0f bytes in all. With the star, half of them "
           "arrive\n    at device 0, which then sends the other half out. With k parts each, every "
           "device has 1/k\n    of all, and all links work at once: the busiest device has %.2f "
           "times less to do%s.\n",
           all, m[STAR].busiest / m[PARTS].busiest,
           k == 2 ? "; with k = 2\n    each device moves as much anyway, and it is the additions "
                    "that are shared"
                  : "");
    printf(
        "  Whole parameters balance badly: W3 alone is 79%% of LeNet. And p mod k is worse than "
        "it\n    looks: weights have even numbers, so where k is even, devices with an odd number "
        "sum biases\n    at most; with k = 2 device 0 makes all additions of weights.\n");
}

static void explain_time(int k, const Measured m[NUM_METHODS]) {
    double star_ms = middle_of(m[STAR].sum_ms).median, parts_ms = middle_of(m[PARTS].sum_ms).median;
    double large_star = middle_of(m[STAR].large_ms).median,
           large_parts = middle_of(m[PARTS].large_ms).median,
           large_chapter_2 = middle_of(m[CHAPTER_2].large_ms).median;
    printf("  Copies: LeNet's 8 parameters need %d of them with the star, and %d with k parts "
           "each, most\n    of them tiny. Here each copy also makes two devices wait for each "
           "other; chapter 2 orders the\n    same copies by events. %.2f ms with the star, %.2f ms "
           "in parts, %.2f ms with chapter 2's.\n",
           2 * (k - 1) * LENET_PARAMS, 2 * (k - 1) * k * LENET_PARAMS, star_ms, parts_ms,
           middle_of(m[CHAPTER_2].sum_ms).median);
    if (parts_ms > star_ms)
        printf("    So the time of so few bytes does not fall with those of the busiest device.\n");
    printf("  One vector of 16 MB: %.1f ms with the star, %.1f ms in parts, %.1f ms with chapter "
           "2's.\n",
           large_star, large_parts, large_chapter_2);
    if (fmin(large_parts, large_chapter_2) > 0.95 * large_star)
        printf("    Nothing to speak of is saved here.\n");
}

static void explain_training(const Measured m[NUM_METHODS]) {
    double step = middle_of(m[STAR].step_ms).median, sum_ms = middle_of(m[STAR].sum_ms).median;
    printf(
        "  In training: a step takes %.1f ms with the star; an allreduce by itself takes %.1f ms "
        "(%.0f%%).\n",
        step, sum_ms, 100 * sum_ms / step);
    for (int i = PARTS; i <= CHAPTER_2; i++) {
        Middle saved = saved_by(&m[i], &m[STAR]);
        printf("    %s %s %.1f ms of a step (in half of the rounds %.1f to %.1f)", methods[i].name,
               saved.median < 0 ? "costs" : "saves", fabs(saved.median),
               saved.median < 0 ? -saved.high : saved.low,
               saved.median < 0 ? -saved.low : saved.high);
        printf(within_noise(saved) ? ": within the noise.\n" : ".\n");
    }
}

static void explain_links(int k) {
    if (num_gpus() >= k) return;
    printf("  These devices share %s, and a copy is memory traffic, of which all methods have as\n"
           "    much. Where each device has links of its own, the busiest one is what counts: for "
           "a model\n    of 160 MB, 4 devices and 16 GB/s each way the formula says 60 ms for the "
           "star and 15 ms\n    in parts.\n",
           num_gpus() ? "GPUs" : "cores");
}

static void experiment(void) {
    static Measured m[NUM_METHODS];
    int k = flags.devices;
    printf("Question: what does it save to sum different parameters on different devices?\n"
           "LeNet, k = %d, minibatches of %d, medians of %d rounds\n\n",
           k, flags.batch_size, ROUNDS);
    measure_all(k, m);
    print_table(k, m);
    explain_bytes(k, m);
    explain_time(k, m);
    explain_training(m);
    explain_links(k);
    make_directory(flags.out);
    char *csv = out_file(flags.out, ".csv"), *png = out_file(flags.out, ".png");
    write_csv(csv, k, m);
    draw_plot("exercise_allreduce.gp", csv, png);
    free(csv);
    free(png);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 4;
    flags = parse_flags(argc, argv, "Exercise 3: gradients summed on all devices.",
                        "devices batch-size lr seed data check", defaults);
    if (flags.devices < 2) die_usage("--devices 2 or more", "one device has nothing to sum up");
    check();
    if (!flags.check) experiment();
    devices_close();
    return EXIT_SUCCESS;
}
