// too_large.c: see too_large.h. The memory is that of a modelled machine: nothing is computed.
#include "too_large.h"

#include "common/base/child.h"
#include "common/base/error.h"
#include "common/device/modelled_clock.h"
#include "common/program/say.h"
#include "common/tensor/autograd.h"
#include "chapters/01_splitting_strategies/costs.h"
#include "chapters/01_splitting_strategies/problem.h"
#include "ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ## A network of which nearly all is parameters
//
// Eight layers of 1024 units each, for images of 32 x 32 pixels: chapter 1's list of layers, and
// the same as a module.

enum { UNITS = 1024, SIDE = 32, ROWS = 64, MICROBATCHES = 4 };

static Network listed_network(void) {
    Network network = wide_network;
    network.name = "eight layers of 1024";
    network.side = SIDE;
    for (int l = 0; l < network.num_layers; l++)
        network.layers[l].in = network.layers[l].out = UNITS;
    return network;
}

static Module *wide_modules(int num_classes) {
    Module *net = Sequential(Flatten());
    (void)num_classes; // as many as units
    for (int l = 0; l < wide_network.num_layers; l++) {
        char *relu = xprintf("relu%d", l + 1);
        add_module(net, wide_network.layers[l].name, Linear(UNITS, UNITS));
        if (l + 1 < wide_network.num_layers) add_module(net, relu, ReLU());
        free(relu);
    }
    return net;
}

static const NetworkKind wide_kind = {"wide", "eight layers of 1024", wide_modules};

// ## The wrappers
//
// Each replica has all parameters and as many gradients, on however many devices.

static void step_with(void *way) {
    Device *devices[MAX_DEVICES];
    const Tensor X = {.ndim = 4, .shape = {ROWS, 1, SIDE, SIDE}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {ROWS}, .device = host()};
    for (int i = 0; i < ((Way *)way)->k; i++) devices[i] = model_device(i);
    Trained *t = trained_new(way, devices, 1);
    trained_step(t, &X, &y, 0);
    trained_loss(t);
}

static int try_wrapper(WayKind kind, int k) {
    Way way = {.kind = kind, .network = &wide_kind, .classes = UNITS, .k = k};
    printf("  %s on %d devices: ", way_name(kind), k);
    int status = try_in_child(step_with, &way);
    if (status == EXIT_SUCCESS) printf("it runs\n");
    return status;
}

// ## Chapter 1's splits

static bool try_split(const Problem *problem, const Strategy *strategy, int k) {
    if (!problem_can_be_modelled(problem, strategy, k)) {
        Memory m = memory_of(strategy, problem->network, k, ROWS, MICROBATCHES);
        printf("  %-14s on %d devices: it does not fit, a device would need %.1f MB\n",
               strategy->name, k, m.both / 1e6);
        return false;
    }
    double seconds = modelled_step(problem, strategy, k);
    printf("  %-14s on %d devices: it runs, %.3g ms a step on %s\n", strategy->name, k,
           1e3 * seconds, modelled_machine()->name);
    return true;
}

static double needed_on_one(const Network *network) {
    return memory_of(&across_data, network, 1, ROWS, 1).both;
}

void try_too_large(int k, int megabytes) {
    const Machine *told = modelled_machine();
    Network network = listed_network();
    if (!told || !machine_has_devices(told, k)) return;
    Machine small = *told;
    small.memory = megabytes > 0 ? 1e6 * megabytes : 0.7e6 * floor(needed_on_one(&network) / 1e6);
    say("\n%s has %.1f MB of parameters and as many gradients. Now a device has %.1f MB (%s).",
        "A network of eight fully connected layers", network_params(&network) * 4 / 1e6,
        small.memory / 1e6, megabytes > 0 ? "--memory" : "--memory gives another limit");
    autograd_close();
    modelled_clock_start(&small);
    int refused = 0, ran = 0;
    refused += try_wrapper(WAY_DP, k) != EXIT_SUCCESS;
    refused += try_wrapper(WAY_DDP, k) != EXIT_SUCCESS;
    Problem problem = problem_to_model(&network, ROWS, MICROBATCHES);
    for (int s = 0; s < NUM_STRATEGIES; s++) ran += try_split(&problem, strategies[s], k);
    problem_free(&problem);
    autograd_close();
    modelled_clock_start(told);
    CHECK(megabytes > 0 || k < 4 || (refused == 2 && ran >= 1),
          "replicas do not fit, and parts of the network do");
}
