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

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

// The most temporary memory on device i at unit u.
static size_t temporary_at(const Zero *z, int u, int i) {
    if (z->ddp) return received_by_ddp(z->ddp, i);
    size_t unit = floats_of(z, u), received = received_by(z, u, i);
    size_t before = floats_of(z, u - 1), after = floats_of(z, u + 1);
    size_t reducing = after + received_by(z, u + 1, i);
    size_t gathered = larger(2 * unit + before + reducing, unit + before + received);
    const size_t in_stage[NUM_STAGES] = {[ZERO_1] = received,
                                         [ZERO_2] = unit + larger(reducing, received),
                                         [ZERO_3] = larger(unit + after, gathered)};
    return in_stage[z->stage];
}

ZeroMemory zero_memory(const Zero *z, int i) {
    const StageKind *stage = &zero_stages[z->stage];
    size_t all = 0, own = own_floats(z, i), temporary = 0;
    for (int u = 0; u < z->num_units; u++) {
        all += z->units[u].floats;
        temporary = larger(temporary, temporary_at(z, u, i));
    }
    return (ZeroMemory){.parameters = sizeof(float) * (stage->divides_parameters ? own : all),
                        .gradients = sizeof(float) * (stage->divides_gradients ? own : all),
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
    size_t gathers = zero_stages[z->stage].divides_parameters ? 2 : 1;
    for (int u = 0; u < z->num_units; u++) {
        Traffic reduce = reduce_scatter_floats(z->units[u].floats, z->k, i);
        Traffic gather = all_gather_floats(z->units[u].floats, z->k, i);
        bytes.sent += sizeof(float) * (reduce.sent + gathers * gather.sent);
        bytes.received += sizeof(float) * (reduce.received + gathers * gather.received);
    }
    return bytes;
}
