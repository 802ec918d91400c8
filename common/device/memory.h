// memory.h: which memory was allocated where, and which queues still use it. Only this folder
// includes it; programs use device_alloc(), and queue_uses() of queue.h.
#ifndef MEMORY_H
#define MEMORY_H

#include "backend.h"

// Enters an allocation, the backend that made it, and what it is for (a text that stays).
// memory_remove() takes it out, CHECKs that it is the device's, and gives its backend and size.
void memory_add(Device *device, const Backend *from, void *memory, size_t bytes, const char *what);
const Backend *memory_remove(Device *device, void *memory, size_t *bytes);

// "1,200,000 for activations, 300,000 for tensors": what the device's bytes are for; free() it.
char *memory_uses(const Device *device);

// How many allocations there ever were, and how many of the first so many are still there.
uint64_t memory_allocations(void);
uint64_t memory_there_of(uint64_t first);

// From now on, until the event, its queue uses the allocation that the address is in. Nothing, if
// it is in none.
void memory_used_until(const void *address, Event event);

// Takes out and returns an event until which the allocation that the address is in is in use, as
// long as there is one. False: there is none any more.
bool memory_next_use(const void *address, Event *event);

#endif
