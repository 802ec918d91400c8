// modelled.c: how long an epoch takes on a machine that need not be there, and why. What a part of
// a step costs is found by leaving it out: the same step is timed without the exchange of
// gradients, and on a machine whose devices and links take no time, so that only launches do.
#include "modelled.h"

#include "common/program/modelled_run.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/step_graph.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "lenet.h"

#include <math.h>

// ## Steps on devices that compute nothing

typedef struct Steps {
    int k;
    Device *const *devices;
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS];
    Tensor *X, *y, *losses; // on the host: a minibatch, and what comes back
} Steps;

static Steps steps_new(Device *const devices[], int k, int batch_size) {
    Steps s = {.k = k,
               .devices = devices,
               .X = tensor_new(host(), batch_size, 1, 28, 28),
               .y = tensor_new(host(), batch_size),
               .losses = tensor_new(host(), k)};
    Tensor *params[LENET_PARAMS];
    lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], s.device_params[i]);
    free_params(params, LENET_PARAMS);
    return s;
}

static void steps_free(Steps *s) {
    for (int i = 0; i < s->k; i++) free_params(s->device_params[i], LENET_PARAMS);
    tensor_free(s->X);
    tensor_free(s->y);
    tensor_free(s->losses);
}

// As in a training: the host asks for the losses after each step, and so waits for all devices.
static void run_step(Steps *s) {
    Tensor *losses[MAX_DEVICES];
    train_batch_as_graph(s->X, s->y, s->device_params, s->devices, s->k, 0, losses);
    items(losses, s->k, s->losses->data);
}

// A graph is recorded in the second step; from then on all steps take the same.
static ModelledRun time_step(const Machine *machine, Way way, int k, int batch_size) {
    ModelledRun run = {.machine = machine, .k = k, .framework = way == BY_FRAMEWORK, .warm_up = 2};
    choose_graph(way == AS_GRAPH ? "on" : "off");
    modelled_begin(&run);
    Steps s = steps_new(run.devices, k, batch_size);
    while (modelled_run(&run)) run_step(&s);
    steps_free(&s);
    modelled_end(&run);
    return run;
}

// ## What is left out

// Whether nothing but copies takes time on the machine.
static bool only_copies_take_time(const Machine *machine, int batch_size) {
    const Machine links_are_free = machine_with_free(machine, FREE_LINKS);
    double all = time_step(machine, BY_FRAMEWORK, 1, batch_size).seconds;
    return time_step(&links_are_free, BY_FRAMEWORK, 1, batch_size).seconds < 0.001 * all;
}

static double without_exchange(const Machine *machine, Way way, int k, int batch_size) {
    const Allreduce *chosen = chosen_allreduce();
    choose_this_allreduce(&no_exchange);
    double seconds = time_step(machine, way, k, batch_size).seconds;
    choose_this_allreduce(chosen);
    return seconds;
}

// ## All of them

static EpochParts model_epoch(const ModelledEpochs *m, Way way, int k) {
    const Machine hosts = machine_with_free(m->machine, FREE_LINKS | FREE_DEVICES);
    double launches = time_step(&hosts, way, k, m->batch_size).seconds;
    ModelledRun step = time_step(m->machine, way, k, m->batch_size);
    double without = without_exchange(m->machine, way, k, m->batch_size);
    return (EpochParts){.seconds = m->batches * step.seconds,
                        .exchange = m->batches * (step.seconds - without),
                        .hosts = m->batches * launches,
                        .busy = m->batches * step.busy};
}

// On a machine where a launch takes a second and nothing else any time, seconds are launches.
static void count_launches(ModelledEpochs *m, Way way, int c) {
    Machine counting = machine_with_free(m->machine, FREE_LINKS | FREE_DEVICES);
    counting.launch = counting.framework = 1;
    double all = time_step(&counting, way, m->counts[c], m->batch_size).seconds;
    double without = without_exchange(&counting, way, m->counts[c], m->batch_size);
    m->launches[way][c] = (int)lround(all);
    m->exchange_launches[way][c] = (int)lround(all - without);
}

ModelledEpochs model_epochs(int images, int batch_size, const char *graph) {
    ModelledEpochs m = {.machine = modelled_machine(),
                        .images = images,
                        .batch_size = batch_size,
                        .batches = (images + batch_size - 1) / batch_size};
    for (int k = 1; k <= 8 && machine_has_devices(m.machine, k); k *= 2)
        m.counts[m.num_counts++] = k;
    m.only_copies = only_copies_take_time(m.machine, batch_size);
    for (int way = 0; way < NUM_WAYS; way++)
        for (int c = 0; c < m.num_counts; c++)
            m.epoch[way][c] = model_epoch(&m, (Way)way, m.counts[c]);
    for (int c = 0; c < m.num_counts; c++) {
        count_launches(&m, BY_PROGRAM, c);
        count_launches(&m, BY_FRAMEWORK, c);
    }
    choose_graph(graph);
    return m;
}

