// modelled_clock.c: see modelled_clock.h.
#include "modelled_clock.h"
#include "backend.h"
#include "common/base/error.h"
#include "modelled_hooks.h"
#include "simulation.h"
#include "spans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const Machine *machine; // as it was given; NULL: no time is told
    Machine kept;           // what it says, should it go before the clock does
    Simulation *simulation;
    double launch; // seconds of a host for a kernel or a copy
    double waited; // until then, all hosts have waited
    double *hosts; // the clock of each
    int num_hosts;
    bool ranks;                         // each device has a host thread of its own
    int most;                           // devices that the machine can have here
    Route **routes[MAX_DEVICES + 1];    // [from + 1][to + 1], NULL where not asked for yet
    int queues[NUM_DEVICE_IDS][QUEUES]; // their numbers in the simulation, + 1; 0: none yet
    uint64_t started;                   // how often the clock was
    double before;                      // seconds that it told of `traced` before that
    const Machine *traced;              // work on this one is traced
    ModelledGraph *recording;           // between graph_begin() and graph_end()
} the;

// ---- what is what ----------------------------------------------------------------------------

// Device i of the machine; -1: none of its (a CPU device beside GPUs).
static int number_of(const Device *device) {
    if (!device->backend) return HOST_MEMORY;
    if (device->id < MAX_DEVICES) return device->id;
    return device->id >= FIRST_MODEL_ID ? device->id - FIRST_MODEL_ID : -1;
}

// (Devices without values may be more than this machine has: they were opened for another one.)
static bool is_timed(const Queue *queue) {
    int number = number_of(queue->device);
    return the.machine && number >= 0 && number < the.most;
}

static int queue_of(const Queue *queue) {
    int *known = &the.queues[queue->device->id][queue->number];
    if (*known == 0) *known = simulation_add_queue(the.simulation) + 1;
    return *known - 1;
}

static const Route *route_between(int from, int to) {
    Route ***row = &the.routes[from + 1];
    if (!*row) *row = xcalloc(MAX_DEVICES + 1, sizeof **row);
    Route **route = &(*row)[to + 1];
    if (!*route) {
        *route = xmalloc(sizeof **route);
        **route = machine_route(&the.kept, from, to);
    }
    return *route;
}

// ---- events ----------------------------------------------------------------------------------
//
// Of an event's number, the upper 16 bits say in which run of the clock it was recorded: what is
// older has been reached.

enum { NUMBER_BITS = 48 };

static Moment moment_of(Event event) {
    if (!is_timed(event.queue) || event.modelled >> NUMBER_BITS != the.started) return (Moment){0};
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
    uint64_t started;  // the clock's run that it belongs to
    uint64_t *lengths; // of each queue of the simulation when recording began
    uint64_t *added;   // to each since then
    int num_queues;    // for how many queues there is room in these two
    Recorded *work;
    size_t count, room;
};

static void record(Recorded work) {
    ModelledGraph *g = the.recording;
    if (work.queue >= g->num_queues) {
        int n = work.queue + 1;
        g->lengths = xgrow(g->lengths, (size_t)n, sizeof *g->lengths);
        g->added = xgrow(g->added, (size_t)n, sizeof *g->added);
        for (int q = g->num_queues; q < n; q++) {
            g->lengths[q] = simulation_last(the.simulation, q).number;
            g->added[q] = 0;
        }
        g->num_queues = n;
    }
    if (g->count == g->room) {
        g->room = g->room ? 2 * g->room : 256;
        g->work = xgrow(g->work, g->room, sizeof *g->work);
    }
    g->work[g->count++] = work;
    g->added[work.queue]++;
}

// ---- hosts -----------------------------------------------------------------------------------

static int host_number(const Device *device) {
    return number_of(device) / (the.ranks ? 1 : the.kept.devices);
}

// The host of a device has done something that takes so long; the time then.
static double host_of_after(const Device *device, double seconds) {
    double *clock = &the.hosts[host_number(device)];
    return *clock = fmax(*clock, the.waited) + seconds;
}

// ---- traces ----------------------------------------------------------------------------------

static TraceSpan *span_of(const Queue *queue, const char *work) {
    const Device *device = queue->device;
    bool fits = trace_is_of_models() ? !has_values(device) : device->id < MAX_DEVICES;
    bool wanted = the.machine == the.traced && fits && !the.recording;
    return wanted ? trace_modelled_span(queue, work) : NULL;
}

