// device.c: which devices there are, copies between them, and the ledger. What a kind of device
// does is in device_cpu.c and device_cuda.c, behind backend.h.
#include "device.h"
#include "backend.h"
#include "common/base/error.h"
#include "kernels/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_ID = NUM_DEVICE_IDS - 1 };

static struct {
    bool chosen, tf32;
    const Backend *backend; // of the devices that try_gpu() opens
    int gpus;
    Device *devices[NUM_DEVICE_IDS]; // by id; NULL if not open
} system_;

static Device host_ = {.name = "host", .id = HOST_ID};

// ---- which devices there are -----------------------------------------------------------------

void devices_init(BackendChoice choice, int threads) {
    kernels_fail_with(die);
    const char *why = "built without CUDA";
    const Backend *cuda = cuda_backend();
    int gpus = cuda && choice != BACKEND_CPU ? cuda->count(&why) : 0;
    if (choice == BACKEND_CUDA && gpus == 0)
        die("leave out --backend cuda to compute on CPU devices", "no GPU to compute on: %s", why);
    if (choice == BACKEND_AUTO && cuda && gpus == 0) warn("no GPU (%s): using CPU devices", why);
    system_.backend = gpus > 0 ? cuda : &cpu_backend;
    system_.gpus = gpus;
    set_num_threads(threads);
    system_.chosen = true;
}

void allow_tf32(bool allowed) { system_.tf32 = allowed; }
bool tf32_allowed(void) { return system_.tf32; }

static void choose_if_nobody_did(void) {
    if (!system_.chosen) devices_init(BACKEND_AUTO, 0);
}

int num_gpus(void) {
    choose_if_nobody_did();
    return system_.gpus;
}

static Device *open_device(int id, const Backend *backend, int number) {
    CHECK(number >= 0 && number < MAX_DEVICES, "a program may use devices 0 to 63");
    if (system_.devices[id]) return system_.devices[id];
    Device *device = xcalloc(1, sizeof *device);
    device->backend = backend;
    device->id = id;
    int copy = 0;
    if (backend == &cpu_backend) {
        device->hardware = number;
    } else {
        device->hardware = number % system_.gpus;
        copy = number / system_.gpus;
    }
    char suffix[8] = "";
    if (copy > 0) snprintf(suffix, sizeof suffix, "#%d", copy % 100);
    snprintf(device->name, sizeof device->name, "%s:%d%s", backend->name, device->hardware % 1000,
             suffix);
    device->queue = backend->open(device);
    return system_.devices[id] = device;
}

Device *try_gpu(int i) {
    choose_if_nobody_did();
    return open_device(i, system_.backend, i);
}

int try_all_gpus(Device *devices[MAX_DEVICES]) {
    int n = num_gpus() > 0 ? num_gpus() : 1;
    if (n > MAX_DEVICES) n = MAX_DEVICES;
    for (int i = 0; i < n; i++) devices[i] = try_gpu(i);
    return n;
}

void open_devices(Device *devices[], int k) {
    for (int i = 0; i < k; i++) devices[i] = try_gpu(i);
    share_cores(devices, k);
}

Device *cpu_device(int i) {
    choose_if_nobody_did();
    return open_device(system_.gpus > 0 ? MAX_DEVICES + i : i, &cpu_backend, i);
}

Device *host(void) { return &host_; }
int device_id(const Device *device) { return device->id; }
Device *device_of_id(int id) { return system_.devices[id]; }
const char *device_name(const Device *device) { return device->name; }

const char *device_names(Device *const devices[], int k) {
    static char text[MAX_DEVICES * (sizeof devices[0]->name + 2) + 3];
    size_t used = 0;
    for (int i = 0; i < k; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "[",
                                 devices[i]->name);
    snprintf(text + used, sizeof text - used, "]");
    return text;
}

void share_cores(Device *const devices[], int k) {
    int cpus = 0, seen = 0;
    for (int i = 0; i < k; i++) cpus += devices[i]->backend == &cpu_backend;
    for (int i = 0; i < k; i++) {
        if (devices[i]->backend != &cpu_backend) continue;
        int threads = num_threads() / cpus + (seen++ < num_threads() % cpus);
        device_set_threads(devices[i], threads > 0 ? threads : 1);
    }
}

void device_set_threads(Device *device, int threads) {
    CHECK(device->backend && threads > 0, "a device has one core at least");
    synchronize(device);
    device->backend->set_threads(device, threads);
}

