// arena.h: memory that lasts for a training step.
//
// What operations make comes from their device's arena: blocks of memory that are used from the
// start again in each step. So a training step allocates nothing, and the same step uses the same
// addresses each time. Memory that a communication queue still uses is not used again before it has
// done so.
#ifndef ARENA_H
#define ARENA_H

#include "tensor.h"

// Forgets all that the arena has given; begin_step() of autograd.h calls it.
void arena_begin_step(Device *device);

// A tensor in the arena of the device; with a gradient if `requires_grad`, which then stays for the
// whole step. Contents undefined.
Tensor *arena_tensor(Device *device, int ndim, const int *shape, bool requires_grad);
// The same memory (and gradient) seen with another shape of as many elements.
Tensor *arena_view(Tensor *t, int ndim, const int *shape);
// A header alone, for a tensor whose memory is yet to come (data is NULL).
Tensor *arena_header(Device *device, int ndim, const int *shape);
// Copies `contents` to host memory that lasts until the next step begins: for what an operation
// must remember until backward() comes to it.
void *arena_note(Device *device, const void *contents, size_t bytes);

// Memory on loan, for what lives shorter than the step: arena_give_back() takes it back, and then
// the next one of its size has it. False if it was not lent.
void *arena_lend(Device *device, size_t bytes);
bool arena_give_back(Device *device, const void *memory);

// How much of a device's arena a step has taken. A step that is launched as a graph takes nothing,
// yet writes where it wrote when it was recorded: so its launch moves the arena to the position
// that it had after the recording.
typedef struct ArenaPosition {
    int small_chunk, large_chunk;
    size_t small_used, large_used, step_bytes, most_lent;
} ArenaPosition;
ArenaPosition arena_position(const Device *device);
void arena_move_to(Device *device, ArenaPosition position);

// Bytes that activations and their gradients took in this step, at most, on a device; and those
// that are reserved for them.
size_t arena_used_bytes(const Device *device);
size_t arena_reserved_bytes(const Device *device);

// Frees the arenas of all devices. devices_close() does so too.
void arena_close(void);

#endif
