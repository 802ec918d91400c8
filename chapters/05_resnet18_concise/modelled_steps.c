// modelled_steps.c: see modelled_steps.h.
#include "modelled_steps.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/device/timer.h"

#include <math.h>

static const Machine *told_machine(void) {
    CHECK(modelled_machine(), "there is a machine to tell the time of");
    return modelled_machine();
}

// ---- steps -------------------------------------------------------------------------------------

// The network on k devices of the machine, with the clock at zero and no arena in use.
static DataParallel begin_on(Module *net, const Machine *machine, int k, BatchNormMode bn) {
    Device *devices[MAX_DEVICES];
    autograd_close();
    modelled_clock_start(machine);
    restart(net);
    for (int i = 0; i < k; i++) devices[i] = model_device(i);
    return data_parallel(net, devices, k, bn);
}

static void leave(Module *net, const Machine *machine) {
    restart(net);
    autograd_close();
    modelled_clock_start(machine);
}

// Seconds of a step as train_epochs() does it. Nobody reads images that are sent to devices without
// values: a shape is enough.
static double step(DataParallel *dp, int pixels, int rows) {
    const Tensor X = {.ndim = 4, .shape = {rows, 1, pixels, pixels}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    Tensor *losses[MAX_DEVICES];
    float values[MAX_DEVICES];
    Timer timer = {0};
    timer_start(&timer);
    train_step(dp, &X, &y, 0, losses);
    items(losses, dp->k, values);
    timer_stop(&timer);
    return timer.modelled_sum;
}

// All steps begin when all devices are idle, so two of the same size take the same time: one is
// enough, scaled to the epoch.
static double seconds_of_epoch(DataParallel *dp, int images, int pixels, int batch_size) {
    int whole = images / batch_size, left = images % batch_size;
    double seconds = 0;
    if (whole > 0) seconds += whole * step(dp, pixels, batch_size);
    if (left > 0) seconds += step(dp, pixels, left);
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
        DataParallel dp = begin_on(net, both[i], k, bn);
        seconds[i] = seconds_of_epoch(&dp, images, pixels, batch_size);
        leave(net, machine);
    }
    return (ModelledEpoch){.seconds = seconds[0], .copies = 1 - seconds[1] / seconds[0]};
}

// ---- memory ------------------------------------------------------------------------------------

size_t modelled_memory(Module *net, int pixels, int batch_size) {
    const Machine *machine = told_machine();
    Machine roomy = machine_with_free(machine, FREE_MEMORY);
    DataParallel dp = begin_on(net, &roomy, 1, BN_LOCAL);
    step(&dp, pixels, batch_size);
    size_t bytes = device_bytes(dp.devices[0]);
    leave(net, machine);
    return bytes;
}

int largest_batch(Module *net, const Machine *machine, int pixels) {
    int fits = 0;
    for (int more = (MOST_IMAGES + 1) / 2; more > 0; more /= 2)
        if ((double)modelled_memory(net, pixels, fits + more) <= machine->memory) fits += more;
    return fits;
}
