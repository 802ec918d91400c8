// bandwidth.c: the bandwidth of the ring: measured here, modelled, and beside it NCCL's.
#include "behind.h"

#include "common/book.h"
#include "nccl_model.h"
#include "../allreduce.h"
#include "../get_params.h"

enum { MOST_BYTES_IN_ALL = 256 << 20, ROUNDS = 7 };

static double measured_ring(int k, size_t bytes) {
    Tensor *data[MAX_DEVICES];
    double seconds[ROUNDS];
    vectors_on_devices(data, k, (int)(bytes / sizeof(float)));
    for (int i = 0; i < k; i++) tensor_fill(data[i], 0); // sums of zeros stay zeros
    for (int round = -1; round < ROUNDS; round++) {      // the first touches new memory
        Timer timer = {0};
        for (int i = 0; i < k; i++) begin_step(data[i]->device);
        timer_start(&timer);
        allreduce_ring(data, k);
        double time = timer_stop(&timer);
        if (round >= 0) seconds[round] = time;
    }
    free_params(data, k);
    return median(seconds, ROUNDS);
}

static double slowest_link(const Machine *machine, int k) {
    double slowest = INFINITY;
    for (int i = 0; i < k; i++)
        slowest = fmin(slowest, machine_route(machine, i, (i + 1) % k).link.bandwidth);
    return slowest;
}

static void add_bandwidths(Table *t, int k, size_t bytes, double seconds, double link) {
    table_numbers(t, algbw(bytes, seconds), busbw(bytes, seconds, k), link);
}

static Table table_for(int k, size_t bytes) {
    char title[64];
    snprintf(title, sizeof title, "The ring's bandwidth, %zu MiB on %d devices", bytes >> 20, k);
    printf("\n");
    return TABLE(NULL, WORDS(title, 30), DIGITS("algbw", 3, .unit = "GB/s"),
                 DIGITS("busbw", 3, .unit = "GB/s"), DIGITS("a link", 3, .unit = "GB/s"));
}

static void add_modelled(Table *t, const Figures *figures, int k, size_t bytes) {
    const Machine *machine = figures->machine;
    double link = slowest_link(machine, k);
    double seconds = modelled_allreduce(machine, allreduce_ring, k, (int)(bytes / sizeof(float)));
    table_text(t, "modelled: %s", machine->name);
    add_bandwidths(t, k, bytes, seconds, link);
    seconds = nccl_allreduce_seconds(machine, k, (double)bytes, NULL);
    write_figure(figures, machine, "NCCL", k, bytes, seconds);
    table_text(t, "NCCL, calculated");
    add_bandwidths(t, k, bytes, seconds, link);
}

void show_bandwidth(const Figures *figures, int k) {
    size_t bytes = LARGEST;
    while (bytes * (size_t)k > MOST_BYTES_IN_ALL) bytes /= 4;
    Table t = table_for(k, bytes);
    double seconds = measured_ring(k, bytes);
    write_figure(figures, NULL, "ring", k, bytes, seconds);
    table_text(&t, "measured here");
    add_bandwidths(&t, k, bytes, seconds, NAN);
    if (figures->machine) add_modelled(&t, figures, k, bytes);
}

void show_modelled_bandwidth(const Figures *figures, int k) {
    Table t = table_for(k, LARGEST);
    add_modelled(&t, figures, k, LARGEST);
}
