// modelled_steps.c: see modelled_steps.h; and d2l's training on up to eight devices of another
// machine.
#include "behind.h"
#include "modelled_steps.h"

#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

// Seconds of a step as a training does it. Devices without values read no images: a shape is
// enough.
static double step(ModelledRun *run, DataParallel *dp, int pixels, int rows) {
    const Tensor X = {.ndim = 4, .shape = {rows, 1, pixels, pixels}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    Tensor *losses[MAX_DEVICES];
    float values[MAX_DEVICES];
    while (modelled_run(run)) {
        train_step(dp, &X, &y, 0, losses);
        items(losses, dp->k, values);
    }
    return run->seconds;
}

// Each step begins when all devices are idle, so steps of the same size take the same time, and one
// of each size is enough. n[0] images, in minibatches of n[1].
static double seconds_of(const Machine *machine, Module *net, int k, BatchNormMode bn,
                         const int n[2], int pixels, bool framework) {
    ModelledRun run = {.machine = machine, .k = k, .framework = framework};
    int whole = n[0] / n[1], left = n[0] % n[1];
    double seconds = 0;
    modelled_begin(&run);
    restart(net);
    DataParallel dp = data_parallel(net, run.devices, k, bn);
    if (whole > 0) seconds += whole * step(&run, &dp, pixels, n[1]);
    if (left > 0) seconds += step(&run, &dp, pixels, left);
    restart(net);
    modelled_end(&run);
    return seconds;
}

ModelledEpoch modelled_epoch(Module *net, int k, BatchNormMode bn, int images, int pixels,
                             int batch_size) {
    CHECK(modelled_machine(), "there is a machine to tell the time of");
    const int n[] = {images, batch_size};
    Machine roomy = machine_with_free(modelled_machine(), FREE_MEMORY);
    Machine free_links = machine_with_free(modelled_machine(), FREE_MEMORY | FREE_LINKS);
    double seconds = seconds_of(&roomy, net, k, bn, n, pixels, false);
    double without_copies = seconds_of(&free_links, net, k, bn, n, pixels, false);
    return (ModelledEpoch){.seconds = seconds,
                           .copies = 1 - without_copies / seconds,
                           .framework = seconds_of(&roomy, net, k, bn, n, pixels, true)};
}

enum { IMAGES = 60000, PIXELS = 28, BATCH = 256, MOST_DEVICES = 8, NUM_ALGORITHMS = 2 };
static const char *const algorithms[NUM_ALGORITHMS] = {"star", "ring"};

// The rows of k devices, in the table and in the CSV. Returns the star's seconds.
static double add_rows(Table *printed, Table *written, const Notebook *nb, int k) {
    static double alone[NUM_ALGORITHMS];
    ModelledEpoch e[NUM_ALGORITHMS];
    table_numbers(printed, k);
    for (int a = 0; a < NUM_ALGORITHMS; a++) {
        choose_allreduce(algorithms[a]);
        e[a] = modelled_epoch(nb->net, k, batch_norm_mode(nb->bn), IMAGES, PIXELS, k * BATCH);
        if (k == 1) alone[a] = e[a].seconds;
        table_numbers(printed, e[a].seconds, alone[a] / e[a].seconds);
        table_text(written, "%s", modelled_machine()->name);
        table_text(written, "%s", algorithms[a]);
        table_numbers(written, k, e[a].seconds, e[a].copies, e[a].framework);
    }
    choose_allreduce(nb->flags.allreduce);
    table_numbers(printed, e[1].framework);
    return e[0].seconds;
}

double print_epochs_on_gpus(const Notebook *nb, const char *csv) {
    const Machine *machine = modelled_machine();
    double seconds[MOST_DEVICES + 1] = {0};
    OutputFile file = output_open(csv);
    say("\nAn epoch of %d images, %d for each device in a step, modelled: %s", IMAGES, BATCH,
        machine->name);
    Table printed =
        TABLE(NULL, WHOLE("devices"), DIGITS("star, s", 3), FIXED("speed-up", 2),
              DIGITS("ring, s", 3), FIXED("speed-up", 2), DIGITS("a framework's kernels, s", 3));
    Table written = TABLE(file.stream, {.csv = "machine"}, {.csv = "allreduce"}, {.csv = "devices"},
                          {.csv = "seconds"}, {.csv = "copies"}, {.csv = "framework_seconds"});
    for (int k = 1; k <= MOST_DEVICES && machine_has_devices(machine, k); k *= 2)
        seconds[k] = add_rows(&printed, &written, nb, k);
    output_close(&file);
    return seconds[2] > 0 ? seconds[1] / seconds[2] : NAN;
}
