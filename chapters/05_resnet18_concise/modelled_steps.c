// modelled_steps.c: see modelled_steps.h.
#include "modelled_steps.h"

#include "common/base/error.h"
#include "common/program/modelled_run.h"

static const Machine *told_machine(void) {
    CHECK(modelled_machine(), "there is a machine to tell the time of");
    return modelled_machine();
}

// ---- steps -------------------------------------------------------------------------------------

// The network on the devices of a run, which begins.
static DataParallel begin_with(Module *net, ModelledRun *run, BatchNormMode bn) {
    modelled_begin(run);
    restart(net);
    return data_parallel(net, run->devices, run->k, bn);
}

static void end_with(Module *net, ModelledRun *run) {
    restart(net);
    modelled_end(run);
}

// Seconds of a step as a training does it. No one reads images that are sent to devices without
// values: a shape is enough.
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

// All steps begin when all devices are idle, so two of the same size take the same time: one is
// enough, scaled to the epoch.
static double seconds_of_epoch(ModelledRun *run, DataParallel *dp, int images, int pixels,
                               int batch_size) {
    int whole = images / batch_size, left = images % batch_size;
    double seconds = 0;
    if (whole > 0) seconds += whole * step(run, dp, pixels, batch_size);
    if (left > 0) seconds += step(run, dp, pixels, left);
    return seconds;
}

ModelledEpoch modelled_epoch(Module *net, int k, BatchNormMode bn, int images, int pixels,
                             int batch_size) {
    const Machine *machine = told_machine();
    Machine roomy = machine_with_free(machine, FREE_MEMORY);
    Machine free_links = machine_with_free(machine, FREE_MEMORY | FREE_LINKS);
    const Machine *both[] = {&roomy, &free_links};
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        ModelledRun run = {.machine = both[i], .k = k};
        DataParallel dp = begin_with(net, &run, bn);
        seconds[i] = seconds_of_epoch(&run, &dp, images, pixels, batch_size);
        end_with(net, &run);
    }
    return (ModelledEpoch){.seconds = seconds[0], .copies = 1 - seconds[1] / seconds[0]};
}

// ---- memory ------------------------------------------------------------------------------------

size_t modelled_memory(Module *net, int pixels, int batch_size) {
    Machine roomy = machine_with_free(told_machine(), FREE_MEMORY);
    ModelledRun run = {.machine = &roomy, .k = 1};
    DataParallel dp = begin_with(net, &run, BN_LOCAL);
    step(&run, &dp, pixels, batch_size);
    size_t bytes = device_bytes(dp.devices[0]);
    end_with(net, &run);
    return bytes;
}

int largest_batch(Module *net, const Machine *machine, int pixels) {
    int fits = 0;
    for (int more = (MOST_IMAGES + 1) / 2; more > 0; more /= 2)
        if ((double)modelled_memory(net, pixels, fits + more) <= machine->memory) fits += more;
    return fits;
}
