// cargo.c: adds up what goes from one device to another, for the cases of exercises (facts.h).
// After each copy, the queue that made it adds up the floats that arrived.
#include "facts.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/device/device.h"
#include "common/device/queue_observer.h"

#include <stdlib.h>

static double *cargo[NUM_DEVICE_IDS]; // [from][to]
static Mutex mutex;

typedef struct Carried {
    int from, to;
    const float *values;
    size_t n;
} Carried;

static void weigh(void *context) {
    Carried *c = context;
    double sum = 0;
    for (size_t i = 0; i < c->n; i++) sum += (double)c->values[i];
    mutex_lock(&mutex);
    cargo[c->from][c->to] += sum;
    mutex_unlock(&mutex);
    free(c);
}

static void add_cargo(Queue *queue, const Device *to, const void *dst, const Device *from,
                      size_t bytes) {
    const Device *device = queue_device(queue);
    if (from == to || device_gpu(device) >= 0 || !has_values(device)) return;
    Carried *c = xmalloc(sizeof *c);
    *c = (Carried){device_id(from), device_id(to), dst, bytes / sizeof(float)};
    if (!cargo[c->from]) cargo[c->from] = xcalloc(NUM_DEVICE_IDS, sizeof *cargo[c->from]);
    queue_call(queue, weigh, c); // in the order of the queue, so right after the copy
}

void ledger_watch_cargo(void) {
    static const QueueObserver observer = {.copy = add_cargo};
    queue_observe(&observer);
    for (int i = 0; i < NUM_DEVICE_IDS; i++) {
        free(cargo[i]);
        cargo[i] = NULL;
    }
}

double ledger_cargo(const Device *from, const Device *to) {
    const double *row = cargo[device_id(from)];
    return row ? row[device_id(to)] : 0;
}
