// queue.c: hands work to the backend that does it (device_cpu.c, device_cuda.c; behind backend.h),
// then tells whoever observes the queues (queue_observer.h).
#include "queue.h"
#include "backend.h"
#include "common/base/error.h"
#include "memory.h"
#include "queue_observer.h"

#include <string.h>

// The order of a queue is the order in which one thread gave it work. Two threads would need locks,
// and would have no order.
static _Thread_local char this_thread; // has another address in each thread
static const char *host_thread;
void queues_belong_to_this_thread(void) { host_thread = &this_thread; }

void check_host_thread(void) {
    CHECK(host_thread == &this_thread,
          "the thread that opened the devices enqueues all work: let others hand theirs to it");
}

static const Backend *backend_of(const Queue *queue) {
    CHECK(queue->device->backend, "the host has no queue: copy the tensors to a device first");
    return queue->device->backend;
}

Device *queue_device(const Queue *queue) { return queue->device; }

// ---- what a second queue uses -----------------------------------------------------------------
//
// Within the compute queue, its order makes sure that memory is used for one thing after the other.
// Work of any other queue is noted at the allocations that it touches.

static bool is_noted(const Queue *queue) { return queue->number != COMPUTE; }

static void note(Queue *queue, Device *device, const void *memory) {
    if (is_noted(queue)) memory_used_until(device, memory, queue_record(queue));
}

void queue_uses(Queue *queue, const void *memory) { note(queue, queue->device, memory); }

// A kernel's arguments say which memory it uses. As in a garbage collector, any of their words may
// be an address. (A number that happens to look like one only causes a needless wait.)
static void note_arguments(Queue *queue, const void *args, size_t size) {
    Event now = queue_record(queue);
    for (size_t at = 0; at + sizeof(void *) <= size; at += sizeof(void *)) {
        const void *word;
        memcpy(&word, (const char *)args + at, sizeof word);
        if (word) memory_used_until(queue->device, word, now);
    }
}

// ---- work -------------------------------------------------------------------------------------

void queue_launch(Queue *queue, KernelId kernel, const void *args, size_t size) {
    const Backend *backend = backend_of(queue);
    check_host_thread();
    graph_before_work();
    (backend->launch)(queue, kernel, args, size); // in brackets: not the macro of that name
    TELL(launch, queue, kernel, args);
    if (is_noted(queue)) note_arguments(queue, args, size);
}

void queue_copy(Queue *queue, Device *to, void *dst, Device *from, const void *src, size_t bytes) {
    const Backend *backend = backend_of(queue);
    check_host_thread();
    CHECK(queue->device == to || queue->device == from,
          "a copy is made by a queue of one of its sides");
    CHECK(!to->backend || !from->backend || to->backend == from->backend,
          "device_copy() copies between a GPU and a CPU device");
    if (bytes == 0) return;
    CHECK(to != from || dst != src, "a copy onto itself moves nothing");
    if (from->backend) graph_before_work();
    backend->copy(queue, to, dst, from, src, bytes);
    TELL(copy, queue, to, dst, from, bytes);
    if (!from->backend) queue->host_read = queue_record(queue);
    note(queue, to, dst);
    note(queue, from, src);
}

void queue_call(Queue *queue, void (*function)(void *context), void *context) {
    const Backend *backend = backend_of(queue);
    check_host_thread();
    graph_before_work();
    backend->call(queue, function, context);
}

void *queue_native(Queue *queue) {
    const Backend *backend = backend_of(queue);
    graph_before_work();
    return backend->native ? backend->native(queue) : NULL;
}

// ---- events -----------------------------------------------------------------------------------

Event queue_record(Queue *queue) {
    const Backend *backend = queue->device->backend;
    if (!backend) return (Event){queue, 0, 0};
    check_host_thread();
    Event event = {queue, backend->record(queue), 0};
    TELL(record, &event);
    return event;
}

void queue_wait(Queue *queue, Event event) {
    if (event.queue == queue || event.ticket == 0) return;
    check_host_thread();
    const Backend *backend = queue->device->backend, *theirs = event.queue->device->backend;
    if (backend != theirs) {
        event_synchronize(event); // of another kind: the host waits for it
        return;
    }
    backend->wait(queue, event);
    TELL(wait, queue, event);
}

bool event_reached(Event event) {
    return event.ticket == 0 || event.queue->device->backend->reached(event);
}

void event_synchronize(Event event) {
    if (event.ticket == 0) return;
    event.queue->device->backend->host_wait(event);
    TELL(host_wait, event);
}
