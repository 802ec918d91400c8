// step_tables.c: prints what the steps of all strategies cost: memory, bytes, synchronization
// points and time.
#include "behind.h"

#include "common/book.h"
#include "../costs.h"

// ---- memory ----------------------------------------------------------------------------------

typedef double Bytes(const StepCosts *costs);
static double most_params(const StepCosts *costs) { return costs->most_params; }
static double all_params(const StepCosts *costs) { return costs->all_params; }
static double most_activations(const StepCosts *costs) { return costs->most_activations; }
static double all_activations(const StepCosts *costs) { return costs->all_activations; }

static void add_megabytes(Table *table, const StepTable *t, int i, Bytes *bytes) {
    for (int j = 0; j < t->num_ks; j++)
        table_numbers(table, t->of[i][j].k ? megabytes(bytes(&t->of[i][j])) : NAN);
}

static void print_most_and_all(const StepTable *t, const char *what, Bytes *most, Bytes *all) {
    Table table =
        TABLE(NULL, WORDS(what, 14), FIXED("most, k = %d", 2, .count = t->num_ks, .of = t->ks),
              FIXED("all, k = %d", 2, .count = t->num_ks, .of = t->ks));
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        table_text(&table, "%s", strategies[i]->name);
        add_megabytes(&table, t, i, most);
        add_megabytes(&table, t, i, all);
    }
}

static double activations_left(const StepTable *t, int i, int j) {
    return 100 * t->of[i][j].most_activations / t->of[i][0].most_activations;
}

void print_memory(const StepTable *t, const Problem *problem) {
    const Network *network = problem->network;
    int n = problem->X->shape[0], m = problem->microbatches;
    printf("\nWhat a step holds, MB (10^6 bytes); %d images, %d microbatches\n\n", n, m);
    print_most_and_all(t, "parameters", most_params, all_params);
    printf("\n");
    print_most_and_all(t, "activations", most_activations, all_activations);

    // Why the three ways need different memory on one device already
    printf("\n");
    Table table = TABLE(NULL, WORDS("On one device, MB", 14), FIXED("all", 2), FIXED("outputs", 2),
                        FIXED("gradients", 2), FIXED("gathered", 2), FIXED("the rest", 2));
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        Memory memory = memory_of(strategies[i], network, 1, n, m);
        double all = t->of[i][0].most_activations;
        table_text(&table, "%s", strategies[i]->name);
        table_numbers(&table, megabytes(all), megabytes(memory.outputs),
                      megabytes(memory.gradients), megabytes(memory.copies),
                      megabytes(all - memory.activations));
    }

    int j = t->num_ks - 1;
    if (j == 0 || !t->of[0][j].k) return;
    const Layer *most = &network->layers[0];
    for (int l = 1; l < network->num_layers; l++)
        if (layer_kept(&network->layers[l]) > layer_kept(most)) most = &network->layers[l];
    say("\nOn %d devices the one with the most activations has %.0f%% of those of one device "
        "across layers, %.0f%% within layers, and %.0f%% across data.",
        t->ks[j], activations_left(t, 0, j), activations_left(t, 1, j), activations_left(t, 2, j));
    say("Why do those of the pipeline hardly shrink? Of the %.1f MB on one device %s alone keeps "
        "%.1f MB, and no layer is cut in two. The device that has it holds %.1f MB: also the "
        "images, gradients of one microbatch, and those that the next device sends back. The sum "
        "over all devices grows, because what crosses a boundary is held on both sides. Within "
        "layers, every device has the gathered copies.",
        megabytes(t->of[0][0].most_activations), most->name,
        megabytes(n * layer_kept(most) * sizeof(float)), megabytes(t->of[0][j].most_activations));
}

// ---- bytes and synchronization points --------------------------------------------------------

static double for_twice(const Strategy *strategy, const Problem *problem, int k) {
    return strategy->bytes_moved(problem->network, k, 2 * problem->X->shape[0],
                                 problem->microbatches);
}

void print_traffic(const StepTable *t, const Problem *problem) {
    printf("\nWhat moves between the devices in a step of %d images, bytes\n\n",
           problem->X->shape[0]);
    Table table = TABLE(NULL, WORDS("strategy", 13), WHOLE("k", .width = 2),
                        WHOLE("counted", .width = 11), WHOLE("by formula", .width = 11),
                        WHOLE("for twice the images"), WHOLE("syncs", .width = 5));
    for (int i = 0; i < NUM_STRATEGIES; i++)
        for (int j = 1; j < t->num_ks; j++) {
            const StepCosts *c = &t->of[i][j];
            if (!c->k) continue;
            table_text(&table, "%s", strategies[i]->name);
            table_numbers(&table, c->k, c->moved, c->formula,
                          for_twice(strategies[i], problem, c->k), c->syncs);
        }
    printf("\n");
    int k = t->ks[t->num_ks - 1];
    const StepCosts *within = &t->of[1][t->num_ks - 1], *data = &t->of[2][t->num_ks - 1];
    say("On %d devices, within layers %.1f times as much moves as across data; with twice the "
        "images it would be %.1f times.",
        k, within->moved / data->moved,
        for_twice(&within_layers, problem, k) / for_twice(&across_data, problem, k));
}

// ---- seconds ---------------------------------------------------------------------------------

void print_seconds(const StepTable *t) {
    const StepCosts *last = &t->of[NUM_STRATEGIES - 1][t->num_ks - 1];
    const Machine *machine = modelled_machine();
    bool is_measured = !isnan(last->measured);
    printf("\nHow long a step takes, ms%s", is_measured ? "; measured here" : "");
    if (machine) printf("; modelled on %s", machine->name);
    printf("\n\n");
    Table table =
        TABLE(NULL, WORDS("", 14),
              DIGITS(is_measured ? "here, k=%d" : NULL, 3, .count = t->num_ks, .of = t->ks),
              DIGITS("modelled, k=%d", 3, .count = t->num_ks, .of = t->ks, .modelled = true));
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        table_text(&table, "%s", strategies[i]->name);
        for (int j = 0; j < t->num_ks; j++)
            table_numbers(&table, t->of[i][j].k ? 1e3 * t->of[i][j].measured : NAN);
        for (int j = 0; j < t->num_ks; j++)
            table_numbers(&table, t->of[i][j].k ? 1e3 * t->of[i][j].modelled : NAN);
    }
    printf("\n");
    if (is_measured && num_gpus() == 0)
        say("Here the devices share %d core%s, all of which one device uses too: more devices "
            "cannot be much faster.",
            num_threads(), num_threads() > 1 ? "s" : "");
    if (!machine) return;
    // A machine's devices may need less time for LeNet than its host needs to give them the work.
    say("On %s the step across data on %d device%s takes %.3g ms. For %.3g ms of them the host "
        "launches kernels and copies, one every %.2g µs.",
        machine->name, last->k, last->k > 1 ? "s" : "", 1e3 * last->modelled, 1e3 * last->launching,
        1e6 * machine->launch);
    if (last->launching > 0.8 * last->modelled)
        say("So LeNet is too small for this machine: more devices are only more to launch.");
}
