// times.c: how long the allreduces take, for vectors from 1 KB to 64 MB, each four times as long as
// the one before. Two kinds of time of the very same work:
//
// - *measured*, on the machine at hand: the median of several measurements. The algorithms take
//   turns, so that whatever else the machine does disturbs all of them alike.
// - *modelled*, on the machine of `--machine`, which need not be there: what the kernels and
//   copies would take on it, as `modelled_clock.h` says. It is the same in every run.
#include "times.h"

#include "common/base/clock.h"
#include "common/base/statistics.h"
#include "common/model/modelled_clock.h"
#include "common/model/nccl_model.h"
#include "common/device/timer.h"
#include "common/program/say.h"
#include "common/tensor/autograd.h"
#include "figures.h"
#include "get_params.h"
#include "replicas.h"

#include <math.h>

enum { MOST_ROUNDS = 501 };

// For how long one size is measured, if five rounds take less.
static const double PATIENCE = 0.25;

typedef struct BothTimes {
    Times measured, modelled;
} BothTimes;

static double time_once(const Allreduce *algorithm, Tensor *const data[], int k, Timer *timer) {
    for (int i = 0; i < k; i++) begin_step(data[i]->device);
    timer_start(timer);
    algorithm->run(data, k);
    return timer_stop(timer);
}

// The modelled times are those of a first run, which is not counted among the measured ones: memory
// that is used the first time is slow.
static Times modelled_times(Tensor *const data[], int k) {
    Times times;
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        Timer timer = {0};
        time_once(&allreduces[a], data, k, &timer);
        times.seconds[a] = timer_modelled_avg(&timer);
    }
    return times;
}

// At least five rounds, then as many as there is patience for.
static Times measured_times(Tensor *const data[], int k, int most) {
    static double seconds[NUM_ALLREDUCES][MOST_ROUNDS];
    int rounds = 0;
    Timer timer = {0};
    double start = seconds_now();
    for (; rounds < most && (rounds < 5 || seconds_now() - start < PATIENCE); rounds++)
        for (int turn = 0; turn < NUM_ALLREDUCES; turn++) {
            int a = (rounds + turn) % NUM_ALLREDUCES; // each comes first, second, ... equally often
            seconds[a][rounds] = time_once(&allreduces[a], data, k, &timer);
        }
    Times times;
    for (int a = 0; a < NUM_ALLREDUCES; a++) times.seconds[a] = median(seconds[a], rounds);
    return times;
}

// Devices that compute nothing take no time that would say anything.
static bool is_measured(void) { return has_values(try_gpu(0)); }

static const Times no_times = {.seconds = {NAN, NAN, NAN, NAN}};

// Without `csv` the times are written nowhere.
static BothTimes time_size(int k, size_t bytes, int most, FILE *csv) {
    BothTimes times = {.measured = no_times, .modelled = no_times};
    Tensor *data[MAX_DEVICES];
    vectors_on_devices(data, k, (int)(bytes / sizeof(float)));
    for (int i = 0; i < k; i++) tensor_fill(data[i], 0); // sums of zeros stay zeros, however often
    if (modelled_machine()) times.modelled = modelled_times(data, k);
    if (is_measured()) times.measured = measured_times(data, k, most);
    free_params(data, k);
    if (csv && is_measured()) write_figures(csv, NULL, k, bytes, &times.measured);
    if (csv && modelled_machine())
        write_figures(csv, modelled_machine(), k, bytes, &times.modelled);
    return times;
}

// ## The tables

static void add_row(Table *t, const BothTimes *times, size_t bytes) {
    table_text(t, "%s", size_text(bytes));
    add_times(t, &times->measured, 1e-6);
    add_times(t, &times->modelled, 1e-6);
}

static void print_fastest(const char *what, const Times *times) {
    int best = fastest(times);
    if (best == 0)
        printf("  The fastest, %s: the star.\n", what);
    else
        printf("  The fastest, %s: %s, %.2f times the star's time.\n", what, fastest_names(times),
               times->seconds[best] / times->seconds[0]);
}

// What busbw is for: how near the ring comes to what its links can carry.
static void compare_with_links(const Machine *machine, const Times *times, int k, size_t bytes) {
    double slowest = INFINITY, of_ring = 0;
    for (int i = 0; i < k; i++)
        slowest = fmin(slowest, machine_route(machine, i, (i + 1) % k).link.bandwidth);
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        if (allreduces[a].run == allreduce_ring) of_ring = busbw(bytes, times->seconds[a], k);
    printf("  Modelled, a link carries %.3g GB/s each way: the ring's busbw is %.0f %% of it.\n",
           1e-9 * slowest, 100 * of_ring / slowest);
}

