// timer.h: d2l's Timer, which waits for the devices. Work is only enqueued, so a clock that is read
// without waiting measures how fast the host can enqueue.
//
// To time work in a loop, call timer_start() and timer_stop(). For single moments, call
// measured_seconds(), and modelled_seconds() of model/modelled_clock.h.
#pragma once

typedef struct Timer {
    double started, sum;                   // seconds, measured here
    double modelled_started, modelled_sum; // seconds on the modelled clock; NAN without one
} Timer;

// Both first wait until the queues of all devices are empty.
void timer_start(Timer *timer);
double timer_stop(Timer *timer); // seconds since the start; adds them to the sum

// Seconds since some moment in the past. Does not wait. NAN if the program's devices compute
// nothing (--backend model): then nothing is measured.
double measured_seconds(void);
