// modelled_hooks.h: what this room asks of a clock that models time, if there is one. The clock is
// in a later room (common/model/modelled_clock.h), and hands over its functions when it first
// starts. (What is enqueued it learns as an observer: queue_observer.h.)
#pragma once

#include "backend.h"

typedef struct ModelledHooks {
    const Backend *backend;             // of devices that compute nothing
    void (*open)(const Device *device); // die()s if the machine has no such device
    double (*seconds)(void);            // modelled_seconds()
    // From now on the clock tells the trace (spans.h) about work on this machine.
    void (*trace)(void);
    // Seconds since the program began, for traces. They go on when the clock is started anew.
    double (*trace_seconds)(void);
} ModelledHooks;

// NULL in a program that has neither a clock nor devices for it. Without a machine the functions do
// nothing.
extern const ModelledHooks *modelled;

Device *open_model_device(int i); // see model_device()
