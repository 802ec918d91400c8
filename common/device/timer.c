// timer.c: reads two clocks, the measured one and the modelled one, while all devices are idle.
#include "timer.h"
#include "common/base/platform.h"
#include "device.h"
#include "modelled_hooks.h"

#include <math.h>

static double modelled_now(void) { return modelled ? modelled->seconds() : NAN; }

void timer_start(Timer *timer) {
    synchronize_all();
    timer->modelled_started = modelled_now();
    timer->started = seconds_now();
}

double timer_stop(Timer *timer) {
    synchronize_all();
    double seconds = seconds_now() - timer->started;
    timer->sum += seconds;
    timer->modelled_sum += modelled_now() - timer->modelled_started;
    return seconds;
}

double measured_seconds(void) { return has_values(try_gpu(0)) ? seconds_now() : NAN; }
