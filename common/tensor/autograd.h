// autograd.h: the tape. Differentiable operations (functional.h) write down on their device's tape
// what they did; backward() walks it in reverse and computes the gradients.
//
// What an operation makes (its output, its entry on the tape) comes from the device's arena: one
// block of memory that is used from the start again in each step. The gradient of an output has
// memory only while backward() needs it, and then the next one has it. So a training step allocates
// nothing, the same step uses the same addresses each time, and at most a few gradients are there
// at once.
#ifndef AUTOGRAD_H
#define AUTOGRAD_H

#include "tensor.h"

// Starts a new step on a device: forgets its tape and all its activations.
void begin_step(Device *device);

// Whether operations are recorded (at first: yes). Off for evaluation, as torch.set_grad_enabled.
void set_grad_enabled(bool enabled);

// Computes the gradients of `loss` (one element) with respect to everything on its tape that
// requires one. Gradients of parameters are added to what is there. Walks the tape once: the tape
// is empty afterwards, and activations have no gradients any more.
void backward(Tensor *loss);
// The same from any tensor Y with a given gradient dY, as torch.autograd.backward(Y, dY).
void backward_from(Tensor *Y, const Tensor *dY);
// backward() of k losses on k devices that ran the same operations, an operation at a time: the
// last one on all devices, then the one before it. So the devices can exchange figures on the way,
// as synchronised batch normalisation does.
void backward_all(Tensor *const losses[], int k);

// ---- for those who write operations ----------------------------------------------------------

// A tensor in the arena of the device; with a gradient if `requires_grad`, which then stays for the
// whole step. Contents undefined.
Tensor *arena_tensor(Device *device, int ndim, const int *shape, bool requires_grad);
// The same memory (and gradient) seen with another shape of as many elements.
Tensor *arena_view(Tensor *t, int ndim, const int *shape);

// How much of a device's arena a step has taken. A step that is launched as a graph takes nothing,
// yet writes where it wrote when it was recorded: it puts the arena where it stood then.
typedef struct ArenaPosition {
    int small_chunk, large_chunk;
    size_t small_used, large_used, step_bytes, most_lent;
} ArenaPosition;
ArenaPosition arena_position(const Device *device);
void arena_move_to(Device *device, ArenaPosition position);

// One entry of the tape. `backward` reads out->grad and adds to the gradients of the inputs. After
// it, out->grad is gone.
typedef struct Node Node;
struct Node {
    void (*backward)(Node *node);
    // Instead of `backward`, for an operation of k devices together: gets the entries of all.
    void (*backward_together)(Node *const nodes[], int k);
    Tensor *out, *in[3];      // in[i] may be NULL; `out` is one of them in an operation in place
    bool reads_in, reads_out; // whether backward needs their values
    Tensor *saved;            // what forward keeps for backward, if anything
    struct conv2d_shape conv;
    struct avg_pool2d_shape pool;
    int transposed;
    bool frozen; // batch_norm: mean and variance are constants
    float eps;
};

// Whether an operation on these inputs is to be recorded.
bool needs_grad(const Tensor *a, const Tensor *b, const Tensor *c);
// Records it. From now on node.out requires a gradient.
void tape_push(Device *device, Node node);

// For operations in place: whether some recorded operation will need the values of t, and whether t
// is the output of one (else it is the user's own).
bool tape_reads(const Tensor *t);
bool tape_made(const Tensor *t);

// The `beta` of a kernel that writes the gradient of t: 0 the first time in a step, then 1. Counts
// as writing it.
float grad_beta(Tensor *t);

// Frees the arenas and tapes of all devices. devices_close() does so too.
void autograd_close(void);

// Bytes that activations and their gradients took in this step, at most, on a device; and those
// that are reserved for them.
size_t arena_used_bytes(const Device *device);
size_t arena_reserved_bytes(const Device *device);

#endif
