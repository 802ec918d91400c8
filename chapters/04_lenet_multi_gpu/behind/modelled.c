// modelled.c: how long an epoch would take on a machine, and what takes so long. What a part of a
// step costs is found by leaving it out: the same step is timed without the exchange of gradients,
// and on a machine whose devices and links take no time, so that only launches do.
#include "behind.h"

#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "../lenet.h"

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
    static Tensor *params[LENET_PARAMS]; // no device will know their values: made once
    if (!params[0]) lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], s.device_params[i]);
    return s;
}

static void steps_free(Steps *s) {
    for (int i = 0; i < s->k; i++) free_params(s->device_params[i], LENET_PARAMS);
    tensor_free(s->X);
    tensor_free(s->y);
    tensor_free(s->losses);
}

// As in a training: the host asks for the losses after each step, and so waits for all devices.
static void run_step(Steps *s, Way way) {
    Tensor *losses[MAX_DEVICES];
    (way == AS_GRAPH ? train_batch_as_graph : train_batch)(s->X, s->y, s->device_params, s->devices,
                                                           s->k, 0, losses);
    items(losses, s->k, s->losses->data);
}

// A graph is recorded in the second step; from then on all steps take the same.
static ModelledRun time_step(const Machine *machine, Way way, int k, int batch_size) {
    ModelledRun run = {.machine = machine, .k = k, .warm_up = 2};
    modelled_begin(&run);
    Steps s = steps_new(run.devices, k, batch_size);
    while (modelled_run(&run)) run_step(&s, way);
    steps_free(&s);
    modelled_end(&run);
    return run;
}

// ## What is left out

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
                        .hosts = m->batches * launches};
}

// On a machine where a launch takes a second and nothing else any time, seconds are launches.
static int count_launches(const ModelledEpochs *m, int k) {
    Machine counting = machine_with_free(m->machine, FREE_LINKS | FREE_DEVICES);
    counting.launch = 1;
    return (int)lround(time_step(&counting, ONE_BY_ONE, k, m->batch_size).seconds);
}

const Machine *machine_of_epochs(const Flags *flags) {
    return flags->devices == 0 && flags->steps != 0 ? modelled_machine() : NULL;
}

ModelledEpochs model_epochs(const Machine *machine, int images, int batch_size, int most) {
    ModelledEpochs m = {.machine = machine,
                        .batch_size = batch_size,
                        .batches = (images + batch_size - 1) / batch_size};
    for (int k = 1; k <= most && book_can_use_devices(k); k *= 2) m.counts[m.num_counts++] = k;
    for (int c = 0; c < m.num_counts; c++) {
        m.launches[c] = count_launches(&m, m.counts[c]);
        for (int way = 0; way < NUM_WAYS; way++)
            m.epoch[way][c] = model_epoch(&m, (Way)way, m.counts[c]);
    }
    return m;
}

void model_larger_minibatches(ModelledEpochs *m, int images) {
    static const int times[MOST_LARGER] = {2, 8};
    for (int i = 0; i < MOST_LARGER && times[i] * m->batch_size <= images; i++) {
        int rows = times[i] * m->batch_size, batches = (images + rows - 1) / rows;
        m->larger_size[m->num_larger++] = rows;
        for (int c = 0; c < m->num_counts; c++)
            m->larger[i][c] = batches * time_step(m->machine, AS_GRAPH, m->counts[c], rows).seconds;
    }
}

// ## A picture of a step

// Kernels that a graph launches leave no spans. They come as if launching took no time.
static Machine machine_as(const Machine *machine, Way way) {
    Machine m = *machine;
    if (way == ONE_BY_ONE) return m;
    m.launch = m.event = 0;
    m.kernel = m.graph_kernel;
    return m;
}

static Timeline timeline_of_step(const Machine *machine, Way way, int k, int batch_size) {
    Timeline t = {.title = way == AS_GRAPH ? "as a CUDA graph" : "launched one by one"};
    Machine m = machine_as(machine, way);
    ModelledRun run = {.machine = &m, .k = k, .traced = true};
    int none;
    modelled_begin(&run);
    Steps s = steps_new(run.devices, k, batch_size);
    run_step(&s, ONE_BY_ONE); // takes memory
    trace_begin_models();
    run_step(&s, ONE_BY_ONE);
    free(trace_end(&none)); // nothing was computed
    t.set.modelled = true;
    t.set.spans = trace_modelled(&t.set.count);
    steps_free(&s);
    modelled_end(&run);
    t.start = INFINITY;
    for (int i = 0; i < t.set.count; i++) {
        t.start = fmin(t.start, t.set.spans[i].start);
        t.end = fmax(t.end, t.set.spans[i].end);
    }
    return t;
}

