// autograd.c: each device's tape is an array of nodes. backward() walks it from the end, and lends
// memory to each gradient just before the first operation adds to it.
#include "autograd.h"
#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

typedef struct Tape {
    Node *nodes;
    int num_nodes;
    size_t room;
} Tape;

static Tape tapes[NUM_DEVICE_IDS];
static bool grad_enabled = true;

static Tape *tape_of(const Device *device) { return &tapes[device_id(device)]; }

// ---- tape ------------------------------------------------------------------------------------

// A view shares the gradient of its base, and only the base knows whether that holds a value.
static Tensor *owner_of_grad(Tensor *t) { return t->base ? t->base : t; }

void set_grad_enabled(bool enabled) { grad_enabled = enabled; }

bool needs_grad(const Tensor *a, const Tensor *b, const Tensor *c) {
    return grad_enabled &&
           ((a && a->requires_grad) || (b && b->requires_grad) || (c && c->requires_grad));
}

void tape_push(Node node) {
    if (!needs_grad(node.in[0], node.in[1], node.in[2])) return;
    Tensor *out = node.out;
    Tape *tape = tape_of(out->device);
    if (!tape->nodes) before_devices_close(autograd_close);
    tape->nodes = xroom(tape->nodes, (size_t)tape->num_nodes, &tape->room, sizeof(Node));
    tape->nodes[tape->num_nodes++] = node;
    if (out->requires_grad) return; // it has a gradient, because the operation is in place
    // The new gradient has no memory: backward() lends it some when it comes to it.
    out->requires_grad = true;
    out->grad = arena_header(out->device, out->ndim, out->shape);
}

static bool same_memory(const Tensor *a, const Tensor *b) { return a && a->data == b->data; }

bool tape_reads(const Tensor *t) {
    const Tape *tape = tape_of(t->device);
    for (int n = 0; n < tape->num_nodes; n++) {
        const Node *node = &tape->nodes[n];
        if (node->reads_out && same_memory(node->out, t)) return true;
        for (int i = 0; i < 3 && node->reads_in; i++)
            if (same_memory(node->in[i], t)) return true;
    }
    return false;
}

bool tape_has(const Tensor *t) {
    const Tape *tape = tape_of(t->device);
    for (int n = 0; n < tape->num_nodes; n++)
        for (int i = 0; i < 3; i++)
            if (same_memory(tape->nodes[n].in[i], t)) return true;
    return false;
}

bool tape_made(const Tensor *t) {
    const Tape *tape = tape_of(t->device);
    for (int n = 0; n < tape->num_nodes; n++)
        if (same_memory(tape->nodes[n].out, t)) return true;
    return false;
}

// Lends memory to the gradient, if there is to be one.
static void need_grad(Tensor *t) {
    if (!t || !t->requires_grad) return;
    Tensor *grad = owner_of_grad(t)->grad;
    if (!grad->data) grad->data = arena_lend(t->device, tensor_bytes(grad));
    t->grad->data = grad->data;
}

// Counts how many nodes of the tape have yet to add to each gradient.
static void count_uses(const Tape *tape) {
    for (int n = 0; n < tape->num_nodes; n++)
        for (int i = 0; i < 3; i++)
            if (tape->nodes[n].in[i]) owner_of_grad(tape->nodes[n].in[i])->uses_on_tape = 0;
    for (int n = 0; n < tape->num_nodes; n++)
        for (int i = 0; i < 3; i++)
            if (tape->nodes[n].in[i]) owner_of_grad(tape->nodes[n].in[i])->uses_on_tape++;
}

// The node has added its part to the gradients of what it read.
static void tell_of_final_grads(const Node *node) {
    for (int i = 0; i < 3; i++) {
        Tensor *owner = node->in[i] ? owner_of_grad(node->in[i]) : NULL;
        if (owner && --owner->uses_on_tape == 0 && owner->grad_final)
            owner->grad_final(owner, owner->grad_final_context);
    }
}

void begin_step(Device *device) {
    tape_of(device)->num_nodes = 0;
    arena_begin_step(device);
}

void when_grad_is_final(Tensor *t, void (*hook)(Tensor *t, void *context), void *context) {
    t->grad_final = hook;
    t->grad_final_context = context;
}

// Takes back the memory of the output's gradient, which the node has passed on. But if the
// operation was in place, the output is an input, too, and its gradient is still needed.
static void spend_grad(const Node *node) {
    Tensor *owner = owner_of_grad(node->out);
    for (int i = 0; i < 3; i++)
        if (node->in[i] && owner_of_grad(node->in[i]) == owner) return;
    owner->grad_spent = true;
    if (arena_give_back(owner->device, owner->grad->data))
        node->out->grad->data = owner->grad->data = NULL;
}

// A gradient that arrives after its node has run would be lost. (This happens if backward() is
// called for two losses that share activations.)
static Tensor *owner_of_new_grad(Tensor *t) {
    Tensor *owner = owner_of_grad(t);
    CHECK(!owner->grad_spent,
          "backward() went through here before: add up the losses, and call it once");
    return owner;
}

