// shown.c: see shown.h.
#include "shown.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/device/ledger.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "towers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- towers ------------------------------------------------------------------------------------

// A whole minibatch, on the host.
typedef struct Whole {
    Tensor *X, *y;
} Whole;

static Whole whole_new(const PsLesson *l) {
    return (Whole){tensor_new(host(), l->batch_size, 1, l->train_data->rows, l->train_data->cols),
                   tensor_new(host(), l->batch_size)};
}

static void whole_load(const PsLesson *l, long clock, Whole *whole) {
    PsLesson alone = *l;
    alone.W = 1;
    ps_load(&alone, clock, 0, whole->X, whole->y);
}

static void whole_free(Whole *whole) {
    tensor_free(whole->X);
    tensor_free(whole->y);
}

// What some steps of towers have changed, all variables one behind the other; free() it.
static float *learned_by_towers(const PsLesson *l, int k, int steps, Combine combine, bool adam,
                                float lr, size_t *n) {
    Device *devices[MAX_COMPUTING];
    Whole whole = whole_new(l);
    open_devices(devices, k);
    Towers *t = towers_new(devices, k, l->seed, combine, adam);
    float *before = values_of_all(t->vars, LENET_PARAMS, n);
    for (int step = 0; step < steps; step++) {
        whole_load(l, step, &whole);
        towers_step(t, whole.X, whole.y, lr);
    }
    float *after = values_of_all(t->vars, LENET_PARAMS, n);
    for (size_t i = 0; i < *n; i++) after[i] -= before[i];
    free(before);
    towers_free(t);
    whole_free(&whole);
    return after;
}

typedef struct Compared {
    double times; // how far the second went in the direction of the first
    double apart; // the largest difference of a number, as a part of the largest change of one
    double few;   // the part of all numbers that differ by more than a tenth of that
} Compared;

static Compared compare_learned(const float *a, const float *b, size_t n) {
    double product = 0, square = 0, change = 0, few = 0;
    for (size_t i = 0; i < n; i++) {
        product += (double)a[i] * (double)b[i];
        square += (double)a[i] * (double)a[i];
        change = fmax(change, fabs((double)a[i]));
    }
    for (size_t i = 0; i < n; i++) few += fabs((double)a[i] - (double)b[i]) > 0.1 * change;
    return (Compared){product / square, relative_difference(b, a, NULL, n), few / (double)n};
}

static Compared print_towers(const PsLesson *l, const char *name, int k, int steps, Combine combine,
                             bool adam, float lr) {
    size_t n;
    float *one = learned_by_towers(l, 1, steps, TOWERS_SUM, adam, lr, &n);
    float *many = learned_by_towers(l, k, steps, combine, adam, lr, &n);
    Compared c = compare_learned(one, many, n);
    printf("  %-22s %5d %8.4f   %9.2g\n", name, steps, c.times, c.apart);
    free(one);
    free(many);
    return c;
}

void show_towers(const PsLesson *l, int k, int steps) {
    enum { ONE = 1 };
    printf("\n  %d towers beside one    steps    moved   largest difference of a number,\n"
           "                                         as a part of the largest change of one\n",
           k);
    Compared sum = print_towers(l, "SGD, sum (the text)", k, ONE, TOWERS_SUM, false, l->lr);
    Compared mean = print_towers(l, "SGD, mean", k, ONE, TOWERS_MEAN, false, l->lr);
    Compared adam_sum = print_towers(l, "Adam, sum (the text)", k, steps, TOWERS_SUM, true, 1e-3f);
    print_towers(l, "Adam, mean", k, steps, TOWERS_MEAN, true, 1e-3f);
    say("  Moved: how far the parameters went in the direction in which one tower's went; 1 is as "
        "far. Adam's sum went %.2f times as far, not %d times. But %.2g%% of the numbers differ by "
        "more than a tenth of the largest change: their gradients are hardly larger than Adam's "
        "epsilon, 1e-8, and there a factor of %d counts. (LeNet begins on a plateau, where many "
        "gradients are that small.)",
        adam_sum.times, k, 100 * adam_sum.few, k);
    if (l->batch_size % k != 0) {
        say("  (%d does not divide the minibatch of %d: a mean of the towers' means is not its "
            "mean.)",
            k, l->batch_size);
        return;
    }
    CHECK(fabs(sum.times - k) < 1e-3 * k && fabs(mean.times - 1) < 1e-3,
          "a sum of k means is k times the mean");
    CHECK(fabs(adam_sum.times - 1) < 0.2, "Adam divides by the size of the gradient");
}

// ---- bytes -------------------------------------------------------------------------------------

static uint64_t tower_bytes(const PsLesson *l, int k) {
    Device *devices[MAX_COMPUTING];
    Whole whole = whole_new(l);
    open_devices(devices, k);
    Towers *t = towers_new(devices, k, l->seed, TOWERS_SUM, false);
    whole_load(l, 0, &whole);
    ledger_reset();
    towers_step(t, whole.X, whole.y, l->lr);
    uint64_t bytes = ledger_bytes_host() - tensor_bytes(whole.X) - tensor_bytes(whole.y);
    towers_free(t);
    whole_free(&whole);
    return bytes;
}

static void print_bytes(const char *name, uint64_t counted, uint64_t formula, const char *text) {
    CHECK(counted == formula, "bytes are those of the formula");
    printf("  %-26s %12s   %s\n", name, grouped(counted).text, text);
}

