// traffic_tables.c: see traffic_tables.h. On devices without values: bytes, memory and launches are
// the same there as on devices that compute.
#include "traffic_tables.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "step_record.h"

#include <math.h>
#include <stdio.h>

// ---- bytes -------------------------------------------------------------------------------------

static void check_formula(const StepRecord *r, int phase) {
    for (int i = 0; i < r->way.k; i++)
        CHECK(r->phases[phase][i].sent == r->formula[phase][i].sent &&
                  r->phases[phase][i].received == r->formula[phase][i].received,
              "a phase moved other bytes than its formula says: a bug in the wrapper, the "
              "allreduce or the ledger");
}

static void add_row(Table *t, const char *name, const Traffic of[], int other) {
    table_text(t, "%s", name);
    table_numbers(t, (double)of[0].sent, (double)of[0].received, (double)of[other].sent,
                  (double)of[other].received);
}

static void add_phases(Table *t, const StepRecord *r, const char *title, const char *const names[],
                       int num_phases) {
    int other = busiest_other(r);
    printf("  %s\n", title);
    for (int p = 0; p < num_phases; p++) {
        const Traffic *of = r->phases[p];
        check_formula(r, p);
        if (of[0].sent + of[0].received + of[other].sent + of[other].received > 0)
            add_row(t, names[p], of, other);
    }
    add_row(t, "in all", r->total, other);
}

static void add_way(Table *t, const Way *way, int rows, const char *title,
                    const char *const names[], int num_phases) {
    StepRecord *r = model_step(way, rows, modelled_machine());
    add_phases(t, r, title, names, num_phases);
    step_record_free(r);
}

void print_wrapper_traffic(int k, int rows) {
    static const char *const ddp_phases[] = {"buffers", "gradients"};
    Way way = {.network = &networks[0], .classes = 10, .k = k, .kind = WAY_DP};
    printf("\nBytes of one step on %d devices\n", k);
    Table t = TABLE(NULL, WORDS("", 22), WHOLE("device 0 sent"), WHOLE("received", .width = 10),
                    WHOLE("others sent"), WHOLE("received", .width = 10));
    table_head(&t);
    add_way(&t, &way, rows, "DP", dp_phase_names, NUM_DP_PHASES);
    way.gathers = DP_MEAN_LOSSES;
    add_way(&t, &way, rows, "DP, the loss inside forward", dp_phase_names, NUM_DP_PHASES);
    way.kind = WAY_DDP;
    add_way(&t, &way, rows, "DDP", ddp_phases, 2);
}

// ---- memory and launches -----------------------------------------------------------------------

static void add_memory(Table *t, const char *name, const StepRecord *r) {
    double first = (double)r->memory[0], other = (double)most_memory_of_others(r);
    double launched = modelled_machine() ? 1 : NAN; // nothing is told without a machine
    table_text(t, "%s", r->way.network->title);
    table_numbers(t, r->way.k);
    table_text(t, "%s", name);
    table_numbers(t, first, other, first / other, launched * kernels_of(r),
                  launched * copies_of(r));
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
    Table t = TABLE(NULL, WORDS("network", 9), WHOLE("devices"), WORDS("way", 22),
                    FIXED("device 0", 1, .unit = "MB"), FIXED("others", 1, .unit = "MB"),
                    FIXED("ratio", 2), WHOLE("kernels"), WHOLE("copies"));
    for (int k = 2; k <= 8; k *= 2) {
        const Machine *machine = modelled_machine();
        if (machine && !machine_has_devices(machine, k)) break;
        for (int w = 0; w < NUM_ROWS; w++) {
            Way way = ways[w].way;
            way.network = &networks[0];
            way.classes = classes;
            way.k = k;
            StepRecord *r = model_step(&way, k * rows, machine);
            add_memory(&t, ways[w].name, r);
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

static void add_way_row(Table *t, WayKind kind, const NetworkKind *network, int k, int rows) {
    Way way = {.kind = kind, .network = network, .classes = 10, .k = k};
    StepRecord *r = model_step(&way, k * rows, modelled_machine());
    double launched = modelled_machine() ? 1 : NAN;
    table_text(t, "%s", network->title);
    table_text(t, "%s", way_name(kind));
    table_numbers(t, (double)r->total[0].sent, (double)r->total[busiest_other(r)].sent,
                  launched * kernels_of(r), launched * copies_of(r), launched * r->seconds);
    step_record_free(r);
}

void print_four_ways(int k, int rows) {
    printf("\n");
    Table t = TABLE(NULL, WORDS("network", 10), WORDS("way", 10), WHOLE("device 0 sends"),
                    WHOLE("others send"), WHOLE("kernels"), WHOLE("copies"),
                    DIGITS("modelled", 3, .unit = "ms"));
    for (int n = 0; n < NUM_NETWORKS; n++)
        for (WayKind kind = n == 0 ? WAY_CHAPTER_4 : WAY_CHAPTER_5; kind <= WAY_DDP; kind++)
            add_way_row(&t, kind, &networks[n], k, rows);
}
