// device.c: opens devices of the kind that was chosen, gives out their memory up to its limit, and
// copies between any two of them. What a kind of device does is in device_cpu.c and device_cuda.c,
// behind backend.h.
#include "device.h"
#include "backend.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/base/platform.h"
#include "common/base/range.h"
#include "kernels/fail.h"
#include "memory.h"
#include "modelled_hooks.h"
#include "spans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool chosen, tf32;
    const Backend *backend;          // of the devices that try_gpu() opens
    int gpus, open;                  // GPUs; devices that are open
    int threads_per_device;          // 0: they share the cores
    Device *devices[NUM_DEVICE_IDS]; // by id; NULL if not open
    Device *parents[NUM_DEVICE_IDS]; // in a child process; kept, or they would count as leaks
    uint64_t frees;                  // of scratch memory, on devices that are closed
    double memory;                   // bytes of each device, see devices_limit_memory()
    const char *advice;              // see devices_advise()
} system_ = {.memory = INFINITY};

static Queue no_queue; // the host's, so that it too has events, which are always reached
static Device host_ = {.name = "host", .id = HOST_ID, .queues = {&no_queue}};
static Queue no_queue = {.device = &host_};

// ---- which devices there are -----------------------------------------------------------------

void devices_init(BackendChoice choice, int threads) {
    kernels_fail_with(die);
    const char *why = "built without CUDA";
    const Backend *cuda = cuda_backend();
    bool ask = choice == BACKEND_AUTO || choice == BACKEND_CUDA;
    int gpus = cuda && ask ? cuda->count(&why) : 0;
    if (choice == BACKEND_CUDA && gpus == 0)
        die("leave out --backend cuda to compute on CPU devices", "no GPU to compute on: %s", why);
    if (choice == BACKEND_MODEL && (!modelled || modelled->backend->count(&why) == 0))
        die("--machine NAME says which", "no machine to tell the time of");
    if (choice == BACKEND_AUTO && cuda && gpus == 0) warn("no GPU (%s): using CPU devices", why);
    system_.backend = choice == BACKEND_MODEL ? modelled->backend : gpus > 0 ? cuda : &cpu_backend;
    system_.gpus = gpus;
    cpu_devices_work_inline(choice == BACKEND_INLINE || !has_threads);
    set_num_threads(threads);
    system_.chosen = true;
}

void allow_tf32(bool allowed) { system_.tf32 = allowed; }

static void choose_if_nobody_did(void) {
    if (!system_.chosen) devices_init(BACKEND_AUTO, 0);
}

int num_gpus(void) {
    choose_if_nobody_did();
    return system_.gpus;
}

// "cuda:0", or "cuda:0#1" for the second device on that GPU. (The remainders of 10000 and 100 tell
// the compiler that the name has room.)
static void name_device(Device *device, int number) {
    bool is_gpu = device->backend == cuda_backend();
    int copy = is_gpu ? number / system_.gpus : 0;
    device->hardware = is_gpu ? number % system_.gpus : number;
    int length = snprintf(device->name, sizeof device->name, "%s:%d", device->backend->name,
                          device->hardware % 10000);
    if (copy > 0)
        snprintf(device->name + length, sizeof device->name - (size_t)length, "#%d", copy % 100);
}

static Queue *open_queue(Device *device, int number) {
    Device *same_kind[NUM_DEVICE_IDS];
    int n = 0;
    for (int id = 0; id < NUM_DEVICE_IDS; id++)
        if (system_.devices[id] && system_.devices[id]->backend == device->backend)
            same_kind[n++] = system_.devices[id];
    Queue *queue = xcalloc(1, sizeof *queue);
    queue->device = device;
    queue->number = number;
    queue->work = device->backend->open(queue, same_kind, n);
    if (is_traced() && device->backend->trace_begin) device->backend->trace_begin(queue);
    return queue;
}

