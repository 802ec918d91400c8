// larger_networks.c: AlexNet and ResNet-18 by the formulas of costs.c, and how long their steps
// take on more devices than there are here.
#include "behind.h"

#include "common/book.h"
#include "../costs.h"

static const Network *const networks[] = {&alexnet_network, &resnet18_network};
enum { NUM_NETWORKS = sizeof networks / sizeof networks[0], IMAGES = 256, MOST_MICROBATCHES = 32 };

// The fastest step. A pipeline has the number of microbatches with which it is fastest, 1, 2, 4, ..
// or 32, and keeps it in the problem.
static double fastest_step(Problem *problem, const Strategy *s, int k) {
    double fastest = INFINITY;
    int best = 1;
    for (int m = 1; m <= (s == &across_layers ? MOST_MICROBATCHES : 1); m *= 2) {
        problem->microbatches = m;
        double seconds = modelled_step(problem, s, k);
        if (seconds < fastest) best = m;
        fastest = fmin(fastest, seconds);
    }
    problem->microbatches = best;
    return fastest;
}

// ---- two networks on 8 devices ---------------------------------------------------------------

// Memory, bytes and syncs come from the formulas. The time comes from the strategies' own steps, on
// devices of the modelled machine.
void larger_networks(void) {
    enum { K = 8 };
    printf("\n");
    Table t = TABLE(NULL, WORDS("k = 8", 9), WORDS("", 13), WHOLE("parameters"),
                    WHOLE("activations"), WHOLE("both"), WHOLE("moved"), WHOLE("syncs", .width = 5),
                    FIXED("work", 1, .unit = "%"), DIGITS("a step", 4, .unit = "ms"));
    for (int row = 0; row < NUM_NETWORKS * NUM_STRATEGIES; row++) {
        const Network *network = networks[row / NUM_STRATEGIES];
        const Strategy *s = strategies[row % NUM_STRATEGIES];
        Problem problem = problem_to_model(network, IMAGES, 1);
        double seconds = problem_fits(&problem, s, K) ? fastest_step(&problem, s, K) : NAN;
        Memory memory = memory_of(s, network, K, IMAGES, problem.microbatches);
        table_text(&t, "%s", network->name);
        table_text(&t, "%s", s->name);
        table_numbers(&t, megabytes(memory.params), megabytes(memory.activations),
                      megabytes(memory.both), megabytes(s->bytes_moved(network, K, IMAGES)),
                      s->syncs(network, K, problem.microbatches),
                      busiest_share(s, network, K, IMAGES), seconds);
        problem_free(&problem);
    }
}

// ---- up to 128 devices -----------------------------------------------------------------------

// Writes the steps of a strategy on 1, 2, 4, .. devices of a machine.
static void write_curve(FILE *csv, const char *machine, Problem *problem,
                        const Strategy *strategy) {
    // Within layers each device sends to each other one, for each layer: more than 32 take too long
    // to simulate.
    int most =
        (int)fmin(strategy == &within_layers ? 32 : 128, most_devices(strategy, problem->network));
    for (int k = 1; k <= most; k = k < most && 2 * k > most ? most : 2 * k) {
        if (!problem_fits(problem, strategy, k)) continue;
        fprintf(csv, "%s,%s,%s,%d,%.6g\n", problem->network->name, machine, strategy->name, k,
                fastest_step(problem, strategy, k));
    }
}

// The clock of --machine, if there is one, is set going again at the end.
void many_devices(void) {
    enum { NUM_MACHINES = 3, NUM_CURVES = 4 };
    const char *const machines[NUM_MACHINES] = {"dgx-a100", "p100-25gbe", "laptops-1gbe"};
    const Strategy *const curves[NUM_CURVES] = {&across_data, across_data_in_a_ring(),
                                                &across_layers, &within_layers};
    const char *path = book_output("_model.csv"), *png = book_output("_model.png");
    const Machine *before = modelled_machine();
    OutputFile csv = output_open(path);
    fprintf(csv.stream, "network,machine,strategy,devices,modelled_seconds\n");
    for (int a = 0; a < NUM_NETWORKS; a++)
        for (int b = 0; b < NUM_MACHINES; b++) {
            Problem problem = problem_to_model(networks[a], IMAGES, 1);
            modelled_clock_start(machine_find(machines[b]));
            for (int i = 0; i < NUM_CURVES; i++)
                write_curve(csv.stream, machines[b], &problem, curves[i]);
            problem_free(&problem);
        }
    modelled_clock_start(before);
    output_close(&csv);
    plot_draw(png, "splitting_model.gp", path);
}
