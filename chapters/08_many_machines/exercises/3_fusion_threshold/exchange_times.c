// exchange_times.c: see exchange_times.h.
#include "exchange_times.h"

#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/base/statistics.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "common/tensor/functional.h"
#include "chapters/08_many_machines/fusion.h"
#include "chapters/08_many_machines/ranks.h"

#include <stdlib.h>

const size_t thresholds[NUM_THRESHOLDS] = {0,       4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                           1 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20};

int fuse(const Module *net, size_t threshold, Message messages[]) {
    Parameters all = parameters_of(net);
    int n = 0;
    CHECK(all.n <= MOST_MESSAGES, "room for all gradients");
    for (int p = all.n - 1; p >= 0; p--) {
        size_t bytes = numel(all.list[p]->start) * sizeof(float);
        if (!all.list[p]->trained) continue;
        if (n == 0 || messages[n - 1].bytes + bytes > threshold) messages[n++] = (Message){0};
        messages[n - 1].gradients++;
        messages[n - 1].bytes += bytes;
    }
    return n;
}

double copy_seconds(const Message messages[], int n, Line copy) {
    double seconds = 0;
    for (int m = 0; m < n; m++)
        if (messages[m].gradients > 1)
            seconds += 2 * (messages[m].gradients * copy.latency +
                            copy.per_byte * (double)messages[m].bytes);
    return seconds;
}

// ## In a rank

enum { ROUNDS = 5, IN_A_ROW = 16, FEW_BYTES = 1 << 20, NUM_SIZES = 13 };

// Seconds in each round. All of it is measured in turns: what else this machine does meanwhile then
// hits all of it.
typedef struct Times {
    int num_sizes;
    double bytes[NUM_SIZES], sums[NUM_SIZES][ROUNDS], copies[NUM_SIZES][ROUNDS];
    double talk[ROUNDS];                  // ranks tell each other what is ready
    double fused[NUM_THRESHOLDS][ROUNDS]; // all gradients, by fusion.c
} Times;

static double begin_together(void) {
    synchronize_all();
    dist_barrier(NULL);
    return seconds_now();
}

static double seconds_since(double begin) {
    synchronize_all();
    return seconds_now() - begin;
}

// To sum so many bytes over all ranks, or to copy them to the buffer if there is one. Small parts
// come in a row, as the messages of an exchange do, and from all over the gradients: what is in a
// cache already is there many times as fast.
static double time_parts(const Tensor *grads, const Tensor *buffer, size_t bytes) {
    Tensor *parts[IN_A_ROW];
    int floats = (int)(bytes / sizeof(float)), n = bytes < FEW_BYTES ? IN_A_ROW : 2;
    size_t all = tensor_bytes(grads) / bytes;
    for (int i = 0; i < n; i++)
        parts[i] = tensor_slice(grads, (size_t)i * all / (size_t)n * (size_t)floats, 1, &floats);
    double begin = begin_together();
    communicate_begin();
    for (int i = 0; i < n; i++)
        if (buffer)
            device_copy(grads->device, buffer->data + (parts[i]->data - grads->data), grads->device,
                        parts[i]->data, bytes);
        else
            dist_all_reduce(NULL, parts[i]);
    communicate_end();
    double seconds = seconds_since(begin) / n;
    for (int i = 0; i < n; i++) tensor_free(parts[i]);
    return seconds;
}

static double time_talk(int gradients) {
    double votes[MOST_MESSAGES] = {0}, begin = begin_together();
    for (int i = 0; i < IN_A_ROW; i++) dist_sum(NULL, votes, gradients);
    return seconds_since(begin) / IN_A_ROW;
}

// Gradients (of one image: their values do not matter) are computed first, and all of them are
// ready when the clock starts. The first time the buffer is made, so it is the second that counts.
static double time_fused(Module *net, size_t threshold) {
    Device *device = dist_device();
    Fusion *fusion = fusion_new(net, (FusionOptions){.threshold = threshold});
    double seconds = 0;
    for (int turn = 0; turn < 2; turn++) {
        begin_step(device);
        Tensor *X = arena_tensor(device, 4, (int[]){1, 1, 28, 28}, false), *y_hat;
        Tensor *y = arena_tensor(device, 1, (int[]){1}, false);
        tensor_fill(X, 0.5f);
        tensor_fill(y, 1);
        forward_all(net, &X, 1, &y_hat);
        Tensor *loss = sum(cross_entropy(y_hat, y));
        fusion_begin(fusion);
        backward_all(&loss, 1);
        double begin = begin_together();
        fusion_exchange(fusion);
        seconds = seconds_since(begin);
        sgd_step(net, device, 0, 1); // clears the gradients
    }
    fusion_free(fusion);
    return seconds;
}

