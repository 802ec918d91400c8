// traffic_tables.c: see traffic_tables.h. On devices without values: bytes, memory and launches are
// the same there as on devices that compute.
#include "traffic_tables.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "step_record.h"

#include <stdio.h>

// ---- bytes -------------------------------------------------------------------------------------

static void check_formula(const StepRecord *r, int phase) {
    for (int i = 0; i < r->way.k; i++)
        CHECK(r->phases[phase][i].sent == r->formula[phase][i].sent &&
                  r->phases[phase][i].received == r->formula[phase][i].received,
              "a phase moved other bytes than its formula says: a bug in the wrapper, the "
              "allreduce or the ledger");
}

static void print_row(const char *name, const Traffic of[], int other) {
    printf("  %-22s %10s %10s   %10s %10s\n", name, grouped(of[0].sent).text,
           grouped(of[0].received).text, grouped(of[other].sent).text,
           grouped(of[other].received).text);
}

static void print_phases(const StepRecord *r, const char *title, const char *const names[],
                         int num_phases) {
    int other = busiest_other(r);
    printf("  %s\n", title);
    for (int p = 0; p < num_phases; p++) {
        const Traffic *of = r->phases[p];
        check_formula(r, p);
        if (of[0].sent + of[0].received + of[other].sent + of[other].received > 0)
            print_row(names[p], of, other);
    }
    print_row("in all", r->total, other);
}

static void print_way(const Way *way, int rows, const char *title, const char *const names[],
                      int num_phases) {
    StepRecord *r = model_step(way, rows, modelled_machine());
    print_phases(r, title, names, num_phases);
    step_record_free(r);
}

void print_wrapper_traffic(int k, int rows) {
    static const char *const ddp_phases[] = {"buffers", "gradients"};
    Way way = {.network = &networks[0], .classes = 10, .k = k, .kind = WAY_DP};
    printf("\nBytes of one step on %d devices    device 0: sent and received   others: sent and "
           "received\n",
           k);
    print_way(&way, rows, "DP", dp_phase_names, NUM_DP_PHASES);
    way.gathers = DP_MEAN_LOSSES;
    print_way(&way, rows, "DP, the loss inside forward", dp_phase_names, NUM_DP_PHASES);
    way.kind = WAY_DDP;
    print_way(&way, rows, "DDP", ddp_phases, 2);
}

// ---- memory and launches -----------------------------------------------------------------------

static void print_memory_row(const char *name, const StepRecord *r) {
    double first = (double)r->memory[0] / 1e6, other = (double)most_memory_of_others(r) / 1e6;
    printf("  %-9s %7d %-22s %9.1f %9.1f %6.2f", r->way.network->title, r->way.k, name, first,
           other, first / other);
    if (modelled_machine()) printf(" %8d %8d", kernels_of(r), copies_of(r));
    printf("\n");
}

// The ways of the table.
static const struct {
    const char *name;
    Way way;
} ways[] = {
    {"DP", {.kind = WAY_DP}},
    {"DP, loss in forward", {.kind = WAY_DP, .gathers = DP_MEAN_LOSSES}},
    {"DDP", {.kind = WAY_DDP}},
    {"DDP, with copies", {.kind = WAY_DDP, .ddp = {.copies = true}}},
};
enum { NUM_ROWS = sizeof ways / sizeof ways[0] };

static void print_classes(int classes, int rows) {
    printf("  network   devices %-22s %9s %9s %6s%s\n", "way", "device 0", "others", "ratio",
           modelled_machine() ? "  kernels   copies" : "");
    for (int k = 2; k <= 8; k *= 2) {
        const Machine *machine = modelled_machine();
        if (machine && !machine_has_devices(machine, k)) break;
        for (int w = 0; w < NUM_ROWS; w++) {
            Way way = ways[w].way;
            way.network = &networks[0];
            way.classes = classes;
            way.k = k;
            StepRecord *r = model_step(&way, k * rows, machine);
            print_memory_row(ways[w].name, r);
            step_record_free(r);
        }
    }
}

void print_wrapper_memory(int rows) {
    say("\nMemory in use after a step, in MB, with %d rows on each device. Ratio: device 0 to the "
        "others. Kernels and copies: of all devices together in one step.\n\n  10 classes",
        rows);
    print_classes(10, rows);
    say("\n  10,000 classes");
    print_classes(10000, rows);
}

// ---- four ways ---------------------------------------------------------------------------------

static void print_way_row(WayKind kind, const NetworkKind *network, int k, int rows) {
    Way way = {.kind = kind, .network = network, .classes = 10, .k = k};
    StepRecord *r = model_step(&way, k * rows, modelled_machine());
    printf("  %-10s %-10s %13s %12s", network->title, way_name(kind),
           grouped(r->total[0].sent).text, grouped(r->total[busiest_other(r)].sent).text);
    if (modelled_machine())
        printf(" %8d %8d %9.3g ms", kernels_of(r), copies_of(r), 1e3 * r->seconds);
    printf("\n");
    step_record_free(r);
}

void print_four_ways(int k, int rows) {
    printf("\n  network    way          device 0 sends  others send%s\n",
           modelled_machine() ? "  kernels   copies    modelled" : "");
    for (int n = 0; n < NUM_NETWORKS; n++)
        for (WayKind kind = n == 0 ? WAY_CHAPTER_4 : WAY_CHAPTER_5; kind <= WAY_DDP; kind++)
            print_way_row(kind, &networks[n], k, rows);
}