static void add_bandwidths(Table *t, const char *name, double measured, double modelled, int k,
                           size_t bytes) {
    table_text(t, "%s", name);
    table_numbers(t, 1e-9 * algbw(bytes, measured), 1e-9 * busbw(bytes, measured, k),
                  1e-9 * algbw(bytes, modelled), 1e-9 * busbw(bytes, modelled, k));
}

static void print_bandwidths(const BothTimes *times, int k, size_t bytes, FILE *csv) {
    const Machine *machine = modelled_machine();
    say("\nGB/s at %s; busbw: algbw x %.2f", size_text(bytes), 2.0 * (k - 1) / k);
    Table t =
        TABLE(NULL, WORDS("", 15), FIXED(is_measured() ? "here: algbw" : NULL, 2),
              FIXED(is_measured() ? "busbw" : NULL, 2),
              FIXED(machine ? "modelled: algbw" : NULL, 2), FIXED(machine ? "busbw" : NULL, 2));
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        add_bandwidths(&t, allreduces[a].name, times->measured.seconds[a],
                       times->modelled.seconds[a], k, bytes);
    if (machine) { // beside our four: what NVIDIA's library would take
        double seconds = nccl_allreduce_seconds(machine, k, (double)bytes, NULL);
        add_bandwidths(&t, "as NCCL does it", NAN, seconds, k, bytes);
        write_figure(csv, machine, "NCCL", k, bytes, seconds);
    }
    if (is_measured()) print_fastest("measured", &times->measured);
    if (!machine) return;
    print_fastest("modelled", &times->modelled);
    compare_with_links(machine, &times->modelled, k, bytes);
}

size_t largest_size(int k) {
    size_t bytes = SMALLEST;
    while (4 * bytes <= LARGEST && 4 * bytes * (size_t)k <= MOST_BYTES_IN_ALL) bytes *= 4;
    return bytes;
}

void compare_times(int k, int most_rounds, FILE *csv) {
    int most = most_rounds >= 0 && most_rounds < MOST_ROUNDS ? most_rounds : MOST_ROUNDS;
    if (most == 0) most = 1;
    BothTimes times = {0};
    if (!is_measured()) say("\nThese devices compute nothing, so no times are measured.");
    const Machine *machine = modelled_machine();
    say("\nTime of one allreduce on %d devices, in microseconds%s%s%s", k,
        is_measured() ? "; measured here" : "", machine ? "; modelled: " : "",
        machine ? machine->name : "");
    Table t = TABLE(NULL, WORDS("", 6), TIMES_COLUMNS(is_measured(), "here: star"),
                    TIMES_COLUMNS(machine, "modelled: star"));
    time_size(k, SMALLEST, most, NULL); // to warm up: the first measured times would be too long
    for (size_t bytes = SMALLEST; bytes <= largest_size(k); bytes *= 4) {
        times = time_size(k, bytes, most, csv);
        add_row(&t, &times, bytes);
    }
    print_bandwidths(&times, k, largest_size(k), csv);
}

// ## In words

static void explain_here(void) {
    if (num_gpus() == 0)
        say("  Measured: these devices are threads that share %d core%s, and their links are the "
            "memory of this machine, which they share too. So the bandwidths are those of memory, "
            "and all algorithms move the same bytes through it. None can gain by using more links "
            "at once, only by keeping more cores at work; so this is no place to judge the star. "
            "Where each device has a link of its own, see the modelled times.",
            num_threads(), num_threads() == 1 ? "" : "s");
    else if (num_gpus() == 1)
        say("  Measured: all devices share one GPU, so the bandwidths are those of its memory.");
    else
        say("  Measured on %d GPUs: compare busbw with the speed of their links, PCIe or NVLink.",
            num_gpus());
}

void explain_times(void) {
    printf("\nWhat the times show\n");
    say("  Short vectors, where to start a transfer takes time: the time hardly depends on the "
        "size (if a measured one does, this computer had other things to do). It is that of "
        "starting transfers and of devices that wait for each other: 2 (k-1) transfers in the star "
        "and in the tree, 2 k (k-1) smaller ones in the others. "
        "Long vectors: that of moving so many bytes.");
    say("  algbw is size / time, what the caller sees. busbw is algbw x 2 (k-1)/k: what each "
        "device would send per second if it sent no more than it must. Compare it with the speed "
        "of one device's link, for any k.");
    if (is_measured()) explain_here();
}
