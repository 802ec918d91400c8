// device_cpu.c: a worker thread with a FIFO of tasks, which stands in for a GPU and its stream.
//
// The host puts tasks in, the worker takes them out in order. A ticket is a task's number in its
// queue; an event is reached when the queue has completed that many tasks. That is all there is to
// events: one counter and a condition variable per queue.
#include "backend.h"
#include "common/base/error.h"
#include "common/base/clock.h"
#include "trace.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUE_LENGTH = 1024 }; // a training step is about 50 tasks per device

typedef struct Task {
    enum { TASK_KERNEL, TASK_COPY, TASK_WAIT, TASK_EXIT } kind;
    union {
        struct {
            CpuKernel *function;
            _Alignas(16) unsigned char args[MAX_KERNEL_ARGS];
        } kernel;
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        Event event;
    };
    const char *work, *label; // for trace.h; label NULL: nobody asks when it ran
} Task;

typedef struct Queue {
    const Device *device;
    Task tasks[QUEUE_LENGTH]; // a ring: task number t is at t % QUEUE_LENGTH
    uint64_t submitted, completed;
    uint64_t awaited; // the lowest ticket that somebody waits for
    pthread_mutex_t mutex;
    pthread_cond_t work, progress; // "there is a task", "what was awaited is completed"
    pthread_t thread;
    CpuLane lane;
    double slowdown, owed; // see device_set_slowdown(); seconds that are still to be slept
} Queue;

#define NOBODY_WAITS UINT64_MAX

// With the mutex locked. The worker wakes nobody before a ticket that is awaited: to wake the host
// after each task, only to see that it was not the last one, costs as much as a small kernel.
static void await(Queue *queue, uint64_t ticket) {
    while (queue->completed < ticket) {
        if (ticket < queue->awaited) queue->awaited = ticket;
        pthread_cond_wait(&queue->progress, &queue->mutex);
    }
}

static void complete_one(Queue *queue) {
    if (++queue->completed < queue->awaited) return;
    queue->awaited = NOBODY_WAITS; // who waits for more will say so
    pthread_cond_broadcast(&queue->progress);
}

static void wait_until_completed(Queue *queue, uint64_t ticket) {
    pthread_mutex_lock(&queue->mutex);
    await(queue, ticket);
    pthread_mutex_unlock(&queue->mutex);
}

// A sleep lasts a little longer than asked for, and kernels may be very short: what is owed is
// collected until it is worth a sleep, and what was slept too long counts for the next.
static void run_kernel(Queue *queue, Task *task) {
    const double WORTH_A_SLEEP = 2e-4;
    if (queue->slowdown <= 1) {
        task->kernel.function(&queue->lane, task->kernel.args);
        return;
    }
    double start = seconds_now();
    task->kernel.function(&queue->lane, task->kernel.args);
    double end = seconds_now();
    queue->owed += (queue->slowdown - 1) * (end - start);
    if (queue->owed < WORTH_A_SLEEP) return;
    double whole = floor(queue->owed);
    nanosleep(&(struct timespec){(time_t)whole, (long)((queue->owed - whole) * 1e9)}, NULL);
    queue->owed -= seconds_now() - end;
}

// The host enqueues in the order of a program that could run on one thread, so what a worker waits
// for was always enqueued before the wait: workers cannot wait for each other in a circle.
static void run(Queue *queue, Task *task) {
    switch (task->kind) {
    case TASK_KERNEL:
        run_kernel(queue, task);
        break;
    case TASK_COPY:
        memcpy(task->copy.dst, task->copy.src, task->copy.bytes);
        break;
    case TASK_WAIT:
        wait_until_completed(task->event.device->queue, task->event.ticket);
        break;
    case TASK_EXIT:
        break;
    }
}

