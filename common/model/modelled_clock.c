// modelled_clock.c: observes what is enqueued (queue_observer.h), computes how long it takes on the
// machine, and hands it to the simulation.
#include "modelled_clock.h"
#include "common/base/error.h"
#include "common/device/modelled_hooks.h"
#include "common/device/queue_observer.h"
#include "common/device/spans.h"
#include "simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ModelledGraph ModelledGraph;

static struct {
    const Machine *machine; // which one; NULL: there is no clock
    Machine kept;           // a copy of it, which stays if the program's own is gone
    Simulation *simulation;
    bool framework; // a framework's launches and kernels instead of ours
    double waited;  // all hosts have waited until then
    double *hosts;  // the clock of each host
    int num_hosts;
    bool ranks;                         // one host thread per device
    int most;                           // devices that the machine can have here
    Route *routes[MAX_DEVICES + 1];     // [from + 1][to + 1]; no ports until it is asked for
    int queues[NUM_DEVICE_IDS][QUEUES]; // their numbers in the simulation, + 1; 0: none yet
    uint64_t started;                   // how often the clock has started
    double before;                      // seconds on `traced` before the last start
    const Machine *traced;              // work on this machine is traced
    ModelledGraph *recording;           // between graph_begin() and graph_end()
} clock_;

// ---- numbers of devices and queues -----------------------------------------------------------

// The device's number on the machine; -1 if it is not on the machine (a CPU device beside GPUs).
static int number_of(const Device *device) {
    if (!device->backend) return HOST_MEMORY;
    if (device->id < MAX_DEVICES) return device->id;
    return device->id >= FIRST_MODEL_ID ? device->id - FIRST_MODEL_ID : -1;
}

// (There may be more devices without values than this machine has, opened for another one.)
static bool is_timed(const Queue *queue) {
    int number = number_of(queue->device);
    return clock_.machine && number >= 0 && number < clock_.most;
}

static int queue_of(const Queue *queue) {
    int *known = &clock_.queues[queue->device->id][queue->number];
    if (*known == 0) *known = simulation_add_queue(clock_.simulation) + 1;
    return *known - 1;
}

static const Route *route_between(int from, int to) {
    Route **row = &clock_.routes[from + 1];
    if (!*row) *row = xcalloc(MAX_DEVICES + 1, sizeof **row);
    Route *route = &(*row)[to + 1];
    if (route->num_ports == 0) *route = machine_route(&clock_.kept, from, to);
    return route;
}

// ---- events ----------------------------------------------------------------------------------
//
// The upper 16 bits of an event's number say in which run of the clock it was recorded. Events from
// earlier runs have been reached.

enum { NUMBER_BITS = 48 };

static Moment moment_of(Event event) {
    if (!is_timed(event.queue) || event.modelled >> NUMBER_BITS != clock_.started)
        return (Moment){0};
    return (Moment){queue_of(event.queue), event.modelled & ((UINT64_C(1) << NUMBER_BITS) - 1)};
}

// ---- recording a graph -----------------------------------------------------------------------

typedef struct Recorded {
    int queue;
    bool waits;
    Moment after;
    Work work;
} Recorded;

struct ModelledGraph {
    Device *devices[MAX_DEVICES];
    int k;
    uint64_t started; // the run of the clock that it belongs to
    // For each queue of the simulation: how long it was when recording began, how much was added
    // since then, and how long it is when the graph is launched.
    struct {
        uint64_t length, added, now;
    } * queues;
    int num_queues;
    Recorded *work;
    size_t count, room;
};

static void record(Recorded work) {
    ModelledGraph *g = clock_.recording;
    if (work.queue >= g->num_queues) {
        int n = work.queue + 1;
        g->queues = xgrow(g->queues, (size_t)n, sizeof *g->queues);
        for (int q = g->num_queues; q < n; q++) {
            g->queues[q].length = simulation_last(clock_.simulation, q).number;
            g->queues[q].added = 0;
        }
        g->num_queues = n;
    }
    g->work = xroom(g->work, g->count, &g->room, sizeof *g->work);
    g->work[g->count++] = work;
    g->queues[work.queue].added++;
}

