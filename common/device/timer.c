// timer.c: see timer.h.
#include "timer.h"
#include "common/base/clock.h"
#include "device.h"

void timer_start(Timer *timer) {
    synchronize_all();
    timer->started = seconds_now();
}

double timer_stop(Timer *timer) {
    synchronize_all();
    double seconds = seconds_now() - timer->started;
    timer->sum += seconds;
    timer->count++;
    return seconds;
}

double timer_avg(const Timer *timer) { return timer->count ? timer->sum / timer->count : 0; }
