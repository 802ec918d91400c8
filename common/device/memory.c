// memory.c: the allocations of each device, ordered by address so that the one an address is in is
// found fast, and how many bytes there are for each use.
#include "memory.h"
#include "common/base/error.h"
#include "common/base/number.h"

#include <stdlib.h>
#include <string.h>

struct Allocation {
    const char *begin, *end;
    const Backend *from;
    MemoryUse use;
    uint64_t number;
    Event *uses; // one for each queue that uses it besides the device's compute queue
    int num_uses;
};

static uint64_t made; // allocations, ever

// ---- which allocations there are ----------------------------------------------------------------

// The number of the device's allocations that begin at this address or before it.
static size_t num_until(const Device *device, const void *address) {
    size_t low = 0, high = device->num_allocations;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (device->allocations[middle]->begin <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Allocation *allocation_of(const Device *device, const void *address) {
    size_t n = num_until(device, address);
    if (n == 0 || (const char *)address >= device->allocations[n - 1]->end) return NULL;
    return device->allocations[n - 1];
}

static size_t bytes_of(const Allocation *a) { return (size_t)(a->end - a->begin); }

void memory_add(Device *device, const Backend *from, void *memory, size_t bytes, MemoryUse use) {
    size_t at = num_until(device, memory), after = device->num_allocations - at;
    device->allocations = xroom(device->allocations, device->num_allocations,
                                &device->allocations_room, sizeof *device->allocations);
    Allocation **place = device->allocations + at;
    memmove(place + 1, place, sizeof *place * after);
    *place = xmalloc(sizeof **place);
    **place = (Allocation){
        .begin = memory, .end = (char *)memory + bytes, .from = from, .use = use, .number = made++};
    device->num_allocations++;
    device->bytes[use] += bytes;
    device->bytes[MEMORY_ALL] += bytes;
}

static void free_allocation(Allocation *a) {
    free(a->uses);
    free(a);
}

const Backend *memory_remove(Device *device, void *memory) {
    Allocation *a = allocation_of(device, memory);
    CHECK(a && a->begin == memory,
          "device_free() takes what device_alloc() gave, and the device that it was asked of");
    const Backend *from = a->from;
    for (MemoryUse each = MEMORY_ALL; each < MEMORY_USES; each++)
        device->peak_bytes[each] = device_peak_bytes_of(device, each);
    device->bytes[a->use] -= bytes_of(a);
    device->bytes[MEMORY_ALL] -= bytes_of(a);
    size_t at = num_until(device, memory) - 1, after = --device->num_allocations - at;
    Allocation **place = device->allocations + at;
    memmove(place, place + 1, sizeof *place * after);
    free_allocation(a);
    return from;
}

void memory_forget_all(Device *device) {
    for (size_t i = 0; i < device->num_allocations; i++) free_allocation(device->allocations[i]);
    free(device->allocations);
}

uint64_t memory_allocations(void) { return made; }

uint64_t memory_there_of(const Device *device, uint64_t first) {
    uint64_t there = 0;
    for (size_t i = 0; i < device->num_allocations; i++)
        there += device->allocations[i]->number < first;
    return there;
}

uint64_t memory_gap(const Device *device, uint64_t first, uint64_t end, uint64_t bytes) {
    enum { ALIGNED = 256 };
    for (size_t i = 0; i < device->num_allocations; i++) {
        const Allocation *a = device->allocations[i];
        if ((uint64_t)(uintptr_t)a->begin - first >= bytes) {
            end = (uintptr_t)a->begin;
            break;
        }
        first = ((uint64_t)(uintptr_t)a->end + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    return first <= end && end - first >= bytes ? first : 0;
}

// ---- what they are for -------------------------------------------------------------------------

uint64_t device_bytes_of(const Device *device, MemoryUse use) { return device->bytes[use]; }
uint64_t device_bytes(const Device *device) { return device->bytes[MEMORY_ALL]; }

// Bytes only grow until something is freed, so peak_bytes are brought up to date there.
uint64_t device_peak_bytes_of(const Device *device, MemoryUse use) {
    uint64_t before = device->peak_bytes[use], now = device->bytes[use];
    return now > before ? now : before;
}
uint64_t device_peak_bytes(const Device *device) {
    return device_peak_bytes_of(device, MEMORY_ALL);
}

void device_reset_peaks(Device *device) {
    memset(device->peak_bytes, 0, sizeof device->peak_bytes);
}

void device_memory_is_for(Device *device, const void *address, MemoryUse use) {
    Allocation *a = allocation_of(device, address);
    if (!a || a->use != MEMORY_OTHER) return;
    device->bytes[a->use] -= bytes_of(a);
    device->bytes[use] += bytes_of(a);
    a->use = use;
}

void memory_took_for_kernels(Device *device, uint64_t bytes) {
    device->bytes[MEMORY_KERNELS] += bytes;
    device->bytes[MEMORY_ALL] += bytes;
}

static const char *const names[MEMORY_USES] = {
    "all",    "tensors", "parameters", "gradients", "activations", "what is being exchanged",
    "kernels"};

const char *memory_use_name(MemoryUse use) { return names[use]; }

char *memory_uses(const Device *device, MemoryUse end) {
    char *text = NULL;
    for (MemoryUse use = MEMORY_ALL + 1; use < end; use++) {
        if (device->bytes[use] == 0) continue;
        char *longer = xprintf("%s%s%s for %s", text ? text : "", text ? ", " : "",
                               grouped(device->bytes[use]).text, names[use]);
        free(text);
        text = longer;
    }
    return text ? text : xstrdup("nothing");
}

// ---- which queues use them ---------------------------------------------------------------------

void memory_used_until(Device *device, const void *address, Event event) {
    Allocation *a = allocation_of(device, address);
    if (!a) return;
    for (int i = 0; i < a->num_uses; i++)
        if (a->uses[i].queue == event.queue) {
            a->uses[i] = event;
            return;
        }
    a->uses = xgrow(a->uses, (size_t)(a->num_uses + 1), sizeof *a->uses);
    a->uses[a->num_uses++] = event;
}

bool memory_next_use(Device *device, const void *address, Event *event) {
    Allocation *a = allocation_of(device, address);
    if (!a || a->num_uses == 0) return false;
    *event = a->uses[--a->num_uses];
    return true;
}
