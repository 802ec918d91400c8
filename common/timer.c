// timer.c: see timer.h.
#include "timer.h"
#include "device.h"

#include <time.h>

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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