void draw_lenet_step(const Machine *machine, const char *path, int k, int batch_size) {
    Timeline steps[NUM_WAYS];
    char *heading =
        xprintf("A step of %d images on %d devices of %s, modelled", batch_size, k, machine->name);
    for (int way = 0; way < NUM_WAYS; way++)
        steps[way] = timeline_of_step(machine, (Way)way, k, batch_size);
    timelines_draw(path, heading, "the first copy began", steps, NUM_WAYS);
    for (int way = 0; way < NUM_WAYS; way++) free((void *)steps[way].set.spans);
    free(heading);
}

// ## The tables

void print_launches(const ModelledEpochs *m) {
    printf("\nA step of %d images on %s, launched one by one, modelled\n", m->batch_size,
           m->machine->name);
    Table t = TABLE(NULL, WHOLE("devices"), WHOLE("launches"), DIGITS("a step", 3, .unit = "ms"),
                    DIGITS("launches alone", 3, .unit = "ms"));
    for (int c = 0; c < m->num_counts; c++) {
        const EpochParts *epoch = &m->epoch[ONE_BY_ONE][c];
        table_numbers(&t, m->counts[c], m->launches[c], epoch->seconds / m->batches,
                      epoch->hosts / m->batches);
    }
}

void print_shares(const ModelledEpochs *m) {
    const EpochParts *epochs = m->epoch[AS_GRAPH];
    printf("\nThe same step as a CUDA graph\n");
    Table t = TABLE(NULL, WHOLE("devices"), DIGITS("a step", 3, .unit = "ms"),
                    DIGITS("its exchange", 3, .unit = "ms"), DIGITS("the rest", 3, .unit = "ms"),
                    DIGITS("the rest", 3, .unit = "%"), DIGITS("1/k", 3, .unit = "%"));
    for (int c = 0; c < m->num_counts; c++) {
        double rest = epochs[c].seconds - epochs[c].exchange;
        table_numbers(&t, m->counts[c], epochs[c].seconds / m->batches,
                      epochs[c].exchange / m->batches, rest / m->batches, rest / epochs[0].seconds,
                      1.0 / m->counts[c]);
    }
}

static void print_epochs(const ModelledEpochs *m, int rows, const double seconds[]) {
    printf("  minibatches of %-6d", rows);
    for (int c = 0; c < m->num_counts; c++)
        printf("%s%.3g on %d", c > 0 ? ", " : "", seconds[c], m->counts[c]);
    puts(m->num_counts > 1 ? " devices" : " device");
}

void print_larger(const ModelledEpochs *m) {
    double seconds[MAX_COUNTS];
    int last = m->num_larger - 1;
    if (last < 0) return;
    for (int c = 0; c < m->num_counts; c++) seconds[c] = m->epoch[AS_GRAPH][c].seconds;
    printf("\nSeconds per epoch as a CUDA graph\n");
    print_epochs(m, m->batch_size, seconds);
    print_epochs(m, m->larger_size[last], m->larger[last]);
}

void write_modelled_epochs(const char *path, const ModelledEpochs *m) {
    static const char *const names[NUM_WAYS] = {"program", "graph"};
    OutputFile csv = output_open(path);
    fprintf(csv.stream, "machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,"
                        "launching_seconds,rest_seconds\n");
    for (int way = 0; way < NUM_WAYS; way++)
        for (int c = 0; c < m->num_counts; c++) {
            const EpochParts *e = &m->epoch[way][c];
            fprintf(csv.stream, "%s,%s,%d,%.9g,%.9g,%.9g,%.9g\n", m->machine->name, names[way],
                    m->counts[c], e->seconds, e->exchange, e->hosts, e->seconds - e->exchange);
        }
    for (int i = 0; i < m->num_larger; i++)
        for (int c = 0; c < m->num_counts; c++)
            fprintf(csv.stream, "%s,graph of %d,%d,%.9g,,,\n", m->machine->name, m->larger_size[i],
                    m->counts[c], m->larger[i][c]);
    output_close(&csv);
}

void model_curves_and_step(const Machine *machine, const Flags *flags, const char *csv,
                           const char *svg) {
    int images = flags->train_size ? flags->train_size : 60000; // as Fashion-MNIST has
    ModelledEpochs m = model_epochs(machine, images, flags->batch_size, 16);
    write_modelled_epochs(csv, &m);
    draw_lenet_step(machine, svg, flags->devices ? flags->devices : 2, flags->batch_size);
}
