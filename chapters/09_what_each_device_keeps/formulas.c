// formulas.c: how much memory each stage needs on a device, and how many bytes it moves.
#include "zero.h"

static size_t own_floats(const Zero *z, int i) {
    size_t floats = 0;
    for (int u = 0; u < z->num_units; u++) floats += (size_t)own_part(z, u, i).count;
    return floats;
}

static size_t floats_of(const Zero *z, int u) {
    return u >= 0 && u < z->num_units ? z->units[u].floats : 0;
}

// What device i receives when unit u is reduced: the other devices' gradients of part i.
static size_t received_by(const Zero *z, int u, int i) {
    return u < z->num_units ? (size_t)(z->k - 1) * (size_t)own_part(z, u, i).count : 0;
}

// With DDP, what arrives in each allreduce stays until the step ends (allreduce.h).
static size_t received_by_ddp(const Ddp *ddp, int i) {
    size_t floats = 0;
    for (int b = 0; b < ddp->buckets.n; b++) {
        Range part = equal_range((long)ddp->buckets.floats[b], ddp->k, i);
        floats += (size_t)(ddp->k - 1) * (size_t)part.count;
    }
    return floats;
}

// ## Memory

// The most temporary memory on device i at unit u.
static size_t temporary_at(const Zero *z, int u, int i) {
    size_t unit = floats_of(z, u), received = received_by(z, u, i);
    size_t reducing = floats_of(z, u + 1) + received_by(z, u + 1, i);
    if (z->stage == STAGE_DDP) return received_by_ddp(z->ddp, i);
    if (z->stage == ZERO_1) return received;
    if (z->stage == ZERO_2) return unit + (reducing > received ? reducing : received);
    size_t before = floats_of(z, u - 1), after = floats_of(z, u + 1);
    size_t forward = unit + after, backward = 2 * unit + before + reducing;
    size_t reduce = unit + before + received;
    if (forward > backward) backward = forward;
    return reduce > backward ? reduce : backward;
}

ZeroMemory zero_memory(const Zero *z, int i) {
    size_t all = 0, own = own_floats(z, i), temporary = 0;
    for (int u = 0; u < z->num_units; u++) {
        all += z->units[u].floats;
        size_t here = temporary_at(z, u, i);
        if (here > temporary) temporary = here;
    }
    return (ZeroMemory){.parameters = sizeof(float) * (z->stage < ZERO_3 ? all : own),
                        .gradients = sizeof(float) * (z->stage < ZERO_2 ? all : own),
                        .moments = 2 * sizeof(float) * own,
                        .temporary = sizeof(float) * temporary};
}

size_t zero_peak(const ZeroMemory *m) {
    return m->parameters + m->gradients + m->moments + m->temporary;
}

// ## Bytes

Traffic zero_bytes(const Zero *z, int i) {
    if (z->ddp) return ddp_bytes(z->ddp, i);
    Traffic bytes = {0, 0};
    size_t gathers = z->stage == ZERO_3 ? 2 : 1;
    for (int u = 0; u < z->num_units; u++) {
        Traffic reduce = reduce_scatter_floats(z->units[u].floats, z->k, i);
        Traffic gather = all_gather_floats(z->units[u].floats, z->k, i);
        bytes.sent += sizeof(float) * (reduce.sent + gathers * gather.sent);
        bytes.received += sizeof(float) * (reduce.received + gathers * gather.received);
    }
    return bytes;
}