static Device *open_device(int id, const Backend *backend, int number) {
    int most = modelled && backend == modelled->backend ? MAX_DEVICES : MAX_COMPUTING;
    if (number < 0 || number >= most)
        die("fewer of them, or --backend model, which has up to 1024",
            "a program may have %d devices that compute", most);
    if (system_.devices[id]) return system_.devices[id];
    Device *device = xcalloc(1, sizeof *device);
    device->backend = backend;
    device->id = id;
    device->tf32 = system_.tf32;
    device->threads = num_threads();
    device->first_core = -1;
    device->slowdown = 1;
    name_device(device, number);
    if (system_.open == 0) queues_belong_to_this_thread();
    check_host_thread();
    ledger_begin();
    if (modelled) modelled->open(device);
    system_.open++;
    system_.devices[id] = device;
    device->queues[COMPUTE] = open_queue(device, COMPUTE);
    return device;
}

Queue *compute_queue(Device *device) { return device->queues[COMPUTE]; }

Queue *comm_queue(Device *device) {
    CHECK(device->backend, "the host has no queue");
    check_host_thread();
    if (!device->queues[COMMUNICATE]) device->queues[COMMUNICATE] = open_queue(device, COMMUNICATE);
    return device->queues[COMMUNICATE];
}

static bool communicating;

void communicate_begin(void) {
    CHECK(!communicating, "communicate_end() comes first");
    check_host_thread();
    communicating = true;
}

void communicate_end(void) {
    CHECK(communicating, "communicate_begin() comes first");
    communicating = false;
}

static const char *label_before;

void exchange_begin(const char *label, Device *const devices[], const Event after[], int k) {
    for (int i = 0; i < k; i++)
        queue_wait(comm_queue(devices[i]), after ? after[i] : device_record(devices[i]));
    label_before = trace_label(label);
    communicate_begin();
}

void exchange_end(void) {
    communicate_end();
    trace_label(label_before);
}

Queue *current_queue(Device *device) {
    return communicating ? comm_queue(device) : compute_queue(device);
}

Device *try_gpu(int i) {
    choose_if_nobody_did();
    return open_device(i, system_.backend, i);
}

int try_all_gpus(Device *devices[MAX_DEVICES]) {
    int n = num_gpus() > 0 ? num_gpus() : 1;
    if (n > MAX_COMPUTING) n = MAX_COMPUTING;
    for (int i = 0; i < n; i++) devices[i] = try_gpu(i);
    return n;
}

void open_devices(Device *devices[], int k) {
    for (int i = 0; i < k; i++) devices[i] = try_gpu(i);
    share_cores(devices, k);
}

Device *cpu_device(int i) {
    choose_if_nobody_did();
    bool beside = system_.backend != &cpu_backend;
    return open_device(beside ? MAX_DEVICES + i : i, &cpu_backend, i);
}

Device *open_model_device(int i) {
    choose_if_nobody_did();
    bool beside = system_.backend != modelled->backend;
    return open_device(beside ? FIRST_MODEL_ID + i : i, modelled->backend, i);
}

bool has_values(const Device *device) { return !modelled || device->backend != modelled->backend; }

Device *host(void) { return &host_; }
int device_id(const Device *device) { return device->id; }
int device_gpu(const Device *device) {
    return device->backend && device->backend == cuda_backend() ? device->hardware : -1;
}
Device *device_of_id(int id) { return system_.devices[id]; }
char *device_kind(const Device *device) { return device->backend->kind(device); }
const char *device_name(const Device *device) { return device->name; }

const char *device_names(Device *const devices[], int k) {
    enum { MOST = 16, SHOWN = 3 }; // of more, the first three and the last
    static char text[MOST * (sizeof devices[0]->name + 2) + 8];
    size_t used = 0;
    for (int i = 0; i < k; i++) {
        if (k > MOST && i == SHOWN) {
            used += (size_t)snprintf(text + used, sizeof text - used, ", ...");
            i = k - 1;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "[",
                                 devices[i]->name);
    }
    snprintf(text + used, sizeof text - used, "]");
    return text;
}

