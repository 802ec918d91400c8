// experiment.c: LeNet and ResNet-18 on k devices of a machine, with buckets from one gradient each
// to one of everything: and with yours: how long backward and exchange take, as you predict and
// as chapter 6's DDP does on the modelled clock, with a host thread for each rank or one for all.
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

typedef struct Setting {
    const Machine *machine;
    int k, rows; // rows: images of each device
    // Of the network that is modelled now, in seconds:
    Module *net;
    const char *title;
    Backward backward;
    double exchange; // of all gradients at once, alone
    double best;     // backward with the best buckets so far, as predicted
} Setting;

static double bytes_in(const Backward *b, const int bucket_of[], int bucket) {
    double bytes = 0;
    for (int p = 0; p < b->num_params; p++)
        if (bucket_of[p] == bucket) bytes += (double)(b->sizes[p] * sizeof(float));
    return bytes;
}

// A cap of 0: your buckets.
static void add_row(Table *t, Setting *s, const char *name, size_t first_bytes, size_t bytes) {
    const Backward *b = &s->backward;
    int bucket_of[MOST_PARAMS];
    int n = bytes ? fill_buckets(b, first_bytes, bytes, bucket_of)
                  : best_caps(b, model_exchange, bucket_of);
    double said = predict(b, bucket_of, n, model_exchange);
    model_ranks(s->machine, ONE_HOST, s->net, s->k, s->rows);
    double one_host = model_ddp(bucket_of);
    model_ranks(s->machine, HOST_EACH, s->net, s->k, s->rows);
    double took = model_ddp(bucket_of);
    s->best = fmin(s->best, said);
    table_text(t, "%s", name);
    table_text(t, "%s", s->machine->name);
    table_numbers(t, s->k);
    table_text(t, "%s", s->title);
    table_numbers(t, bytes == ONE_BUCKET ? INFINITY : (double)bytes, n,
                  1e-6 * bytes_in(b, bucket_of, 0), 1e-6 * bytes_in(b, bucket_of, n - 1),
                  1e3 * said, 1e3 * took, 1e3 * one_host, 1e3 * b->seconds, 1e3 * s->exchange);
}

// Caps from 1 KiB, or 16 KiB for a large network, to more than there is. The two rows before yours
// are printed only: the curves have one row for each cap.
static void add_rows(Table *t, Setting *s, size_t all) {
    add_row(t, s, "one gradient", 1, 1);
    for (size_t cap = all > 4 << 20 ? 16 << 10 : 1 << 10; cap < 2 * all; cap *= 2)
        add_row(t, s, binary_size(cap).text, cap < FIRST_BUCKET_BYTES ? cap : FIRST_BUCKET_BYTES,
                cap);
    add_row(t, s, "everything", ONE_BUCKET, ONE_BUCKET);
    Table printed = *t;
    printed.csv = NULL;
    add_row(&printed, s, "1, then 25", FIRST_BUCKET_BYTES, BUCKET_BYTES);
    add_row(&printed, s, "25 MiB", BUCKET_BYTES, BUCKET_BYTES);
    add_row(t, s, "yours", 0, 0);
}

// Returns the part of the exchange that does not show with the best buckets, in percent.
static double model_network(Table *t, Setting *s, const NetworkKind *kind) {
    s->net = kind->make(10);
    s->title = kind->title;
    initialize(s->net, 1);
    model_ranks(s->machine, HOST_EACH, s->net, s->k, s->rows);
    s->backward = model_backward();
    size_t all = (size_t)bytes_in(&s->backward, (const int[MOST_PARAMS]){0}, 0);
    s->exchange = model_exchange(all);
    s->best = INFINITY;
    printf("\n  %s: backward alone %.4g ms; an exchange alone, of all gradients %.4g ms, of four "
           "bytes %.3g ms\n",
           s->title, 1e3 * s->backward.seconds, 1e3 * s->exchange,
           1e3 * model_exchange(sizeof(float)));
    table_head(t);
    add_rows(t, s, all);
    module_free(s->net);
    return 100 * (s->backward.seconds + s->exchange - s->best) / s->exchange;
}

static void experiment(const Flags *flags, FILE *csv) {
    double hidden = 0;
    Setting s = {.machine = modelled_machine(), .k = flags->devices, .rows = flags->batch_size};
    say("Question: which gradients should travel together, and can that be computed?");
    say("k = %d devices of %s, a rank each, %d images for each; allreduce: ring. Times are "
        "modelled, in milliseconds from the begin of backward to the end of the last exchange: by "
        "your predict(), by chapter 6's DDP where each rank has a host of its own, and where one "
        "host launches for all. The first bucket's cap is 1 MiB, or that of the others if that is "
        "less; in the row 25 MiB it is 25 MiB. yours: the buckets of your best_caps().",
        s.k, s.machine->name, s.rows);
    choose_allreduce("ring");
    Prediction part = predict_first(
        "ResNet-18 has 44.7 MB of gradients, exchanged in the best buckets. How much of "
        "the exchange will be hidden under backward, in percent?");
    Table t =
        TABLE(csv, WORDS("cap", 12), {.csv = "machine"}, {.csv = "devices"}, {.csv = "network"},
              {.csv = "cap_bytes"}, {"buckets", .csv = "buckets"}, DIGITS("first, MB", 3),
              DIGITS("last, MB", 3), DIGITS("predicted, ms", 4, .csv = "predicted_ms"),
              DIGITS("DDP, a host each", 4, .csv = "modelled_ms"),
              DIGITS("one host", 4, .csv = "modelled_one_host_ms"), {.csv = "backward_ms"},
              {.csv = "exchange_ms"});
    for (int i = 0; i < NUM_NETWORKS; i++) hidden = model_network(&t, &s, &networks[i]);
    predict_compare(part, hidden, "%"); // of the last network
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
    const Exercise exercise = {.about = "Exercise 1: which gradients travel together?\n"
                                        "--batch-size is the images of each device.",
                               .flags = "devices=4 machine=rtx4090-pcie batch-size",
                               .prepare = prepare,
                               .experiment = experiment,
                               .plot = "exercise_buckets.gp"};
    return exercise_main(argc, argv, &exercise);
}
