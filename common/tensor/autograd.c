// autograd.c: the tape and the arena of each device; see autograd.h.
#include "autograd.h"
#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

// ---- arena: a list of chunks, used from the start again in each step -------------------------

// What is larger than LARGE_BYTES gets a chunk of its own size, so that little of any chunk is left
// over.
enum { CHUNK_BYTES = 16 << 20, LARGE_BYTES = 2 << 20, ALIGNMENT = 256 };

typedef struct Chunk {
    char *memory;
    size_t bytes;
} Chunk;

typedef struct Arena {
    Device *device;
    Chunk *chunks;
    int num_chunks, current; // chunks before `current` are full
    size_t used;             // of the current chunk
} Arena;

// ---- one tape per device ---------------------------------------------------------------------

// Memory for the gradient of an activation. That lives for a short time: from the first operation
// that adds to it, backward, until it has been passed on. Then the next one of its size takes over.
typedef struct Loan {
    Device *device;
    void *memory;
    size_t bytes, lent; // that it has, and that are in use: 0 if it is free
} Loan;

typedef struct Tape {
    Arena small, large;
    size_t step_bytes; // handed out in this step
    Loan *loans;
    int num_loans;
    size_t lent, most_lent; // bytes: now, and at most in this step
    Node *nodes;
    int num_nodes, max_nodes;
    Tensor **tensors; // the headers of the arena's tensors, on the host; reused like the arena
    int num_tensors, max_tensors;
} Tape;

static Tape tapes[NUM_DEVICE_IDS];
static bool grad_enabled = true;

static Tape *tape_of(const Device *device) { return &tapes[device_id(device)]; }

