// experiment.c: LeNet and ResNet-18 on k devices of a machine, with buckets from one gradient each
// to one of everything: how long your rule says that backward and exchange take, and how long
// chapter 6's DDP takes on the modelled clock, with a host thread for each rank and with one for
// all.
#include "common/base/error.h"
#include "common/device/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>
#include <string.h>

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
    int params, n;                    // n rows
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
    f->params = b.num_params;
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

static const char *cap_text(size_t bytes) {
    static char text[2][32];
    static int turn;
    char *t = text[turn = 1 - turn];
    if (bytes == 1) return "one gradient";
    if (bytes == ONE_BUCKET) return "everything";
    if (bytes < 1 << 20)
        snprintf(t, sizeof text[0], "%zu KiB", bytes >> 10);
    else
        snprintf(t, sizeof text[0], "%zu MiB", bytes >> 20);
    return t;
}

static void print_figures(const Figures *f) {
    printf("\n  %s: backward alone %.4g ms, the exchange of all gradients alone %.4g ms\n"
           "                                     DDP, modelled, launched by\n"
           "  cap          buckets   predicted   a host each   one host\n",
           f->title, 1e3 * f->backward, 1e3 * f->exchange);
    for (int i = 0; i < f->n; i++) {
        const Row *r = &f->rows[i];
        printf("  %-12s %7d %11.4g %13.4g %10.4g\n", cap_text(r->bytes), r->buckets, 1e3 * r->said,
               1e3 * r->took, 1e3 * r->one_host);
    }
}

static void write_csv(FILE *csv, const Setting *s, const Figures f[NUM_NETWORKS]) {
    fprintf(csv, "machine,devices,network,cap_bytes,buckets,predicted_ms,modelled_ms,"
                 "modelled_one_host_ms,backward_ms,exchange_ms\n");
    for (int i = 0; i < NUM_NETWORKS; i++)
        for (int j = 0; j < f[i].n; j++) {
            const Row *r = &f[i].rows[j];
            double cap = r->bytes == ONE_BUCKET ? INFINITY : (double)r->bytes;
            fprintf(csv, "%s,%d,%s,%.0f,%d,%.9g,%.9g,%.9g,%.9g,%.9g\n", s->machine->name, s->k,
                    f[i].title, cap, r->buckets, 1e3 * r->said, 1e3 * r->took, 1e3 * r->one_host,
                    1e3 * f[i].backward, 1e3 * f[i].exchange);
        }
}

// ## What they say

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

// "; from 64 KiB to 4 MiB all are within 1% of that", or nothing if no other is.
static const char *as_good_text(const Figures *f, const Row *best) {
    static char text[96];
    const Row *first = best, *last = best, *end = f->rows + f->n - 1;
    while (first > f->rows + 1 && first[-1].said <= 1.01 * best->said) first--;
    while (last + 1 < end && last[1].said <= 1.01 * best->said) last++;
    if (first == last) return "";
    snprintf(text, sizeof text, "; from %s to %s all are within 1%% of that",
             cap_text(first->bytes), cap_text(last->bytes));
    return text;
}

static void explain_best(const Figures *f) {
    const Row *best = best_of(f), *all = &f->rows[f->n - 1];
    say("- %s: the best of these caps is %s, %d bucket%s: %.4g ms, where backward and then one "
        "exchange take %.4g%s. So %.0f%% of the exchange is hidden under backward.",
        f->title, cap_text(best->bytes), best->buckets, best->buckets > 1 ? "s" : "",
        1e3 * best->said, 1e3 * all->said, as_good_text(f, best), hidden(f, best->said));
    if (f->exchange > f->backward)
        say("  More than %.0f%% cannot be: the exchange takes %.1f times as long as backward.",
            100 * f->backward / f->exchange, f->exchange / f->backward);
}

static void explain_small(const Figures *f) {
    const Row *each = &f->rows[0];
    say("- %s, smaller: an exchange of four bytes already takes %.3g ms, and %d of them %.3g ms. "
        "With a bucket for each gradient the whole takes %.4g ms, %s than one bucket of "
        "everything.",
        f->title, 1e3 * f->least, f->params, 1e3 * f->least * f->params, 1e3 * each->said,
        each->said > f->rows[f->n - 1].said ? "more" : "still less");
}