// Parts of 4, 16, 64, .. bytes, and all that there are.
static void measure_round(Times *t, int round, Module *net, Tensor *buffer) {
    Message messages[MOST_MESSAGES];
    Tensor *grads = flat_parameters(net, dist_device()).grad;
    size_t bytes = 4;
    for (t->num_sizes = 0; t->num_sizes < NUM_SIZES; bytes *= 4) {
        int s = t->num_sizes++;
        if (bytes > tensor_bytes(grads)) bytes = tensor_bytes(grads);
        t->bytes[s] = (double)bytes;
        t->sums[s][round] = time_parts(grads, NULL, bytes);
        t->copies[s][round] = time_parts(grads, buffer, bytes);
        if (bytes == tensor_bytes(grads)) break;
    }
    t->talk[round] = time_talk(fuse(net, 0, messages));
    for (int i = 0; i < NUM_THRESHOLDS; i++) t->fused[i][round] = time_fused(net, thresholds[i]);
}

// The line with the least sum of squared *relative* errors, (1 - line/t)^2, where t is the median
// of the rounds. Both derivatives of that sum are 0: two equations, each size weighted by 1/t^2.
static Line fit_line(const Times *times, const double seconds[][ROUNDS]) {
    double w = 0, wx = 0, wt = 0, wxx = 0, wxt = 0;
    for (int s = 0; s < times->num_sizes; s++) {
        double t = median(seconds[s], ROUNDS), x = times->bytes[s], weight = 1 / (t * t);
        w += weight;
        wx += weight * x;
        wt += weight * t;
        wxx += weight * x * x;
        wxt += weight * x * t;
    }
    double per_byte = (w * wxt - wx * wt) / (w * wxx - wx * wx);
    return (Line){.latency = (wt - per_byte * wx) / w, .per_byte = per_byte};
}

static void print_thresholds(const Module *net, const char *title, const Times *times) {
    Line sum = fit_line(times, times->sums), copy = fit_line(times, times->copies);
    double talk = median(times->talk, ROUNDS), all = times->bytes[times->num_sizes - 1];
    say("\n  %s: by its line a message takes %.3g us and %.3g ns for each byte, a copy %.3g us "
        "and %.3g ns; talking %.0f us\n  measured: the median, and the middle half",
        title, 1e6 * sum.latency, 1e9 * sum.per_byte, 1e6 * copy.latency, 1e9 * copy.per_byte,
        1e6 * talk);
    Table t =
        TABLE(NULL, {"threshold", .bytes = true}, WHOLE("messages"),
              DIGITS("predicted", 3, .unit = "ms"), DIGITS("measured", 3, .unit = "ms"),
              DIGITS("from", 3, .unit = "ms"), DIGITS("to", 3, .unit = "ms"), FIXED("ratio", 2));
    for (int i = 0; i < NUM_THRESHOLDS; i++) {
        Message messages[MOST_MESSAGES];
        int n = fuse(net, thresholds[i], messages);
        Quartiles q = quartiles(times->fused[i], ROUNDS);
        double said = talk + n * sum.latency + all * sum.per_byte + copy_seconds(messages, n, copy);
        table_numbers(&t, (double)thresholds[i], n, said, q.median, q.low, q.high, said / q.median);
        printf("measured,%d,%s,%zu,%d,%.6g,%.6g,%.6g,%.6g\n", dist_get_world_size(), title,
               thresholds[i], n, 1e3 * said, 1e3 * q.median, 1e3 * q.low, 1e3 * q.high);
    }
}

static void measure_network(const NetworkKind *kind) {
    static Times times;
    Module *net = kind->make(10);
    initialize(net, 1);
    place_on(net, dist_device());
    set_training(net, true);
    Tensor *buffer =
        tensor_new(dist_device(), (int)numel(flat_parameters(net, dist_device()).grad));
    // The first round warms up: the last one is written over it.
    for (int round = 0; round <= ROUNDS; round++)
        measure_round(&times, round % ROUNDS, net, buffer);
    print_thresholds(net, kind->title, &times);
    tensor_free(buffer);
    synchronize_all();
    module_free(net);
}

int measure_as_rank(void) {
    set_program_name("measure");
    devices_init(BACKEND_CPU, 0);
    dist_before_flags();
    dist_init_process_group((DistOptions){.threads = 1, .timeout = 20});
    dist_choose_all_reduce("ring");
    for (int i = 0; i < NUM_NETWORKS; i++) measure_network(&networks[i]);
    dist_destroy_process_group();
    devices_close();
    return EXIT_SUCCESS;
}
