// bucket_sizes.c: see bucket_sizes.h.
#include "bucket_sizes.h"

#include "common/base/file.h"
#include "common/base/number.h"
#include "common/program/book.h"
#include "common/program/modelled_run.h"
#include "common/program/plot.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "step_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ## Two machines
//
// The one of the modelled clock, and another one with faster or slower links.

static const Machine *other_machine(const Machine *machine) {
    return machine_find(strcmp(machine->name, "dgx-a100") == 0 ? "rtx4090-pcie" : "dgx-a100");
}

// ## A sweep

enum { NUM_SIZES = 9 };
// Bytes; the last is one bucket of everything. PyTorch's own pair is tried beside them.
static const size_t sizes[NUM_SIZES] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20,
                                        4 << 20, 10 << 20, 25 << 20, ONE_BUCKET};

typedef struct Sweep {
    const NetworkKind *network;
    const Machine *machine;
    int k, rows;               // of one device
    double seconds[NUM_SIZES]; // of a step
    int buckets[NUM_SIZES];
    double pytorch; // with PyTorch's defaults: 1 MiB, then 25 MiB
    double without; // without any exchange: as if it were quite hidden
    int best;
} Sweep;

static Way ddp_way(const Sweep *s, size_t bucket_bytes) {
    return (Way){.kind = WAY_DDP,
                 .network = s->network,
                 .classes = 10,
                 .k = s->k,
                 .ddp = {.bucket_bytes = bucket_bytes, .first_bucket_bytes = bucket_bytes}};
}

static double seconds_with(const Sweep *s, size_t bucket_bytes) {
    Way way = ddp_way(s, bucket_bytes);
    return model_step_seconds(&way, s->rows * s->k, s->machine);
}

static int buckets_of_size(const Sweep *s, size_t bucket_bytes) {
    Way way = ddp_way(s, bucket_bytes);
    return buckets_of_way(&way);
}

static double seconds_without_exchange(const Sweep *s) {
    const Allreduce *chosen = chosen_allreduce();
    choose_this_allreduce(&no_exchange);
    double seconds = seconds_with(s, ONE_BUCKET);
    choose_this_allreduce(chosen);
    return seconds;
}

static void sweep(Sweep *s) {
    Way pytorch = ddp_way(s, 0);
    pytorch.ddp = (DdpOptions){0};
    for (int i = 0; i < NUM_SIZES; i++) {
        s->seconds[i] = seconds_with(s, sizes[i]);
        s->buckets[i] = buckets_of_size(s, sizes[i]);
        if (s->seconds[i] < s->seconds[s->best]) s->best = i;
    }
    s->pytorch = model_step_seconds(&pytorch, s->rows * s->k, s->machine);
    s->without = seconds_without_exchange(s);
}

// ## A table

static void print_table(const Sweep *a, const Sweep *b) {
    printf("\n");
    Table t =
        TABLE(NULL, WORDS(a->network->title, 10), WHOLE("buckets"),
              DIGITS(a->machine->name, 4, .unit = "ms"), DIGITS(b->machine->name, 4, .unit = "ms"));
    for (int i = 0; i < NUM_SIZES; i++) {
        table_text(&t, "%s", sizes[i] == ONE_BUCKET ? "one bucket" : binary_size(sizes[i]).text);
        table_numbers(&t, a->buckets[i], a->seconds[i], b->seconds[i]);
    }
    table_text(&t, "PyTorch's");
    table_numbers(&t, NAN, a->pytorch, b->pytorch);
    table_text(&t, "none");
    table_numbers(&t, NAN, a->without, b->without);
}

// ## What is best, and why

// Seconds of one exchange of so many bytes, when nobody computes.
static double exchange_seconds(const Sweep *s, size_t bytes) {
    Tensor *data[MAX_DEVICES];
    ModelledRun run = {.machine = s->machine, .k = s->k, .ranks = true};
    modelled_begin(&run);
    for (int i = 0; i < s->k; i++) {
        data[i] = tensor_new(run.devices[i], (int)(bytes / sizeof(float)));
        begin_step(data[i]->device);
    }
    while (modelled_run(&run)) allreduce(data, s->k);
    for (int i = 0; i < s->k; i++) tensor_free(data[i]);
    modelled_end(&run);
    return run.seconds;
}

// Of what one bucket takes longer than a step without exchange, the part that buckets of the best
// size save.
static double hidden_share(const Sweep *s) {
    double shown = s->seconds[NUM_SIZES - 1] - s->without;
    return shown > 0 ? (s->seconds[NUM_SIZES - 1] - s->seconds[s->best]) / shown : 0;
}

