// modelled.c: fusion on Horovod's machines (p100-25gbe: 4 GPUs each, 25 Gb/s between them), with up
// to 512 ranks in one ring, all gradients ready at once. Modelled.
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/model/many_ranks.h"
#include "modelled.h"
#include "your_part.h"

enum { NUM_WORLDS = 3, FIT_SIZES = 14 };
static const int worlds[NUM_WORLDS] = {16, 128, 512};

static double ring_seconds(const Machine *machine, int ranks, double bytes) {
    return exchange_model(machine, BY_RING, ranks, bytes, false).seconds;
}

// From 4 bytes to 256 MiB. Copies read and write the GPU's own memory. What talking takes is not in
// any of the figures: it is the same for all thresholds.
static Costs costs_of(const Machine *machine, int ranks) {
    Timings sizes[FIT_SIZES];
    for (int s = 0; s < FIT_SIZES; s++) {
        double bytes = (double)((size_t)4 << 2 * s);
        sizes[s] = (Timings){bytes, 1, {ring_seconds(machine, ranks, bytes)}};
    }
    return (Costs){.sum = fit_line(sizes, FIT_SIZES),
                   .copy = {machine->kernel, 2 / machine->memory_bandwidth}};
}

// What it takes: each message's sum by the chapter's ring, and the copies that you predict.
static Row modelled_row(const Machine *machine, int ranks, const Cycle *c, size_t threshold,
                        const Costs *costs) {
    int message_of[MOST_GRADIENTS];
    double bytes[MOST_GRADIENTS] = {0};
    Row row = {.threshold = threshold, .said = predict(c, threshold, costs)};
    row.messages = fuse(c, threshold, message_of);
    row.took = predict(c, threshold, &(Costs){.copy = costs->copy});
    for (int p = 0; p < c->n; p++) bytes[message_of[p]] += (double)c->bytes[p];
    for (int m = 0; m < row.messages; m++) row.took += ring_seconds(machine, ranks, bytes[m]);
    row.low = row.high = row.took;
    return row;
}

static void print_modelled(const char *title, Row rows[NUM_WORLDS][NUM_THRESHOLDS]) {
    say("\n  %s: exchange in ms, predicted", title);
    Table t = TABLE(NULL, {"threshold", .bytes = true}, WHOLE("messages"),
                    DIGITS("%d ranks", 4, .count = NUM_WORLDS, .of = worlds));
    for (int i = 0; i < NUM_THRESHOLDS; i++) {
        table_numbers(&t, (double)thresholds[i], rows[0][i].messages);
        for (int w = 0; w < NUM_WORLDS; w++) table_numbers(&t, 1e3 * rows[w][i].said);
    }
}

static void model_network(FILE *csv, const Machine *machine, const NetworkKind *kind) {
    Row rows[NUM_WORLDS][NUM_THRESHOLDS];
    Cycle c = whole_network(kind);
    for (int w = 0; w < NUM_WORLDS; w++) {
        Costs costs = costs_of(machine, worlds[w]);
        for (int t = 0; t < NUM_THRESHOLDS; t++)
            rows[w][t] = modelled_row(machine, worlds[w], &c, thresholds[t], &costs);
        write_rows(csv, "modelled", worlds[w], kind->title, rows[w]);
    }
    print_modelled(kind->title, rows);
}

void show_modelled(FILE *csv) {
    const Machine *machine = machine_find("p100-25gbe");
    say("\nModelled: one ring of many ranks on %s (%s), by a line through your fit of modelled "
        "messages.",
        machine->name, machine->about);
    for (int i = 0; i < NUM_NETWORKS; i++) model_network(csv, machine, &networks[i]);
}
