// modelled_hooks.h: what queue.c and graph.c tell the modelled clock. Only this folder includes it.
// Without a machine they do nothing.
#ifndef MODELLED_HOOKS_H
#define MODELLED_HOOKS_H

#include "device.h"

void modelled_open(const Device *device); // die()s if the machine has no such device
void modelled_launch(Queue *queue, KernelId kernel, const void *args);
void modelled_copy(Queue *queue, const Device *to, const Device *from, size_t bytes);
uint64_t modelled_record(const Queue *queue); // for Event.modelled
void modelled_wait(Queue *queue, Event event);
void modelled_host_wait(Event event);
bool modelled_reached(Event event);

// From now on work on this machine is told to the trace that is recorded (spans.h).
void modelled_trace(void);
// Seconds since the program began, for traces: it goes on where the clock is started anew.
double modelled_trace_seconds(void);

// A graph's work, as graph_begin() and graph_end() enclose it.
typedef struct ModelledGraph ModelledGraph;
void modelled_graph_begin(Device *const devices[], int k);
ModelledGraph *modelled_graph_end(void); // NULL without a machine
void modelled_graph_launch(const ModelledGraph *graph);
void modelled_graph_free(ModelledGraph *graph);

#endif
