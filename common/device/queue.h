// queue.h: queues of work, and events in them. Call launch_on() to enqueue a kernel, queue_copy()
// to enqueue a copy, and queue_wait(b, queue_record(a)) to make b wait for a. A program that needs
// one queue per device calls launch() and device_copy() of device.h instead.
//
// A device has a queue that computes and a second one that communicates, which is opened when it is
// first asked for. It uses the same memory but has its own order, so communication can overlap with
// computation. On a CPU device a queue is a worker thread with a FIFO, on a GPU a CUDA stream. A
// queue does its work in the order in which it was enqueued; two queues are ordered against each
// other only by events.
//
// All work is enqueued by one host thread, the one that opened the first device. (This is checked.)
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/kernels.h"

typedef struct Device Device;
typedef struct Queue Queue;

// The one that computes.
Queue *compute_queue(Device *device);
// The one for communication.
Queue *comm_queue(Device *device);

// The queue that launch(), device_copy(), device_record() and device_wait() use: normally the one
// that computes; between communicate_begin() and communicate_end(), the one for communication, on
// all devices. So what is written for one queue, such as an allreduce, runs in the other unchanged.
Queue *current_queue(Device *device);
void communicate_begin(void);
void communicate_end(void);

Device *queue_device(const Queue *queue);

// launch_on(queue, fill, .x = x, .value = 0, .n = n): puts the kernel and a copy of its arguments
// on the queue.
#define launch_on(queue, kernel, ...)                                                              \
    queue_launch((queue), KERNEL_##kernel, &(struct kernel##_args){__VA_ARGS__},                   \
                 sizeof(struct kernel##_args))
void queue_launch(Queue *queue, KernelId kernel, const void *args, size_t size);

// Enqueues a copy. The queue's device is one of the two sides; the other one may be the host, the
// same device, or another one of its kind. (Between a GPU and a CPU device: device_copy().) The
// copy is ordered by this queue alone: the caller must make sure, with events, that src is complete
// and that neither side is overwritten before the copy is done. It is entered in the ledger.
void queue_copy(Queue *queue, Device *to, void *dst, Device *from, const void *src, size_t bytes);

// Enqueues a call of function(context). It runs on the CPU device's worker thread or, for a GPU, on
// one of CUDA's threads. So it must neither call CUDA nor enqueue anything. What comes after it in
// the queue waits until it returns.
void queue_call(Queue *queue, void (*function)(void *context), void *context);

// A point in a queue, which is reached when all the work before it is done. {NULL, 0} is always
// reached.
typedef struct Event {
    Queue *queue;
    uint64_t ticket;
    uint64_t modelled; // the same point for the modelled clock
} Event;

Event queue_record(Queue *queue);
// What is enqueued from now on begins after the event. (An event of the same queue needs no wait.)
void queue_wait(Queue *queue, Event event);
bool event_reached(Event event);
void event_synchronize(Event event); // the host waits for it

// communicate_begin() for an exchange between k devices, which a trace shows with this label. On
// device i it begins after the event after[i] or, if `after` is NULL, after all that the compute
// queue has been given so far. exchange_end() brings the label before it back.
void exchange_begin(const char *label, Device *const devices[], const Event after[], int k);
void exchange_end(void);

// Memory that a second queue uses must not be reused until that queue is done with it. The library
// ensures this for kernels and copies, whose addresses it knows. If you pass addresses to
// queue_call() or to the native stream, call queue_uses() after enqueuing that work. The address
// must be on the queue's device.
void queue_uses(Queue *queue, const void *memory);

// The CUDA stream (cudaStream_t), for libraries that enqueue by themselves; NULL on a CPU device.
void *queue_native(Queue *queue);