static void explain_large(const Figures *f) {
    const Row *all = &f->rows[f->n - 1];
    say("- %s, larger: the last gradient of a bucket keeps all the others in it waiting. One "
        "bucket of everything begins when backward ends: %.4g = %.4g + %.4g ms.",
        f->title, 1e3 * all->said, 1e3 * f->backward, 1e3 * f->exchange);
    for (int i = f->n - 2; i > 0; i--) { // a cap with which more is hidden than with half of it
        const Row *more = &f->rows[i], *less = &f->rows[i - 1];
        if (more->said > 0.98 * less->said || more->last_mb >= less->last_mb) continue;
        say("  But %s are better than %s: the last bucket then has %.3g MB, not %.3g, and its "
            "exchange is the one that no backward is left to hide.",
            cap_text(more->bytes), cap_text(less->bytes), more->last_mb, less->last_mb);
        return;
    }
}

static void explain_pytorch(const Figures *f) {
    const Row *p = &f->pytorch, *one = &f->one_cap;
    if (p->buckets == 1) {
        say("- PyTorch's caps, 1 MiB and then 25: all of %s fits into the first bucket. Nothing is "
            "hidden.",
            f->title);
        return;
    }
    say("- PyTorch's caps, 1 MiB and then 25: %s has %d buckets, %.4g ms, %.0f%% hidden. With 25 "
        "MiB for the first, too, there are %d, and %.4g ms, %.0f%%.",
        f->title, p->buckets, 1e3 * p->said, hidden(f, p->said), one->buckets, 1e3 * one->said,
        hidden(f, one->said));
    if (p->said < one->said)
        say("  The small one is soon full and on its way: links that wait are links that are "
            "lost.");
}

static void explain_misses(const Setting *s, const Figures f[NUM_NETWORKS]) {
    double miss = 0, worst = 0;
    const Figures *of = &f[0];
    const Row *row = &f[0].rows[0];
    for (int i = 0; i < NUM_NETWORKS; i++)
        for (int j = 0; j < f[i].n; j++) {
            const Row *r = &f[i].rows[j];
            miss = fmax(miss, fabs(r->said / r->took - 1));
            if (r->one_host / r->said <= worst) continue;
            worst = r->one_host / r->said;
            of = &f[i];
            row = r;
        }
    say("- The prediction misses DDP by %s%.1g%%, if each rank has a host thread of its own. The "
        "rule knows nothing of launches, %.2g us each: %s.",
        miss < 1e-4 ? "less than " : "up to ", miss < 1e-4 ? 0.01 : 100 * miss,
        1e6 * s->machine->launch,
        miss < 1e-2 ? "that hosts are ahead of their devices is enough"
                    : "here the hosts are not always ahead of their devices");
    if (worst > 1.01)
        say("  One host for all %d, as in our own programs, takes up to %.2f times as long (%s, "
            "%s). It launches %d copies and %d additions on each of them for each bucket, and "
            "backward waits for these launches.",
            s->k, worst, of->title, cap_text(row->bytes), 2 * (s->k - 1), s->k - 1);
    else
        say("  Nor does one host for all %d, on this machine.", s->k);
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
    for (int i = 0; i < NUM_NETWORKS; i++) {
        model_network(&s, &networks[i], &f[i]);
        print_figures(&f[i]);
    }
    predict_compare(part, hidden(&f[1], best_of(&f[1])->said), "%");
    say("\nAnswer");
    for (int i = 0; i < NUM_NETWORKS; i++) explain_best(&f[i]);
    for (int i = 0; i < NUM_NETWORKS; i++) explain_small(&f[i]);
    for (int i = 0; i < NUM_NETWORKS; i++) explain_large(&f[i]);
    for (int i = 0; i < NUM_NETWORKS; i++) explain_pytorch(&f[i]);
    explain_misses(&s, f);
    write_csv(csv, &s, f);
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
