// shards.c: which parameters belong together, and which part of them each device keeps.
#include "zero.h"

#include "common/base/error.h"

#include <stdlib.h>

// ## Units

static size_t floats_of(const Module *net, const NetPart *part) {
    Parameters all = parameters_of(net);
    size_t floats = 0;
    for (int p = part->first; p < part->first + part->num; p++)
        if (all.list[p]->trained) floats += numel(all.list[p]->start);
    return floats;
}

static bool begins_a_unit(const Zero *z, const NetPart *part) {
    if (z->num_units == 0) return true;
    if (!zero_stages[z->stage].divides_gradients) return false;
    return z->units[z->num_units - 1].floats > 0 && floats_of(z->net, part) > 0;
}

void make_units(Zero *z) {
    int num_parts;
    size_t first = 0;
    z->parts = net_parts(z->net, &num_parts);
    z->units = xcalloc((size_t)num_parts, sizeof *z->units);
    for (int p = 0; p < num_parts; p++) {
        NetPart *part = &z->parts[p];
        if (begins_a_unit(z, part))
            z->units[z->num_units++] =
                (Unit){.parts = part, .first_param = part->first, .first = first};
        Unit *unit = &z->units[z->num_units - 1];
        unit->num_parts++;
        unit->num_params += part->num;
        unit->floats += floats_of(z->net, part);
        first += floats_of(z->net, part);
    }
}

const char *unit_name(const Zero *z, int u) {
    return parameters_of(z->net).list[z->units[u].first_param]->name;
}

// ## Shards

Range own_part(const Zero *z, int u, int i) {
    long floats = (long)z->units[u].floats;
    if (!zero_stages[z->stage].divides_moments) return (Range){0, floats}; // updates all
    return equal_range(floats, z->k, i);
}

Tensor *floats_on(Device *device, size_t n, MemoryUse use) {
    Tensor *t = tensor_new(device, (int)n);
    device_memory_is_for(device, t->data, use);
    return t;
}

static Tensor *slice(const Tensor *flat, Range part) {
    return tensor_slice(flat, (size_t)part.first, 1, (int[]){(int)part.count});
}

// The device's own part of a unit: in separate memory, or a slice of memory that exists anyway.
static void make_shard(Zero *z, int u, int i) {
    Shard *s = &z->shards[u][i];
    Range part = own_part(z, u, i);
    size_t all = z->units[u].floats, own = (size_t)part.count;
    Device *device = z->devices[i];
    if (z->ddp) {
        FlatParameters flat = flat_parameters(z->net, device);
        s->own = slice(flat.data, part);
        attach_grad_at(s->own, flat.grad, 0);
        return;
    }
    const StageKind *stage = &zero_stages[z->stage];
    if (!stage->divides_parameters) s->full = floats_on(device, all, MEMORY_PARAMETERS);
    if (!stage->divides_gradients) s->full_grad = floats_on(device, all, MEMORY_GRADIENTS);
    s->own = s->full ? slice(s->full, part) : floats_on(device, own, MEMORY_PARAMETERS);
    s->own->grad =
        s->full_grad ? slice(s->full_grad, part) : floats_on(device, own, MEMORY_GRADIENTS);
}

// Copies the initial values of p that are among the `floats` numbers from `first` on.
static void copy_start(const Parameter *p, size_t first, size_t floats, Tensor *to) {
    size_t begin = p->first > first ? p->first : first;
    size_t end = p->first + numel(p->start), last = first + floats;
    if (last < end) end = last;
    if (begin >= end) return;
    device_copy(to->device, to->data + (begin - first), host(), p->start->data + (begin - p->first),
                sizeof(float) * (end - begin));
}

static void fill_shard(const Zero *z, int u, int i) {
    const Unit *unit = &z->units[u];
    const Shard *s = &z->shards[u][i];
    Tensor *to = s->full ? s->full : s->own;
    size_t first = unit->first + (s->full ? 0 : (size_t)own_part(z, u, i).first);
    Parameters all = parameters_of(z->net);
    for (int p = unit->first_param; p < unit->first_param + unit->num_params; p++)
        if (all.list[p]->trained) copy_start(all.list[p], first, numel(to), to);
    if (s->full_grad) tensor_fill(s->full_grad, 0);
    tensor_fill(s->own->grad, 0);
}

void point_to(const Zero *z, int u, int i) {
    const Unit *unit = &z->units[u];
    const Shard *s = &z->shards[u][i];
    Parameters all = parameters_of(z->net);
    for (int p = unit->first_param; p < unit->first_param + unit->num_params; p++) {
        if (!all.list[p]->trained) continue;
        size_t at = all.list[p]->first - unit->first;
        parameter_memory(all.list[p], z->devices[i], s->full ? s->full->data + at : NULL,
                         s->full_grad ? s->full_grad->data + at : NULL);
    }
}

void make_shards(Zero *z) {
    z->shards = xcalloc((size_t)z->num_units, sizeof *z->shards);
    for (int u = 0; u < z->num_units; u++) {
        if (z->units[u].floats < (size_t)z->k)
            die("use fewer --devices", "%d devices cannot share the %zu parameters from %s on",
                z->k, z->units[u].floats, unit_name(z, u));
        z->shards[u] = xcalloc((size_t)z->k, sizeof **z->shards);
        for (int i = 0; i < z->k; i++) {
            make_shard(z, u, i);
            if (z->ddp) continue;
            fill_shard(z, u, i);
            point_to(z, u, i);
        }
    }
}

void free_shards(Zero *z) {
    for (int u = 0; u < z->num_units; u++) {
        for (int i = 0; i < z->k; i++) {
            Shard *s = &z->shards[u][i];
            tensor_free(s->own);
            tensor_free(s->full);
            tensor_free(s->full_grad);
            tensor_free(s->received);
        }
        free(z->shards[u]);
    }
    free(z->shards);
}

// ## As arrays of tensors, one on each device

UnitTensors tensors_of(const Zero *z, int u) {
    UnitTensors t;
    for (int i = 0; i < z->k; i++) {
        const Shard *s = &z->shards[u][i];
        t.full[i] = s->full;
        t.full_grad[i] = s->full_grad;
        t.own[i] = s->own;
        t.own_grad[i] = s->own->grad;
        t.received[i] = s->received;
    }
    return t;
}
