// memory.h: which allocations a device has, what they are for, and which queues still use them.
// Only this folder and common/model include it; programs use device_alloc(), device_bytes() and
// queue_uses().
//
// An address is looked up among one device's allocations, because devices without values may have
// the same addresses (device_model.c).
#pragma once

#include "backend.h"

// Enters an allocation and the backend that made it. memory_remove() CHECKs that the allocation is
// the device's, takes it out, and returns its backend. memory_forget_all() takes out all.
void memory_add(Device *device, const Backend *from, void *memory, size_t bytes, MemoryUse use);
const Backend *memory_remove(Device *device, void *memory);
void memory_forget_all(Device *device);

// A backend has taken memory for its kernels, beside device_alloc().
void memory_took_for_kernels(Device *device, uint64_t bytes);

// "1,200,000 for tensors, 300,000 for activations": what the device's bytes are for, without the
// uses from `end` on. free() it.
char *memory_uses(const Device *device, MemoryUse end);
// The name of the use in errors: "activations".
const char *memory_use_name(MemoryUse use);

// How many allocations were ever made, and how many of the `first` ones the device still has.
uint64_t memory_allocations(void);
uint64_t memory_there_of(const Device *device, uint64_t first);

// The lowest address from `first` on, a multiple of 256, with `bytes` bytes before `end` that are
// in no allocation of the device; 0 if there is none.
uint64_t memory_gap(const Device *device, uint64_t first, uint64_t end, uint64_t bytes);

// Until the event, its queue uses the device's allocation that the address is in, if it is in one.
void memory_used_until(Device *device, const void *address, Event event);

// Takes out one of the events until which the allocation that the address is in is used. Returns
// false when none is left.
bool memory_next_use(Device *device, const void *address, Event *event);
