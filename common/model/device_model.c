// device_model.c: devices that compute nothing. What is enqueued is told to the modelled clock (by
// queue.c), which says how long it would take; memory has addresses, and nothing behind them. So
// there may be a thousand of them. What is copied from one to the host arrives as NaN: there are no
// values, and nothing may look as if there were.
#include "common/base/error.h"
#include "common/device/backend.h"
#include "modelled_clock.h"

#include <math.h>
#include <stdlib.h>

// (Who computes nothing needs little of what it is told.)
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

// Addresses at which no program has memory, and that look like no number: who reads or writes there
// by mistake is stopped at once. Of 64 bits there are enough to give out each once. Of 32 bits
// there are not: what is longer than SHORT gets a place of that length, overlaps with what comes
// after it, and is used again. (So a second queue's use may be noted at the wrong one; chapters 2
// to 4 have no second queues.)
static const bool FEW = sizeof(void *) <= 4;
static const uintptr_t NOWHERE = (uintptr_t)(sizeof(void *) <= 4 ? 1ull << 30 : 0x7f51ull << 48);
static void **places; // that are free
static size_t num_places, room;
enum { SHORT = 1 << 19, ALIGNED = 256 };

static void *model_alloc(Device *device, size_t bytes) {
    static uintptr_t given_out;
    const Machine *machine = modelled_machine();
    if (machine && (double)device->bytes + (double)bytes > machine->memory) return NULL;
    if (bytes > SHORT && num_places > 0) return places[--num_places];
    if (bytes > UINTPTR_MAX - ALIGNED - NOWHERE - given_out) return NULL;
    void *memory = (void *)(NOWHERE + given_out);
    given_out += ((FEW && bytes > SHORT ? SHORT : bytes) / ALIGNED + 1) * ALIGNED;
    return memory;
}

static void model_free(Device *device, void *memory, size_t bytes) {
    if (!FEW || bytes <= SHORT) return;
    places = xroom(places, num_places, &room, sizeof *places);
    places[num_places++] = memory;
}

static double model_memory(const Device *device) { return modelled_machine()->memory; }
static void *model_host_alloc(size_t bytes) { return cpu_backend.host_alloc(bytes); }
static void model_host_free(void *memory) { cpu_backend.host_free(memory); }

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
static void model_host_wait(Event event) {} // its time is queue.c's to tell

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
    .host_alloc = model_host_alloc,
    .host_free = model_host_free,
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