// ---- hosts -----------------------------------------------------------------------------------

static int host_number(const Device *device) {
    return number_of(device) / (clock_.ranks ? 1 : clock_.kept.devices);
}

// Lets time pass on the device's host, and returns the time after that.
static double host_of_after(const Device *device, double seconds) {
    double *clock = &clock_.hosts[host_number(device)];
    return *clock = fmax(*clock, clock_.waited) + seconds;
}

// ---- traces ----------------------------------------------------------------------------------

static TraceSpan *span_of(const Queue *queue, const char *work) {
    const Device *device = queue->device;
    bool fits = trace_is_of_models() ? !has_values(device) : device->id < MAX_DEVICES;
    bool wanted = clock_.machine == clock_.traced && fits && !clock_.recording;
    return wanted ? trace_modelled_span(queue, work) : NULL;
}

// The simulation's observer.
static void times_are_known(void *tag, int queue, double start, double end) {
    (void)queue;
    TraceSpan *span = tag;
    if (!span) return;
    span->start = clock_.before + start;
    span->end = clock_.before + end;
    trace_add_modelled(span);
}

static void follow_trace(void) { clock_.traced = clock_.machine; }
// (Time on other machines does not count, because their work is in no trace.)
static double trace_seconds(void) {
    return clock_.before +
           (clock_.machine && clock_.machine == clock_.traced ? modelled_seconds() : 0);
}

// ---- work ------------------------------------------------------------------------------------

static double launch_seconds(void) {
    return clock_.framework ? clock_.kept.framework : clock_.kept.launch;
}

// The device begins with the first launch while the host goes on to the others.
static void enqueue(const Queue *queue, Work work, int launches) {
    if (clock_.recording) {
        record((Recorded){.queue = queue_of(queue), .work = work});
        return;
    }
    work.issued = host_of_after(queue->device, launch_seconds());
    host_of_after(queue->device, (launches - 1) * launch_seconds());
    simulation_add(clock_.simulation, queue_of(queue), &work);
}

static void open_on_machine(const Device *device) {
    if (!clock_.machine || number_of(device) < 0) return;
    if (!machine_has_devices(&clock_.kept, number_of(device) + 1))
        die("use fewer devices, another --machine, or --machine none",
            "the machine %s has %d devices and no network to others", clock_.kept.name,
            clock_.kept.devices);
}

// What each launch costs the device, whatever the kernel does.
static double least_seconds(void) {
    return clock_.recording ? clock_.kept.graph_kernel : clock_.kept.kernel;
}

static void launch_kernel(Queue *queue, KernelId kernel, const void *args) {
    if (!is_timed(queue)) return;
    bool our_cuda = clock_.kept.multiprocessors > 0 && !clock_.framework;
    KernelTraffic traffic = kernel_traffic(our_cuda ? BY_OUR_CUDA : BY_ONE_LAUNCH, kernel, args);
    double seconds = traffic.launches * least_seconds() +
                     machine_kernel_seconds(&clock_.kept, traffic, queue->device->tf32);
    Work work = {.seconds = queue->device->slowdown * seconds};
    work.tag = span_of(queue, kernel_name(kernel));
    enqueue(queue, work, traffic.launches);
}

static void copy_bytes(Queue *queue, const Device *to, const void *dst, const Device *from,
                       size_t bytes) {
    (void)dst;
    if (!is_timed(queue)) return;
    Work work;
    if (to == from) { // as long as a kernel that reads and writes the bytes
        KernelTraffic traffic = {.moved = 2 * (double)bytes};
        double seconds = machine_kernel_seconds(&clock_.kept, traffic, false);
        work = (Work){.seconds = least_seconds() + seconds};
    } else {
        const Route *route = route_between(number_of(from), number_of(to));
        work = (Work){.seconds = (double)bytes / route->link.bandwidth,
                      .latency = route->link.latency,
                      .ports = route->ports,
                      .num_ports = route->num_ports};
    }
    TraceSpan *span = span_of(queue, "copy");
    if (span) {
        span->from = from;
        span->to = to;
        span->bytes = bytes;
    }
    work.tag = span;
    enqueue(queue, work, 1);
}

