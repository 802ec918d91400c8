// experiment.c: LeNet and ResNet-18 on k devices of a machine, with buckets from one gradient each
// to one of everything: how long your rule says that backward and exchange take, and how long
// chapter 6's DDP takes on the modelled clock, with a host thread for each rank and with one for
// all.
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>

// ## What is modelled

typedef struct Row {
    size_t first_bytes, bytes; // caps
    int buckets;
    double last_mb;              // of the last bucket
    double said, took, one_host; // seconds: predicted; of DDP; of DDP, one host launching for all
} Row;

enum { MOST_ROWS = 24 };
typedef struct Figures {
    const char *title;
    double backward, exchange, least; // seconds: alone; of all gradients at once; of four bytes
    int n;                            // rows
    Row rows[MOST_ROWS];
    Row pytorch, one_cap; // 1 MiB, then 25; 25 MiB for the first, too
} Figures;

typedef struct Setting {
    const Machine *machine;
    int k, rows;
} Setting;

static size_t sum_of(const Backward *b) {
    size_t bytes = 0;
    for (int p = 0; p < b->num_params; p++) bytes += b->sizes[p] * sizeof(float);
    return bytes;
}

static Row row_of(const Setting *s, Module *net, const Backward *b, size_t first, size_t bytes) {
    int bucket_of[MOST_PARAMS];
    Row row = {.first_bytes = first, .bytes = bytes};
    row.buckets = fill_buckets(b->sizes, b->num_params, first, bytes, bucket_of);
    for (int p = 0; p < b->num_params; p++)
        if (bucket_of[p] == row.buckets - 1)
            row.last_mb += 1e-6 * (double)(b->sizes[p] * sizeof(float));
    model_ranks(s->machine, ONE_HOST, net, s->k, s->rows);
    row.one_host = model_ddp(first, bytes);
    model_ranks(s->machine, HOST_EACH, net, s->k, s->rows);
    row.took = model_ddp(first, bytes);
    row.said = predict(b, bucket_of, row.buckets, model_exchange);
    return row;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// Caps from 1 KiB, or 16 KiB for a large network, to more than there is.
static void model_network(const Setting *s, const NetworkKind *kind, Figures *f) {
    Module *net = kind->make(10);
    initialize(net, 1);
    model_ranks(s->machine, HOST_EACH, net, s->k, s->rows);
    Backward b = model_backward();
    size_t all = sum_of(&b), cap = all > 4 << 20 ? 16 << 10 : 1 << 10;
    f->title = kind->title;
    f->backward = b.seconds;
    f->exchange = model_exchange(all);
    f->least = model_exchange(sizeof(float));
    f->rows[f->n++] = row_of(s, net, &b, 1, 1); // a bucket for each gradient
    for (; cap < 2 * all; cap *= 2)
        f->rows[f->n++] = row_of(s, net, &b, smaller(FIRST_BUCKET_BYTES, cap), cap);
    f->rows[f->n++] = row_of(s, net, &b, ONE_BUCKET, ONE_BUCKET);
    f->pytorch = row_of(s, net, &b, FIRST_BUCKET_BYTES, BUCKET_BYTES);
    f->one_cap = row_of(s, net, &b, BUCKET_BYTES, BUCKET_BYTES);
    module_free(net);
}

// ## Figures

static void add_row(Table *t, const Setting *s, const Figures *f, const Row *r, const char *cap) {
    table_text(t, "%s", cap);
    table_text(t, "%s", s->machine->name);
    table_numbers(t, s->k);
    table_text(t, "%s", f->title);
    table_numbers(t, r->bytes == ONE_BUCKET ? INFINITY : (double)r->bytes, r->buckets, r->last_mb,
                  1e3 * r->said, 1e3 * r->took, 1e3 * r->one_host, 1e3 * f->backward,
                  1e3 * f->exchange);
}

// The two rows at the end are printed only: the curves have one row for each cap.
static void add_figures(Table *t, const Setting *s, const Figures *f) {
    Table printed = *t;
    printf("\n  %s: backward alone %.4g ms; an exchange alone, of all gradients %.4g ms, of four "
           "bytes %.3g ms\n",
           f->title, 1e3 * f->backward, 1e3 * f->exchange, 1e3 * f->least);
    table_head(t);
    for (int i = 0; i < f->n; i++) {
        size_t bytes = f->rows[i].bytes;
        add_row(t, s, f, &f->rows[i],
                bytes == 1            ? "one gradient"
                : bytes == ONE_BUCKET ? "everything"
                                      : binary_size(bytes).text);
    }
    printed.csv = NULL;
    printed.has_head = true;
    add_row(&printed, s, f, &f->pytorch, "1, then 25");
    add_row(&printed, s, f, &f->one_cap, "25 MiB");
}

static const Row *best_of(const Figures *f) {
    const Row *best = &f->rows[0];
    for (int i = 1; i < f->n; i++)
        if (f->rows[i].said < best->said) best = &f->rows[i];
    return best;
}

// The part of the exchange that does not show.
static double hidden(const Figures *f, double seconds) {
    return 100 * (f->backward + f->exchange - seconds) / f->exchange;
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Figures f[NUM_NETWORKS] = {0};
    Setting s = {.machine = modelled_machine(), .k = flags->devices, .rows = flags->batch_size};
    say("Question: how large should buckets be, and can that be computed?");
    say("k = %d devices of %s, a rank each, %d images for each; allreduce: ring. The first "
        "bucket's "
        "cap is 1 MiB, or that of the others if that is less. Times are modelled, in milliseconds "
        "from the begin of backward to the end of the last exchange.",
        s.k, s.machine->name, s.rows);
    choose_allreduce("ring");
    Prediction part = predict_first(
        "ResNet-18 has 44.7 MB of gradients, exchanged in buckets of the best size. How much of "
        "the exchange will be hidden under backward, in percent?");
    Table t = TABLE(csv, WORDS("cap", 12), {.csv = "machine"}, {.csv = "devices"},
                    {.csv = "network"}, {.csv = "cap_bytes"}, {"buckets", .csv = "buckets"},
                    DIGITS("last, MB", 3), DIGITS("predicted, ms", 4, .csv = "predicted_ms"),
                    DIGITS("DDP, a host each", 4, .csv = "modelled_ms"),
                    DIGITS("one host", 4, .csv = "modelled_one_host_ms"), {.csv = "backward_ms"},
                    {.csv = "exchange_ms"});
    for (int i = 0; i < NUM_NETWORKS; i++) {
        model_network(&s, &networks[i], &f[i]);
        add_figures(&t, &s, &f[i]);
    }
    predict_compare(part, hidden(&f[1], best_of(&f[1])->said), "%");
    modelled_clock_start(s.machine);
}

static void prepare(const Flags *flags) {
    const Machine *machine = modelled_machine();
    if (flags->devices < 2) die_usage("--devices 2 or more", "one device has nothing to exchange");
    if (!machine) die_usage("leave --machine none out", "all times here are modelled");
    if (!machine_has_devices(machine, flags->devices))
        die_usage("give a smaller --devices, or another --machine", "the machine %s has %d devices",
                  machine->name, machine->devices);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 4;
    defaults.machine = "rtx4090-pcie";
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 1: which gradients travel together?\n"
                             "--batch-size is the images of each device.",
                    .flags = "devices batch-size",
                    .defaults = defaults,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "buckets are PyTorch's, and predictions those of the modelled clock",
                    .experiment = experiment,
                    .plot = "exercise_buckets.gp"});
}
