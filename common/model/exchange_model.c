// exchange_model.c: see exchange_model.h.
//
// ## One host stands for all
//
// With 512 ranks a ring has 1022 steps of 512 copies each: half a million for one message, and a
// step of training sends several. But all hosts do the same at the same time. What comes into a
// host by its network card is what leaves the host before it, and that is what leaves this one. So
// it is enough to simulate one host, whose card is plugged into itself: copies from the host before
// come from its own devices, and pass its own ports. That is 128 times less work, and no
// approximation. The test compares it with all hosts.
#include "exchange_model.h"

#include "common/base/error.h"
#include "common/model/simulation.h"

#include <math.h>
#include <stdlib.h>

const char *const exchange_way_names[NUM_EXCHANGE_WAYS] = {"ring", "hierarchical", "servers"};

typedef struct Hosts {
    const Machine *machine;
    Simulation *simulation;
    int hosts, per_host; // ranks of a host
    int simulated;       // hosts; host i stands for i + simulated, i + 2 simulated, ...
    int ports;           // of a host
    int *queues;         // of each device that is simulated; so are the next two
    double *sent;        // bytes
    Moment *ready;
    Route **routes; // of all copies: the simulation reads their ports later
    int num_routes;
    double card_bytes; // that left the hosts that are simulated
} Hosts;

typedef struct Rank {
    int host, device;
} Rank;

// Of the device that is simulated for this one. (A host before the first is the last.)
static int number(const Hosts *h, Rank r) {
    return (r.host + h->hosts) % h->hosts % h->simulated * h->per_host + r.device;
}

static Moment so_far(const Hosts *h, Rank r) {
    return simulation_last(h->simulation, h->queues[number(h, r)]);
}

// ## Copies and additions

static Route *new_route(Hosts *h, Rank from, Rank to) {
    int D = h->machine->devices;
    Route *route = xmalloc(sizeof *route);
    *route = machine_route(h->machine, (from.host + h->hosts) % h->hosts * D + from.device,
                           (to.host + h->hosts) % h->hosts * D + to.device);
    for (int i = 0; i < route->num_ports; i++) {
        int *port = &route->ports[i].port, host = *port / h->ports;
        *port = host % h->simulated * h->ports + *port % h->ports;
    }
    h->routes = xgrow(h->routes, (size_t)h->num_routes + 1, sizeof *h->routes);
    return h->routes[h->num_routes++] = route;
}

// By the queue of the receiver, as in chapter 2, when `ready` has come.
static void copy(Hosts *h, Rank from, Rank to, double bytes, Moment ready) {
    const Route *route = new_route(h, from, to);
    int queue = h->queues[number(h, to)];
    simulation_wait(h->simulation, queue, 0, ready);
    simulation_add(h->simulation, queue,
                   &(Work){.seconds = bytes / route->link.bandwidth,
                           .latency = route->link.latency,
                           .ports = route->ports,
                           .num_ports = route->num_ports});
    h->sent[number(h, from)] += bytes;
    if (from.host != to.host) h->card_bytes += bytes;
}

static void add_what_came(Hosts *h, Rank to, double bytes) {
    struct add_args args = {.n = (size_t)(bytes / sizeof(float))};
    KernelTraffic traffic = kernel_traffic(BY_ONE_LAUNCH, KERNEL_add, &args);
    double seconds = machine_kernel_seconds(h->machine, traffic, false);
    simulation_add(h->simulation, h->queues[number(h, to)],
                   &(Work){.seconds = h->machine->kernel + seconds});
}

// ## Rings

typedef Rank Neighbour(const Hosts *h, Rank r);

static Rank before_in_host(const Hosts *h, Rank r) {
    return (Rank){r.host, (r.device + h->per_host - 1) % h->per_host};
}
static Rank same_in_host_before(const Hosts *h, Rank r) {
    (void)h;
    return (Rank){r.host - 1, r.device};
}
static Rank before_of_all(const Hosts *h, Rank r) {
    return r.device > 0 || h->hosts == 1 ? before_in_host(h, r)
                                         : (Rank){r.host - 1, h->per_host - 1};
}

// In each step all ranks receive a part from their left neighbour, as it was before the step. Of n
// ranks in a ring, n-1 steps that add are a reduce-scatter, and n-1 that do not an all-gather.
static void pass_parts(Hosts *h, Neighbour *left, int steps, double part, bool add_up) {
    for (int s = 0; s < steps; s++) {
        for (int i = 0; i < h->simulated * h->per_host; i++)
            h->ready[i] = simulation_last(h->simulation, h->queues[i]);
        for (int i = 0; i < h->simulated * h->per_host; i++) {
            Rank to = {i / h->per_host, i % h->per_host}, from = left(h, to);
            copy(h, from, to, part, h->ready[number(h, from)]);
            if (add_up) add_what_came(h, to, part);
        }
    }
}

