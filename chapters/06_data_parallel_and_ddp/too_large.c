// too_large.c: see too_large.h. The memory is that of a modelled machine: nothing is computed.
#include "too_large.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
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

static Module *wide_modules(void) {
    Module *net = Sequential(Flatten());
    for (int l = 0; l < wide_network.num_layers; l++) {
        char *relu = xprintf("relu%d", l + 1);
        add_module(net, wide_network.layers[l].name, Linear(UNITS, UNITS));
        if (l + 1 < wide_network.num_layers) add_module(net, relu, ReLU());
        free(relu);
    }
    return net;
}

static Module *wide_net; // drawn once: its start is a second's work

// ## What each way needs
//
// A step is made with memory enough, and what the fullest device then has in use is what it needs.
// Then the same step is made, in a child process, on devices that have only so much: an error says
// how many bytes are missing.

typedef struct Candidate {
    const char *name;
    const Strategy *split; // chapter 1's; NULL: one of the wrappers,
    WayKind wrapper;       // this one
    int k;
    double needs; // bytes, of the fullest device
} Candidate;

static Candidate candidates[] = {
    {.name = "DP", .wrapper = WAY_DP},
    {.name = "DDP", .wrapper = WAY_DDP},
    {.name = "across layers (a pipeline)", .split = &across_layers},
    {.name = "within layers", .split = &within_layers},
};
enum { NUM_CANDIDATES = sizeof candidates / sizeof candidates[0] };

static double fullest(int k) {
    size_t most = 0;
    for (int i = 0; i < k; i++)
        if (device_bytes(model_device(i)) > most) most = device_bytes(model_device(i));
    return (double)most;
}

static void step_of_wrapper(Candidate *c) {
    Device *devices[MAX_DEVICES];
    Way way = {.kind = c->wrapper, .k = c->k, .net = wide_net};
    const Tensor X = {.ndim = 4, .shape = {ROWS, 1, SIDE, SIDE}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {ROWS}, .device = host()};
    for (int i = 0; i < c->k; i++) devices[i] = model_device(i);
    Trained *t = trained_new(&way, devices, 1);
    trained_step(t, &X, &y, 0);
    trained_loss(t);
    c->needs = fullest(c->k);
    trained_free(t);
}

static void step_of_split(Candidate *c) {
    Network network = listed_network();
    Problem problem = problem_to_model(&network, ROWS, MICROBATCHES);
    Spread *s = problem_spread(&problem, c->split, c->k);
    problem_step(&problem, s);
    synchronize_all();
    c->needs = fullest(c->k);
    spread_close(s);
    problem_free(&problem);
}

static void make_step(void *candidate) {
    Candidate *c = candidate;
    if (c->split)
        step_of_split(c);
    else
        step_of_wrapper(c);
    autograd_close();
}

static void find_needs(const Machine *machine, int k) {
    Machine roomy = machine_with_free(machine, FREE_MEMORY);
    autograd_close();
    modelled_clock_start(&roomy);
    for (int c = 0; c < NUM_CANDIDATES; c++) {
        candidates[c].k = k;
        make_step(&candidates[c]);
    }
}

// ## And what it gets

static void make_step_in_child(void *candidate) {
    devices_after_fork();
    make_step(candidate);
}

static bool try_candidate(Candidate *c) {
    double missing = c->needs - modelled_machine()->memory;
    if (missing > 0)
        say("  %s needs %.1f MB on its fullest device, %.1f MB more than it has:", c->name,
            c->needs / 1e6, missing / 1e6);
    else
        say("  %s needs %.1f MB on its fullest device", c->name, c->needs / 1e6);
    if (try_in_child(make_step_in_child, c) != EXIT_SUCCESS) return false;
    double begin = modelled_seconds();
    make_step(c);
    say("    it runs: %.3g ms a step, modelled on %s", 1e3 * (modelled_seconds() - begin),
        modelled_machine()->name);
    return true;
}

void try_too_large(int k, double memory) {
    const Machine *told = modelled_machine();
    Network network = listed_network();
    if (!told || k > network_pieces(&network)) return;
    wide_net = wide_modules();
    initialize(wide_net, 1);
    find_needs(told, k);
    Machine small = *told;
    small.memory = memory > 0 ? memory : 1e6 * floor(0.7 * candidates[1].needs / 1e6);
    say("\nA network of eight fully connected layers has %.1f MB of parameters, and as many "
        "gradients. Now each of %d devices has %.0f MB of memory (%s).",
        network_params(&network) * sizeof(float) / 1e6, k, small.memory / 1e6,
        memory > 0 ? "--memory" : "--memory sets another limit");
    modelled_clock_start(&small);
    for (int c = 0; c < NUM_CANDIDATES; c++) {
        bool ran = try_candidate(&candidates[c]);
        CHECK(ran == (candidates[c].needs <= small.memory), "what fits runs, and nothing else");
    }
    autograd_close();
    module_free(wide_net);
    modelled_clock_start(told);
}