void set_threads_per_device(int threads) { system_.threads_per_device = threads; }

// Hands the device's settings to its queues.
static void tell_queues(Device *device) {
    const Backend *backend = device->backend;
    synchronize(device);
    for (int q = 0; q < QUEUES; q++) {
        if (!device->queues[q]) continue;
        if (backend->set_slowdown) backend->set_slowdown(device->queues[q], device->slowdown);
        if (backend->set_threads)
            backend->set_threads(device->queues[q], device->threads, device->first_core);
    }
}

static void set_cores(Device *device, int threads, int first_core) {
    CHECK(device->backend && threads > 0, "a device has one core at least");
    device->threads = threads;
    device->first_core = first_core;
    tell_queues(device);
}

void device_set_threads(Device *device, int threads) { set_cores(device, threads, -1); }

// The cores of CPU device i of `cpus`.
static int share_of_cores(int i, int cpus) {
    int threads = (int)equal_range(num_threads(), cpus, i).count;
    if (system_.threads_per_device > 0) threads = system_.threads_per_device;
    return threads > 0 ? threads : 1;
}

// Threads stay on cores because Linux likes to wake two on one core, above all in virtual machines,
// and takes 50 ms to see that the other core is idle. With fewer threads than cores they may move,
// because another program's threads might stay on the same cores while other cores are idle.
void share_cores(Device *const devices[], int k) {
    int cpus = 0, seen = 0, all = 0, first = 0;
    for (int i = 0; i < k; i++) cpus += devices[i]->backend == &cpu_backend;
    for (int i = 0; i < cpus; i++) all += share_of_cores(i, cpus);
    for (int i = 0; i < k; i++) {
        if (devices[i]->backend != &cpu_backend) continue;
        int threads = share_of_cores(seen++, cpus);
        set_cores(devices[i], threads, all == cores_in_sight() ? first : -1);
        first += threads;
    }
}

void device_set_slowdown(Device *device, double times) {
    CHECK(device->backend && device->backend->set_slowdown, "GPUs cannot be slowed down");
    CHECK(times >= 1, "1 is as fast as the device is; 2 is twice as slow");
    device->slowdown = times;
    tell_queues(device);
}

void devices_after_fork(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++)
        if (system_.devices[id] && has_values(system_.devices[id])) {
            system_.parents[id] = system_.devices[id];
            system_.devices[id] = NULL;
            system_.open--;
        }
    system_.backend = &cpu_backend;
    system_.gpus = 0;
    queues_belong_to_this_thread();
}

// ---- memory that is freed in the order of a queue ---------------------------------------------

struct Freed {
    void *memory;
    size_t bytes;
    const Backend *from;
    Event after; // in the compute queue
};

void device_free_in_order(Device *device, void *memory) {
    if (!memory) return;
    CHECK(device->backend, "the host has no queue: device_free() frees its memory");
    uint64_t before = device->bytes[MEMORY_ALL];
    wait_for_users(device, memory);
    const Backend *from = memory_remove(device, memory);
    if (!has_values(device)) { // nothing is there
        from->free(device, memory);
        return;
    }
    device->freed = xroom(device->freed, device->num_freed, &device->freed_room, sizeof(Freed));
    Freed *f = &device->freed[device->num_freed++];
    *f = (Freed){memory, before - device->bytes[MEMORY_ALL], from,
                 queue_record(compute_queue(device))};
    device->freed_bytes += f->bytes;
}

// Waits for the one that was freed first. (This is no wait of the program's, so the modelled clock
// does not hear of it.)
static void free_first(Device *device) {
    Freed first = device->freed[0];
    memmove(device->freed, device->freed + 1, sizeof(Freed) * --device->num_freed);
    device->freed_bytes -= first.bytes;
    device->backend->host_wait(first.after);
    first.from->free(device, first.memory);
}

