// modelled.c: fusion on Horovod's machines (p100-25gbe: 4 GPUs each, 25 Gb/s between them), with up
// to 512 ranks in one ring. Modelled.
#include "common/base/error.h"
#include "common/program/predict.h"
#include "common/program/say.h"
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
    printf("\n  %-10s          exchange in ms, predicted, on\n  threshold  messages", title);
    for (int w = 0; w < NUM_WORLDS; w++) printf("   %4d ranks", worlds[w]);
    printf("\n");
    for (int t = 0; t < NUM_THRESHOLDS; t++) {
        printf("  %-10s %8d", threshold_text(thresholds[t]), rows[0][t].messages);
        for (int w = 0; w < NUM_WORLDS; w++) printf(" %12.4g", 1e3 * rows[w][t].said);
        printf("\n");
    }
}

// ## Gradients that come one by one
//
// In a training they do not come all at once, so the cycle decides, too, what can be fused: each
// cycle's messages are your fuse()'s of what has become ready, and wait for those before them.

enum { NUM_CYCLES = 9, IMAGES = 64 };
static const double cycles[NUM_CYCLES] = {1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5};

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
    printf("\n  %s, %d images on each rank, a step of %.0f ms: efficiency in %%\n  cycle, ms ",
           network.name, IMAGES, 1e3 * rank_seconds(&rank));
    for (int i = 0; i < NUM_CYCLES; i++) printf(" %5g", 1e3 * cycles[i]);
    for (int w = 0; w < NUM_WORLDS; w++) {
        printf("\n  %4d ranks ", worlds[w]);
        for (int i = 0; i < NUM_CYCLES; i++) {
            double part = predicted_efficiency(&network, &rank, costs[w].sum, cycles[i]);
            printf(" %5.1f", 100 * part);
        }
    }
    printf("\n");
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