// The simulation's observer.
static void times_are_known(void *tag, int queue, double start, double end) {
    (void)queue;
    TraceSpan *span = tag;
    if (!span) return;
    span->start = the.before + start;
    span->end = the.before + end;
    trace_add_modelled(span);
}

void modelled_trace(void) { the.traced = the.machine; }
// (Time on other machines does not count: their work is in no trace.)
double modelled_trace_seconds(void) {
    return the.before + (the.machine && the.machine == the.traced ? modelled_seconds() : 0);
}

// ---- work ------------------------------------------------------------------------------------

static void enqueue(const Queue *queue, Work work) {
    if (the.recording) {
        record((Recorded){.queue = queue_of(queue), .work = work});
        return;
    }
    work.issued = host_of_after(queue->device, the.launch);
    simulation_add(the.simulation, queue_of(queue), &work);
}

void modelled_open(const Device *device) {
    if (!the.machine || number_of(device) < 0) return;
    if (!machine_has_devices(&the.kept, number_of(device) + 1))
        die("give a smaller --devices, another --machine, or --machine none",
            "the machine %s has %d devices and no network to others", the.kept.name,
            the.kept.devices);
}

// What each kernel takes at least.
static double least_seconds(void) {
    return the.recording ? the.kept.graph_kernel : the.kept.kernel;
}

void modelled_launch(Queue *queue, KernelId kernel, const void *args) {
    if (!is_timed(queue)) return;
    double seconds =
        machine_kernel_seconds(&the.kept, kernel_cost(kernel, args), queue->device->tf32);
    enqueue(queue, (Work){.seconds = queue->device->slowdown * (least_seconds() + seconds),
                          .tag = span_of(queue, kernel_name(kernel))});
}

// Read and written in the device's own memory, as by a kernel that does nothing else.
static Work copy_within(size_t bytes) {
    KernelCost cost = {.kind = COST_ELEMENTS, .bytes = 2 * (double)bytes};
    return (Work){.seconds = least_seconds() + machine_kernel_seconds(&the.kept, cost, false)};
}

static Work copy_between(const Device *from, const Device *to, size_t bytes) {
    const Route *route = route_between(number_of(from), number_of(to));
    return (Work){.seconds = (double)bytes / route->link.bandwidth,
                  .latency = route->link.latency,
                  .ports = route->ports,
                  .num_ports = route->num_ports};
}

void modelled_copy(Queue *queue, const Device *to, const Device *from, size_t bytes) {
    if (!is_timed(queue)) return;
    Work work = to == from ? copy_within(bytes) : copy_between(from, to, bytes);
    TraceSpan *span = span_of(queue, "copy");
    if (span) {
        span->from = from;
        span->to = to;
        span->bytes = bytes;
    }
    work.tag = span;
    enqueue(queue, work);
}

uint64_t modelled_record(const Queue *queue) {
    if (!is_timed(queue)) return 0;
    int number = queue_of(queue);
    uint64_t last = simulation_last(the.simulation, number).number;
    if (the.recording && number < the.recording->num_queues) last += the.recording->added[number];
    return the.started << NUMBER_BITS | last;
}

void modelled_wait(Queue *queue, Event event) {
    if (!is_timed(queue) || event.queue == queue) return;
    Moment moment = moment_of(event);
    if (moment.number == 0) return; // always past
    if (the.recording)
        record((Recorded){.queue = queue_of(queue), .waits = true, .after = moment});
    else
        simulation_wait(the.simulation, queue_of(queue), host_of_after(queue->device, 0), moment);
}

void modelled_host_wait(Event event) {
    if (!is_timed(event.queue)) return;
    the.waited = fmax(the.waited, simulation_time(the.simulation, moment_of(event)));
    the.waited = fmax(the.waited, host_of_after(event.queue->device, 0));
    simulation_forget(the.simulation, the.waited);
}

bool modelled_reached(Event event) {
    if (!is_timed(event.queue)) return true;
    // (To ask takes time, so that who asks again and again comes to an end.)
    double now = host_of_after(event.queue->device, the.launch);
    the.waited = fmax(the.waited, now); // what any host does next may depend on the answer
    return simulation_is_past(the.simulation, moment_of(event), now);
}

// ---- graphs ----------------------------------------------------------------------------------

void modelled_graph_begin(Device *const devices[], int k) {
    for (int i = 0; i < k; i++)
        if (!is_timed(compute_queue(devices[i]))) return;
    the.recording = xcalloc(1, sizeof *the.recording);
    memcpy(the.recording->devices, devices, sizeof(Device *) * (size_t)k);
    the.recording->k = k;
    the.recording->started = the.started;
}

