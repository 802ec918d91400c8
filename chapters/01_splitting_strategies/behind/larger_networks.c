// larger_networks.c: AlexNet and ResNet-18 by the formulas of costs.c, and how long their steps
// take on more devices than there are here.
#include "behind.h"

#include "common/book.h"
#include "../costs.h"

static const Network *const networks[] = {&alexnet_network, &resnet18_network};
enum { NUM_NETWORKS = sizeof networks / sizeof networks[0], IMAGES = 256, MICROBATCHES = 32 };

// ---- two networks, up to 8 devices -----------------------------------------------------------

// The bytes and syncs of the formulas; the time is that of the strategies' own steps, on devices of
// the modelled machine.
static void add_row(Table *t, const char *way, const Problem *problem, const Strategy *s, int k) {
    const Network *network = problem->network;
    int n = problem->X->shape[0], m = problem->microbatches;
    Memory memory = memory_of(s, network, k, n, m);
    table_text(t, "%s", network->name);
    table_numbers(t, k);
    table_text(t, "%s", way);
    table_numbers(t, megabytes(memory.params), megabytes(memory.activations),
                  megabytes(memory.both), megabytes(s->bytes_moved(network, k, n, m)),
                  s->syncs(network, k, m), busiest_share(s, network, k, n),
                  problem_fits(problem, s, k) ? 1e3 * modelled_step(problem, s, k) : NAN);
}

static void add_costs(Table *t, const Network *network, int n, int m) {
    Problem problem = problem_to_model(network, n, m);
    add_row(t, "one device", &problem, &across_data, 1);
    for (int k = 2; k <= 8; k *= 4)
        for (int i = 0; i < NUM_STRATEGIES; i++)
            add_row(t, strategies[i]->name, &problem, strategies[i], k);
    problem_free(&problem);
}

void larger_networks(void) {
    enum { K = 8, M = 8 };
    say("\nLarger networks, by the same formulas: ImageNet, %d images of 224 x 224, %d "
        "microbatches",
        IMAGES, M);
    Table t =
        TABLE(NULL, WORDS("network", 9), WHOLE("k", .width = 2), WORDS("strategy", 13),
              WHOLE("params"), WHOLE("activations"), WHOLE("both"), WHOLE("moved"),
              WHOLE("syncs", .width = 5), FIXED("busiest", 1, .unit = "%"), DIGITS("ms/step", 4));
    for (int i = 0; i < NUM_NETWORKS; i++) add_costs(&t, networks[i], IMAGES, M);
    say("Params, activations, both: MB, the most on one device, each by itself, with gradients");
    const Machine *machine = modelled_machine();
    if (machine)
        say("Modelled: on %s. A dash: it has too few devices, or too little memory.",
            machine->name);
    else
        say("Without a machine (--machine) there is no modelled time.");
    printf("\n");
    const Network *resnet = &resnet18_network, *alexnet = &alexnet_network;
    double across = across_data.bytes_moved(resnet, K, IMAGES, M);
    double within = within_layers.bytes_moved(resnet, K, IMAGES, M);
    say("Why split the data? Devices wait for each other once per step, and have equal work in any "
        "network; what moves does not grow with the minibatch. ResNet-18 on %d devices "
        "moves %.0f MB across data, and %.0f times that within layers. Across layers, the busiest "
        "of %d stages has %.1f%% of the work, where equal stages would have %.1f%%: its first "
        "layer and its first block share a stage, as ten pieces make eight stages.",
        K, megabytes(across), within / across, K,
        100 * busiest_share(&across_layers, resnet, K, IMAGES), 100.0 / K);
    say("When not? More devices leave less of the activations to each, but all of the parameters: "
        "%.0f MB of AlexNet, however many there are. A network that does not fit on one device "
        "must be split across or within its layers. And AlexNet, whose fully connected layers have "
        "many parameters and few outputs, moves %.0f MB across data on %d devices, and only %.0f "
        "MB across layers.",
        megabytes(memory_of(&across_data, alexnet, K, IMAGES, M).params),
        megabytes(across_data.bytes_moved(alexnet, K, IMAGES, M)), K,
        megabytes(across_layers.bytes_moved(alexnet, K, IMAGES, M)));
}