static uint64_t sent_and_received(const Device *device, Device *const others[], int n) {
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++)
        if (others[i] != device)
            bytes += ledger_bytes(device, others[i]) + ledger_bytes(others[i], device);
    return bytes;
}

static void server_bytes(const PsLesson *l, int S) {
    Device *devices[MAX_COMPUTING];
    Worker workers[MOST_WORKERS];
    char name[32];
    open_devices(devices, l->W + S);
    Servers *v = servers_new(devices + l->W, S, l->W, l->seed, l->lr);
    for (int w = 0; w < l->W; w++) workers[w] = worker_new(devices[w], l->seed);
    ledger_reset();
    servers_exchange(v, workers, l->batch_size);
    synchronize_all();
    snprintf(name, sizeof name, "server 0 of %d", S);
    print_bytes(name, sent_and_received(devices[l->W], devices, l->W + S),
                2 * server_bytes_per_step(v, 0), "2 W P/S");
    if (S == l->S)
        print_bytes("a worker", sent_and_received(devices[0], devices, l->W + S),
                    2 * worker_bytes_per_step(), "2 P");
    for (int w = 0; w < l->W; w++) worker_free(&workers[w]);
    servers_free(v);
}

// As many servers as workers, on the same devices.
static void shared_bytes(const PsLesson *l) {
    Device *devices[MAX_COMPUTING];
    Worker workers[MOST_WORKERS];
    open_devices(devices, l->W);
    Servers *v = servers_new(devices, l->W, l->W, l->seed, l->lr);
    for (int w = 0; w < l->W; w++) workers[w] = worker_new(devices[w], l->seed);
    ledger_reset();
    servers_exchange(v, workers, l->batch_size);
    synchronize_all();
    print_bytes("worker and server in one", sent_and_received(devices[0], devices, l->W),
                2 * shared_bytes_per_step(v, 0), "4 (W-1)/W P");
    for (int w = 0; w < l->W; w++) worker_free(&workers[w]);
    servers_free(v);
}

static void allreduce_row(const char *name, const Allreduce *algorithm, int k, const char *text) {
    Traffic t = allreduce_bytes(algorithm, lenet_floats(), k, 0);
    printf("  %-26s %12s   %s\n", name, grouped(t.sent + t.received).text, text);
}

void show_bytes(const PsLesson *l) {
    printf("\n  sent and received              bytes   formula, P = %s, W = %d\n",
           grouped(worker_bytes_per_step()).text, l->W);
    print_bytes("the host of W towers", tower_bytes(l, l->W), towers_bytes_per_step(l->W), "2 W P");
    allreduce_row("device 0 of a star", &allreduces[0], l->W, "2 (W-1) P (chapter 2)");
    allreduce_row("a device of a ring", &allreduces[2], l->W, "4 (W-1)/W P (chapter 2)");
    server_bytes(l, 1);
    if (l->S > 1) server_bytes(l, l->S);
    if (l->W > 1 && l->W != l->S) server_bytes(l, l->W);
    if (l->W > 1) shared_bytes(l);
}

// ---- synchronous -------------------------------------------------------------------------------

static float *trained_by_chapter_4(const PsLesson *l, int steps, size_t *n) {
    Device *devices[MAX_COMPUTING];
    Tensor *start[LENET_PARAMS], *device_params[MAX_COMPUTING][LENET_PARAMS], *losses[MAX_DEVICES];
    Whole whole = whole_new(l);
    open_devices(devices, l->W);
    choose_allreduce("star");
    lenet_init(start, l->seed);
    for (int w = 0; w < l->W; w++) get_params(start, LENET_PARAMS, devices[w], device_params[w]);
    for (int step = 0; step < steps; step++) {
        whole_load(l, step, &whole);
        train_batch(whole.X, whole.y, device_params, devices, l->W, l->lr, losses);
        synchronize_all();
    }
    float *params = values_of_all(device_params[0], LENET_PARAMS, n);
    for (int w = 0; w < l->W; w++) free_params(device_params[w], LENET_PARAMS);
    free_params(start, LENET_PARAMS);
    whole_free(&whole);
    return params;
}

void show_synchronous(const PsLesson *lesson, int steps) {
    PsLesson l = *lesson;
    double *slow = xmalloc(sizeof *slow * (size_t)l.W);
    size_t n;
    l.points = 0;
    for (int w = 0; w < l.W; w++) slow[w] = 1;
    // Transfers as long as the computation, so that some push before others have pulled.
    Pace pace = {.W = l.W,
                 .compute = 1,
                 .transfer = 1,
                 .busy = 1,
                 .slow = slow,
                 .jitter = 0.5,
                 .timeout = INFINITY,
                 .dies = -1,
                 .seed = l.seed};
    Schedule schedule = schedule_make(&pace, (Discipline){0, 0}, steps);
    PsResult r = ps_replay(&l, &schedule);
    float *expected = trained_by_chapter_4(&l, steps, &n);
    bool equal = n == r.n && memcmp(expected, r.params, n * sizeof *expected) == 0;
    say("\n%d synchronous steps with %d worker%s and %d server%s, pushes in the order in which "
        "workers were ready: the %zu parameters are %s those of chapter 4 on %d device%s.",
        steps, l.W, l.W > 1 ? "s" : "", l.S, l.S > 1 ? "s" : "", n, equal ? "to the bit" : "not",
        l.W, l.W > 1 ? "s" : "");
    CHECK(equal, "synchronous training is chapter 4's");
    free(expected);
    free(slow);
    ps_result_free(&r);
    schedule_free(&schedule);
}
