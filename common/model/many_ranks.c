// many_ranks.c: see many_ranks.h.
#include "many_ranks.h"

#include "common/base/error.h"
#include "layer_kernels.h"

#include <math.h>
#include <stdlib.h>

// ## A ring
//
// Each of a ring's ranks receives ranks-1 parts and adds them, then ranks-1 that are sums. It waits
// for the rank before it each time, so all are as slow as the slowest hop, or as a port that
// several hops share.

static int device_of(const Machine *machine, int rank, int per_host) {
    return rank / per_host * machine->devices + rank % per_host;
}

double ring_seconds(const Machine *machine, int ranks, int stride, int per_host, double bytes) {
    CHECK(ranks >= 1 && stride >= 1 && per_host >= 1 && per_host <= machine->devices,
          "a ring has ranks, on devices that the hosts have");
    if (ranks == 1) return 0;
    int all = ranks * stride, last = device_of(machine, all - 1, per_host);
    double part = bytes / ranks, hop = 0, turn = 0;
    double *busy = xcalloc((size_t)machine_ports(machine, last + 1), sizeof *busy);
    for (int r = 0; r < all; r++) {
        Route route = machine_route(machine, device_of(machine, r, per_host),
                                    device_of(machine, (r + stride) % all, per_host));
        double seconds = part / route.link.bandwidth;
        hop = fmax(hop, route.link.latency + seconds);
        for (int i = 0; i < route.num_ports; i++) {
            const PortUse *use = &route.ports[i];
            turn = fmax(turn, busy[use->port] += use->share * seconds);
        }
    }
    free(busy);
    struct add_args args = {.n = (size_t)(part / sizeof(float))};
    KernelTraffic traffic = kernel_traffic(BY_ONE_LAUNCH, KERNEL_add, &args);
    double add = machine->kernel + machine_kernel_seconds(machine, traffic, false);
    return (ranks - 1) * (fmax(hop + add, turn) + fmax(hop, turn));
}

// ## A rank alone
//
// A host that launches, and a device that computes: a kernel begins when it is launched and the one
// before it is done. These are the modelled clock's rules for one queue, without the clock.

typedef struct Clocks {
    const Machine *machine;
    bool tf32;
    double host, device;
} Clocks;

static void count_kernel(void *context, KernelId kernel, const void *args, size_t size) {
    Clocks *clocks = context;
    const Machine *m = clocks->machine;
    (void)size;
    clocks->host += m->launch;
    clocks->device =
        fmax(clocks->device, clocks->host) + m->kernel +
        machine_kernel_seconds(m, kernel_traffic(BY_ONE_LAUNCH, kernel, args), clocks->tf32);
}

RankStep rank_step(const Machine *machine, const NetworkTable *network, int images, bool tf32) {
    RankStep step;
    float anywhere;
    Clocks clocks = {.machine = machine, .tf32 = tf32};
    KernelTaker to = {.take = count_kernel, .context = &clocks, .anywhere = &anywhere};
    for (int l = 0; l < network->num_layers; l++)
        table_layer_forward(&to, &network->layers[l], images);
    table_loss(&to, network, images);
    for (int l = network->num_layers - 1; l >= 0; l--) {
        table_layer_backward(&to, &network->layers[l], images, l == 0);
        step.ready[l] = clocks.device;
    }
    step.backward = clocks.device;
    table_update(&to, network, images);
    step.update = clocks.device - step.backward;
    return step;
}

RankStep faster_rank(const RankStep *rank, double times) {
    RankStep faster = *rank;
    for (int l = 0; l < MOST_TABLE_LAYERS; l++) faster.ready[l] /= times;
    faster.backward /= times;
    faster.update /= times;
    return faster;
}

// ## Messages
//
// Backward comes to the last layer first, so that is whose gradients are sent first.

typedef struct Message {
    double bytes, sent;
} Message;

static double layer_bytes(const NetworkTable *network, int l) {
    return table_layer_params(&network->layers[l]) * sizeof(float);
}

// The next message, beginning with layer *l, backwards; *l is then the first that is not in it.
static Message when_full(const NetworkTable *network, const RankStep *rank, double full, int *l) {
    Message m = {0};
    for (; *l >= 0 && m.bytes < full; --*l) {
        m.bytes += layer_bytes(network, *l);
        m.sent = rank->ready[*l];
    }
    return m;
}

static Message at_next_cycle(const NetworkTable *network, const RankStep *rank, SendRule f,
                             int *l) {
    Message m = {layer_bytes(network, *l), ceil(rank->ready[*l] / f.cycle) * f.cycle};
    for (--*l; *l >= 0 && rank->ready[*l] <= m.sent; --*l) {
        double more = layer_bytes(network, *l);
        if (m.bytes > 0 && more > 0 && m.bytes + more > f.bytes) break;
        m.bytes += more;
    }
    return m;
}

ScaledStep scaled_step(const Machine *machine, const NetworkTable *network, const RankStep *rank,
                       SendRule fusion, int ranks) {
    ScaledStep step = {0};
    double arrived = 0; // when the message before is there
    for (int l = network->num_layers - 1; l >= 0 && ranks > 1;) {
        Message m = fusion.cycle > 0 ? at_next_cycle(network, rank, fusion, &l)
                                     : when_full(network, rank, fusion.bytes, &l);
        if (m.bytes == 0) continue;
        double seconds = ring_seconds(machine, ranks, 1, machine->devices, m.bytes);
        arrived = fmax(arrived, m.sent) + seconds;
        step.exchanging += seconds;
        step.messages++;
    }
    step.seconds = fmax(rank->backward, arrived) + rank->update;
    step.efficiency = rank_seconds(rank) / step.seconds;
    return step;
}

// ## What was published

const PublishedScaling published_scalings[NUM_PUBLISHED_SCALINGS] = {
    {inception_v3, 134.4, 2022.6, 0.90},
    {resnet101, 119.4, 1746.2, 0.90},
    {vgg16, 130.9, 1787.4, 0.68},
};

double published_modelled(const PublishedScaling *published, SendRule rule, int ranks) {
    const Machine *machine = machine_find("p100-25gbe");
    NetworkTable network = published->network();
    RankStep rank = rank_step(machine, &network, PUBLISHED_IMAGES, false);
    rank = faster_rank(&rank, published->one * rank_seconds(&rank) / PUBLISHED_IMAGES);
    return scaled_step(machine, &network, &rank, rule, ranks).efficiency;
}
