// experiment.c: chapter 4's step of LeNet and yours, on machines whose steps wait for different
// things: how much of the exchange is hidden, by the number of devices, the size of the minibatch
// and the way of the allreduce. All times are modelled.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/modelled_run.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

#include <math.h>
#include <string.h>

// ## The machines

typedef struct Place {
    const Machine *machine;
    bool framework; // launches take as long as in a framework written in Python
    char name[48];
} Place;

enum { MOST_PLACES = 5 };
typedef struct Places {
    Place list[MOST_PLACES];
    int n;
} Places;

static void add_place(Places *places, const char *name, bool framework) {
    Place place = {.machine = machine_find(name), .framework = framework};
    snprintf(place.name, sizeof place.name, "%s%s", name, framework ? " (framework)" : "");
    for (int i = 0; i < places->n; i++)
        if (strcmp(places->list[i].name, place.name) == 0) return;
    places->list[places->n++] = place;
}

// Fast links; the same with slow launches; slow links; slower ones. --machine adds one.
static Places places_with(const Machine *chosen) {
    Places places = {0};
    add_place(&places, "dgx-a100", false);
    add_place(&places, "dgx-a100", true);
    add_place(&places, "p100-25gbe", false);
    add_place(&places, "cluster-10gbe", false);
    if (chosen) add_place(&places, chosen->name, false);
    return places;
}

// ## What is modelled

enum { NUM_KS = 3, NUM_BATCHES = 7, NUM_WAYS = 2 };
static const int ks[NUM_KS] = {2, 4, 8};
static const char *const ways[NUM_WAYS] = {"star", "ring"};
static int batch_of(int b) { return 64 << b; }

// Seconds of a step.
typedef struct Times {
    double chapter_4, overlapped, no_exchange;
    double launches; // that of chapter 4, if devices and links took no time
} Times;

typedef Times Figures[NUM_WAYS][NUM_KS][NUM_BATCHES];

typedef void Step(Overlap *o, const Tensor *X, const Tensor *y);

static void chapter_4_step(Overlap *o, const Tensor *X, const Tensor *y) {
    Tensor *losses[MAX_DEVICES];
    train_batch(X, y, o->params, o->devices, o->k, 0, losses);
}

static void your_step(Overlap *o, const Tensor *X, const Tensor *y) {
    Tensor *losses[MAX_DEVICES];
    overlap_step(o, X, y, 0, losses);
}

static void step_without_exchange(Overlap *o, const Tensor *X, const Tensor *y) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    for (int i = 0; i < o->k; i++) begin_step(o->devices[i]);
    split_batch(X, y, o->devices, o->k, X_shards, y_shards);
    for (int i = 0; i < o->k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], o->params[i]), y_shards[i]));
    for (int i = 0; i < o->k; i++) backward(losses[i]);
    for (int i = 0; i < o->k; i++) sgd(o->params[i], LENET_PARAMS, 0, X->shape[0]);
}

