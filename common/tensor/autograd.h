// autograd.h: the tape. Differentiable operations (functional.h) write down on their device's tape
// what they did; backward() walks it in reverse and computes the gradients.
//
// What an operation makes comes from the device's arena (arena.h). The gradient of an output has
// memory only while backward() needs it, and then the next one has it: at most a few gradients are
// there at once.
#ifndef AUTOGRAD_H
#define AUTOGRAD_H

#include "arena.h"

// Starts a new step on a device: forgets its tape and all its activations.
void begin_step(Device *device);

// From now on hook(t, context) is called, by backward(), each time t has got its whole gradient:
// all operations on the tape that t went into have added theirs. (All is enqueued, not done.) So an
// exchange of gradients can begin before backward() ends. A tensor that no operation of a step read
// gets no gradient, and no call. hook NULL: no more.
void when_grad_is_final(Tensor *t, void (*hook)(Tensor *t, void *context), void *context);

// Whether an operation that read t is on its device's tape. So, before backward(), whether t will
// get a gradient from any loss that these operations led to.
bool tape_has(const Tensor *t);

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
    const void *context;      // what else it must remember, of a type of its own: see arena_note()
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

#endif
