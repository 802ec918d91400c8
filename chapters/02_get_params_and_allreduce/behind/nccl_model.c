// nccl_model.c: latency and bandwidth of each algorithm and protocol, with the formulas and
// constants of NCCL's own model: github.com/NVIDIA/nccl, commit 5067397c2676 (June 2026),
// src/graph/tuning.cc, in its units, microseconds and GB/s.
//
// NCCL finds its rings by a search through the topology (src/graph/search.cc); we count them from
// the machine's bandwidths. Like NCCL, we leave out the start of the kernels and the time until
// pipelines are full, so middle sizes seem faster than they are.
#include "nccl_model.h"

#include <math.h>

enum { NUM_SIZES = 23 }; // 64 bytes, twice as many, ... 256 MB

// What one step of an algorithm takes, after a start.
typedef enum { NVLINK, PCIE, NETWORK, NUM_WAYS } Way;
static const double start[NUM_NCCL_ALGORITHMS][NUM_NCCL_PROTOCOLS] = {
    [NCCL_TREE] = {6.8, 14, 8.4}, [NCCL_RING] = {6.6, 14, 8.4}, [NCCL_NVLS] = {0, 0, 0}};
static const double step[NUM_WAYS][NUM_NCCL_ALGORITHMS][NUM_NCCL_PROTOCOLS] = {
    [NVLINK] = {{0.6, 1.25, 4}, {0.6, 1.9, 3.4}, {0, 0, 25}},
    [PCIE] = {{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 0}},
    [NETWORK] = {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 20.9}},
};

// Trees have less than their bandwidth at middle sizes.
static const double tree_part[NUM_NCCL_PROTOCOLS][NUM_SIZES] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
};

// What differs between generations of GPUs: {Hopper, Ampere, Volta or older}. NCCL asks for the
// generation's number, we look at the peak in TF32.
static const double peak_from[] = {300e12, 30e12, 0};
// A GPU's NVLinks together, as NCCL reckons (src/graph/topo.h), and what it gives a ring of them.
static const double all_nvlinks[] = {18 * 20.6, 12 * 20, 6 * 20}, one_ring[] = {30, 20, 20};
// Upper limits: of LL for all channels (rings, trees) together, of LL128 and trees for each.
// Columns: 1 host, 2, more. `post` is what a CPU needs to post a message; like LL between hosts it
// depends on the CPU (Intel with H100 and V100, AMD with A100).
static const double ll[][3] = {{141, 39, 20.4}, {87.7, 22.5, 19}, {39, 39, 20.4}};
static const double ring_ll128[] = {36.7, 20, 20};
static const double tree_ll128[][3] = {{36.7, 36.7, 29}, {20, 20, 20}, {20, 20, 20}};
static const double tree[][3] = {{38.7, 41.4, 36}, {24, 23.6, 17.8}, {26.5, 18.5, 10}};
static const double nvls_tree[] = {INFINITY, 57.7, 45.5}, nvls_part = 0.85; // Hopper only
static const double post[] = {1, 2, 1};
// By how much the latency of rings between hosts grows for long vectors.
static const double plateau[] = {1.4, 1.4, 1.9};

// How the ranks are spread over the machine.
typedef struct Layout {
    int gpu, some;                  // generation; 1 host, 2, or more: places in the tables above
    int ranks, hosts, local;        // local: on a host
    int channels;                   // rings at once
    Way way;                        // inside a host
    double inside, card, bandwidth; // of all rings inside a host; of a card; of all rings
} Layout;

// A device's bandwidth over the NVLinks that rings among the first `local` devices can use; 0: no
// ring.
static double nvlinks(const Machine *machine, int local) {
    if (machine->links == LINKS_SWITCH) return machine->link.bandwidth;
    if (machine->links != LINKS_MESH) return 0;
    double least = INFINITY;
    for (int d = 0; d < local; d++) {
        double all = 0, most = 0;
        for (int peer = 0; peer < local; peer++) {
            all += machine->mesh[d][peer];
            most = fmax(most, machine->mesh[d][peer]);
        }
        // A ring of three or more comes from one neighbour and goes on to another.
        least = fmin(least, local == 2 ? all : fmin(all, 2 * (all - most)));
    }
    return least;
}

// Without access to each other's memory, each copy passes the root port of its device. With it, the
// ring passes each root port once.
static double pcie(const Machine *machine, int local) {
    int sharing = machine->devices_per_root < local ? machine->devices_per_root : local;
    double root = machine->root_bandwidth / (machine->links == LINKS_HOST ? sharing : 1);
    return fmin(machine->host_link.bandwidth, root);
}

static Layout layout_of(const Machine *machine, int ranks) {
    Layout l = {.ranks = ranks, .card = INFINITY};
    while (machine->tf32 < peak_from[l.gpu]) l.gpu++;
    l.local = ranks < machine->devices ? ranks : machine->devices;
    l.hosts = (ranks + l.local - 1) / l.local;
    l.some = l.hosts > 2 ? 2 : l.hosts - 1;
    l.inside = fmin(1e-9 * nvlinks(machine, l.local), all_nvlinks[l.gpu]);
    l.way = l.inside > 0 ? NVLINK : PCIE;
    if (l.way == PCIE) l.inside = 1e-9 * pcie(machine, l.local);
    l.channels = l.way == NVLINK ? (int)fmax(1, l.inside / one_ring[l.gpu]) : 1;
    l.bandwidth = l.inside;
    if (l.hosts == 1) return l;
    l.channels = machine->cards < l.local ? machine->cards : l.local;
    l.card = 1e-9 * fmin(machine->network.bandwidth, machine->host_link.bandwidth);
    l.bandwidth = fmin(l.inside, l.channels * l.card);
    return l;
}

