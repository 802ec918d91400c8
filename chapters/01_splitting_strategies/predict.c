// predict.c: larger networks by the formulas of costs.c, and how long their steps take on more
// devices than there are here; see predict.h.
#include "predict.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/device/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/plot.h"
#include "common/program/say.h"
#include "costs.h"
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>

// ## Larger networks
//
// The same formulas, for networks of a size at which the question comes up.

// The bytes and syncs of the formulas; the time is that of the strategies' own steps, on devices of
// the modelled machine.
static void print_line(const char *name, const char *way, const Problem *problem, const Strategy *s,
                       int k) {
    const Network *network = problem->network;
    int n = problem->X->shape[0], m = problem->microbatches;
    Memory memory = memory_of(s, network, k, n);
    printf("%-10s %2d  %-13s %7.0f %7.0f %6.0f %7.0f %5.0f %7.1f%%", name, k, way,
           megabytes(memory.params), megabytes(memory.activations), megabytes(memory.both),
           megabytes(s->bytes_moved(network, k, n, m)), s->syncs(network, k, m),
           100 * busiest_share(s, network, k, n));
    if (problem_can_be_modelled(problem, s, k))
        printf(" %8.4g\n", 1e3 * modelled_step(problem, s, k));
    else
        printf(" %8s\n", "-");
}

static void print_costs(const Network *network, int n, int m) {
    Problem problem = problem_to_model(network, n, m);
    print_line(network->name, "one device", &problem, &across_data, 1);
    for (int k = 2; k <= 8; k *= 2)
        for (int i = 0; i < NUM_STRATEGIES; i++)
            print_line("", strategies[i]->name, &problem, strategies[i], k);
    problem_free(&problem);
}

static void explain_networks(int n, int m) {
    double data = across_data.bytes_moved(&resnet18_network, 4, n, m);
    double within = within_layers.bytes_moved(&resnet18_network, 4, n, m);
    Memory four = memory_of(&across_data, &alexnet_network, 4, n);
    say("Why split the data? Devices wait for each other once per step; all have equal work, in "
        "any network; and what moves does not grow with the minibatch. ResNet-18 on 4 devices "
        "moves %.0f MB, and %.0f times that within layers. The stages of a pipeline cannot be made "
        "equal (the busiest device has more than 1/k of the work), and it has its bubble.",
        megabytes(data), within / data);
    say("When not? More devices leave less of the activations to each, but all of the parameters: "
        "%.0f MB of AlexNet, however many there are. A network that does not fit on one device "
        "must be split across or within its layers. And AlexNet, whose fully connected layers have "
        "many parameters and few outputs, moves more across data than a pipeline does: the smaller "
        "the minibatch, the more so.\n",
        megabytes(four.params));
}

static void say_machine(void) {
    const Machine *machine = modelled_machine();
    if (machine)
        say("Modelled: a step on %s, by the same code as above, on devices that compute nothing. "
            "-: it has fewer devices, or less memory than that.",
            machine->name);
    else
        say("Without a machine (--machine) there is no modelled time.");
}

void larger_networks(void) {
    enum { IMAGES = 256, M = 8 };
    say("Larger networks, by the same formulas: ImageNet, %d images of 224 x 224, %d microbatches "
        "(gradients included; without room for what is being sent)",
        IMAGES, M);
    printf("                           most on one device, MB*   moved        busiest  modelled\n"
           "network     k  strategy       params activ.   both      MB syncs    has"
           "   ms/step\n");
    print_costs(&alexnet_network, IMAGES, M);
    print_costs(&resnet18_network, IMAGES, M);
    say("* each maximum by itself: that of the parameters and that of the activations may be on "
        "different devices, so \"both\" may be less than their sum. Busiest: the share of the "
        "work that the busiest device has.");
    say_machine();
    explain_networks(IMAGES, M);
}

// ## Many devices
//
// The same on more devices than anybody here has, and on three machines: eight GPUs a host with
// fast links and fast network, four a host with slow ones, laptops. Compare where each curve leaves
// the dashed line, and why: the pipeline has no more layers, within layers too much moves, and
// across data device 0 receives k-1 gradients one after the other. (Chapter 2 has better ways for
// that.) The minibatch stays the same, so that devices have less to do the more they are.

static const char *const machines[] = {"dgx-a100", "p100-25gbe", "laptops-1gbe"};
enum { NUM_MACHINES = sizeof machines / sizeof machines[0] };

// Within layers each device sends to each other one, for each layer: more take too long to
// simulate.
static int most_devices(const Strategy *strategy, const Network *network) {
    enum { MOST = 128, MOST_WITHIN = 32 };
    int most = strategy == &within_layers ? MOST_WITHIN : MOST;
    return strategy->most_devices(network) < most ? strategy->most_devices(network) : most;
}

static void write_curve(FILE *csv, const Problem *problem, const Strategy *strategy) {
    int most = most_devices(strategy, problem->network);
    for (int k = 1; k <= most; k = k < most && 2 * k > most ? most : 2 * k) {
        if (!problem_can_be_modelled(problem, strategy, k)) continue;
        fprintf(csv, "%s,%s,%s,%d,%.6g\n", problem->network->name, modelled_machine()->name,
                strategy->name, k, modelled_step(problem, strategy, k));
    }
}

// The clock of --machine, if there is one, is set going again at the end.
static void write_model(const char *csv) {
    const Network *const networks[] = {&alexnet_network, &resnet18_network};
    enum { IMAGES = 256, M = 32 };
    const Machine *before = modelled_machine();
    OutputFile file = output_open(csv);
    fprintf(file.stream, "network,machine,strategy,devices,modelled_seconds\n");
    for (int a = 0; a < 2; a++) {
        Problem problem = problem_to_model(networks[a], IMAGES, M);
        for (int b = 0; b < NUM_MACHINES; b++) {
            modelled_clock_start(machine_find(machines[b]));
            for (int i = 0; i < NUM_STRATEGIES; i++)
                write_curve(file.stream, &problem, strategies[i]);
        }
        problem_free(&problem);
    }
    modelled_clock_start(before);
    output_close(&file);
}

void many_devices(void) {
    const char *csv = book_csv("_model.csv"), *png = book_output("_model.png");
    write_model(csv);
    if (!is_written_directly(csv))
        say("And on more devices? Across layers there are no more than the network has layers to "
            "cut between. Within layers each device sends to each other one, layer by layer. "
            "Across "
            "data device 0 receives the gradients of all others, one after the other: that does "
            "not "
            "scale, and chapter 2 sums them in better ways.");
    if (is_written_directly(csv)) // what went into a pipe or to the screen cannot be drawn
        printf("Modelled, not measured, on up to 128 devices: the figures stand above\n");
    else if (plot_draw(png, "splitting_model.gp", csv))
        printf("Modelled, not measured, on up to 128 devices: %s, figures: %s\n", png, csv);
    else
        printf("Modelled, not measured, on up to 128 devices: figures: %s\n", csv);
}
