// device_cpu.c: a worker thread with a FIFO of tasks, which stands in for a GPU and its stream.
//
// The host puts tasks in, the worker takes them out in order. A ticket is a task's number in its
// queue; an event is reached when the queue has completed that many tasks. That is all there is to
// events: one counter and a condition variable per queue. Without a worker (BACKEND_INLINE) the
// host does each task itself when it puts it in.
#include "backend.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "kernels/cpu/cpu.h"
#include "spans.h"

#include <stdlib.h>
#include <string.h>

enum { QUEUE_LENGTH = 1024 }; // a training step is about 50 tasks per device

typedef struct Task {
    enum { TASK_KERNEL, TASK_COPY, TASK_CALL, TASK_WAIT, TASK_EXIT } kind;
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
        struct {
            void (*function)(void *context);
            void *context;
        } call;
        Event event;
    };
    TraceSpan span; // for trace.h; if its label is NULL, it is not recorded
} Task;

typedef struct Worker {
    const Queue *queue;
    Task tasks[QUEUE_LENGTH]; // a ring: task number t is at t % QUEUE_LENGTH
    uint64_t submitted, completed;
    uint64_t awaited; // the lowest ticket that a thread waits for
    Mutex mutex;
    Condition work, progress; // "there is a task", "what was awaited is completed"
    Thread thread;            // 0: the host does the work
    CpuLane lane;
    int first_core;        // see share_cores(); -1: its threads run on any
    double slowdown, owed; // see device_set_slowdown(); seconds still to sleep
} Worker;

#define NOBODY_WAITS UINT64_MAX

static Worker *worker_of(const Queue *queue) { return queue->work; }

// Call it with the mutex locked. The worker wakes nobody before the awaited ticket. Waking the host
// after each task, only to find that it was not the last one, costs as much as a small kernel.
static void await(Worker *worker, uint64_t ticket) {
    while (worker->completed < ticket) {
        if (ticket < worker->awaited) worker->awaited = ticket;
        condition_wait(&worker->progress, &worker->mutex);
    }
}

// In the thread that calls it: a worker's or the host's.
static void wait_until_reached(Event event) {
    Worker *worker = worker_of(event.queue);
    mutex_lock(&worker->mutex);
    await(worker, event.ticket);
    mutex_unlock(&worker->mutex);
}

// A sleep lasts a little longer than asked for, and kernels may be very short. So what is owed adds
// up until it is worth a sleep, and the time slept too long is deducted from the next.
static void run_kernel(Worker *worker, Task *task) {
    const double WORTH_A_SLEEP = 2e-4;
    if (worker->slowdown <= 1) {
        task->kernel.function(&worker->lane, task->kernel.args);
        return;
    }
    double start = seconds_now();
    task->kernel.function(&worker->lane, task->kernel.args);
    double end = seconds_now();
    worker->owed += (worker->slowdown - 1) * (end - start);
    if (worker->owed < WORTH_A_SLEEP) return;
    sleep_seconds(worker->owed);
    worker->owed -= seconds_now() - end;
}

// The host enqueues in the order of a program that could run on one thread, so what a worker waits
// for was always enqueued before the wait. Hence workers cannot wait for each other in a circle.
static void run(Worker *worker, Task *task) {
    bool traced = task->span.label != NULL;
    if (traced) task->span.start = seconds_now();
    switch (task->kind) {
    case TASK_KERNEL:
        run_kernel(worker, task);
        break;
    case TASK_COPY:
        memcpy(task->copy.dst, task->copy.src, task->copy.bytes);
        break;
    case TASK_CALL:
        task->call.function(task->call.context);
        break;
    case TASK_WAIT:
        wait_until_reached(task->event);
        break;
    case TASK_EXIT:
        break;
    }
    if (traced) task->span.end = seconds_now();
    if (traced) trace_add(&task->span);
}

static void *work(void *argument) {
    Worker *worker = argument;
    for (bool more = true; more;) {
        mutex_lock(&worker->mutex);
        while (worker->completed == worker->submitted)
            condition_wait(&worker->work, &worker->mutex);
        Task *task = &worker->tasks[worker->completed % QUEUE_LENGTH];
        mutex_unlock(&worker->mutex);

        run(worker, task); // its slot is not reused before it counts as completed
        more = task->kind != TASK_EXIT;

        mutex_lock(&worker->mutex);
        if (++worker->completed >= worker->awaited) {
            worker->awaited = NOBODY_WAITS; // a thread that waits for a later one sets it again
            condition_wake_all(&worker->progress);
        }
        mutex_unlock(&worker->mutex);
    }
    return NULL;
}

