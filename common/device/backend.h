// backend.h: what a kind of device must implement. Only device*.c include this; programs use
// device.h.
#ifndef BACKEND_H
#define BACKEND_H

#include "device.h"

typedef struct Backend {
    const char *name; // "cpu", "cuda"

    // How many there are in this machine. When 0, `why` says so in a few words.
    int (*count)(const char **why);

    // Opens a queue on hardware number `hardware`; the result goes into device->queue.
    void *(*open)(Device *device);
    void (*close)(Device *device); // when all devices' queues are empty
    void (*set_threads)(Device *device, int threads);
    void (*set_slowdown)(Device *device, double times); // NULL where that cannot be

    // Returns NULL when there is no memory left.
    void *(*alloc)(Device *device, size_t bytes);
    void (*free)(Device *device, void *memory);
    // Host memory that this kind of device copies from and to without waiting (pinned, for a GPU).
    void *(*host_alloc)(size_t bytes);
    void (*host_free)(void *memory);

    void (*launch)(Device *device, KernelId kernel, const void *args, size_t size);
    // Enqueues a copy on this device's queue. `other` is the other side: this device itself, the
    // host, or a device of the same kind. Ordering against the other queue is done by the caller.
    void (*copy)(Device *device, Device *other, void *dst, const void *src, size_t bytes,
                 bool to_other);

    // Events: see device.h. Tickets of one device only grow.
    uint64_t (*record)(Device *device);
    void (*wait)(Device *device, Event event); // the event's device is of the same kind
    void (*host_wait)(Event event);

    // Graphs: see device.h. NULL where there are none. graph_end returns the backend's own.
    void (*graph_begin)(Device *const devices[], int k);
    void *(*graph_end)(Device *const devices[], int k);
    void (*graph_launch)(void *graph, Device *const devices[], int k);
    void (*graph_free)(void *graph);

    // For trace.h; the device is idle. NULL where there is nothing to do. A backend records what it
    // enqueues while trace_label_now() is not NULL, and reports it with trace_add(), at the latest
    // in trace_end.
    void (*trace_begin)(Device *device);
    void (*trace_end)(Device *device);
} Backend;

struct Device {
    char name[16];
    const Backend *backend; // NULL for the host
    int id;                 // see device_id()
    int hardware;           // which GPU; logical devices may share one
    void *queue;            // the backend's own
    size_t bytes, peak_bytes;
    Event host_read; // the last copy out of host memory; ticket 0 when there was none
};

// For memory that a backend takes for itself, beside device_alloc(): as many bytes more are in use,
// and memory was freed, whose address may be in a graph (see num_device_frees()).
void device_took_memory(Device *device, size_t bytes);
void device_freed_memory(void);

// The device with that number (see device_id()), NULL if it is not open.
Device *device_of_id(int id);

bool tf32_allowed(void); // see allow_tf32()

extern const Backend cpu_backend;
// NULL in a program that was built without CUDA (then cuda_none.c is linked, else device_cuda.c).
const Backend *cuda_backend(void);

#endif