ModelledGraph *modelled_graph_end(void) {
    ModelledGraph *graph = the.recording;
    the.recording = NULL;
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
                simulation_wait(the.simulation, waits, host_of_after(g->devices[i], 0),
                                simulation_last(the.simulation, after));
            }
}

// What was recorded after `lengths` comes after what the queues have now.
static Moment moment_now(const ModelledGraph *g, Moment recorded, const uint64_t now[]) {
    int q = recorded.queue;
    if (q < g->num_queues && recorded.number > g->lengths[q])
        recorded.number += now[q] - g->lengths[q];
    return recorded;
}

void modelled_graph_launch(const ModelledGraph *g) {
    if (!g || !the.machine || g->started != the.started) return;
    for (int i = 0; i < g->k; i++) // each host launches its part
        if (i == 0 || host_number(g->devices[i]) != host_number(g->devices[i - 1]))
            host_of_after(g->devices[i], the.kept.graph_launch);
    join_queues(g);
    uint64_t *now = xmalloc(sizeof *now * (size_t)(g->num_queues + 1));
    for (int q = 0; q < g->num_queues; q++) now[q] = simulation_last(the.simulation, q).number;
    double issued = host_of_after(g->devices[0], 0);
    for (size_t i = 0; i < g->count; i++) {
        const Recorded *r = &g->work[i];
        Work work = r->work;
        work.issued = issued;
        if (r->waits)
            simulation_wait(the.simulation, r->queue, issued, moment_now(g, r->after, now));
        else
            simulation_add(the.simulation, r->queue, &work);
    }
    free(now);
    join_queues(g);
}

void modelled_graph_free(ModelledGraph *graph) {
    if (!graph) return;
    free(graph->lengths);
    free(graph->added);
    free(graph->work);
    free(graph);
}

// ---- the clock -------------------------------------------------------------------------------

static void forget_all(void) {
    simulation_free(the.simulation);
    free(the.hosts);
    for (int from = 0; from <= MAX_DEVICES; from++) {
        for (int to = 0; the.routes[from] && to <= MAX_DEVICES; to++) free(the.routes[from][to]);
        free(the.routes[from]);
        the.routes[from] = NULL;
    }
    memset(the.queues, 0, sizeof the.queues);
    the.simulation = NULL;
    the.hosts = NULL;
}

void modelled_clock_start(const Machine *machine) {
    CHECK(!the.recording, "a graph is recorded on one machine");
    synchronize_all();
    the.before = modelled_trace_seconds();
    forget_all();
    the.machine = machine;
    if (machine) the.kept = *machine;
    the.started++;
    CHECK(the.started >> (64 - NUMBER_BITS) == 0, "an event has 16 bits for the run of the clock");
    the.waited = 0;
    if (!machine) return;
    the.most = machine->cards > 0 ? MAX_DEVICES : machine->devices;
    the.simulation = simulation_new(machine_ports(machine, the.most));
    simulation_observe(the.simulation, times_are_known);
    the.ranks = false;
    the.num_hosts = (the.most - 1) / machine->devices + 1;
    the.hosts = xcalloc((size_t)the.num_hosts, sizeof *the.hosts);
    the.launch = machine->launch;
    for (int id = 0; id < NUM_DEVICE_IDS - 1; id++)
        if (device_of_id(id) && has_values(device_of_id(id))) modelled_open(device_of_id(id));
}

void modelled_clock_use_framework(bool framework) {
    the.launch = framework ? the.kept.framework : the.kept.launch;
}

void modelled_clock_use_ranks(bool ranks) {
    CHECK(!the.recording, "a graph is launched by one host thread");
    if (!the.machine || ranks == the.ranks) return;
    the.waited = modelled_seconds(); // nobody's clock goes back
    the.ranks = ranks;
    the.num_hosts = ranks ? the.most : (the.most - 1) / the.kept.devices + 1;
    free(the.hosts);
    the.hosts = xcalloc((size_t)the.num_hosts, sizeof *the.hosts);
}

const Machine *modelled_machine(void) { return the.machine; }

double modelled_seconds(void) {
    if (!the.machine) return NAN;
    double latest = the.waited;
    for (int h = 0; h < the.num_hosts; h++) latest = fmax(latest, the.hosts[h]);
    return latest;
}

double modelled_busy(const Device *device) {
    if (!the.machine || !is_timed(device->queues[COMPUTE])) return NAN;
    return simulation_queue_busy(the.simulation, queue_of(device->queues[COMPUTE]));
}