static void submit(Queue *queue, const Task *task) {
    Worker *worker = worker_of(queue);
    if (!worker->thread) {
        Task now = *task;
        run(worker, &now);
        worker->completed = ++worker->submitted;
        return;
    }
    mutex_lock(&worker->mutex);
    if (worker->submitted - worker->completed == QUEUE_LENGTH)
        await(worker, worker->submitted - QUEUE_LENGTH / 2); // one place would soon be taken again
    worker->tasks[worker->submitted++ % QUEUE_LENGTH] = *task;
    condition_wake_one(&worker->work);
    mutex_unlock(&worker->mutex);
}

// ---- the backend -----------------------------------------------------------------------------

static bool works_inline;
void cpu_devices_work_inline(bool yes) { works_inline = yes; }

static void *cpu_open(Queue *queue, Device *const others[], int num_others) {
    (void)others; // memcpy finds its way
    (void)num_others;
    cpu_instruction_set(); // dies here and now if there is none
    Worker *worker = xcalloc(1, sizeof *worker);
    worker->queue = queue;
    worker->awaited = NOBODY_WAITS;
    worker->lane = (CpuLane){.threads = queue->device->threads, .memory = memory_new};
    worker->first_core = -1;
    worker->slowdown = queue->device->slowdown;
    if (works_inline) return worker;
    worker->thread = thread_start(work, worker);
    if (!worker->thread)
        die("use fewer --devices, or raise `ulimit -u`; or --backend inline, which needs none",
            "cannot start the thread of %s", queue->device->name);
    return worker;
}

static void cpu_close(Queue *queue) {
    Worker *worker = worker_of(queue);
    submit(queue, &(Task){.kind = TASK_EXIT});
    if (worker->thread) thread_join(worker->thread);
    cpu_scratch_free(&worker->lane);
    free(worker);
}

static void keep_to_cores(void *context) {
    const Worker *worker = context;
#pragma omp parallel num_threads(worker->lane.threads)
    stay_on_core(worker->first_core < 0 ? -1 : worker->first_core + omp_get_thread_num());
}

// The mutex of submit() makes the change known to the worker.
static void cpu_set_threads(Queue *queue, int threads, int first_core) {
    Worker *worker = worker_of(queue);
    bool keep = worker->first_core >= 0 || first_core >= 0 || threads > 1; // some are still kept
    worker->lane.threads = threads;
    worker->first_core = first_core;
    if (keep && worker->thread && queue->number == COMPUTE)
        submit(queue, &(Task){.kind = TASK_CALL, .call = {keep_to_cores, worker}});
}

static void cpu_set_slowdown(Queue *queue, double times) {
    worker_of(queue)->slowdown = times;
    worker_of(queue)->owed = 0;
}

static void *cpu_alloc(Device *device, size_t bytes) {
    (void)device;
    return memory_new(bytes);
}
static void cpu_free(Device *device, void *memory) {
    (void)device;
    free(memory);
}

static double cpu_memory_size(const Device *device) {
    (void)device;
    return computer_memory();
}

static char *cpu_kind(const Device *device) {
    (void)device;
    const InstructionSet *set = cpu_instruction_set();
    return xprintf("CPU with %s (BOOK_ISA=%s)", set->what, set->name);
}

static void cpu_launch(Queue *queue, KernelId kernel, const void *args, size_t size) {
    Task task = {.kind = TASK_KERNEL, .kernel.function = cpu_instruction_set()->kernels[kernel]};
    task.span = trace_span(queue, kernel_name(kernel));
    memcpy(task.kernel.args, args, size);
    submit(queue, &task);
}

static void cpu_copy(Queue *queue, Device *to, void *dst, Device *from, const void *src,
                     size_t bytes) {
    // All memory of this machine looks the same to memcpy.
    Task task = {.kind = TASK_COPY, .copy = {dst, src, bytes}};
    task.span = trace_copy(queue, to, from, bytes);
    submit(queue, &task);
}

static void cpu_call(Queue *queue, void (*function)(void *context), void *context) {
    Task task = {.kind = TASK_CALL, .call = {function, context}};
    task.span = trace_span(queue, "call");
    submit(queue, &task);
}

static uint64_t cpu_record(Queue *queue) {
    return worker_of(queue)->submitted; // only the host thread changes it
}

static void cpu_wait(Queue *queue, Event event) {
    submit(queue, &(Task){.kind = TASK_WAIT, .event = event});
}

static bool cpu_reached(Event event) {
    Worker *worker = worker_of(event.queue);
    mutex_lock(&worker->mutex);
    bool reached = worker->completed >= event.ticket;
    mutex_unlock(&worker->mutex);
    return reached;
}

const Backend cpu_backend = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .set_threads = cpu_set_threads,
    .set_slowdown = cpu_set_slowdown,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .memory = cpu_memory_size,
    .kind = cpu_kind,
    .host_alloc = memory_new,
    .host_free = free,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .call = cpu_call,
    .record = cpu_record,
    .wait = cpu_wait,
    .reached = cpu_reached,
    .host_wait = wait_until_reached,
};
