// ledger.c: a table of bytes, to which each copy that is enqueued is added.
#include "ledger.h"
#include "backend.h"
#include "common/base/error.h"
#include "queue_observer.h"

#include <stdlib.h>

// Bytes [from][to]. Of a thousand devices most send nothing to most others, so a device gets its
// row when it first sends something.
static uint64_t *sent[NUM_DEVICE_IDS];

static void enter(int from, int to, uint64_t bytes) {
    if (!sent[from]) sent[from] = xcalloc(NUM_DEVICE_IDS, sizeof *sent[from]);
    sent[from][to] += bytes;
}

// ---- copies of a graph, which will be launched later ---------------------------------------------

typedef struct Shipment {
    int from, to;
    uint64_t bytes;
} Shipment;

typedef struct Shipments {
    Shipment *list;
    size_t count, room;
} Shipments;

static Shipments *recording;

static void begin_graph(Device *const devices[], int k) {
    (void)devices, (void)k;
    recording = xcalloc(1, sizeof *recording);
}

static void *end_graph(void) {
    Shipments *recorded = recording;
    recording = NULL;
    return recorded;
}

static void launch_graph(void *kept) {
    const Shipments *recorded = kept;
    for (size_t i = 0; i < recorded->count; i++)
        enter(recorded->list[i].from, recorded->list[i].to, recorded->list[i].bytes);
}

static void free_graph(void *kept) {
    Shipments *recorded = kept;
    free(recorded->list);
    free(recorded);
}

// ---- the ledger --------------------------------------------------------------------------------

void ledger_add(const Device *from, const Device *to, size_t bytes) {
    Shipments *s = recording;
    if (from == to) return;
    if (!s) {
        enter(from->id, to->id, bytes);
        return;
    }
    s->list = xroom(s->list, s->count, &s->room, sizeof *s->list);
    s->list[s->count++] = (Shipment){from->id, to->id, bytes};
}

static void add_copy(Queue *queue, const Device *to, const void *dst, const Device *from,
                     size_t bytes) {
    (void)queue, (void)dst;
    ledger_add(from, to, bytes);
}

void ledger_begin(void) {
    static const QueueObserver observer = {
        .copy = add_copy,
        .graph_begin = begin_graph,
        .graph_end = end_graph,
        .graph_launch = launch_graph,
        .graph_free = free_graph,
    };
    queue_observe(&observer);
}

void ledger_reset(void) {
    for (int from = 0; from < NUM_DEVICE_IDS; from++) {
        free(sent[from]);
        sent[from] = NULL;
    }
}

uint64_t ledger_bytes(const Device *from, const Device *to) {
    return sent[from->id] ? sent[from->id][to->id] : 0;
}

uint64_t ledger_bytes_between_devices(void) {
    uint64_t total = 0;
    for (int from = 0; from < HOST_ID; from++)
        for (int to = 0; sent[from] && to < HOST_ID; to++) total += sent[from][to];
    return total;
}

uint64_t ledger_bytes_host(void) {
    uint64_t total = 0;
    for (int id = 0; id < HOST_ID; id++) {
        if (sent[id]) total += sent[id][HOST_ID];
        if (sent[HOST_ID]) total += sent[HOST_ID][id];
    }
    return total;
}