// The limit holds for what is really there, too: bytes that are still in use are waited for if
// these new ones would not fit beside them.
static void free_what_is_done(Device *device, double needed) {
    while (device->num_freed > 0 && (event_reached(device->freed[0].after) ||
                                     needed + (double)device->freed_bytes > system_.memory))
        free_first(device);
}

// ---- closing -----------------------------------------------------------------------------------

enum { MAX_CLOSERS = 8 };
static void (*closers[MAX_CLOSERS])(void);
static int num_closers;

void before_devices_close(void (*close)(void)) {
    for (int i = 0; i < num_closers; i++)
        if (closers[i] == close) return;
    CHECK(num_closers < MAX_CLOSERS, "make MAX_CLOSERS larger");
    closers[num_closers++] = close;
}

void devices_close(void) {
    CHECK(!is_traced(), "a trace names devices: trace_end() comes before they are closed");
    synchronize_all(); // a device's copies may use what another one will free
    for (int i = num_closers - 1; i >= 0; i--) closers[i]();
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Device *device = system_.devices[id];
        if (!device) continue;
        while (device->num_freed > 0) free_first(device);
        free(device->freed);
        for (int q = 0; q < QUEUES; q++) {
            if (device->queues[q]) device->backend->close(device->queues[q]);
            free(device->queues[q]);
        }
        system_.frees += device->scratch_frees;
        memory_forget_all(device);
        free(device);
        system_.devices[id] = NULL;
    }
    system_.open = 0;
    system_.chosen = false;
}

// ---- memory ----------------------------------------------------------------------------------

double devices_limit_memory(double bytes) {
    double before = system_.memory;
    system_.memory = bytes;
    return before;
}

void devices_advise(const char *hint) { system_.advice = hint; }

static uint64_t limited_bytes(const Device *device) {
    return device->bytes[MEMORY_ALL] - device->bytes[MEMORY_KERNELS];
}

// `limited`: by devices_limit_memory().
static _Noreturn void out_of_memory(const Device *device, size_t bytes, MemoryUse use,
                                    bool limited) {
    double here = device->backend ? device->backend->memory(device) : computer_memory();
    die(limited && system_.advice ? system_.advice
        : limited                 ? "use a smaller --batch-size, more --devices, or more --memory"
        : has_values(device)      ? "use a smaller --batch-size, or close other programs"
                             : "use a smaller --batch-size, more --devices, or a larger --machine",
        "out of memory on %s: %s bytes for %s, and of its %s bytes %s are in use: %s", device->name,
        grouped(bytes).text, memory_use_name(use),
        grouped((uint64_t)(limited ? system_.memory : here)).text,
        grouped(limited ? limited_bytes(device) : device_bytes(device)).text,
        memory_uses(device, limited ? MEMORY_KERNELS : MEMORY_USES));
}

void *device_alloc_for(Device *device, size_t bytes, MemoryUse use) {
    if (bytes == 0) return NULL;
    choose_if_nobody_did();
    // Host memory comes from the backend in use, because a GPU copies without waiting only from and
    // to pinned memory. It is freed by the same backend, even if another has been chosen since.
    const Backend *backend = device->backend ? device->backend : system_.backend;
    double needed = (double)limited_bytes(device) + (double)bytes;
    double machine = has_values(device) ? INFINITY : backend->memory(device);
    bool limited = device->backend && needed > system_.memory && system_.memory <= machine;
    void *memory = NULL;
    free_what_is_done(device, needed);
    if (!limited && needed <= machine)
        memory = device->backend ? backend->alloc(device, bytes) : backend->host_alloc(bytes);
    if (!memory && device->num_freed > 0) { // not enough on a GPU beside what is not free yet
        while (device->num_freed > 0) free_first(device);
        return device_alloc_for(device, bytes, use);
    }
    if (!memory) out_of_memory(device, bytes, use, limited);
    memory_add(device, backend, memory, bytes, use);
    return memory;
}

