// modelled_times.c: how long the allreduces would take on machines that are not here.
#include "modelled_times.h"

#include "common/model/modelled_clock.h"
#include "common/device/timer.h"
#include "common/program/say.h"
#include "common/tensor/autograd.h"
#include "figures.h"
#include "get_params.h"
#include "replicas.h"
#include "times.h"

#include <math.h>
#include <string.h>

// ## The clock of a machine that is not here
//
// Here the devices may share a memory, or a GPU. What the formulas are about, links of
// limited speed and the time that a transfer needs to start, cannot be seen here. So the same
// functions run once more, on devices that compute nothing: what they enqueue is what they would
// enqueue on real ones, and a simulation says when each copy and each addition would be done.

void begin_on_machine(const Machine *machine) {
    devices_close(); // there may be more of them than the machine has
    modelled_clock_start(machine);
    devices_init(BACKEND_MODEL, 0);
}

double modelled_allreduce(void (*run)(Tensor *const data[], int k), int k, int n) {
    Tensor *data[MAX_DEVICES];
    Timer timer = {0};
    vectors_on_devices(data, k, n);
    for (int i = 0; i < k; i++) begin_step(data[i]->device);
    timer_start(&timer);
    run(data, k);
    timer_stop(&timer);
    free_params(data, k);
    return timer_modelled_avg(&timer);
}

static Times times_of_all(int k, size_t bytes) {
    Times times;
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        times.seconds[a] = modelled_allreduce(allreduces[a].run, k, (int)(bytes / sizeof(float)));
    return times;
}

double ring_formula(Link link, int k, int n) {
    double bytes = (double)n * sizeof(float);
    return 2 * (k - 1) * (link.latency + bytes / (k * link.bandwidth));
}

// ## Three machines

// NVLink, PCIe, Ethernet.
enum { NUM_MACHINES = 3 };
static const char *const names[NUM_MACHINES] = {"dgx-a100", "rtx4090-pcie", "cluster-10gbe"};

// The longest vector that the star sends in one piece, in bytes.
enum { ONE_PIECE = PIECE * sizeof(float) };

static double star_over_ring(const Times *times) {
    double star = NAN, ring = NAN;
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        if (allreduces[a].run == allreduce_star) star = times->seconds[a];
        if (allreduces[a].run == allreduce_ring) ring = times->seconds[a];
    }
    return star / ring;
}

static void add_machine_row(Table *t, size_t bytes, const Times *times) {
    table_text(t, "%s", size_text(bytes));
    add_times(t, times, 1e-6);
    table_numbers(t, star_over_ring(times));
    table_text(t, "%s", fastest_names(times));
}

// Without `csv` the times are only printed.
static void compare_on(const Machine *machine, int k, FILE *csv, Table *t) {
    begin_on_machine(machine);
    printf("  modelled: %s, %s\n", machine->name, machine->about);
    for (size_t bytes = SMALLEST; bytes <= largest_size(k); bytes *= 4) {
        Times times = times_of_all(k, bytes);
        if (csv) write_figures(csv, machine, k, bytes, &times);
        if (bytes == SMALLEST || bytes == ONE_PIECE || bytes == largest_size(k))
            add_machine_row(t, bytes, &times);
    }
}

// One device per host, so all links are alike: then the formula can be compared.
static void compare_with_formula(int k) {
    const Machine *machine = machine_find("cluster-10gbe");
    int n = (int)(largest_size(k) / sizeof(float));
    begin_on_machine(machine);
    double modelled = modelled_allreduce(allreduce_ring, k, n);
    double formula = ring_formula(machine->network, k, n);
    say("  The ring's formula is 2 (k-1) (latency + N / (k bandwidth)): on %s, %s on %d devices, "
        "%.1f ms by the formula and %.1f ms by the modelled clock, which counts launches and "
        "additions, too.",
        machine->name, size_text(largest_size(k)), k, 1e3 * formula, 1e3 * modelled);
}