// ## The table

static const char *const way_names[NUM_WAYS] = {"program", "framework", "graph"};

static int percent(double part, double whole) { return (int)lround(100 * part / whole); }

void print_modelled_epochs(const ModelledEpochs *m) {
    say("Modelled seconds per epoch on %s, not measured: %d steps of %d images. In brackets the "
        "share of the exchange of gradients (%s): the part of the time that the same steps "
        "without it would save.",
        m->machine->name, m->batches, m->batch_size, chosen_allreduce()->name);
    int last = m->images % m->batch_size;
    if (last > 0)
        say("(Trainings take slightly less: their last minibatch has only %d images.)", last);
    printf("\n");
    Table t = TABLE(NULL, WHOLE("devices"), WHOLE("without CUDA graphs"), WHOLE("with CUDA graphs"),
                    WHOLE("by a framework's launches"));
    for (int c = 0; c < m->num_counts; c++) {
        static const Way columns[NUM_WAYS] = {BY_PROGRAM, AS_GRAPH, BY_FRAMEWORK};
        table_numbers(&t, m->counts[c]);
        for (int i = 0; i < NUM_WAYS; i++) {
            const EpochParts *e = &m->epoch[columns[i]][c];
            table_text(&t, "%#.3g (%2d%%)", e->seconds, percent(e->exchange, e->seconds));
        }
    }
    printf("\n");
}

void write_modelled_epochs(FILE *csv, const ModelledEpochs *m) {
    fprintf(csv, "machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,"
                 "launching_seconds,busy_seconds\n");
    for (int way = 0; way < NUM_WAYS; way++)
        for (int c = 0; c < m->num_counts; c++) {
            const EpochParts *e = &m->epoch[way][c];
            fprintf(csv, "%s,%s,%d,%.9g,%.9g,%.9g,%.9g\n", m->machine->name, way_names[way],
                    m->counts[c], e->seconds, e->exchange, e->hosts, e->busy);
        }
}

// ## What they say

// What bounds an epoch: if devices and links took no time, would it be much shorter?
static bool is_launch_bound(const EpochParts *e) { return e->hosts > 0.75 * e->seconds; }

// Where launches and kernels take no time, there is nothing that a second device could speed up.
static void explain_copies(const ModelledEpochs *m) {
    const EpochParts *one = &m->epoch[BY_PROGRAM][0], *two = &m->epoch[BY_PROGRAM][1];
    say("  On %s only copies take time. Launches and arithmetic are free, so it does not matter "
        "who launches, and the three columns are the same.\n"
        "    On 1 device an epoch is the time in which the images get there, %.3g s. On 2 devices "
        "each gets half of them, in %.3g s altogether, and then the exchange of gradients comes on "
        "top of it, %.3g s.\n"
        "    So this machine shows what the exchange costs. For what more devices save, choose "
        "another one (--machine list).",
        m->machine->name, one->seconds, two->seconds - two->exchange, two->exchange);
}

// The table's first column. Up to some number of devices they are what takes time, from there on it
// is the host.
static void explain_program(const ModelledEpochs *m) {
    int bound = 0, last = m->num_counts - 1;
    while (bound <= last && !is_launch_bound(&m->epoch[BY_PROGRAM][bound])) bound++;
    say("  Without CUDA graphs: this program needs %.1f µs for each launch, of a kernel or a copy. "
        "A host makes %d of them in a step on 1 device and %d on %d. If nothing else took time, an "
        "epoch "
        "would take %.3g s on 1 and %.3g s on %d.",
        1e6 * m->machine->launch, m->launches[BY_PROGRAM][0], m->launches[BY_PROGRAM][last],
        m->counts[last], m->epoch[BY_PROGRAM][0].hosts, m->epoch[BY_PROGRAM][last].hosts,
        m->counts[last]);
    if (bound > last)
        say("    So on any number of devices, kernels and copies take the time.");
    else if (bound == 0)
        say("    So launches take the time, on any number of devices.");
    else
        say("    So on %s%d, kernels and copies take the time; on %d and more launches do, and "
            "more devices need more of them.",
            bound > 1 ? "up to " : "", m->counts[bound - 1], m->counts[bound]);
}

