// experiment.c: what towers move and how long it takes, with the update on the CPU and on device 0,
// for LeNet and ResNet-18 and 1 to 8 towers, on machines whose links differ.
#include "common/base/error.h"
#include "common/device/ledger.h"
#include "common/program/exercise.h"
#include "common/program/modelled_run.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ## The machines
//
// The server of the book's example, where links alone take time, so that one can reckon along; with
// eight GPUs on its switch instead of four. GPUs that reach each other by way of the host's memory
// alone. GPUs with links of their own. --machine adds one.

enum { MOST_MACHINES = 4, NUM_KS = 4, MOST_K = 8 };
static const int ks[NUM_KS] = {1, 2, 4, 8};

typedef struct Machines {
    Machine list[MOST_MACHINES];
    int n;
} Machines;

static void add_machine(Machines *machines, const Machine *machine) {
    for (int m = 0; m < machines->n; m++)
        if (strcmp(machines->list[m].name, machine->name) == 0) return;
    machines->list[machines->n++] = *machine;
}

static Machines machines_with(const Machine *chosen) {
    Machines machines = {0};
    Machine book = *machine_find("d2l-pcie");
    book.devices = book.devices_per_root = MOST_K;
    snprintf(book.name, sizeof book.name, "d2l-pcie-of-8");
    add_machine(&machines, &book);
    add_machine(&machines, machine_find("rtx4090-pcie"));
    add_machine(&machines, machine_find("dgx-a100"));
    if (chosen) add_machine(&machines, chosen);
    return machines;
}

// ## What is modelled
//
// The exchange of a step: variables to all towers, and when all have computed, gradients back and
// the update. What the host itself computes takes no time on the modelled clock. So the CPU's times
// are those of its copies alone, and what it combines and updates comes on top: how much that is
// depends on its memory, so the table says how fast that would have to be.

typedef enum { ON_CPU, ON_GPU, NUM_WAYS } Way;
static const char *const way_names[NUM_WAYS] = {"CPU", "GPU"};

typedef struct Exchange {
    double seconds;
    uint64_t by_host, device_0; // bytes over all links of the host, over those of device 0
} Exchange;

typedef struct Figures {
    const char *title;
    int n;        // variables
    double bytes; // of all of them
    Exchange of[NUM_KS][NUM_WAYS];
} Figures;

typedef struct Model { // of a network, on k devices
    int k, n;
    Device *devices[MOST_K];
    Tensor *list[MOST_K][MOST_VARS], **vars[MOST_K];
} Model;

static Model *model_open(const Module *net, Device *const devices[], int k) {
    Model *m = xcalloc(1, sizeof *m);
    Tensor *start[MOST_VARS];
    Parameters all = parameters_of(net);
    m->k = k;
    for (int p = 0; p < all.n; p++) {
        if (!all.list[p]->trained) continue; // running statistics stay with the towers
        CHECK(m->n < MOST_VARS, "room for the variables");
        start[m->n++] = all.list[p]->start;
    }
    for (int i = 0; i < k; i++) {
        m->devices[i] = devices[i];
        m->vars[i] = m->list[i];
        get_params(start, m->n, m->devices[i], m->list[i]);
    }
    synchronize_all();
    return m;
}

static void model_close(Model *m) {
    synchronize_all();
    for (int i = 0; i < m->k; i++) free_params(m->list[i], m->n);
    free(m);
}

// As towers_step(). One place on the host serves for all: nobody looks at what is in it.
static void exchange_on_cpu(const Model *m) {
    size_t most = 0;
    for (int v = 0; v < m->n; v++)
        if (tensor_bytes(m->list[0][v]) > most) most = tensor_bytes(m->list[0][v]);
    void *place = device_alloc(host(), most);
    memset(place, 0, most);
    for (int way = 0; way < 2; way++) { // there and back
        for (int i = 0; i < m->k; i++)
            for (int v = 0; v < m->n; v++) {
                Tensor *var = m->list[i][v];
                if (way == 0)
                    device_copy(var->device, var->data, host(), place, tensor_bytes(var));
                else
                    device_copy(host(), place, var->device, var->grad->data, tensor_bytes(var));
            }
        synchronize_all();
    }
    device_free(host(), place);
}

