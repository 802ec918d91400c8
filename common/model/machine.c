// machine.c: how long a kernel takes on a machine, and which ports a copy passes. (machine_file.c
// reads machines.)
#include "machine.h"
#include "common/base/error.h"

#include <math.h>

bool machine_has_devices(const Machine *machine, int count) {
    return count >= 1 && (count <= machine->devices || machine->cards > 0);
}

Machine machine_with_free(const Machine *machine, unsigned parts) {
    const Link nothing = {.bandwidth = INFINITY, .latency = 0};
    Machine m = *machine;
    if (parts & FREE_MEMORY) m.memory = INFINITY;
    if (parts & FREE_LINKS) {
        m.links = LINKS_SWITCH;
        m.link = m.host_link = m.network = nothing;
        m.root_bandwidth = INFINITY;
    }
    if (parts & FREE_DEVICES) {
        m.fp32 = m.tf32 = m.fp16 = m.memory_bandwidth = INFINITY;
        m.kernel = m.graph_kernel = 0;
    }
    return m;
}

// ---- time ------------------------------------------------------------------------------------

static double flop_per_second(const Machine *machine, KernelCost cost, bool tf32) {
    double part = machine->efficiency[cost.kind];
    if (cost.kind == COST_ELEMENTS) return machine->fp32; // they wait for memory
    if (cost.kind == COST_CONVOLUTION) part = machine->convolution[cost.form][cost.pass];
    if (tf32 && machine->tf32_efficiency[cost.kind] > 0) part = machine->tf32_efficiency[cost.kind];
    return part * (tf32 ? machine->tf32 : machine->fp32);
}

// The FLOP of a product, with what a GPU wastes. Its multiprocessors compute tiles of the result
// side by side, a wave of them at a time. The last wave takes the same time as the others, even if
// few tiles are left, and so does a tile that lies partly beyond the edge of the result. If there
// are fewer tiles than multiprocessors, cuBLAS cuts the sums into parts until each multiprocessor
// has a tile. Its smallest usual tile is 64 x 64, and a multiprocessor needs two at a time for its
// full rate. (On an H100, cuBLAS cut LeNet's (20,173056) times (173056,9) into 132 parts of one
// tile and took 62 us, see kernels/cuda/conv2d.cu; at the rate of large products two tiles would
// take 55.)
static double waves_flop(int multiprocessors, Products p) {
    enum { SIDE = 64, AT_A_TIME = 2 };
    double tiles = ceil(p.rows / SIDE) * ceil(p.columns / SIDE);
    double parts = fmax(1, floor(multiprocessors / tiles));
    double wave = AT_A_TIME * multiprocessors;
    return p.count * ceil(tiles * parts / wave) * wave * 2 * SIDE * SIDE * p.length / parts;
}

double machine_kernel_seconds(const Machine *machine, KernelTraffic t, bool tf32) {
    double flop = t.work.flop;
    double bytes_per_second = machine->memory_bandwidth * machine->efficiency[COST_ELEMENTS];
    if (machine->multiprocessors > 0 && t.products.count > 0)
        flop = fmax(flop, waves_flop(machine->multiprocessors, t.products));
    return t.moved / bytes_per_second +
           fmax(flop / flop_per_second(machine, t.work, tf32), t.work.bytes / bytes_per_second);
}

// ---- ports -----------------------------------------------------------------------------------

// A host has these ports, in this order: by PCIe out of each device and into it; up each root and
// down; out of each card and into it; then the ports of the links. After the ports of one host come
// those of the next.
typedef enum { OUT, IN, UP = OUT, DOWN = IN } Direction;

static int num_roots(const Machine *machine) {
    return (machine->devices + machine->devices_per_root - 1) / machine->devices_per_root;
}

static int first_link_port(const Machine *machine) {
    return 2 * (machine->devices + num_roots(machine) + machine->cards);
}

static int ports_of_host(const Machine *machine) {
    int link_ports = machine->links == LINKS_SWITCH ? 2 * machine->devices
                     : machine->links == LINKS_MESH ? machine->devices * machine->devices
                                                    : 0;
    return first_link_port(machine) + link_ports;
}

int machine_ports(const Machine *machine, int num_devices) {
    CHECK(machine_has_devices(machine, num_devices), "the machine has fewer devices");
    int hosts = (num_devices + machine->devices - 1) / machine->devices;
    return hosts * ports_of_host(machine);
}

// ---- routes ----------------------------------------------------------------------------------

// A device's host, and its number on that host.
typedef struct Place {
    int host, device;
} Place;