static double seconds_of(ModelledRun *run, Step *step, Overlap *o, int rows) {
    const Tensor X = {.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    while (modelled_run(run)) step(o, &X, &y);
    return run->seconds;
}

static void model_place(const Place *place, int k, Times times[NUM_BATCHES]) {
    Machine launches = machine_with_free(place->machine, FREE_LINKS | FREE_DEVICES);
    for (int free_rest = 0; free_rest < 2; free_rest++) {
        ModelledRun run = {.machine = free_rest ? &launches : place->machine,
                           .k = k,
                           .framework = place->framework};
        modelled_begin(&run);
        Overlap *o = overlap_open(run.devices, k, 0);
        for (int b = 0; b < NUM_BATCHES; b++) {
            Times *t = &times[b];
            if (free_rest) {
                t->launches = seconds_of(&run, chapter_4_step, o, batch_of(b));
                continue;
            }
            t->chapter_4 = seconds_of(&run, chapter_4_step, o, batch_of(b));
            t->overlapped = seconds_of(&run, your_step, o, batch_of(b));
            t->no_exchange = seconds_of(&run, step_without_exchange, o, batch_of(b));
        }
        overlap_close(o);
        modelled_end(&run);
    }
}

static void model_all(const Places *places, Figures f[]) {
    for (int m = 0; m < places->n; m++)
        for (int w = 0; w < NUM_WAYS; w++) {
            choose_allreduce(ways[w]);
            for (int j = 0; j < NUM_KS; j++)
                if (machine_has_devices(places->list[m].machine, ks[j]))
                    model_place(&places->list[m], ks[j], f[m][w][j]);
        }
}

// ## Figures

static double hidden(const Times *t) {
    return 100 * (t->chapter_4 - t->overlapped) / (t->chapter_4 - t->no_exchange);
}

// Percent of the step.
static double saved(const Times *t) { return 100 * (1 - t->overlapped / t->chapter_4); }

static void print_place(const Place *place, Figures f) {
    say("\n  %s: percent of the exchange that is hidden, (of the step that is saved)", place->name);
    Table t = TABLE(NULL, WHOLE("images"), {"star, k = %d", .count = NUM_KS, .of = ks},
                    {"ring, k = %d", .count = NUM_KS, .of = ks});
    for (int b = 0; b < NUM_BATCHES; b++) {
        table_numbers(&t, batch_of(b));
        for (int i = 0; i < NUM_WAYS * NUM_KS; i++) {
            const Times *of = &f[i / NUM_KS][i % NUM_KS][b];
            if (of->chapter_4 > 0) // + 0: no "-0"
                table_text(&t, "%3.0f (%2.0f)", round(hidden(of)) + 0.0, round(saved(of)) + 0.0);
            else
                table_text(&t, "-");
        }
    }
}

static void write_csv(FILE *csv, const Places *places, Figures f[]) {
    fprintf(csv, "machine,allreduce,devices,images,chapter_4_ms,overlapped_ms,no_exchange_ms,"
                 "launches_ms,hidden_percent\n");
    for (int m = 0; m < places->n; m++)
        for (int w = 0; w < NUM_WAYS; w++)
            for (int j = 0; j < NUM_KS; j++)
                for (int b = 0; b < NUM_BATCHES; b++) {
                    const Times *t = &f[m][w][j][b];
                    if (t->chapter_4 > 0)
                        fprintf(csv, "%s,%s,%d,%d,%.9g,%.9g,%.9g,%.9g,%.6g\n", places->list[m].name,
                                ways[w], ks[j], batch_of(b), 1e3 * t->chapter_4,
                                1e3 * t->overlapped, 1e3 * t->no_exchange, 1e3 * t->launches,
                                hidden(t));
                }
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    static Figures f[MOST_PLACES];
    Places places = places_with(modelled_machine());
    (void)flags;
    say("Question: when does it not help to exchange gradients under backward?");
    say("LeNet, an allreduce for each parameter: chapter 4's step, after backward, against yours. "
        "Times are modelled. \"framework\": launches take as long as in a framework written in "
        "Python. Minibatches are for all devices together. The CSV also has each step without an "
        "exchange, and what its launches alone take.");
    Prediction most = predict_first(
        "Chapter 4's step of LeNet exchanges all gradients when backward is over. On 8 devices of "
        "a DGX A100, with the ring, how much of that exchange will be hidden if it goes on under "
        "backward, in percent? (With minibatches of 4096 images, and one host that launches.)");
    model_all(&places, f);
    for (int m = 0; m < places.n; m++) print_place(&places.list[m], f[m]);
    predict_compare(most, hidden(&f[0][1][NUM_KS - 1][NUM_BATCHES - 1]), "%");
    write_csv(csv, &places, f);
}

// The check opens 7 devices that compute, and the experiment models 8.
static void prepare(const Flags *flags) {
    const Machine *machine = modelled_machine();
    (void)flags;
    if (machine && !machine_has_devices(machine, ks[NUM_KS - 1]))
        die_usage("give another --machine, or --machine none", "the machine %s has no %d devices",
                  machine->name, ks[NUM_KS - 1]);
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: LeNet, with the exchange under backward.",
                    .flags = "",
                    .defaults = default_flags,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "the bits and bytes of chapter 4's step, with the exchange under "
                              "backward",
                    .experiment = experiment,
                    .plot = "exercise_overlap.gp"});
}
