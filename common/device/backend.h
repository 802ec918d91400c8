// backend.h: what a kind of device must implement. Only this folder and common/model include it,
// and a benchmark; programs use device.h.
#pragma once

#include "device.h"

enum { COMPUTE, COMMUNICATE, QUEUES }; // of a device

typedef struct Backend {
    const char *name; // "cpu", "cuda"

    // How many there are in this machine. If there are none, `why` says why in a few words. NULL
    // for CPU devices, which are always there.
    int (*count)(const char **why);

    // Opens a queue; the result goes into queue->work. `others` are the open devices of this kind,
    // with this one. What must be found out about the ways between them is found out now, and not
    // while something is measured.
    void *(*open)(Queue *queue, Device *const others[], int num_others);
    void (*close)(Queue *queue); // when all devices' queues are empty
    // Called with an empty queue. NULL if the kind of device cannot do that.
    void (*set_threads)(Queue *queue, int threads, int first_core);
    void (*set_slowdown)(Queue *queue, double times);

    // Returns NULL if there is no memory left.
    void *(*alloc)(Device *device, size_t bytes);
    void (*free)(Device *device, void *memory);
    // The bytes that the GPU or this computer has in all.
    double (*memory)(const Device *device);
    char *(*kind)(const Device *device); // see device_kind()
    // Host memory that this kind of device copies from and to without waiting (pinned, for a GPU).
    void *(*host_alloc)(size_t bytes);
    void (*host_free)(void *memory);

    // Enqueue work on this queue: see queue.h. One side of a copy is the queue's device; the other
    // is this device itself, the host, or a device of the same kind. The caller enqueues what
    // orders the copy against other queues.
    void (*launch)(Queue *queue, KernelId kernel, const void *args, size_t size);
    void (*copy)(Queue *queue, Device *to, void *dst, Device *from, const void *src, size_t bytes);
    void (*call)(Queue *queue, void (*function)(void *context), void *context);
    void *(*native)(Queue *queue); // NULL if there is none

    // Events: see queue.h. Tickets of one queue only grow, from 1 on.
    uint64_t (*record)(Queue *queue);
    void (*wait)(Queue *queue, Event event); // the event's queue is another one of the same kind
    bool (*reached)(Event event);
    void (*host_wait)(Event event);

    // Graphs: see graph.h. NULL if there are none. graph_end() returns the backend's own.
    void (*graph_begin)(Device *const devices[], int k);
    void *(*graph_end)(Device *const devices[], int k);
    void (*graph_launch)(void *graph, Device *const devices[], int k);
    void (*graph_free)(void *graph);

    // For trace.h. The queue is empty. NULL if there is nothing to do. A backend records what it
    // enqueues while trace_span() gives it a label, and reports it with trace_add(), at the latest
    // in trace_end().
    void (*trace_begin)(Queue *queue);
    void (*trace_end)(Queue *queue);
} Backend;

typedef struct Allocation Allocation; // memory.c
typedef struct Freed Freed;           // device.c

struct Queue {
    Device *device;
    int number;      // COMPUTE or COMMUNICATE
    void *work;      // the backend's own
    Event host_read; // the last copy out of host memory; ticket 0 if there was none
};

struct Device {
    char name[16];
    const Backend *backend; // NULL for the host
    int id;                 // see device_id()
    int hardware;           // which GPU; logical devices may share one
    bool tf32;              // see allow_tf32()
    int threads;            // of a CPU device,
    int first_core;         // and the core of the first one; -1: any
    double slowdown;        // see device_set_slowdown()
    Queue *queues[QUEUES];  // NULL if not open
    Allocation **allocations;
    size_t num_allocations, allocations_room;
    uint64_t bytes[MEMORY_USES], peak_bytes[MEMORY_USES]; // peaks before the last free
    Freed *freed; // by device_free_in_order(), but some work in the queue may still use it
    size_t num_freed, freed_room;
    uint64_t freed_bytes;
    uint64_t scratch_frees; // how often memory of kernels, which a graph may use, was freed
};

// Ids (see device_id()) from MAX_DEVICES on are CPU devices beside others, then model devices.
enum { FIRST_MODEL_ID = MAX_DEVICES + MAX_COMPUTING, HOST_ID = NUM_DEVICE_IDS - 1 };

// The device with this id, or NULL if it is not open.
Device *device_of_id(int id);

// queue.c: from now on this thread enqueues all work, because it opens the first device; and a
// CHECK that this is that thread.
void queues_belong_to_this_thread(void);
void check_host_thread(void);

// ledger.c: from now on it observes the queues; and a copy that device.c makes by itself.
void ledger_begin(void);
void ledger_add(const Device *from, const Device *to, size_t bytes);

// graph.c: work other than a copy from the host is about to be enqueued.
void graph_before_work(void);

extern const Backend cpu_backend;
// Whether the CPU devices that are opened from now on work in the host's thread: BACKEND_INLINE.
void cpu_devices_work_inline(bool yes);
// NULL in a program that was built without CUDA, which links cuda_none.c and not device_cuda.c.
const Backend *cuda_backend(void);