// (Until machine_route() knows the slowest port, `share` holds the port's bandwidth.)
static void pass(const Machine *machine, Route *route, int host, int port, double bandwidth) {
    CHECK(route->num_ports < MAX_PORTS, "a route has at most MAX_PORTS ports");
    route->ports[route->num_ports++] = (PortUse){host * ports_of_host(machine) + port, bandwidth};
    route->link.bandwidth = fmin(route->link.bandwidth, bandwidth);
}

static void pass_device(const Machine *machine, Route *route, Place at, Direction direction) {
    pass(machine, route, at.host, 2 * at.device + (int)direction, machine->host_link.bandwidth);
}

static void pass_root(const Machine *machine, Route *route, Place at, Direction direction) {
    int root = at.device / machine->devices_per_root;
    int port = 2 * (machine->devices + root) + (int)direction;
    pass(machine, route, at.host, port, machine->root_bandwidth);
}

static void pass_card(const Machine *machine, Route *route, Place at, Direction direction) {
    int card = at.device * machine->cards / machine->devices;
    int port = 2 * (machine->devices + num_roots(machine) + card) + (int)direction;
    pass(machine, route, at.host, port, machine->network.bandwidth);
}

static void pass_link(const Machine *machine, Route *route, int host, int port, double bandwidth) {
    pass(machine, route, host, first_link_port(machine) + port, bandwidth);
}

// The table in machine.h says what each kind of route passes.
Route machine_route(const Machine *m, int from, int to) {
    CHECK(from != to && from >= HOST_MEMORY && to >= HOST_MEMORY, "a route has two different ends");
    CHECK(machine_has_devices(m, 1 + (from > to ? from : to)), "the machine lacks a device");
    int n = m->devices;
    Place here = {from / n, from % n}, there = {to / n, to % n};
    Route route = {.link = {INFINITY, m->host_link.latency}};
    if (to == HOST_MEMORY) {
        pass_device(m, &route, here, OUT);
        pass_root(m, &route, here, UP);
    } else if (from == HOST_MEMORY) {
        pass_root(m, &route, there, DOWN);
        pass_device(m, &route, there, IN);
    } else if (here.host != there.host) {
        route.link.latency = m->network.latency;
        pass_device(m, &route, here, OUT);
        pass_card(m, &route, here, OUT);
        pass_card(m, &route, there, IN);
        pass_device(m, &route, there, IN);
    } else if (m->links == LINKS_SWITCH) {
        route.link.latency = m->link.latency;
        pass_link(m, &route, here.host, 2 * here.device + OUT, m->link.bandwidth);
        pass_link(m, &route, here.host, 2 * there.device + IN, m->link.bandwidth);
    } else if (m->links == LINKS_MESH && m->mesh[here.device][there.device] > 0) {
        route.link.latency = m->link.latency;
        pass_link(m, &route, here.host, here.device * n + there.device,
                  m->mesh[here.device][there.device]);
    } else { // by PCIe; without peer-to-peer access, to the host's memory and from there on
        bool two_copies = m->links == LINKS_HOST;
        if (two_copies) route.link.latency *= 2;
        pass_device(m, &route, here, OUT);
        if (two_copies || here.device / m->devices_per_root != there.device / m->devices_per_root) {
            pass_root(m, &route, here, UP);
            pass_root(m, &route, there, DOWN);
        }
        pass_device(m, &route, there, IN);
    }
    for (int i = 0; i < route.num_ports; i++) { // (a port that is free takes no time)
        double *share = &route.ports[i].share;
        *share = isinf(*share) ? 0 : route.link.bandwidth / *share;
    }
    return route;
}

// ---- the table -------------------------------------------------------------------------------

void machine_list(FILE *out) {
    static const char *const kinds[] = {"switch", "PCIe", "by host", "mesh"};
    const double no_device_has = 1e18; // FLOP/s: files write more than this for "no limit"
    fprintf(out, "%-13s %7s %12s %8s  %-20s %s\n", "machine", "devices", "fp32 TFLOP/s", "memory",
            "link, each way", "network");
    for (const MachineFile *file = machine_files; file->name; file++) {
        const Machine *m = machine_find(file->name);
        char fp32[32] = "no limit", link[32] = "-", network[32] = "-";
        if (m->fp32 < no_device_has) snprintf(fp32, sizeof fp32, "%.3g", m->fp32 / 1e12);
        if (m->devices > 1)
            snprintf(link, sizeof link, "%s %.3g GB/s", kinds[m->links], m->link.bandwidth / 1e9);
        if (m->cards > 0)
            snprintf(network, sizeof network, "%d x %.3g GB/s", m->cards,
                     m->network.bandwidth / 1e9);
        fprintf(out, "%-13s %7d %12s %5.3g GB  %-20s %s\n", m->name, m->devices, fp32,
                m->memory / 1e9, link, network);
    }
}
