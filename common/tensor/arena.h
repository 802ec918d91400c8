// arena.h: memory that lasts for a training step.
//
// To get a tensor for the rest of the step, call arena_tensor(). To get memory for less than that,
// call arena_lend() and arena_give_back(). Do not free what comes from the arena.
//
// A device's arena is made of blocks of memory, which each step uses from the beginning again. So a
// training step allocates nothing, and uses the same addresses each time. Memory that a
// communication queue still uses is not handed out before the queue is done with it.
#pragma once

#include "tensor.h"

// Takes back all that the arena has handed out. begin_step() of autograd.h calls it.
void arena_begin_step(Device *device);

// A tensor in the arena of the device; with a gradient if `requires_grad`, which then stays for the
// whole step. Contents undefined.
Tensor *arena_tensor(Device *device, int ndim, const int *shape, bool requires_grad);
// The same memory (and gradient) seen with another shape, which has the same number of elements.
Tensor *arena_view(Tensor *t, int ndim, const int *shape);
// Only the header, for a tensor that gets its memory later (data is NULL).
Tensor *arena_header(Device *device, int ndim, const int *shape);
// Copies `contents` to host memory that lasts until the next step begins. Operations keep what
// backward() has to know there.
void *arena_note(Device *device, const void *contents, size_t bytes);

// Lends memory for less than a step. What is given back is lent again. arena_give_back() returns
// false if the memory was not lent.
void *arena_lend(Device *device, size_t bytes);
bool arena_give_back(Device *device, const void *memory);
// A tensor in such memory.
Tensor *arena_lent(Device *device, int ndim, const int *shape);

// How much of a device's arena a step has taken. A step that is launched as a graph takes nothing
// from the arena, but writes where it wrote when it was recorded. So its launch moves the arena to
// the position after the recording.
typedef struct ArenaPosition {
    int small_chunk, large_chunk;
    size_t small_used, large_used, step_bytes, most_lent;
} ArenaPosition;
ArenaPosition arena_position(const Device *device);
void arena_move_to(Device *device, ArenaPosition position);
// Takes back what has been handed out in this step since then. What was lent stays.
void arena_go_back(Device *device, ArenaPosition position);

// The most bytes that activations and their gradients took on the device in this step, and the
// bytes that are reserved for them.
size_t arena_used_bytes(const Device *device);
size_t arena_reserved_bytes(const Device *device);

// Frees the arenas of all devices. devices_close() does so too.
void arena_close(void);
