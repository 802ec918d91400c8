// experiment.c: chapter 4's step of LeNet and yours, on machines whose steps wait for different
// things: how much of the exchange is hidden. All times are modelled.
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "traced.h"
#include "your_part.h"

#include <math.h>

enum { NUM_KS = 3, NUM_BATCHES = 7, NUM_WAYS = 2 };
static const int ks[NUM_KS] = {2, 4, 8};
static const char *const ways[NUM_WAYS] = {"star", "ring"};
static int batch_of(int b) { return 64 << b; }

typedef void Step(Overlap *o, const Tensor *X, const Tensor *y, Tensor *losses[]);

static void chapter_4_step(Overlap *o, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    train_batch(X, y, o->params, o->devices, o->k, 0, losses);
}
static void your_step(Overlap *o, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    overlap_step(o, X, y, 0, losses);
}
static void step_without_exchange(Overlap *o, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    for (int i = 0; i < o->k; i++) begin_step(o->devices[i]);
    split_batch(X, y, o->devices, o->k, X_shards, y_shards);
    for (int i = 0; i < o->k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], o->params[i]), y_shards[i]));
    for (int i = 0; i < o->k; i++) backward(losses[i]);
    for (int i = 0; i < o->k; i++) sgd(o->params[i], LENET_PARAMS, 0, X->shape[0]);
}

// What is timed. LAUNCHES: chapter 4's step, if devices and links took no time.
enum { CHAPTER_4, OVERLAPPED, NO_EXCHANGE, LAUNCHES, NUM_TIMES };
static Step *const steps[] = {chapter_4_step, your_step, step_without_exchange, chapter_4_step};
typedef double Times[NUM_TIMES]; // ms of a step; 0: the machine has too few devices

static double hidden(const Times ms) {
    return 100 * (ms[CHAPTER_4] - ms[OVERLAPPED]) / (ms[CHAPTER_4] - ms[NO_EXCHANGE]);
}
static double saved(const Times ms) { return 100 * (1 - ms[OVERLAPPED] / ms[CHAPTER_4]); }

typedef struct Place {
    const Machine *machine;
    bool framework; // launches take as long as in a framework written in Python
} Place;
typedef Times Figures[NUM_WAYS][NUM_KS][NUM_BATCHES];

static void model_steps(const Place *place, int k, Times times[NUM_BATCHES]) {
    Machine free = machine_with_free(place->machine, FREE_LINKS | FREE_DEVICES);
    for (int s = 0; s < NUM_TIMES; s++) {
        ModelledRun run = {.k = k, .framework = place->framework, .warm_up = 1};
        run.machine = s == LAUNCHES ? &free : place->machine;
        modelled_begin(&run);
        Tensor *losses[MAX_DEVICES];
        Overlap *o = overlap_open(run.devices, k, 0);
        for (int b = 0; b < NUM_BATCHES; b++) {
            const Tensor X = {.ndim = 4, .shape = {batch_of(b), 1, 28, 28}, .device = host()};
            const Tensor y = {.ndim = 1, .shape = {batch_of(b)}, .device = host()};
            while (modelled_run(&run)) steps[s](o, &X, &y, losses);
            times[b][s] = 1e3 * run.seconds;
        }
        overlap_close(o);
        modelled_end(&run);
    }
}

static void model_place(const Place *place, Figures f, FILE *csv) {
    const char *framework = place->framework ? " (framework)" : "";
    for (int i = 0; i < NUM_WAYS * NUM_KS; i++) {
        int k = ks[i % NUM_KS];
        if (!machine_has_devices(place->machine, k)) continue;
        choose_allreduce(ways[i / NUM_KS]);
        model_steps(place, k, f[i / NUM_KS][i % NUM_KS]);
        for (int b = 0; b < NUM_BATCHES; b++) {
            fprintf(csv, "%s%s,%s,%d,%d", place->machine->name, framework, ways[i / NUM_KS], k,
                    batch_of(b));
            for (int j = 0; j < NUM_TIMES; j++)
                fprintf(csv, ",%.9g", f[i / NUM_KS][i % NUM_KS][b][j]);
            fprintf(csv, ",%.6g\n", hidden(f[i / NUM_KS][i % NUM_KS][b]));
        }
    }
    say("\n  %s%s: percent of the exchange that is hidden, (of the step that is saved)",
        place->machine->name, framework);
    Table t = TABLE(NULL, WHOLE("images"), {"star, k = %d", .count = NUM_KS, .of = ks},
                    {"ring, k = %d", .count = NUM_KS, .of = ks});
    for (int b = 0; b < NUM_BATCHES; b++) {
        table_numbers(&t, batch_of(b));
        for (int i = 0; i < NUM_WAYS * NUM_KS; i++) {
            const double *of = f[i / NUM_KS][i % NUM_KS][b];
            if (of[CHAPTER_4] > 0) // + 0: no "-0"
                table_text(&t, "%3.0f (%2.0f)", round(hidden(of)) + 0.0, round(saved(of)) + 0.0);
            else
                table_text(&t, "-");
        }
    }
}

// ## The experiment

// Fast links; the same with slow launches; slow links; slower ones.
static void experiment(const Flags *flags, FILE *csv) {
    enum { NUM_PLACES = 4 };
    const Place places[NUM_PLACES] = {{machine_find("dgx-a100"), false},
                                      {machine_find("dgx-a100"), true},
                                      {machine_find("p100-25gbe"), false},
                                      {machine_find("cluster-10gbe"), false}};
    static Figures f[NUM_PLACES];
    (void)flags;
    print_trace();
    say("\nQuestion: when does it not help to exchange gradients under backward? LeNet, an "
        "allreduce for each parameter: chapter 4's step, after backward, against yours. "
        "Times are modelled; \"framework\": launches as slow as a framework's in Python. "
        "Minibatches are for all devices. The CSV also has steps without exchange, and of launches "
        "alone.");
    Prediction most = predict_first(
        "Chapter 4's step of LeNet exchanges all gradients when backward is over. On 8 devices of "
        "a DGX A100, with the ring, how much of that exchange will be hidden if it goes on under "
        "backward, in percent? (With minibatches of 4096 images, and one host that launches.)");
    fprintf(csv, "machine,allreduce,devices,images,chapter_4_ms,overlapped_ms,no_exchange_ms,"
                 "launches_ms,hidden_percent\n");
    for (int m = 0; m < NUM_PLACES; m++) model_place(&places[m], f[m], csv);
    predict_compare(most, hidden(f[0][1][NUM_KS - 1][NUM_BATCHES - 1]), "%");
}

int main(int argc, char *argv[]) {
    const Exercise exercise = {.about = "Exercise 3: three waits in LeNet's overlap.",
                               .flags = "-machine",
                               .experiment = experiment,
                               .plot = "exercise_overlap.gp"};
    return exercise_main(argc, argv, &exercise);
}