static void by_ring(Hosts *h, double bytes) {
    int k = h->hosts * h->per_host;
    pass_parts(h, before_of_all, k - 1, bytes / k, true);
    pass_parts(h, before_of_all, k - 1, bytes / k, false);
}

static void by_levels(Hosts *h, double bytes) {
    double part = bytes / h->per_host;
    pass_parts(h, before_in_host, h->per_host - 1, part, true);
    pass_parts(h, same_in_host_before, h->hosts - 1, part / h->hosts, true);
    pass_parts(h, same_in_host_before, h->hosts - 1, part / h->hosts, false);
    pass_parts(h, before_in_host, h->per_host - 1, part, false);
}

// ## Parameter servers
//
// Each server begins with the workers of its own host and goes on to the next host, so that no two
// ask one host at the same time; with the workers' pulls it is the same. (If all began with host 0,
// its card would be what all wait for.)

static bool same_rank(Rank a, Rank b) { return a.host == b.host && a.device == b.device; }

static void push(Hosts *h, double part) {
    for (int r = 0; r < h->hosts; r++)
        for (int w = 0; w < h->per_host; w++)
            for (int host = 0; host < h->simulated; host++) {
                Rank server = {host, 0}, worker = {host + r, w};
                if (same_rank(server, worker)) continue;
                copy(h, worker, server, part, (Moment){0});
                add_what_came(h, server, part);
            }
}

static void pull(Hosts *h, double part) {
    for (int host = 0; host < h->simulated; host++) h->ready[host] = so_far(h, (Rank){host, 0});
    for (int r = 0; r < h->hosts; r++)
        for (int w = 0; w < h->per_host; w++)
            for (int host = 0; host < h->simulated; host++) {
                Rank server = {host + r, 0}, worker = {host, w};
                if (same_rank(server, worker)) continue;
                copy(h, server, worker, part, h->ready[number(h, server) / h->per_host]);
            }
}

static void by_servers(Hosts *h, double bytes) {
    push(h, bytes / h->hosts);
    pull(h, bytes / h->hosts);
}

// ## An exchange

static Hosts hosts_new(const Machine *machine, int ranks, bool all_hosts) {
    bool in_one = ranks <= machine->devices;
    CHECK(ranks >= 1 && machine_has_devices(machine, ranks), "the machine has fewer devices");
    CHECK(in_one || ranks % machine->devices == 0, "each host has as many ranks as devices");
    Hosts h = {.machine = machine,
               .hosts = in_one ? 1 : ranks / machine->devices,
               .per_host = in_one ? ranks : machine->devices,
               .ports = machine_ports(machine, machine->devices)};
    h.simulated = all_hosts ? h.hosts : 1;
    int n = h.simulated * h.per_host;
    h.simulation = simulation_new(h.simulated * h.ports);
    h.queues = xcalloc((size_t)n, sizeof *h.queues);
    h.sent = xcalloc((size_t)n, sizeof *h.sent);
    h.ready = xcalloc((size_t)n, sizeof *h.ready);
    for (int i = 0; i < n; i++) h.queues[i] = simulation_add_queue(h.simulation);
    return h;
}

static void hosts_free(Hosts *h) {
    for (int i = 0; i < h->num_routes; i++) free(h->routes[i]);
    free(h->routes);
    free(h->queues);
    free(h->sent);
    free(h->ready);
    simulation_free(h->simulation);
}

ExchangeModel exchange_model(const Machine *machine, ExchangeWay way, int ranks, double bytes,
                             bool all_hosts) {
    static void (*const ways[NUM_EXCHANGE_WAYS])(Hosts * h, double bytes) = {by_ring, by_levels,
                                                                             by_servers};
    Hosts h = hosts_new(machine, ranks, all_hosts);
    ExchangeModel model = {0};
    ways[way](&h, bytes);
    for (int i = 0; i < h.simulated * h.per_host; i++) {
        Moment end = simulation_last(h.simulation, h.queues[i]);
        model.seconds = fmax(model.seconds, simulation_time(h.simulation, end));
        model.rank_bytes = fmax(model.rank_bytes, h.sent[i]);
    }
    model.card_bytes = h.card_bytes / h.simulated;
    hosts_free(&h);
    return model;
}

double exchange_card_bytes(ExchangeWay way, int hosts, int per_host, double bytes) {
    double k = (double)hosts * per_host, across = (hosts - 1.0) / hosts;
    if (hosts == 1) return 0;
    if (way == BY_RING) return 2 * (k - 1) / k * bytes;
    return 2 * across * bytes * (way == BY_SERVERS ? per_host : 1);
}