float grad_beta(Tensor *t) {
    Tensor *owner = owner_of_new_grad(t);
    float beta = owner->grad_filled ? 1.0f : 0.0f;
    owner->grad_filled = true;
    return beta;
}

// Reverse order means that a node's output has its whole gradient before the node passes it on.
// Nodes that no gradient reached stay on the tape, because they belong to another loss, such as
// another microbatch's.
static void walk_in_reverse(Tape *tape) {
    int kept = tape->num_nodes;
    count_uses(tape);
    for (int i = tape->num_nodes - 1; i >= 0; i--) {
        Node node = tape->nodes[i];
        if (owner_of_grad(node.out)->grad_filled) {
            CHECK(node.backward, "an operation of several devices together needs backward_all()");
            for (int in = 0; in < 3; in++) need_grad(node.in[in]);
            node.backward(&node);
            spend_grad(&node);
            tell_of_final_grads(&node);
        } else {
            tape->nodes[--kept] = node;
        }
    }
    int stay = tape->num_nodes - kept;
    memmove(tape->nodes, tape->nodes + kept, sizeof(Node) * (size_t)stay);
    tape->num_nodes = stay;
}

static void start_at_loss(Tensor *loss) {
    CHECK(numel(loss) == 1, "backward() starts at a loss of one element; sum() the losses first");
    CHECK(loss->requires_grad, "nothing that this loss was computed from requires a gradient");
    owner_of_new_grad(loss)->grad_filled = true;
    need_grad(loss);
    tensor_fill(loss->grad, 1);
}

void backward(Tensor *loss) {
    start_at_loss(loss);
    walk_in_reverse(tape_of(loss->device));
}

void backward_from(Tensor *Y, const Tensor *dY) {
    CHECK(Y->requires_grad, "nothing that Y was computed from requires a gradient");
    owner_of_new_grad(Y)->grad_filled = true;
    need_grad(Y);
    tensor_copy(Y->grad, dY);
    walk_in_reverse(tape_of(Y->device));
}

// ---- k devices together ------------------------------------------------------------------------

int tape_length(const Device *device) { return tape_of(device)->num_nodes; }

void backward_begin(Tensor *const losses[], int k) {
    const Tape *first = tape_of(losses[0]->device);
    for (int i = 0; i < k; i++) {
        start_at_loss(losses[i]);
        CHECK(tape_of(losses[i]->device)->num_nodes == first->num_nodes,
              "backward_all(): all devices must have run the same operations for these losses");
        count_uses(tape_of(losses[i]->device));
    }
}

// Goes back through entry n of the tapes of the devices of at[]. (Works with copies of the entries,
// because tapes may move when an entry records others.)
static void go_through(Tensor *const at[], int k, int n) {
    Node copies[MAX_DEVICES], *nodes[MAX_DEVICES] = {NULL};
    for (int i = 0; i < k; i++) {
        copies[i] = tape_of(at[i]->device)->nodes[n];
        nodes[i] = &copies[i];
        CHECK(nodes[i]->backward == nodes[0]->backward &&
                  nodes[i]->backward_together == nodes[0]->backward_together &&
                  owner_of_grad(nodes[i]->out)->grad_filled,
              "backward_all(): all devices must have run the same operations for these losses");
        for (int in = 0; in < 3; in++) need_grad(nodes[i]->in[in]);
    }
    if (nodes[0]->backward_together)
        nodes[0]->backward_together(nodes, k);
    else
        for (int i = 0; i < k; i++) nodes[i]->backward(nodes[i]);
    for (int i = 0; i < k; i++) spend_grad(nodes[i]);
}

void backward_until(Tensor *const losses[], int k, int length) {
    for (int n = tape_length(losses[0]->device) - 1; n >= length; n--) {
        go_through(losses, k, n);
        for (int i = 0; i < k; i++) { // of entry n, and first of those that it recorded
            Tape *tape = tape_of(losses[i]->device);
            while (tape->num_nodes > n) tell_of_final_grads(&tape->nodes[--tape->num_nodes]);
        }
    }
}

void backward_inside(Node *const nodes[], Tensor *const Y[], int k, int begin) {
    for (int i = 0; i < k; i++) {
        Tensor *outer = owner_of_grad(nodes[i]->out), *inner = owner_of_grad(Y[i]);
        count_uses(tape_of(Y[i]->device));
        inner->grad_filled = true;
        inner->grad->data = Y[i]->grad->data = outer->grad->data;
        outer->grad->data = nodes[i]->out->grad->data = NULL;
    }
    for (int n = tape_length(Y[0]->device) - 1; n >= begin; n--) go_through(Y, k, n);
}

void backward_all(Tensor *const losses[], int k) {
    backward_begin(losses, k);
    backward_until(losses, k, 0);
}

// ---- closing -----------------------------------------------------------------------------------

void autograd_close(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        free(tapes[id].nodes);
        tapes[id] = (Tape){0};
    }
    arena_close();
}