// Chunks are asked for in the same order and sizes in each step, so each request gets the same
// address as in the step before.
static void *take(Arena *arena, Device *device, size_t bytes, size_t chunk_bytes) {
    while (arena->current < arena->num_chunks &&
           arena->used + bytes > arena->chunks[arena->current].bytes) {
        arena->current++;
        arena->used = 0;
    }
    if (arena->current == arena->num_chunks) {
        before_devices_close(autograd_close);
        arena->device = device;
        arena->chunks = xrealloc(arena->chunks, sizeof(Chunk) * (size_t)(arena->num_chunks + 1));
        arena->chunks[arena->num_chunks++] =
            (Chunk){device_alloc(device, chunk_bytes), chunk_bytes};
    }
    void *memory = arena->chunks[arena->current].memory + arena->used;
    arena->used += bytes;
    return memory;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void *arena_alloc(Device *device, size_t bytes) {
    if (bytes == 0) return NULL;
    Tape *tape = tape_of(device);
    bytes = aligned(bytes);
    tape->step_bytes += bytes;
    return bytes > LARGE_BYTES ? take(&tape->large, device, bytes, bytes)
                               : take(&tape->small, device, bytes, CHUNK_BYTES);
}

static void arena_rewind(Arena *arena) {
    arena->current = 0;
    arena->used = 0;
}

static size_t arena_size(const Arena *arena) {
    size_t bytes = 0;
    for (int i = 0; i < arena->num_chunks; i++) bytes += arena->chunks[i].bytes;
    return bytes;
}

static void arena_free(Arena *arena) {
    for (int i = 0; i < arena->num_chunks; i++) device_free(arena->device, arena->chunks[i].memory);
    free(arena->chunks);
}

// ---- loans: taken and given back in the same order in each step, so at the same addresses -------

// The first that is free and large enough. So the second step, which finds all that the first one
// made, takes the same ones.
static Loan *find_loan(Tape *tape, Device *device, size_t bytes) {
    for (int i = 0; i < tape->num_loans; i++)
        if (!tape->loans[i].lent && tape->loans[i].bytes >= bytes) return &tape->loans[i];
    tape->loans = xrealloc(tape->loans, sizeof(Loan) * (size_t)(tape->num_loans + 1));
    tape->loans[tape->num_loans] = (Loan){device, device_alloc(device, bytes), bytes, 0};
    return &tape->loans[tape->num_loans++];
}

static void *lend(Device *device, size_t bytes) {
    if (bytes == 0) return NULL;
    Tape *tape = tape_of(device);
    Loan *loan = find_loan(tape, device, aligned(bytes));
    wait_for_users(device, loan->memory);
    loan->lent = aligned(bytes);
    tape->lent += loan->lent;
    if (tape->lent > tape->most_lent) tape->most_lent = tape->lent;
    return loan->memory;
}

// False if the memory was not lent. The device's queue keeps the order: who gets it next writes to
// it after everything that is enqueued now.
static bool give_back(Tape *tape, const void *memory) {
    for (int i = 0; i < tape->num_loans; i++)
        if (tape->loans[i].memory == memory && tape->loans[i].lent) {
            tape->lent -= tape->loans[i].lent;
            tape->loans[i].lent = 0;
            return true;
        }
    return false;
}

// A communication queue may still send what the step before has computed.
static void wait_for_arena_users(Device *device, const Arena *arena) {
    for (int i = 0; i <= arena->current && i < arena->num_chunks; i++)
        wait_for_users(device, arena->chunks[i].memory);
}

void begin_step(Device *device) {
    Tape *tape = tape_of(device);
    for (int i = 0; i < tape->num_loans; i++) tape->loans[i].lent = 0;
    wait_for_arena_users(device, &tape->small);
    wait_for_arena_users(device, &tape->large);
    tape->lent = tape->most_lent = 0;
    arena_rewind(&tape->small);
    arena_rewind(&tape->large);
    tape->step_bytes = 0;
    tape->num_nodes = tape->num_tensors = 0;
}

ArenaPosition arena_position(const Device *device) {
    const Tape *t = tape_of(device);
    return (ArenaPosition){.small_chunk = t->small.current,
                           .large_chunk = t->large.current,
                           .small_used = t->small.used,
                           .large_used = t->large.used,
                           .step_bytes = t->step_bytes,
                           .most_lent = t->most_lent};
}

void arena_move_to(Device *device, ArenaPosition position) {
    Tape *t = tape_of(device);
    t->small.current = position.small_chunk;
    t->large.current = position.large_chunk;
    t->small.used = position.small_used;
    t->large.used = position.large_used;
    t->step_bytes = position.step_bytes;
    t->most_lent = position.most_lent;
}

size_t arena_used_bytes(const Device *device) {
    return tape_of(device)->step_bytes + tape_of(device)->most_lent;
}

size_t arena_reserved_bytes(const Device *device) {
    const Tape *tape = tape_of(device);
    size_t bytes = arena_size(&tape->small) + arena_size(&tape->large);
    for (int i = 0; i < tape->num_loans; i++) bytes += tape->loans[i].bytes;
    return bytes;
}

void autograd_close(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Tape *tape = &tapes[id];
        arena_free(&tape->small);
        arena_free(&tape->large);
        for (int i = 0; i < tape->num_loans; i++)
            device_free(tape->loans[i].device, tape->loans[i].memory);
        free(tape->loans);
        for (int i = 0; i < tape->max_tensors; i++) free(tape->tensors[i]);
        free(tape->nodes);
        free(tape->tensors);
        *tape = (Tape){0};
    }
}

// ---- tensors in the arena --------------------------------------------------------------------

static Tensor *new_header(Device *device) {
    Tape *tape = tape_of(device);
    if (tape->num_tensors == tape->max_tensors) {
        int more = tape->max_tensors ? 2 * tape->max_tensors : 64;
        tape->tensors = xrealloc(tape->tensors, sizeof(Tensor *) * (size_t)more);
        for (int i = tape->max_tensors; i < more; i++) tape->tensors[i] = xmalloc(sizeof(Tensor));
        tape->max_tensors = more;
    }
    return tape->tensors[tape->num_tensors++];
}

static Tensor *header_of_shape(Device *device, int ndim, const int *shape) {
    CHECK(ndim >= 1 && ndim <= MAX_DIMS, "a tensor has 1 to 4 dimensions");
    Tensor *t = new_header(device);
    *t = (Tensor){.ndim = ndim, .device = device};
    memcpy(t->shape, shape, sizeof(int) * (size_t)ndim);
    return t;
}

Tensor *arena_tensor(Device *device, int ndim, const int *shape, bool requires_grad) {
    Tensor *t = header_of_shape(device, ndim, shape);
    t->data = arena_alloc(device, tensor_bytes(t));
    t->requires_grad = requires_grad;
    if (requires_grad) {
        t->grad = header_of_shape(device, ndim, shape);
        t->grad->data = arena_alloc(device, tensor_bytes(t));
    }
    return t;
}