// The sizes with which a step takes hardly longer than with the best.
enum { HARDLY_IN_THOUSANDTHS = 10 };
static int as_good(const Sweep *s) {
    int n = 0;
    for (int i = 0; i < NUM_SIZES; i++)
        n += s->seconds[i] <= s->seconds[s->best] * (1 + HARDLY_IN_THOUSANDTHS / 1000.0);
    return n;
}

static void explain(const Sweep *s) {
    enum { TINY = 1 << 10, LARGE = 32 << 20 };
    double fixed = exchange_seconds(s, TINY);
    double rate = (LARGE - TINY) / (exchange_seconds(s, LARGE) - fixed);
    double one = s->seconds[NUM_SIZES - 1], saved = 1 - s->seconds[s->best] / one;
    say("  %s on %s. An exchange costs %.0f µs even if it carries next to nothing: the time in "
        "which "
        "%.3g MB flow, at %.3g GB/s. A much smaller bucket is mostly overhead.",
        s->network->title, s->machine->name, 1e6 * fixed, fixed * rate / 1e6, rate / 1e9);
    if (s->buckets[s->best] == 1)
        say("    Best is one bucket. A step without exchange would take %.0f µs, and one exchange "
            "of "
            "everything adds %.0f µs; more buckets add more overheads than backward can hide.",
            1e6 * s->without, 1e6 * (one - s->without));
    else if (as_good(s) > NUM_SIZES / 2)
        say("    Most sizes are within %.1f %% of the best: here it hardly matters. Against one "
            "bucket "
            "%.1f %% of the step are saved, %.0f %% of what its exchange added.",
            HARDLY_IN_THOUSANDTHS / 10.0, 100 * saved, 100 * hidden_share(s));
    else
        say("    Best are buckets of %s. Smaller ones pay that overhead too often, larger ones "
            "begin too "
            "late. Against one bucket %.1f %% of the step are saved, %.0f %% of what its exchange "
            "added.",
            binary_size(sizes[s->best]).text, 100 * saved, 100 * hidden_share(s));
}

// Published, of another network on other machines: no more than the size of such a figure.
static void compare_with_published(const Sweep *s) {
    say("\n  Of a step with one bucket, buckets of the best size save %.1f %% here (modelled: %s, "
        "%d "
        "devices of %s). Published: 38.0 %% of a step without overlap (measured: ResNet-50, 32 "
        "GPUs, "
        "NCCL; Li et al., VLDB 2020).",
        100 * (1 - s->seconds[s->best] / s->seconds[NUM_SIZES - 1]), s->network->title, s->k,
        s->machine->name);
}

// ## Files

static void write_csv(const char *path, const Sweep sweeps[], int n) {
    OutputFile out = output_open(path);
    fprintf(out.stream, "network,machine,devices,rows,bucket_bytes,buckets,seconds,without,best\n");
    for (int s = 0; s < n; s++)
        for (int i = 0; i < NUM_SIZES; i++) {
            const Sweep *w = &sweeps[s];
            fprintf(out.stream, "%s,%s,%d,%d,%.0f,%d,%.9g,%.9g,%d\n", w->network->title,
                    w->machine->name, w->k, w->rows,
                    sizes[i] == ONE_BUCKET ? NAN : (double)sizes[i], w->buckets[i], w->seconds[i],
                    w->without, i == w->best);
        }
    output_close(&out);
}

double sweep_bucket_sizes(int k, int rows) {
    const Machine *machine = modelled_machine();
    if (!machine || !machine_has_devices(machine, 2)) return NAN;
    const Machine *machines[2] = {machine, other_machine(machine)};
    Sweep sweeps[2 * NUM_NETWORKS];
    int n = 0;
    for (int w = 0; w < NUM_NETWORKS; w++) {
        for (int m = 0; m < 2; m++) {
            int devices = machine_has_devices(machines[m], k) ? k : machines[m]->devices;
            sweeps[n] = (Sweep){
                .network = &networks[w], .machine = machines[m], .k = devices, .rows = rows};
            sweep(&sweeps[n++]);
        }
        print_table(&sweeps[n - 2], &sweeps[n - 1]);
    }
    say("\n(Compare sizes, down a column. Machines differ in how fast they compute, too.)\n");
    for (int s = 0; s < n; s++) explain(&sweeps[s]);
    compare_with_published(&sweeps[n - 2]);
    const char *csv = book_csv("_buckets.csv"), *png = book_output("_buckets.png");
    write_csv(csv, sweeps, n);
    if (plot_draw(png, "bucket_sizes.gp", csv))
        printf("\nbucket sizes: %s, figures: %s\n", png, csv);
    size_t best = sizes[sweeps[2].best];
    return best == ONE_BUCKET ? NAN : (double)best / 1e6;
}