// ---- up to 128 devices -----------------------------------------------------------------------

static const char *const machines[] = {"dgx-a100", "p100-25gbe", "laptops-1gbe"};
enum { NUM_MACHINES = sizeof machines / sizeof machines[0] };

// Within layers each device sends to each other one, for each layer: more take too long to
// simulate.
static int most_devices(const Strategy *strategy, const Network *network) {
    enum { MOST = 128, MOST_WITHIN = 32 };
    int most = strategy == &within_layers ? MOST_WITHIN : MOST;
    return strategy->most_devices(network) < most ? strategy->most_devices(network) : most;
}

// A strategy's step on k devices.
typedef struct Point {
    const Strategy *strategy;
    int k;
    double seconds;
} Point;

// On the machine of the modelled clock, which has this name.
static void write_curve(FILE *csv, const char *machine, const Problem *problem,
                        const Strategy *strategy, Point *best) {
    int most = most_devices(strategy, problem->network);
    for (int k = 1; k <= most; k = k < most && 2 * k > most ? most : 2 * k) {
        if (!problem_fits(problem, strategy, k)) continue;
        Point p = {strategy, k, modelled_step(problem, strategy, k)};
        fprintf(csv, "%s,%s,%s,%d,%.6g\n", problem->network->name, machine, strategy->name, k,
                p.seconds);
        if (p.seconds < best->seconds) *best = p;
    }
}

// The clock of --machine, if there is one, is set going again at the end.
static void write_model(const char *csv, Point best[NUM_NETWORKS][NUM_MACHINES]) {
    const Machine *before = modelled_machine();
    OutputFile file = output_open(csv);
    fprintf(file.stream, "network,machine,strategy,devices,modelled_seconds\n");
    for (int a = 0; a < NUM_NETWORKS; a++) {
        Problem problem = problem_to_model(networks[a], IMAGES, MICROBATCHES);
        for (int b = 0; b < NUM_MACHINES; b++) {
            best[a][b] = (Point){.seconds = INFINITY};
            modelled_clock_start(machine_find(machines[b]));
            for (int i = 0; i < NUM_STRATEGIES; i++)
                write_curve(file.stream, machines[b], &problem, strategies[i], &best[a][b]);
        }
        problem_free(&problem);
    }
    modelled_clock_start(before);
    output_close(&file);
}

void many_devices(void) {
    const char *csv = book_csv("_model.csv"), *png = book_output("_model.png");
    Point best[NUM_NETWORKS][NUM_MACHINES];
    write_model(csv, best);
    if (is_written_directly(csv)) { // what went into a pipe or to the screen cannot be drawn
        say("\nModelled, not measured, on up to 128 devices: the figures stand above");
        return;
    }
    printf(
        "\nThe fastest step of all, modelled, on up to 128 devices; %d images, %d microbatches\n\n",
        IMAGES, MICROBATCHES);
    Table t = TABLE(NULL, WORDS("network", 10), WORDS("machine", 12),
                    DIGITS("step", 4, .unit = "ms"), WHOLE("devices"), WORDS("strategy", 13));
    for (int a = 0; a < NUM_NETWORKS; a++)
        for (int b = 0; b < NUM_MACHINES; b++) {
            table_text(&t, "%s", networks[a]->name);
            table_text(&t, "%s", machines[b]);
            table_numbers(&t, best[a][b].seconds, best[a][b].k);
            table_text(&t, "%s", best[a][b].strategy->name);
        }
    if (plot_draw(png, "splitting_model.gp", csv))
        say("\nModelled, not measured, on up to 128 devices: %s", png);
    say("figures: %s", csv);
}