Tensor *arena_view(Tensor *t, int ndim, const int *shape) {
    Tensor *view = header_of_shape(t->device, ndim, shape);
    view->data = t->data;
    view->base = t->base ? t->base : t;
    view->requires_grad = t->requires_grad;
    if (t->grad) {
        view->grad = header_of_shape(t->device, ndim, shape);
        view->grad->data = t->grad->data;
    }
    return view;
}

// ---- tape ------------------------------------------------------------------------------------

// The same header for a tensor's gradient; its memory is lent when backward() comes to it.
static void promise_grad(Tensor *t) {
    if (t->requires_grad) return; // an operation in place: it has one
    t->requires_grad = true;
    t->grad = header_of_shape(t->device, t->ndim, t->shape);
}

void set_grad_enabled(bool enabled) { grad_enabled = enabled; }

bool needs_grad(const Tensor *a, const Tensor *b, const Tensor *c) {
    return grad_enabled &&
           ((a && a->requires_grad) || (b && b->requires_grad) || (c && c->requires_grad));
}

void tape_push(Device *device, Node node) {
    Tape *tape = tape_of(device);
    if (tape->num_nodes == tape->max_nodes) {
        tape->max_nodes = tape->max_nodes ? 2 * tape->max_nodes : 64;
        tape->nodes = xrealloc(tape->nodes, sizeof(Node) * (size_t)tape->max_nodes);
    }
    tape->nodes[tape->num_nodes++] = node;
    promise_grad(node.out);
}

// A view shares its base's gradient, so whether that holds a value is known to the base alone.
static Tensor *owner_of_grad(Tensor *t) { return t->base ? t->base : t; }

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

bool tape_made(const Tensor *t) {
    const Tape *tape = tape_of(t->device);
    for (int n = 0; n < tape->num_nodes; n++)
        if (same_memory(tape->nodes[n].out, t)) return true;
    return false;
}

// From now on the gradient has memory, if it is to be computed.
static void need_grad(Tensor *t) {
    if (!t || !t->requires_grad) return;
    Tensor *grad = owner_of_grad(t)->grad;
    if (!grad->data) grad->data = lend(t->device, tensor_bytes(grad));
    t->grad->data = grad->data;
}

// The node has passed on its output's gradient, which nobody needs any more. An operation in place
// has not: its output is its input as well.
static void spend_grad(const Node *node) {
    Tensor *owner = owner_of_grad(node->out);
    for (int i = 0; i < 3; i++)
        if (node->in[i] && owner_of_grad(node->in[i]) == owner) return;
    owner->grad_spent = true;
    if (give_back(tape_of(owner->device), owner->grad->data))
        node->out->grad->data = owner->grad->data = NULL;
}

// A gradient that comes after its node has run would be lost, as for two losses that share
// activations.
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

// In reverse order, so that a node's output has its whole gradient before the node passes it on. A
// node that no gradient reached belongs to another loss (another microbatch, say) and stays on the
// tape.
static void walk_in_reverse(Tape *tape) {
    int kept = tape->num_nodes;
    for (int i = tape->num_nodes - 1; i >= 0; i--) {
        Node node = tape->nodes[i];
        if (owner_of_grad(node.out)->grad_filled) {
            CHECK(node.backward, "an operation of several devices together needs backward_all()");
            for (int in = 0; in < 3; in++) need_grad(node.in[in]);
            node.backward(&node);
            spend_grad(&node);
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

// The same entry of each tape; all of them must be of the same operation.
static void backward_of_all(Node *const nodes[], int k) {
    for (int i = 0; i < k; i++) {
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

void backward_all(Tensor *const losses[], int k) {
    Tape *first = tape_of(losses[0]->device);
    for (int i = 0; i < k; i++) {
        start_at_loss(losses[i]);
        CHECK(tape_of(losses[i]->device)->num_nodes == first->num_nodes,
              "backward_all(): all devices must have run the same operations for these losses");
    }
    for (int n = first->num_nodes - 1; n >= 0; n--) {
        Node *nodes[MAX_DEVICES];
        for (int i = 0; i < k; i++) nodes[i] = &tape_of(losses[i]->device)->nodes[n];
        backward_of_all(nodes, k);
    }
    for (int i = 0; i < k; i++) tape_of(losses[i]->device)->num_nodes = 0;
}