static bool can_run(const Layout *l, NcclChoice pair) {
    if (pair.algorithm != NCCL_NVLS) return pair.protocol != NCCL_LL128 || l->way == NVLINK;
    return pair.protocol == NCCL_SIMPLE && l->gpu == 0 && l->way == NVLINK && l->local > 1 &&
           l->channels > 1;
}

static double latency(const Layout *l, NcclChoice pair, double network, double bytes) {
    NcclAlgorithm a = pair.algorithm;
    NcclProtocol p = pair.protocol;
    double near = step[l->way][a][p], far = step[NETWORK][l->local == 1 ? NCCL_TREE : a][p];
    // What a network takes longer than InfiniBand, for which the table was made.
    far += fmax(0, network - step[NETWORK][NCCL_RING][NCCL_SIMPLE]);
    if (a == NCCL_TREE) return start[a][p] + 2 * ((l->local - 1) * near + ilogb(l->hosts) * far);
    if (a == NCCL_NVLS) return start[a][p] + near + 2 * ilogb(l->hosts) * far;
    if (l->hosts > 1) near = fmax(near, post[l->gpu] * (p == NCCL_SIMPLE ? 3 : 1));
    int steps = 2 * (l->ranks - 1), far_steps = 2 * (l->hosts - 1);
    double ring = start[a][p] + (steps - far_steps) * near + far_steps * far;
    bool long_vector = p == NCCL_SIMPLE && l->hosts > 1 && bytes >= 64.0 * l->channels * l->ranks;
    return ring * (long_vector ? plateau[l->gpu] : 1);
}

// Bytes of the vector per second. In a ring each link carries 2 (k-1)/k times the vector.
static double of_vector(const Layout *l, double b) { return b * l->ranks / (2.0 * (l->ranks - 1)); }

static double ring_bandwidth(const Layout *l, NcclProtocol p) {
    double b = l->bandwidth;
    if (p == NCCL_LL) b = fmin(b / 2, ll[l->gpu][l->some]);
    if (p == NCCL_LL128) b = fmin(0.92 * b, l->channels * ring_ll128[l->gpu]);
    return of_vector(l, b);
}

// A card passes each byte twice, up and down; where there are two hosts, only once.
static double tree_bandwidth(const Layout *l, NcclProtocol p, double bytes) {
    double b = l->hosts == 2 ? fmin(l->inside, 2 * l->bandwidth) : l->bandwidth;
    b = fmin(0.92 * b, l->channels * tree[l->gpu][l->some]);
    double flags = l->hosts == 1 ? 7. / 9 : 120. / 128; // of LL128
    if (p == NCCL_LL) b = fmin(b / 3.8, ll[l->gpu][l->some]);
    if (p == NCCL_LL128) b = fmin(flags * b, l->channels * tree_ll128[l->gpu][l->some]);
    if (l->local == 1) b *= 0.85;
    int size = bytes < 64 ? NUM_SIZES : ilogb(bytes / 64);
    return b / 2 * (size < NUM_SIZES ? tree_part[p][size] : 1);
}

// Each part of the vector has a device that gets its sum from the switch and sends it back there.
static double nvls_bandwidth(const Layout *l) {
    int parts = l->hosts == 1 ? l->ranks : l->channels;
    double part = 2 * nvls_part * (parts - 1) / parts * l->inside / (parts + 1);
    part = fmin(part, fmin((l->hosts == 2 ? 2 : 1) * l->card, nvls_tree[l->some]));
    return of_vector(l, parts * part);
}

double nccl_seconds(const Machine *machine, NcclChoice pair, int ranks, double bytes) {
    if (ranks == 1) return 0;
    Layout l = layout_of(machine, ranks);
    if (!can_run(&l, pair)) return INFINITY;
    double b = pair.algorithm == NCCL_RING   ? ring_bandwidth(&l, pair.protocol)
               : pair.algorithm == NCCL_TREE ? tree_bandwidth(&l, pair.protocol, bytes)
                                             : nvls_bandwidth(&l);
    return 1e-6 * latency(&l, pair, 1e6 * machine->network.latency, bytes) + 1e-9 * bytes / b;
}

double nccl_allreduce_seconds(const Machine *machine, int ranks, double bytes, NcclChoice *choice) {
    double least = INFINITY;
    for (int a = 0; a < NUM_NCCL_ALGORITHMS; a++)
        for (int p = 0; p < NUM_NCCL_PROTOCOLS; p++) {
            NcclChoice pair = {(NcclAlgorithm)a, (NcclProtocol)p};
            double seconds = nccl_seconds(machine, pair, ranks, bytes);
            if (!(seconds < least)) continue;
            least = seconds;
            if (choice) *choice = pair;
        }
    return least;
}
