// timer.h: d2l's Timer, which waits for the devices. Work is only enqueued, so a clock that is read
// without waiting measures how fast the host can enqueue.
//
// To time work in a loop, call timer_start() and timer_stop(). For single moments, call
// measured_seconds(), and modelled_seconds() of model/modelled_clock.h.
#ifndef TIMER_H
#define TIMER_H

typedef struct Timer {
    double started, sum;                   // seconds, measured here
    double modelled_started, modelled_sum; // seconds on the modelled clock; NAN without one
    int count;                             // stops
} Timer;

// Both first wait until the queues of all devices are empty.
void timer_start(Timer *timer);
double timer_stop(Timer *timer); // seconds since the start; adds them to the sum
// The mean on the modelled clock's machine, over all stops; NAN without one.
double timer_modelled_avg(const Timer *timer);

// Seconds since some moment in the past. Does not wait. NAN if the program's devices compute
// nothing (--backend model): then nothing is measured.
double measured_seconds(void);

#endif
