// memory.c: see memory.h. Allocations are few (parameters, arenas, minibatch buffers), or some ten
// thousand where there are hundreds of model devices; they are kept ordered by address, so that the
// one that an address is in is soon found, and as pointers, so that little moves for a new one.
#include "memory.h"
#include "common/base/error.h"
#include "common/base/number.h"

#include <stdlib.h>
#include <string.h>

typedef struct Allocation {
    const char *begin, *end;
    Device *device;
    const Backend *from;
    const char *what; // it is for
    uint64_t number;
    Event *uses; // by queues that are not the device's compute queue, one of each
    int num_uses;
} Allocation;

static Allocation **allocations;
static int count, room;
static uint64_t made; // allocations, ever

// The number of allocations that begin at this address or before it.
static int num_until(const void *address) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (allocations[middle]->begin <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Allocation *allocation_of(const void *address) {
    int n = num_until(address);
    return n > 0 && (const char *)address < allocations[n - 1]->end ? allocations[n - 1] : NULL;
}

void memory_add(Device *device, const Backend *from, void *memory, size_t bytes, const char *what) {
    if (count == room) {
        room = room ? 2 * room : 64;
        allocations = xgrow(allocations, (size_t)room, sizeof *allocations);
    }
    int at = num_until(memory);
    memmove(allocations + at + 1, allocations + at, sizeof *allocations * (size_t)(count - at));
    allocations[at] = xmalloc(sizeof **allocations);
    *allocations[at] = (Allocation){.begin = memory,
                                    .end = (char *)memory + bytes,
                                    .device = device,
                                    .from = from,
                                    .what = what,
                                    .number = made++};
    count++;
    took_memory(device, bytes);
}

const Backend *memory_remove(Device *device, void *memory, size_t *bytes) {
    Allocation *a = allocation_of(memory);
    CHECK(a && a->begin == memory && a->device == device,
          "device_free() takes what device_alloc() gave, and the device that it was asked of");
    const Backend *from = a->from;
    *bytes = (size_t)(a->end - a->begin);
    device->bytes -= *bytes;
    int at = num_until(memory) - 1;
    count--;
    memmove(allocations + at, allocations + at + 1, sizeof *allocations * (size_t)(count - at));
    free(a->uses);
    free(a);
    return from;
}

char *memory_uses(const Device *device) {
    enum { MOST = 8 };
    const char *what[MOST];
    uint64_t bytes[MOST];
    int n = 0;
    for (int i = 0; i < count; i++) {
        const Allocation *a = allocations[i];
        if (a->device != device) continue;
        int at = 0;
        while (at < n && strcmp(what[at], a->what) != 0) at++;
        if (at == MOST) continue;
        if (at == n) {
            what[n] = a->what;
            bytes[n++] = 0;
        }
        bytes[at] += (uint64_t)(a->end - a->begin);
    }
    char *text = xstrdup(n ? "" : "nothing");
    for (int i = 0; i < n; i++) {
        char *longer =
            xprintf("%s%s%s for %s", text, i ? ", " : "", grouped(bytes[i]).text, what[i]);
        free(text);
        text = longer;
    }
    return text;
}

uint64_t memory_allocations(void) { return made; }

uint64_t memory_there_of(uint64_t first) {
    uint64_t there = 0;
    for (int i = 0; i < count; i++) there += allocations[i]->number < first;
    return there;
}

void memory_used_until(const void *address, Event event) {
    Allocation *a = allocation_of(address);
    if (!a) return;
    for (int i = 0; i < a->num_uses; i++)
        if (a->uses[i].queue == event.queue) {
            a->uses[i] = event;
            return;
        }
    a->uses = xgrow(a->uses, (size_t)(a->num_uses + 1), sizeof *a->uses);
    a->uses[a->num_uses++] = event;
}

bool memory_next_use(const void *address, Event *event) {
    Allocation *a = allocation_of(address);
    if (!a || a->num_uses == 0) return false;
    *event = a->uses[--a->num_uses];
    return true;
}