static void exchange_on_gpu(const Model *m, GpuTowers *t) {
    (void)m;
    send_variables_from_gpu(t);
    synchronize_all(); // here towers compute
    update_on_gpu(t, 0);
    synchronize_all();
}

static uint64_t bytes_of_device_0(const Model *m) {
    const Device *first = m->devices[0];
    uint64_t bytes = ledger_bytes(first, host()) + ledger_bytes(host(), first);
    for (int i = 1; i < m->k; i++)
        bytes += ledger_bytes(first, m->devices[i]) + ledger_bytes(m->devices[i], first);
    return bytes;
}

static Exchange exchange_of(ModelledRun *run, const Model *m, Way way) {
    GpuTowers *t = gpu_towers_new(m->devices, m->k, (Tensor * *const *)m->vars, m->n, TOWERS_SUM);
    ledger_reset();
    while (modelled_run(run))
        if (way == ON_CPU)
            exchange_on_cpu(m);
        else
            exchange_on_gpu(m, t);
    Exchange e = {.seconds = run->seconds > 1e-9 ? run->seconds : 0, // where all is free, nothing
                  .by_host = ledger_bytes_host(),
                  .device_0 = bytes_of_device_0(m)};
    gpu_towers_free(t);
    return e;
}

static Figures model_network(const Machine *machine, Module *const nets[], int network) {
    Figures f = {.title = networks[network].title};
    for (int j = 0; j < NUM_KS; j++) {
        ModelledRun run = {.machine = machine, .k = ks[j]};
        modelled_begin(&run);
        Model *m = model_open(nets[network], run.devices, ks[j]);
        f.n = m->n;
        f.bytes = (double)bytes_of_vars(m->list[0], m->n);
        for (int way = 0; way < NUM_WAYS; way++) f.of[j][way] = exchange_of(&run, m, (Way)way);
        model_close(m);
        modelled_end(&run);
    }
    return f;
}

// ## Figures

// How many times as long the CPU's copies take as all of the GPU's exchange; INFINITY where that
// takes no time, with one tower on a machine on which links alone do.
static double gain(const Figures *f, int j) {
    return f->of[j][ON_CPU].seconds / f->of[j][ON_GPU].seconds;
}

// What a CPU reads and writes to combine and to update: fill writes P bytes, each of k times add
// reads two and writes one, sgd reads two and writes two.
static double touched(const Figures *f, int j) { return (3 * ks[j] + 5) * f->bytes; }

// The rate at which a CPU would have to do that to be as fast as the GPU; INFINITY: its copies
// alone take longer.
static double rate_needed(const Figures *f, int j) {
    double left = f->of[j][ON_GPU].seconds - f->of[j][ON_CPU].seconds;
    return left > 0 ? touched(f, j) / left : INFINITY;
}

static void print_bytes(const Figures *f) {
    say("\n  What a step moves, in P = %.0f bytes (%s)", f->bytes, f->title);
    Table t = TABLE(NULL, WHOLE("towers"), WHOLE("through the host: CPU"), WHOLE("GPU"),
                    WHOLE("over device 0's links: CPU"), WHOLE("GPU"));
    for (int j = 0; j < NUM_KS; j++) {
        const Exchange *cpu = &f->of[j][ON_CPU], *gpu = &f->of[j][ON_GPU];
        table_numbers(&t, ks[j], (double)cpu->by_host / f->bytes, (double)gpu->by_host / f->bytes,
                      (double)cpu->device_0 / f->bytes, (double)gpu->device_0 / f->bytes);
        CHECK((double)cpu->by_host == 2 * ks[j] * f->bytes && gpu->by_host == 0 &&
                  (double)gpu->device_0 == 2 * (ks[j] - 1) * f->bytes,
              "k P and k P through the host, or (k-1) P and (k-1) P over device 0's links");
    }
}

