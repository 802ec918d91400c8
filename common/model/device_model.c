// device_model.c: devices that compute nothing, so there may be a thousand of them. The modelled
// clock observes what is enqueued, and says how long it would take. Memory has addresses, and
// nothing behind them. What is copied to the host arrives as NaN: there are no values, and
// nothing may look as if there were.
#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/device/memory.h"
#include "modelled_clock.h"

#include <math.h>
#include <stdlib.h>

// (Most functions of this backend do nothing.)
#pragma GCC diagnostic ignored "-Wunused-parameter"

static int model_count(const char **why) {
    *why = "no machine: see --machine";
    return modelled_machine() ? modelled_machine()->devices : 0;
}

static void *model_open(Queue *queue, Device *const others[], int num_others) {
    return xcalloc(1, sizeof(uint64_t)); // its last ticket
}

static void model_close(Queue *queue) { free(queue->work); }

// ---- memory ----------------------------------------------------------------------------------

// No program has memory at these addresses, so a read or write there by mistake ends the program.
// As floats they are 2^64 and more, or negative, because queue.c looks for addresses among a
// kernel's arguments and must not take a number for one.
//
// With 64 bits each device has its own range. With 32 bits all devices share one range, and an
// address is looked up among one device's allocations (memory.h).
static const bool FEW = sizeof(void *) <= 4;

static uint64_t first_address(const Device *device) {
    return FEW ? UINT64_C(0x5f800000) : (UINT64_C(0x7f51) << 48) + ((uint64_t)device->id << 40);
}

static uint64_t end_of_addresses(const Device *device) {
    return FEW ? UINT64_C(0xffffff00) : first_address(device) + (UINT64_C(1) << 40);
}

static void *model_alloc(Device *device, size_t bytes) {
    uint64_t first = first_address(device), end = end_of_addresses(device);
    return (void *)(uintptr_t)memory_gap(device, first, end, bytes);
}

static void model_free(Device *device, void *memory) {}

// What the machine's devices have, if there are enough addresses.
static double model_memory(const Device *device) {
    double addresses = (double)(end_of_addresses(device) - first_address(device));
    return modelled_machine() ? fmin(modelled_machine()->memory, addresses) : addresses;
}

// ---- work ------------------------------------------------------------------------------------

static void model_launch(Queue *queue, KernelId kernel, const void *args, size_t size) {}

static void model_copy(Queue *queue, Device *to, void *dst, Device *from, const void *src,
                       size_t bytes) {
    if (to->backend) return;
    for (size_t i = 0; i < bytes / sizeof(float); i++) ((float *)dst)[i] = NAN;
}

static void model_call(Queue *queue, void (*function)(void *context), void *context) {
    function(context);
}

static void model_set_slowdown(Queue *queue, double times) {} // the clock asks the device itself
static uint64_t model_record(Queue *queue) { return ++*(uint64_t *)queue->work; }
static void model_wait(Queue *queue, Event event) {}
static bool model_reached(Event event) { return modelled_reached(event); }
static void model_host_wait(Event event) {} // the clock observes it

// ---- graphs: the modelled clock has them -------------------------------------------------------

static void model_graph_begin(Device *const devices[], int k) {}
static void *model_graph_end(Device *const devices[], int k) { return NULL; }
static void model_graph_launch(void *graph, Device *const devices[], int k) {}
static void model_graph_free(void *graph) {}

const Backend model_backend = {
    .name = "model",
    .count = model_count,
    .open = model_open,
    .close = model_close,
    .alloc = model_alloc,
    .free = model_free,
    .memory = model_memory,
    .host_alloc = memory_new,
    .host_free = free,
    .launch = model_launch,
    .copy = model_copy,
    .call = model_call,
    .record = model_record,
    .wait = model_wait,
    .reached = model_reached,
    .host_wait = model_host_wait,
    .set_slowdown = model_set_slowdown,
    .graph_begin = model_graph_begin,
    .graph_end = model_graph_end,
    .graph_launch = model_graph_launch,
    .graph_free = model_graph_free,
};
