// modelled.c: fusion on Horovod's machines (p100-25gbe: 4 GPUs each, 25 Gb/s between them), with up
// to 512 ranks in one ring. Modelled.
#include "common/base/error.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/08_many_machines/many_ranks.h"
#include "your_part.h"

// ## All gradients ready at once

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
        sizes[s] =
            (Timings){.bytes = bytes, .n = 1, .seconds = {ring_seconds(machine, ranks, bytes)}};
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
    for (int p = 0; p < c->n; p++)
        if (message_of[p] >= 0) bytes[message_of[p]] += (double)c->bytes[p];
    for (int m = 0; m < row.messages; m++) row.took += ring_seconds(machine, ranks, bytes[m]);
    row.low = row.high = row.took;
    return row;
}

static void model_network(const Machine *machine, const NetworkKind *kind,
                          Row rows[NUM_WORLDS][NUM_THRESHOLDS], Costs costs[NUM_WORLDS]) {
    Cycle c = {.ranks = 1};
    c.n = gradient_bytes(kind, c.bytes);
    for (int p = 0; p < c.n; p++) c.ready[0][p] = true;
    for (int w = 0; w < NUM_WORLDS; w++) {
        costs[w] = costs_of(machine, worlds[w]);
        for (int t = 0; t < NUM_THRESHOLDS; t++)
            rows[w][t] = modelled_row(machine, worlds[w], &c, thresholds[t], &costs[w]);
    }
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

// ## Gradients that come one by one
//
// In a training they do not come all at once, so the cycle decides, too, what can be fused: each
// cycle's messages are your fuse()'s of what has become ready, and wait for those before them.

enum { NUM_CYCLES = 9, IMAGES = 64 };
static const int cycles_ms[NUM_CYCLES] = {1, 2, 5, 10, 20, 50, 100, 200, 500};

// Sends what is ready now; returns when its last message is there.
static double send_ready(Cycle *c, const RankStep *rank, double now, double busy, Line sum,
                         bool sent[]) {
    int message_of[MOST_GRADIENTS];
    for (int l = 0; l < c->n; l++)
        c->ready[0][l] = !sent[l] && c->bytes[l] > 0 && rank->ready[l] <= now;
    int messages = fuse(c, thresholds[NUM_THRESHOLDS - 1], message_of);
    for (int m = 0; m < messages; m++) {
        double bytes = 0;
        for (int l = 0; l < c->n; l++) {
            if (message_of[l] != m) continue;
            bytes += (double)c->bytes[l];
            sent[l] = true;
        }
        busy = fmax(busy, now) + line_at(sum, bytes);
    }
    return busy;
}

// How much of its time a rank does not wait for exchanges.
static double predicted_efficiency(const NetworkTable *network, const RankStep *rank, Line sum,
                                   double cycle) {
    Cycle c = {.ranks = 1, .n = network->num_layers};
    bool sent[MOST_GRADIENTS] = {false};
    double busy = 0;
    for (int l = 0; l < c.n; l++)
        c.bytes[l] = (size_t)table_layer_params(&network->layers[l]) * sizeof(float);
    for (long tick = 1; (double)(tick - 1) * cycle < rank->backward; tick++)
        busy = send_ready(&c, rank, (double)tick * cycle, busy, sum, sent);
    return rank_seconds(rank) / (fmax(busy, rank->backward) + rank->update);
}

static void show_cycles(const Machine *machine, const Costs costs[NUM_WORLDS]) {
    NetworkTable network = resnet101();
    RankStep rank = rank_step(machine, &network, IMAGES, false);
    say("\n  %s, %d images on each rank, a step of %.0f ms: efficiency in %%, by the cycle",
        network.name, IMAGES, 1e3 * rank_seconds(&rank));
    Table t = TABLE(NULL, WHOLE("ranks"), FIXED("%d ms", 1, .count = NUM_CYCLES, .of = cycles_ms));
    for (int w = 0; w < NUM_WORLDS; w++) {
        table_numbers(&t, worlds[w]);
        for (int i = 0; i < NUM_CYCLES; i++)
            table_numbers(
                &t, 100 * predicted_efficiency(&network, &rank, costs[w].sum, 1e-3 * cycles_ms[i]));
    }
    say("  (Messages are sent each cycle, whether those before are there or not. If the thread "
        "that talks waits for them, as Horovod's does with MPI, more gathers meanwhile.)");
}

// ## All of it

void show_modelled(FILE *csv) {
    const Machine *machine = machine_find("p100-25gbe");
    Row rows[NUM_WORLDS][NUM_THRESHOLDS];
    Costs costs[NUM_WORLDS];
    say("\nModelled: one ring of many ranks on %s (%s), by a line through your fit of modelled "
        "messages.",
        machine->name, machine->about);
    for (int i = 0; i < NUM_NETWORKS; i++) {
        model_network(machine, &networks[i], rows, costs);
        print_modelled(networks[i].title, rows);
        for (int w = 0; w < NUM_WORLDS; w++)
            write_rows(csv, "modelled", worlds[w], networks[i].title, rows[w]);
    }
    show_cycles(machine, costs);
}