static void print_machine(const Machine *machine, const Figures f[]) {
    say("\n  %s: an exchange, modelled", machine->name);
    Table t = TABLE(NULL, WORDS("", 10), WHOLE("k"), DIGITS("CPU", 4, .unit = "ms"),
                    DIGITS("GPU", 4, .unit = "ms"), DIGITS("CPU/GPU", 3),
                    DIGITS("needed", 4, .unit = "GB/s"));
    for (int i = 0; i < NUM_NETWORKS; i++)
        for (int j = 0; j < NUM_KS; j++) {
            table_text(&t, "%s", f[i].title);
            table_numbers(&t, ks[j], f[i].of[j][ON_CPU].seconds, f[i].of[j][ON_GPU].seconds,
                          gain(&f[i], j), rate_needed(&f[i], j));
        }
}

static void write_csv(FILE *csv, const Machines *machines, Figures f[][NUM_NETWORKS]) {
    fprintf(csv, "machine,network,devices,way,host,device_0,ms\n");
    for (int m = 0; m < machines->n; m++)
        for (int i = 0; i < NUM_NETWORKS; i++)
            for (int way = 0; way < NUM_WAYS; way++)
                for (int j = 0; j < NUM_KS; j++) {
                    const Exchange *e = &f[m][i].of[j][way];
                    fprintf(csv, "%s,%s,%d,%s,%g,%g,%.9g\n", machines->list[m].name, f[m][i].title,
                            ks[j], way_names[way], (double)e->by_host / f[m][i].bytes,
                            (double)e->device_0 / f[m][i].bytes, 1e3 * e->seconds);
                }
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Module *nets[NUM_NETWORKS];
    Machines machines = machines_with(modelled_machine());
    static Figures f[MOST_MACHINES][NUM_NETWORKS];
    (void)flags;
    say("Question: towers with their variables on the CPU, or on device 0: what moves, and what is "
        "faster?");
    say("Times are modelled, in milliseconds, of one exchange: variables to the towers, gradients "
        "back, and the GPU's sums and update. What the CPU computes is not in its times, and its "
        "memory keeps up with all links at a time; the last column says with how many GB/s it "
        "would "
        "combine and update in what the GPU takes longer (-: its copies alone take longer).");
    say("d2l-pcie-of-8 is the book's server, with eight GPUs on its switch instead of four.");
    Prediction slower = predict_first(
        "Eight RTX 4090 without peer-to-peer access train ResNet-18 as towers. Variables on device "
        "0 instead of the CPU: how many times as long does the exchange of a step take?");
    for (int i = 0; i < NUM_NETWORKS; i++) {
        nets[i] = networks[i].make(10);
        initialize(nets[i], 1);
    }
    for (int m = 0; m < machines.n; m++)
        for (int i = 0; i < NUM_NETWORKS; i++) f[m][i] = model_network(&machines.list[m], nets, i);
    for (int i = 0; i < NUM_NETWORKS; i++) module_free(nets[i]);
    print_bytes(&f[0][NUM_NETWORKS - 1]);
    for (int m = 0; m < machines.n; m++) print_machine(&machines.list[m], f[m]);
    predict_compare(slower, 1 / gain(&f[1][NUM_NETWORKS - 1], NUM_KS - 1), "times as long");
    write_csv(csv, &machines, f);
}

// The check opens 7 devices that compute, and the CPU's; the experiment models 8.
static void prepare(const Flags *flags) {
    const Machine *machine = modelled_machine();
    (void)flags;
    if (machine && !machine_has_devices(machine, MOST_K))
        die_usage("give another --machine, or --machine none", "the machine %s has no %d devices",
                  machine->name, MOST_K);
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 4: the towers' update, on a GPU instead of the CPU.",
                    .flags = "",
                    .defaults = default_flags,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "(k-1) P there and (k-1) P back, nothing by way of the host, and the "
                              "sums of chapter 7's towers",
                    .experiment = experiment,
                    .plot = "exercise_towers.gp"});
}