void compare_machines(const Machine *own, int k, FILE *csv) {
    printf("\nThe same on three machines, modelled: %d devices, in microseconds\n", k);
    Table t = TABLE(NULL, WORDS("", 6), TIMES_COLUMNS(true, "star"), FIXED("star/ring", 2),
                    WORDS("fastest", 8));
    table_head(&t);
    for (int m = 0; m < NUM_MACHINES; m++) {
        const Machine *machine = machine_find(names[m]);
        bool in_csv = own && strcmp(machine->name, own->name) == 0; // by compare_times()
        if (machine_has_devices(machine, k))
            compare_on(machine, k, in_csv ? NULL : csv, &t);
        else
            printf("  %s has %d devices only, and no network\n", machine->name, machine->devices);
    }
    say("  Short vectors: few steps are best, and few transfers to start. Long ones: all links at "
        "work, sharded or in a ring.");
    if (largest_size(k) > ONE_PIECE)
        say("  From 4 MB to the longest vector two things change \"star/ring\", the star's time "
            "over the ring's. The star sends longer vectors in pieces, some of them back while "
            "others come in, which makes it less. And where links are as fast as NVLink, the "
            "ring's many starts still count at 4 MB and hardly for the longest, which makes it "
            "more.");
    compare_with_formula(k);
}

// ## Up to 1024 devices

// A part for each of 1024 devices is two floats, or 39063.
enum { MOST_DEVICES = 1024, SHORT = 8 << 10, LONG = 160 * 1000 * 1000 };

static void compare_up_to(const Machine *machine, size_t bytes, FILE *csv) {
    printf("\n  modelled: %s, vectors of %s, in milliseconds\n", machine->name, size_text(bytes));
    Table t = TABLE(NULL, WHOLE("devices"), TIMES_COLUMNS(true, "star"), WORDS("fastest", 8));
    for (int k = 2; k <= MOST_DEVICES; k *= 2) {
        Times times = times_of_all(k, bytes);
        write_figures(csv, machine, k, bytes, &times);
        table_numbers(&t, k);
        add_times(&t, &times, 1e-3);
        table_text(&t, "%s", fastest_names(&times));
    }
}

static void explain_growth(const Machine *machine) {
    say("  A short vector: what counts is how many transfers come one after the other, log2(k) "
        "each way in the tree and up to k-1 each way in the others. And a host takes %.3g us to "
        "start each transfer and each addition. Sharded or in a ring that is 3 (k-1) times, for "
        "each of the host's devices: at k = %d, 3 x %d x %d x %.3g us = %.3g ms.",
        1e6 * machine->launch, MOST_DEVICES, MOST_DEVICES - 1, machine->devices,
        1e6 * machine->launch, 1e3 * 3 * (MOST_DEVICES - 1) * machine->devices * machine->launch);
    say("  A long vector: in the star all bytes pass the hub, so its time grows with k. Sharded or "
        "in a ring no device sends more than 2 N: the time hardly grows, until the parts are so "
        "small that starting their transfers is what takes time.");
    if (machine->devices > 1)
        say("  The leap from %d devices to more: these are in one host, linked at %.3g GB/s; those "
            "are in several, with network cards of %.3g GB/s.",
            machine->devices, 1e-9 * machine->link.bandwidth, 1e-9 * machine->network.bandwidth);
}

void compare_numbers_of_devices(const Machine *own, FILE *csv) {
    const Machine *machine = own && own->cards > 0 ? own : machine_find("cluster-10gbe");
    printf("\nHow it grows with the number of devices, modelled on %s, hosts of %d device%s\n",
           machine->name, machine->devices, machine->devices == 1 ? "" : "s");
    begin_on_machine(machine);
    compare_up_to(machine, SHORT, csv);
    compare_up_to(machine, LONG, csv);
    explain_growth(machine);
}
