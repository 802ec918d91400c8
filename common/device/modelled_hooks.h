// modelled_hooks.h: what this room tells a clock that models time, if there is one. The clock is in
// a later room (common/model/modelled_clock.h), and hands over its functions when it first starts.
#ifndef MODELLED_HOOKS_H
#define MODELLED_HOOKS_H

#include "backend.h"

// A graph's work, as graph_begin() and graph_end() enclose it.
typedef struct ModelledGraph ModelledGraph;

typedef struct ModelledHooks {
    const Backend *backend;             // of devices that compute nothing
    void (*open)(const Device *device); // die()s if the machine has no such device
    void (*launch)(Queue *queue, KernelId kernel, const void *args);
    void (*copy)(Queue *queue, const Device *to, const Device *from, size_t bytes);
    uint64_t (*record)(const Queue *queue); // for Event.modelled
    void (*wait)(Queue *queue, Event event);
    void (*host_wait)(Event event);
    void (*graph_begin)(Device *const devices[], int k);
    ModelledGraph *(*graph_end)(void); // NULL without a machine
    void (*graph_launch)(const ModelledGraph *graph);
    void (*graph_free)(ModelledGraph *graph);
    double (*seconds)(void); // modelled_seconds()
    // From now on the clock tells the trace (spans.h) about work on this machine.
    void (*trace)(void);
    // Seconds since the program began, for traces. They go on when the clock is started anew.
    double (*trace_seconds)(void);
} ModelledHooks;

// NULL in a program that has neither a clock nor devices for it. Without a machine the functions do
// nothing.
extern const ModelledHooks *modelled;

Device *open_model_device(int i); // see model_device()

#endif