static void explain_launches(const ModelledEpochs *m) {
    const EpochParts *one = &m->epoch[BY_FRAMEWORK][0], *two = &m->epoch[BY_FRAMEWORK][1];
    const int *launches = m->launches[BY_FRAMEWORK],
              exchange = m->exchange_launches[BY_FRAMEWORK][1];
    bool alone = m->machine->devices < 2;
    say("  Launches: a framework written in Python needs about %.0f µs for each (--machine "
        "print:%s says where that is from). If devices and links took no time at all, an epoch "
        "would still "
        "take %.3g s on 1 device and %.3g s on 2, of %.3g and %.3g.",
        1e6 * m->machine->framework, m->machine->name, one->hosts, two->hosts, one->seconds,
        two->seconds);
    if (is_launch_bound(two))
        say("    So launches are the time. A step has %d of them on 1 device. On 2 each device has "
            "half the images, but as many kernels, and one host thread launches for both: %d "
            "times, and %d times more for the exchange. A device computes while the host "
            "launches: alone, device 0 is at work for %d%% of an epoch; as one of 2 devices, which "
            "wait for launches, for %d%%.",
            launches[0], launches[1] - exchange, exchange, percent(one->busy, one->seconds),
            percent(two->busy, two->seconds));
    else
        say("    So on this machine other things take the time%s.",
            alone ? "; besides, each device has a host of its own, which launches for it alone"
                  : "");
}

static void explain_exchange(const ModelledEpochs *m) {
    const EpochParts *two = &m->epoch[BY_FRAMEWORK][1], *graph = &m->epoch[AS_GRAPH][1];
    say("  Exchange: %d%% of the time on 2 devices by a framework's launches, %d%% with graphs: %d "
        "arrays, most of them tiny, are copied, added and copied back, which takes launches, "
        "latency and bytes.",
        percent(two->exchange, two->seconds), percent(graph->exchange, graph->seconds),
        LENET_PARAMS);
}

static void explain_graphs(const ModelledEpochs *m) {
    const EpochParts *one = &m->epoch[AS_GRAPH][0], *two = &m->epoch[AS_GRAPH][1];
    double times = m->epoch[BY_FRAMEWORK][1].seconds / two->seconds;
    double saved = one->seconds - (two->seconds - two->exchange);
    if (times > 1.05)
        say("  CUDA graphs: a step is one launch, and an epoch on 2 devices %.1f times as fast as "
            "by a framework's launches.",
            times);
    else
        say("  CUDA graphs: a step is one launch, but launches were not what took time.");
    say("    With graphs, 2 devices take %.2f times as long as 1: half the images for each save "
        "%.3g s, the exchange costs %.3g s.",
        two->seconds / one->seconds, saved, two->exchange);
}

// The book's figures: zh.d2l.ai and d2l.ai, "Training on Multiple GPUs", PyTorch. The
// reading: github.com/d2l-ai/d2l-zh-pytorch-slides, all 120 versions of chapter_linear-networks/
// image-classification-dataset.ipynb that were published with their outputs.
static void explain_book(const ModelledEpochs *m) {
    bool is_the_books = m->batches == 235 && m->batch_size == 256;
    if (!is_the_books) return;
    const EpochParts *one = &m->epoch[BY_FRAMEWORK][0];
    const double book_one = 2.7, book_two = 3.6;
    double times = book_one / one->seconds;
    say("  The book, measured on GPUs that it does not name: %.1f s on one and %.1f s on two in "
        "its "
        "Chinese edition, 3.0 s and 2.8 s in the English one.",
        book_one, book_two);
    if (times < 3) {
        say("    A device of %s is no such GPU: nothing follows from that.", m->machine->name);
        return;
    }
    say("    %.1f s is %.0f times what is modelled here for one device, so most of it was neither "
        "launches nor arithmetic. The book's time also has in it Python between the launches, "
        "operations that are one kernel here and several there, and the data loader: reading the "
        "images alone took 1.7 to 3.4 s in the book's published runs of it, on any number of GPUs. "
        "So the figures here say why a second GPU has so little to speed up; they do not say "
        "where the book's seconds went.",
        book_one, times);
}

void explain_modelled_epochs(const ModelledEpochs *m) {
    if (m->num_counts < 2) {
        say("%s has one device: nothing to compare.\n", m->machine->name);
        return;
    }
    say("What these figures say of the book's two GPUs, hardly faster than one, or slower");
    if (m->only_copies) {
        explain_copies(m);
        printf("\n");
        return;
    }
    explain_program(m);
    explain_launches(m);
    explain_exchange(m);
    explain_graphs(m);
    explain_book(m);
    printf("\n");
}
