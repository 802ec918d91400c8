// queue_observer.h: for whoever wants to know what is enqueued: the ledger, the modelled clock, the
// cargo of exercises, a test. Fill in a QueueObserver and hand it to queue_observe(). Queues and
// graphs know their observers only from here.
//
// (A trace is none of them. When work starts and ends only its backend knows: see spans.h.)
#pragma once

#include "queue.h"

// Called by the host thread, each after what it tells of was enqueued, in the order of the program.
// Leave out what you need not know.
typedef struct QueueObserver {
    void (*launch)(Queue *queue, KernelId kernel, const void *args);
    void (*copy)(Queue *queue, const Device *to, const void *dst, const Device *from, size_t bytes);
    void (*record)(Event *event);
    void (*wait)(Queue *queue, Event event);
    void (*host_wait)(Event event);
    // Between the first two, what is told belongs to a graph and is not done (graph.h). graph_end()
    // returns what the observer keeps of it, for each launch.
    void (*graph_begin)(Device *const devices[], int k);
    void *(*graph_end)(void);
    void (*graph_launch)(void *graph);
    void (*graph_free)(void *graph);
} QueueObserver;

void queue_observe(const QueueObserver *observer); // it is told once, however often this is called

// For queue.c and graph.c. The list ends with NULL.
enum { MAX_OBSERVERS = 4 };
extern const QueueObserver *queue_observers[MAX_OBSERVERS + 1];

#define FOR_OBSERVERS(o) for (const QueueObserver **o = queue_observers; *o; o++)
#define TELL(what, ...)  FOR_OBSERVERS(o) if ((*o)->what)((*o)->what)(__VA_ARGS__)
