// modelled_run.c: exchanges the modelled clock for that of another machine, and counts steps.
#include "modelled_run.h"
#include "common/device/trace.h"
#include "common/tensor/autograd.h"

#include <math.h>

void modelled_begin(ModelledRun *run) {
    run->before = modelled_machine();
    run->memory_before = devices_limit_memory(INFINITY); // --memory is about other devices
    trace_pause(!run->traced);
    autograd_close(); // the memory of other steps does not count
    modelled_clock_start(run->machine);
    modelled_clock_use_framework(run->framework);
    modelled_clock_use_ranks(run->ranks);
    for (int i = 0; i < run->k; i++) run->devices[i] = model_device(i);
}

bool modelled_run(ModelledRun *run) {
    synchronize_all();
    if (run->step <= run->warm_up) {
        run->begun = modelled_seconds();
        run->step++;
        return true;
    }
    run->seconds = modelled_seconds() - run->begun;
    run->step = 0;
    return false;
}

void modelled_end(ModelledRun *run) {
    autograd_close();
    modelled_clock_start(run->before);
    devices_limit_memory(run->memory_before);
    trace_pause(false);
}