void device_set_slowdown(Device *device, double times) {
    CHECK(device->backend && device->backend->set_slowdown, "only CPU devices can be slowed down");
    CHECK(times >= 1, "1 is as fast as the device is; 2 is twice as slow");
    synchronize(device);
    device->backend->set_slowdown(device, times);
}

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
    synchronize_all(); // a device's copies may use what another one will free
    for (int i = num_closers - 1; i >= 0; i--) closers[i]();
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Device *device = system_.devices[id];
        if (!device) continue;
        device->backend->close(device);
        free(device);
        system_.devices[id] = NULL;
    }
    system_.chosen = false;
}

// ---- memory ----------------------------------------------------------------------------------

// Sizes of what was allocated, for the sums per device. Allocations are few (parameters, arenas,
// minibatch buffers), so a list does.
static struct {
    void *memory;
    size_t bytes;
} * allocations;
static int num_allocations;

void device_took_memory(Device *device, size_t bytes) {
    device->bytes += bytes;
    if (device->bytes > device->peak_bytes) device->peak_bytes = device->bytes;
}

static void account(Device *device, void *memory, size_t bytes) {
    allocations = xrealloc(allocations, sizeof *allocations * (size_t)(num_allocations + 1));
    allocations[num_allocations].memory = memory;
    allocations[num_allocations++].bytes = bytes;
    device_took_memory(device, bytes);
}

static void unaccount(Device *device, void *memory) {
    for (int i = 0; i < num_allocations; i++) {
        if (allocations[i].memory != memory) continue;
        device->bytes -= allocations[i].bytes;
        allocations[i] = allocations[--num_allocations];
        return;
    }
    CHECK(false, "device_free() takes what device_alloc() gave");
}

// Host memory comes from the kind of devices in use: a GPU copies without waiting only from and to
// memory that is pinned.
static const Backend *memory_of(const Device *device) {
    choose_if_nobody_did();
    return device->backend ? device->backend : system_.backend;
}

void *device_alloc(Device *device, size_t bytes) {
    if (bytes == 0) return NULL;
    const Backend *backend = memory_of(device);
    void *memory = device->backend ? backend->alloc(device, bytes) : backend->host_alloc(bytes);
    if (!memory)
        die("use a smaller --batch-size, or close other programs",
            "out of memory on %s: %zu bytes asked for, %zu in use", device->name, bytes,
            device->bytes);
    account(device, memory, bytes);
    return memory;
}

static uint64_t frees;
uint64_t num_device_frees(void) { return frees; }
void device_freed_memory(void) { frees++; }

void device_free(Device *device, void *memory) {
    if (!memory) return;
    frees++;
    unaccount(device, memory);
    if (device->backend) {
        synchronize(device);
        device->backend->free(device, memory);
    } else {
        synchronize_all();
        memory_of(device)->host_free(memory);
    }
}

size_t device_bytes(const Device *device) { return device->bytes; }
size_t device_peak_bytes(const Device *device) { return device->peak_bytes; }

// ---- work ------------------------------------------------------------------------------------

void device_launch(Device *device, KernelId kernel, const void *args, size_t size) {
    CHECK(device->backend, "the host has no queue: copy the tensors to a device first");
    (device->backend->launch)(device, kernel, args,
                              size); // in brackets: not the macro of that name
}

Event device_record(Device *device) {
    return (Event){device, device->backend ? device->backend->record(device) : 0};
}

void device_wait(Device *device, Event event) {
    if (event.device == device || event.ticket == 0) return;
    if (device->backend && device->backend == event.device->backend)
        device->backend->wait(device, event);
    else
        event.device->backend->host_wait(event); // of another kind: the host waits for it
}

static uint64_t ledger[NUM_DEVICE_IDS][NUM_DEVICE_IDS]; // [from][to]

// One side is the host: the other side's queue makes the copy.
static void copy_with_host(Device *to, void *dst, Device *from, const void *src, size_t bytes) {
    Device *device = to->backend ? to : from;
    device->backend->copy(device, host(), dst, src, bytes, device == from);
    if (device == to) device->host_read = device_record(device);
}

// Memory of a CPU device is host memory to a GPU, but the two queues cannot wait for each other:
// the host does.
static void copy_between_kinds(Device *to, void *dst, Device *from, const void *src, size_t bytes) {
    synchronize(from);
    synchronize(to);
    Device *gpu = to->backend == &cpu_backend ? from : to;
    gpu->backend->copy(gpu, host(), dst, src, bytes, gpu == from);
    synchronize(gpu);
}