void *device_alloc(Device *device, size_t bytes) {
    return device_alloc_for(device, bytes, MEMORY_OTHER);
}

void device_free(Device *device, void *memory) {
    if (!memory) return;
    for (Event use; memory_next_use(device, memory, &use);) event_synchronize(use);
    const Backend *from = memory_remove(device, memory);
    if (device->backend) {
        synchronize(device);
        from->free(device, memory);
    } else {
        synchronize_all();
        from->host_free(memory);
    }
}

// Looks only at the first `allocations` that were made.
static MemoryStamp stamp_of(uint64_t allocations) {
    MemoryStamp stamp = {allocations, memory_there_of(&host_, allocations), system_.frees};
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        if (!system_.devices[id]) continue;
        stamp.there += memory_there_of(system_.devices[id], allocations);
        stamp.scratch_frees += system_.devices[id]->scratch_frees;
    }
    return stamp;
}

MemoryStamp memory_stamp(void) { return stamp_of(memory_allocations()); }

bool memory_still_there(MemoryStamp stamp) {
    MemoryStamp now = stamp_of(stamp.allocations);
    return now.there == stamp.there && now.scratch_frees == stamp.scratch_frees;
}

// ---- copies, ordered by the current queues -----------------------------------------------------

Event device_record(Device *device) { return queue_record(current_queue(device)); }
void device_wait(Device *device, Event event) { queue_wait(current_queue(device), event); }

// Between a CPU device and a GPU, for which the other's memory is host memory. Their queues cannot
// wait for each other, so the host waits.
static void copy_between_kinds(Device *to, void *dst, Device *from, const void *src, size_t bytes) {
    bool to_gpu = to->backend != &cpu_backend;
    Device *gpu = to_gpu ? to : from;
    synchronize(from);
    synchronize(to);
    ledger_add(from, to, bytes);
    gpu->backend->copy(gpu->queues[COMPUTE], to_gpu ? to : host(), dst, to_gpu ? host() : from, src,
                       bytes);
    synchronize(gpu);
}

void device_copy(Device *to, void *dst, Device *from, const void *src, size_t bytes) {
    if (bytes == 0) return;
    if (!to->backend && !from->backend) {
        memcpy(dst, src, bytes);
        return;
    }
    if (to->backend && from->backend && to->backend != from->backend) {
        copy_between_kinds(to, dst, from, src, bytes);
        return;
    }
    bool two_queues = to != from && to->backend && from->backend;
    if (two_queues) device_wait(to, device_record(from)); // what is copied has been computed
    queue_copy(current_queue(to->backend ? to : from), to, dst, from, src, bytes);
    if (two_queues) device_wait(from, device_record(to)); // not overwritten before it is copied
}

Event device_copy_after(Event ready, Device *to, void *dst, const void *src, size_t bytes) {
    Device *from = queue_device(ready.queue);
    device_wait(to, ready);
    if (to->backend && to->backend == from->backend)
        queue_copy(current_queue(to), to, dst, from, src, bytes);
    else
        device_copy(to, dst, from, src, bytes);
    return device_record(to);
}

void wait_for_users(Device *device, const void *memory) {
    for (Event use; memory_next_use(device, memory, &use);)
        queue_wait(device->queues[COMPUTE], use);
}

void synchronize(Device *device) {
    for (int q = 0; q < QUEUES && device->backend; q++)
        if (device->queues[q]) event_synchronize(queue_record(device->queues[q]));
}

void synchronize_all(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++)
        if (system_.devices[id]) synchronize(system_.devices[id]);
}

void synchronize_host_reads(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++)
        for (int q = 0; q < QUEUES && system_.devices[id]; q++) {
            Queue *queue = system_.devices[id]->queues[q];
            if (!queue) continue;
            event_synchronize(queue->host_read);
            queue->host_read.ticket = 0;
        }
}
