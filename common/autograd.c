// autograd.c: the tape and the arena of each device; see autograd.h.
#include "autograd.h"
#include "error.h"

#include <stdlib.h>
#include <string.h>

// ---- arena: a list of chunks, used from the start again in each step -------------------------

enum { CHUNK_BYTES = 16 << 20, ALIGNMENT = 256 };

typedef struct Chunk {
    char *memory;
    size_t bytes;
} Chunk;

typedef struct Arena {
    Device *device;
    Chunk *chunks;
    int num_chunks, current; // chunks before `current` are full
    size_t used;             // of the current chunk
    size_t step_bytes;       // handed out in this step
} Arena;

// ---- one tape per device ---------------------------------------------------------------------

typedef struct Tape {
    Arena arena;
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
static void *arena_alloc(Device *device, size_t bytes) {
    if (bytes == 0) return NULL;
    Arena *arena = &tape_of(device)->arena;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    while (arena->current < arena->num_chunks &&
           arena->used + bytes > arena->chunks[arena->current].bytes) {
        arena->current++;
        arena->used = 0;
    }
    if (arena->current == arena->num_chunks) {
        arena->device = device;
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        arena->chunks = xrealloc(arena->chunks, sizeof(Chunk) * (size_t)(arena->num_chunks + 1));
        arena->chunks[arena->num_chunks++] = (Chunk){device_alloc(device, size), size};
    }
    void *memory = arena->chunks[arena->current].memory + arena->used;
    arena->used += bytes;
    arena->step_bytes += bytes;
    return memory;
}

void begin_step(Device *device) {
    Tape *tape = tape_of(device);
    tape->arena.current = 0;
    tape->arena.used = tape->arena.step_bytes = 0;
    tape->num_nodes = tape->num_tensors = 0;
}

size_t arena_used_bytes(const Device *device) { return tape_of(device)->arena.step_bytes; }

size_t arena_reserved_bytes(const Device *device) {
    const Arena *arena = &tape_of(device)->arena;
    size_t bytes = 0;
    for (int i = 0; i < arena->num_chunks; i++) bytes += arena->chunks[i].bytes;
    return bytes;
}

void autograd_close(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Tape *tape = &tapes[id];
        for (int i = 0; i < tape->arena.num_chunks; i++)
            device_free(tape->arena.device, tape->arena.chunks[i].memory);
        for (int i = 0; i < tape->max_tensors; i++) free(tape->tensors[i]);
        free(tape->arena.chunks);
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
}

// A view shares its base's gradient, so whether that holds a value is known to the base alone.
static Tensor *owner_of_grad(Tensor *t) { return t->base ? t->base : t; }

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
            node.backward(&node);
            owner_of_grad(node.out)->grad_spent = true;
        } else {
            tape->nodes[--kept] = node;
        }
    }
    int stay = tape->num_nodes - kept;
    memmove(tape->nodes, tape->nodes + kept, sizeof(Node) * (size_t)stay);
    tape->num_nodes = stay;
}

void backward(Tensor *loss) {
    CHECK(numel(loss) == 1, "backward() starts at a loss of one element; sum() the losses first");
    CHECK(loss->requires_grad, "nothing that this loss was computed from requires a gradient");
    owner_of_new_grad(loss)->grad_filled = true;
    tensor_fill(loss->grad, 1);
    walk_in_reverse(tape_of(loss->device));
}

void backward_from(Tensor *Y, const Tensor *dY) {
    CHECK(Y->requires_grad, "nothing that Y was computed from requires a gradient");
    owner_of_new_grad(Y)->grad_filled = true;
    tensor_copy(Y->grad, dY);
    walk_in_reverse(tape_of(Y->device));
}