void device_copy(Device *to, void *dst, Device *from, const void *src, size_t bytes) {
    if (bytes == 0) return;
    if (to != from) ledger[from->id][to->id] += bytes;
    if (!to->backend && !from->backend) {
        memcpy(dst, src, bytes);
    } else if (to == from) {
        to->backend->copy(to, to, dst, src, bytes, false);
    } else if (!to->backend || !from->backend) {
        copy_with_host(to, dst, from, src, bytes);
    } else if (to->backend != from->backend) {
        copy_between_kinds(to, dst, from, src, bytes);
    } else {
        device_wait(to, device_record(from)); // what is copied has been computed
        to->backend->copy(to, from, dst, src, bytes, false);
        device_wait(from, device_record(to)); // and is not overwritten before it is copied
    }
}

Event device_copy_after(Event ready, Device *to, void *dst, const void *src, size_t bytes) {
    Device *from = ready.device;
    bool same_kind = to->backend && to->backend == from->backend;
    if (bytes == 0 || to == from || !same_kind) {
        device_wait(to, ready);
        device_copy(to, dst, from, src, bytes);
        return device_record(to);
    }
    ledger[from->id][to->id] += bytes;
    device_wait(to, ready);
    to->backend->copy(to, from, dst, src, bytes, false);
    return device_record(to);
}

void synchronize(Device *device) {
    if (device->backend) device->backend->host_wait(device_record(device));
}

void synchronize_all(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++)
        if (system_.devices[id]) synchronize(system_.devices[id]);
}

void synchronize_host_reads(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Device *device = system_.devices[id];
        if (!device || device->host_read.ticket == 0) continue;
        device->backend->host_wait(device->host_read);
        device->host_read.ticket = 0;
    }
}

// ---- ledger ----------------------------------------------------------------------------------

void ledger_reset(void) { memset(ledger, 0, sizeof ledger); }

uint64_t ledger_bytes(const Device *from, const Device *to) { return ledger[from->id][to->id]; }

uint64_t ledger_bytes_between_devices(void) {
    uint64_t total = 0;
    for (int from = 0; from < HOST_ID; from++)
        for (int to = 0; to < HOST_ID; to++) total += ledger[from][to];
    return total;
}

uint64_t ledger_bytes_host(void) {
    uint64_t total = 0;
    for (int id = 0; id < HOST_ID; id++) total += ledger[id][HOST_ID] + ledger[HOST_ID][id];
    return total;
}

// ---- graphs ----------------------------------------------------------------------------------

struct Graph {
    void *work; // the backend's own
    const Backend *backend;
    Device *devices[MAX_DEVICES];
    int k;
    uint64_t bytes[NUM_DEVICE_IDS][NUM_DEVICE_IDS]; // for the ledger
};

static Graph *recorded; // between graph_begin() and graph_end()

bool has_graphs(const Device *device) { return device->backend && device->backend->graph_begin; }

void graph_begin(Device *const devices[], int k) {
    CHECK(!recorded && k > 0 && has_graphs(devices[0]), "one graph at a time, of GPUs");
    recorded = xcalloc(1, sizeof *recorded);
    recorded->backend = devices[0]->backend;
    recorded->k = k;
    memcpy(recorded->devices, devices, sizeof(Device *) * (size_t)k);
    memcpy(recorded->bytes, ledger, sizeof ledger);
    recorded->backend->graph_begin(devices, k);
}

Graph *graph_end(void) {
    Graph *graph = recorded;
    recorded = NULL;
    graph->work = graph->backend->graph_end(graph->devices, graph->k);
    for (int from = 0; from < NUM_DEVICE_IDS; from++)
        for (int to = 0; to < NUM_DEVICE_IDS; to++) { // nothing has been sent yet
            uint64_t before = graph->bytes[from][to];
            graph->bytes[from][to] = ledger[from][to] - before;
            ledger[from][to] = before;
        }
    return graph;
}

void graph_launch(const Graph *graph) {
    graph->backend->graph_launch(graph->work, graph->devices, graph->k);
    for (int from = 0; from < NUM_DEVICE_IDS; from++)
        for (int to = 0; to < NUM_DEVICE_IDS; to++) ledger[from][to] += graph->bytes[from][to];
}

void graph_free(Graph *graph) {
    if (!graph) return;
    graph->backend->graph_free(graph->work);
    free(graph);
}
