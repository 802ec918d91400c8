// experiment.c: chapter 1's pipeline of equal layers with its own order and with yours, for 1 to 16
// microbatches: how long a step takes, how much of it the devices are idle, and what each stage has
// to keep. Times are modelled, and bytes are counted, on devices that compute nothing.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/01_splitting_strategies/costs.h"
#include "chapters/01_splitting_strategies/record.h"
#include "your_part.h"

enum { IMAGES = 4096, NUM_MS = 5, FILL_DRAIN = 0, YOURS, NUM_ORDERS };
static const struct {
    const char *name;
    Order *order;
} orders[NUM_ORDERS] = {{"fill-drain", fill_drain}, {"1F1B", one_forward_one_backward}};
static int microbatches(int a) { return 1 << a; }

// ## What is modelled

typedef struct Run {
    double ms, idle;          // of a step; the share of it, 0..1
    double peak[MOST_STAGES]; // MB of activations
} Run;

typedef struct Figures {
    int k;
    Run of[NUM_ORDERS][NUM_MS];
    double chapter_1[NUM_MS]; // ms, by strategy_pipeline.c
} Figures;

static void model_run(const Problem *problem, const Strategy *strategy, int k, Run *r) {
    Recorded step = record_step(problem, strategy, k);
    r->ms = 1e3 * recorded_seconds(&step);
    r->idle = idle_share(&step);
    recorded_free(&step);
    arena_close(); // the next microbatches have activations of other sizes
}

static void model_all(Figures *f) {
    for (int a = 0; a < NUM_MS; a++) {
        Run chapter_1;
        Problem problem = problem_to_model(&wide_network, IMAGES, microbatches(a));
        for (int o = 0; o < NUM_ORDERS; o++) {
            Run *r = &f->of[o][a];
            model_run(&problem, pipeline_in_order(orders[o].order), f->k, r);
            const Spread stages = {.k = f->k};
            for (int i = 0; i < f->k; i++)
                r->peak[i] = megabytes((double)pipeline_peak(&stages, i));
        }
        model_run(&problem, &across_layers, f->k, &chapter_1);
        f->chapter_1[a] = chapter_1.ms;
        problem_free(&problem);
    }
}

// ## Figures

static void print_times(const Figures *f) {
    printf("\n");
    Table t = TABLE(NULL, WHOLE("m"), DIGITS("chapter 1, ms", 4), DIGITS("fill-drain, ms", 4),
                    DIGITS("1F1B, ms", 4), FIXED("fill-drain idle", 1, .unit = "%"),
                    FIXED("1F1B idle", 1, .unit = "%"), FIXED("(k-1)/(m+k-1)", 1, .unit = "%"));
    for (int a = 0; a < NUM_MS; a++) {
        const Run *all = &f->of[FILL_DRAIN][a], *yours = &f->of[YOURS][a];
        table_numbers(&t, microbatches(a), f->chapter_1[a], all->ms, yours->ms, all->idle,
                      yours->idle, equal_bubble(f->k, microbatches(a)));
    }
}

static void print_peaks(const Figures *f, FILE *csv) {
    Table t = TABLE(csv, {.csv = "machine"}, {.csv = "order"}, {.csv = "stages"}, {"m", .csv = "m"},
                    {.csv = "modelled_ms"}, {.csv = "idle"}, {.csv = "formula"},
                    {"stage %d", .csv = "stage%d_mb", .count = f->k});
    for (int o = 0; o < NUM_ORDERS; o++) {
        printf("\n  %s: MB of activations\n", orders[o].name);
        table_head(&t);
        for (int a = 0; a < NUM_MS; a++) {
            const Run *r = &f->of[o][a];
            table_text(&t, "%s", modelled_machine()->name);
            table_text(&t, "%s", orders[o].name);
            table_numbers(&t, f->k, microbatches(a), r->ms, r->idle,
                          equal_bubble(f->k, microbatches(a)));
            table_add_numbers(&t, (size_t)f->k, r->peak);
        }
    }
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Figures f = {.k = flags->devices};
    say("Question: what does a pipeline gain if each stage goes backward as soon as it can?");
    say("%s, %d stages, %d images in m microbatches; modelled on %s.", wide_network.name, f.k,
        IMAGES, modelled_machine()->name);
    Prediction part = predict_first(
        "A pipeline of 4 stages has its minibatch in 16 microbatches. If each stage goes backward "
        "as soon as it can, what part of the activations that fill-drain keeps will the first "
        "stage keep, in percent?");
    model_all(&f);
    print_times(&f);
    print_peaks(&f, csv);
    int last = NUM_MS - 1;
    predict_compare(part, 100 * f.of[YOURS][last].peak[0] / f.of[FILL_DRAIN][last].peak[0], "%");
}

static void prepare(const Flags *flags) {
    const Machine *machine = modelled_machine();
    if (flags->devices < 2 || flags->devices > MOST_STAGES)
        die_usage("--devices 2 to 8", "a pipeline of %d stages", flags->devices);
    if (!machine) die_usage("leave --machine none out", "all times here are modelled");
    if (!machine_has_devices(machine, flags->devices))
        die_usage("give a smaller --devices, or another --machine", "the machine %s has %d devices",
                  machine->name, machine->devices);
}

int main(int argc, char *argv[]) {
    const Exercise exercise = {.about = "Exercise 2: one forward, one backward.",
                               .flags = "devices=4",
                               .prepare = prepare,
                               .experiment = experiment,
                               .plot = "exercise_1f1b.gp"};
    return exercise_main(argc, argv, &exercise);
}