static void *worker(void *argument) {
    Queue *queue = argument;
    for (bool more = true; more;) {
        pthread_mutex_lock(&queue->mutex);
        while (queue->completed == queue->submitted) pthread_cond_wait(&queue->work, &queue->mutex);
        Task *task = &queue->tasks[queue->completed % QUEUE_LENGTH];
        pthread_mutex_unlock(&queue->mutex);

        double start = task->label ? seconds_now() : 0;
        run(queue, task); // its slot is not reused before it counts as completed
        if (task->label) trace_add(queue->device, task->work, task->label, start, seconds_now());
        more = task->kind != TASK_EXIT;

        pthread_mutex_lock(&queue->mutex);
        complete_one(queue);
        pthread_mutex_unlock(&queue->mutex);
    }
    return NULL;
}

static void submit(Device *device, const Task *task) {
    Queue *queue = device->queue;
    pthread_mutex_lock(&queue->mutex);
    if (queue->submitted - queue->completed == QUEUE_LENGTH)
        await(queue, queue->submitted - QUEUE_LENGTH / 2); // not for one place: that is soon taken
    queue->tasks[queue->submitted++ % QUEUE_LENGTH] = *task;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

// ---- the backend -----------------------------------------------------------------------------

static int cpu_count(const char **why) {
    *why = "";
    return 1;
}

static void *cpu_open(Device *device) {
    cpu_instruction_set(); // dies here and now if there is none
    Queue *queue = xcalloc(1, sizeof *queue);
    queue->device = device;
    queue->awaited = NOBODY_WAITS;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->progress, NULL);
    queue->lane.threads = num_threads();
    if (pthread_create(&queue->thread, NULL, worker, queue) != 0)
        die("use fewer --devices, or raise `ulimit -u`", "cannot start the thread of %s",
            device->name);
    return queue;
}

static void cpu_close(Device *device) {
    Queue *queue = device->queue;
    submit(device, &(Task){.kind = TASK_EXIT});
    pthread_join(queue->thread, NULL);
    pthread_mutex_destroy(&queue->mutex);
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->progress);
    cpu_scratch_free(&queue->lane);
    free(queue);
}

// Called with an empty queue; the mutex of the next submit() makes the change known to the worker.
static void cpu_set_threads(Device *device, int threads) {
    ((Queue *)device->queue)->lane.threads = threads;
}

static void cpu_set_slowdown(Device *device, double times) {
    Queue *queue = device->queue;
    queue->slowdown = times;
    queue->owed = 0;
}

static void *cpu_alloc(Device *device, size_t bytes) {
    (void)device;
    return cpu_memory(bytes);
}
static void cpu_free(Device *device, void *memory) {
    (void)device;
    free(memory);
}

static void cpu_launch(Device *device, KernelId kernel, const void *args, size_t size) {
    Task task = {.kind = TASK_KERNEL, .kernel.function = cpu_instruction_set()->kernels[kernel]};
    task.work = kernel_name(kernel);
    task.label = trace_label_now();
    memcpy(task.kernel.args, args, size);
    submit(device, &task);
}

static void cpu_copy(Device *device, Device *other, void *dst, const void *src, size_t bytes,
                     bool to_other) {
    (void)other, (void)to_other; // all memory of this machine looks the same to memcpy
    Task task = {.kind = TASK_COPY, .copy = {dst, src, bytes}};
    task.work = "copy";
    task.label = trace_label_now();
    submit(device, &task);
}

static uint64_t cpu_record(Device *device) {
    return ((Queue *)device->queue)->submitted; // only the host thread changes it
}

static void cpu_wait(Device *device, Event event) {
    submit(device, &(Task){.kind = TASK_WAIT, .event = event});
}

static void cpu_host_wait(Event event) { wait_until_completed(event.device->queue, event.ticket); }

const Backend cpu_backend = {
    .name = "cpu",
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .set_threads = cpu_set_threads,
    .set_slowdown = cpu_set_slowdown,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .host_alloc = cpu_memory,
    .host_free = free,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .record = cpu_record,
    .wait = cpu_wait,
    .host_wait = cpu_host_wait,
};
