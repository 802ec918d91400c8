// autograd.h: gradients. Differentiable operations (functional.h) record themselves on a tape of
// their device; backward() walks it in reverse and computes the gradients.
//
// To train a step, call begin_step() on each device, then the operations, then backward() once for
// each loss. Do not use tensors of a step after the next begin_step(): their memory is used again.
// To evaluate, call set_grad_enabled(false) first.
//
// What an operation makes comes from the device's arena (arena.h). The gradient of an output has
// memory only while backward() needs it, so at most a few of them exist at once.
#pragma once

#include "arena.h"

// Starts a new step on a device: forgets its tape and all its activations.
void begin_step(Device *device);

// From now on backward() calls hook(t, context) each time t has its whole gradient, because all
// operations on the tape that read t have added their parts. (They are enqueued, not done.) So an
// exchange of gradients can begin before backward() ends. A tensor that no operation of a step read
// gets no gradient, and no call. NULL removes the hook.
void when_grad_is_final(Tensor *t, void (*hook)(Tensor *t, void *context), void *context);

// Whether the tape of t's device has an operation that read t. Before backward(), this says whether
// t can get a gradient.
bool tape_has(const Tensor *t);

// Whether operations are recorded (at first they are). torch.set_grad_enabled
void set_grad_enabled(bool enabled);

// Computes the gradients of `loss` (one element) with respect to everything on its tape that
// requires one. Gradients of parameters are added to what is there. Afterwards the tape is empty,
// and activations have no gradients any more.
void backward(Tensor *loss);
// The same from any tensor Y with a given gradient dY, as torch.autograd.backward(Y, dY).
void backward_from(Tensor *Y, const Tensor *dY);
// backward() for k losses on k devices that ran the same operations. All devices go back through
// one operation before the next, so that they can exchange numbers on the way, as synchronised
// batch normalisation does.
void backward_all(Tensor *const losses[], int k);

// backward_all() in parts, for a program that has something to do in between. Note tape_length()
// at some places during forward. backward_begin() starts at the losses, and backward_until() goes
// back to where the tape had this length. The last part goes to length 0.
int tape_length(const Device *device);
void backward_begin(Tensor *const losses[], int k);
void backward_until(Tensor *const losses[], int k, int length);

// ---- to write an operation ---------------------------------------------------------------------

// One entry of the tape. `backward` reads out->grad and adds to the gradients of the inputs. After
// it, out->grad is gone.
typedef struct Node Node;
struct Node {
    void (*backward)(Node *node);
    // Instead of `backward`, for an operation of k devices together. Gets the entries of them all.
    void (*backward_together)(Node *const nodes[], int k);
    Tensor *out, *in[3];      // in[i] may be NULL; an operation in place has `out` among them
    bool reads_in, reads_out; // whether backward needs their values
    Tensor *saved;            // what forward keeps for backward, if anything
    const void *context;      // what else backward must know, from arena_note()
};

// Whether an operation on these inputs (NULL: none) is recorded. It is if one of them requires a
// gradient.
bool needs_grad(const Tensor *a, const Tensor *b, const Tensor *c);
// Records the operation if it needs_grad(). Then node.out requires a gradient, too.
void tape_push(Node node);

// For an operation whose backward_together() computes its result again, with other operations, and
// goes back through these. They are on the tapes from length `begin` on. Y[i] is their result, and
// takes over the gradient of nodes[i]->out. The hooks of gradients that are final now are called
// when the backward_together() has returned (when_grad_is_final()).
void backward_inside(Node *const nodes[], Tensor *const Y[], int k, int begin);

// For operations in place: whether a recorded operation will need the values of t, and whether t is
// a recorded operation's output (if not, the user made it).
bool tape_reads(const Tensor *t);
bool tape_made(const Tensor *t);

// The `beta` for a kernel that writes t's gradient: 0 the first time in a step, then 1. Call it
// once for each such kernel.
float grad_beta(Tensor *t);

// Frees the arenas and tapes of all devices. devices_close() does so too.
void autograd_close(void);