static void record_event(Event *event) {
    if (!is_timed(event->queue)) return;
    int number = queue_of(event->queue);
    uint64_t last = simulation_last(clock_.simulation, number).number;
    if (clock_.recording && number < clock_.recording->num_queues)
        last += clock_.recording->queues[number].added;
    event->modelled = clock_.started << NUMBER_BITS | last;
}

// (The time to record the event is included, because the same host usually records it.)
static void wait_for_event(Queue *queue, Event event) {
    if (!is_timed(queue) || event.queue == queue) return;
    Moment moment = moment_of(event);
    if (moment.number == 0) return; // always past
    if (clock_.recording)
        record((Recorded){.queue = queue_of(queue), .waits = true, .after = moment});
    else
        simulation_wait(clock_.simulation, queue_of(queue),
                        host_of_after(queue->device, clock_.kept.event), moment);
}

static void host_waits(Event event) {
    if (!is_timed(event.queue)) return;
    clock_.waited = fmax(clock_.waited, simulation_time(clock_.simulation, moment_of(event)));
    clock_.waited = fmax(clock_.waited, host_of_after(event.queue->device, 0));
    simulation_forget(clock_.simulation, clock_.waited);
}

bool modelled_reached(Event event) {
    if (!is_timed(event.queue)) return true;
    // (To ask takes time, so that a loop that asks again and again comes to an end.)
    double now = host_of_after(event.queue->device, launch_seconds());
    clock_.waited = fmax(clock_.waited, now); // from now on any host may act on the answer
    return simulation_is_past(clock_.simulation, moment_of(event), now);
}

// ---- graphs ----------------------------------------------------------------------------------

static void begin_graph(Device *const devices[], int k) {
    for (int i = 0; i < k; i++)
        if (!is_timed(compute_queue(devices[i]))) return;
    clock_.recording = xmalloc(sizeof *clock_.recording);
    *clock_.recording = (ModelledGraph){.k = k, .started = clock_.started};
    memcpy(clock_.recording->devices, devices, sizeof(Device *) * (size_t)k);
}

static void *end_graph(void) {
    ModelledGraph *graph = clock_.recording;
    clock_.recording = NULL;
    return graph;
}

// Each queue of the devices waits for all that the others have.
static void join_queues(const ModelledGraph *g) {
    int first = queue_of(compute_queue(g->devices[0]));
    for (int way = 0; way < 2; way++) // all to the first, and the first to all
        for (int i = 0; i < g->k; i++)
            for (int q = 0; q < QUEUES; q++) {
                if (!g->devices[i]->queues[q]) continue;
                int other = queue_of(g->devices[i]->queues[q]);
                int waits = way == 0 ? first : other, after = way == 0 ? other : first;
                simulation_wait(clock_.simulation, waits, host_of_after(g->devices[i], 0),
                                simulation_last(clock_.simulation, after));
            }
}

static void launch_graph(void *kept) {
    const ModelledGraph *g = kept;
    if (!g || !clock_.machine || g->started != clock_.started) return;
    for (int i = 0; i < g->k; i++) // each host launches its part
        if (i == 0 || host_number(g->devices[i]) != host_number(g->devices[i - 1]))
            host_of_after(g->devices[i], clock_.kept.graph_launch);
    join_queues(g);
    for (int q = 0; q < g->num_queues; q++)
        g->queues[q].now = simulation_last(clock_.simulation, q).number;
    double issued = host_of_after(g->devices[0], 0);
    for (size_t i = 0; i < g->count; i++) {
        Recorded *r = &g->work[i];
        r->work.issued = issued;
        if (!r->waits) {
            simulation_add(clock_.simulation, r->queue, &r->work);
            continue;
        }
        // A moment within the graph comes after what its queue has now.
        Moment after = r->after;
        if (after.queue < g->num_queues && after.number > g->queues[after.queue].length)
            after.number += g->queues[after.queue].now - g->queues[after.queue].length;
        simulation_wait(clock_.simulation, r->queue, issued, after);
    }
    join_queues(g);
}

static void free_graph(void *kept) {
    ModelledGraph *graph = kept;
    if (!graph) return;
    free(graph->queues);
    free(graph->work);
    free(graph);
}

// ---- the clock -------------------------------------------------------------------------------

static void set_hosts(bool ranks) {
    clock_.ranks = ranks;
    clock_.num_hosts = ranks ? clock_.most : (clock_.most - 1) / clock_.kept.devices + 1;
    free(clock_.hosts);
    clock_.hosts = xcalloc((size_t)clock_.num_hosts, sizeof *clock_.hosts);
}

static void offer_clock(void) {
    static const ModelledHooks hooks = {
        .backend = &model_backend,
        .open = open_on_machine,
        .seconds = modelled_seconds,
        .trace = follow_trace,
        .trace_seconds = trace_seconds,
    };
    static const QueueObserver observer = {
        .launch = launch_kernel,
        .copy = copy_bytes,
        .record = record_event,
        .wait = wait_for_event,
        .host_wait = host_waits,
        .graph_begin = begin_graph,
        .graph_end = end_graph,
        .graph_launch = launch_graph,
        .graph_free = free_graph,
    };
    modelled = &hooks;
    queue_observe(&observer);
}

Device *model_device(int i) {
    offer_clock();
    return open_model_device(i);
}

void modelled_clock_start(const Machine *machine) {
    CHECK(!clock_.recording, "a graph is recorded on one machine");
    offer_clock();
    synchronize_all();
    clock_.before = trace_seconds();
    simulation_free(clock_.simulation);
    clock_.simulation = NULL;
    for (int from = 0; from <= MAX_DEVICES; from++) free(clock_.routes[from]);
    memset(clock_.routes, 0, sizeof clock_.routes);
    memset(clock_.queues, 0, sizeof clock_.queues);

    clock_.machine = machine;
    if (machine) clock_.kept = *machine;
    clock_.started++;
    CHECK(clock_.started >> (64 - NUMBER_BITS) == 0, "an event has 16 bits for the clock's run");
    clock_.waited = 0;
    if (!machine) return;
    clock_.most = machine->cards > 0 ? MAX_DEVICES : machine->devices;
    clock_.simulation = simulation_new(machine_ports(machine, clock_.most));
    simulation_observe(clock_.simulation, times_are_known);
    set_hosts(false);
    clock_.framework = false;
    for (int id = 0; id < NUM_DEVICE_IDS - 1; id++)
        if (device_of_id(id) && has_values(device_of_id(id))) open_on_machine(device_of_id(id));
}

void modelled_clock_use_framework(bool framework) { clock_.framework = framework; }

void modelled_clock_use_ranks(bool ranks) {
    CHECK(!clock_.recording, "a graph is launched by one host thread");
    if (!clock_.machine || ranks == clock_.ranks) return;
    clock_.waited = modelled_seconds(); // no host's clock goes back
    set_hosts(ranks);
}

const Machine *modelled_machine(void) { return clock_.machine; }

const char *modelled_machine_name(void) {
    return clock_.machine ? clock_.machine->name : "not modelled";
}

double modelled_seconds(void) {
    if (!clock_.machine) return NAN;
    double latest = clock_.waited;
    for (int h = 0; h < clock_.num_hosts; h++) latest = fmax(latest, clock_.hosts[h]);
    return latest;
}
