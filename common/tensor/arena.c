// arena.c: blocks for what lives until the step ends, used from the beginning again in each step;
// and loans for gradients of activations, which do not live that long.
#include "arena.h"
#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

// A piece larger than LARGE_BYTES gets its own chunk, so that little of any chunk is wasted.
enum { CHUNK_BYTES = 16 << 20, LARGE_BYTES = 2 << 20, NOTES_BYTES = 16 << 10, ALIGNMENT = 256 };

typedef struct Chunk {
    char *memory;
    size_t bytes;
} Chunk;

// A list of chunks, used from the start again in each step.
typedef struct Blocks {
    Chunk *chunks;
    int num_chunks, current; // chunks before `current` are full
    size_t used;             // of the current chunk
} Blocks;

// Memory for the gradient of an activation, which lives for a short time: from the first operation
// that adds to it, in backward(), until it has been passed on. Then the memory is lent again.
typedef struct Loan {
    void *memory;
    size_t bytes, lent; // its size, and how much of it is in use: 0 if it is free
} Loan;

typedef struct Arena {
    Device *device;
    Blocks small, large, notes; // notes and tensors' headers are in the program's own memory
    size_t step_bytes;          // of the device, handed out in this step
    size_t most_bytes;          // before arena_go_back()
    bool gone_back;             // in this step
    Loan *loans;
    int num_loans;
    size_t lent, most_lent; // bytes, now and at most in this step
} Arena;

static Arena arenas[NUM_DEVICE_IDS];

static Arena *arena_of(const Device *device) { return &arenas[device_id(device)]; }

static Arena *open_arena(Device *device) {
    Arena *arena = arena_of(device);
    if (!arena->device) before_devices_close(arena_close);
    arena->device = device;
    return arena;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// ---- blocks ------------------------------------------------------------------------------------

static void add_chunk(Blocks *blocks, int at, Chunk chunk) {
    blocks->chunks = xgrow(blocks->chunks, (size_t)(blocks->num_chunks + 1), sizeof(Chunk));
    memmove(blocks->chunks + at + 1, blocks->chunks + at,
            sizeof(Chunk) * (size_t)(blocks->num_chunks++ - at));
    blocks->chunks[at] = chunk;
    blocks->current = at;
}

// Each step asks for the same sizes in the same order, so it gets the same addresses as the step
// before. device is NULL for the program's own memory. A chunk that is too small is left out until
// the step ends. But if the arena has gone back (`again`), that would leave out what was used in
// this step already. Then a new chunk comes before it.
static void *take(Blocks *blocks, Device *device, size_t bytes, size_t chunk_bytes, bool again) {
    int unused = blocks->used > 0 ? blocks->current + 1 : blocks->current;
    while (blocks->current < blocks->num_chunks &&
           blocks->used + bytes > blocks->chunks[blocks->current].bytes) {
        blocks->current++;
        blocks->used = 0;
    }
    if (blocks->current == blocks->num_chunks) {
        void *memory = device ? device_alloc_for(device, chunk_bytes, MEMORY_ACTIVATIONS)
                              : xmalloc(chunk_bytes);
        int at = again && unused < blocks->num_chunks ? unused : blocks->num_chunks;
        add_chunk(blocks, at, (Chunk){memory, chunk_bytes});
    }
    void *memory = blocks->chunks[blocks->current].memory + blocks->used;
    blocks->used += bytes;
    return memory;
}

static void *arena_alloc(Device *device, size_t bytes) {
    if (bytes == 0) return NULL;
    Arena *arena = open_arena(device);
    bytes = aligned(bytes);
    arena->step_bytes += bytes;
    return bytes > LARGE_BYTES ? take(&arena->large, device, bytes, bytes, arena->gone_back)
                               : take(&arena->small, device, bytes, CHUNK_BYTES, arena->gone_back);
}

void *arena_note(Device *device, const void *contents, size_t bytes) {
    CHECK(aligned(bytes) <= NOTES_BYTES, "a note is short");
    void *note = take(&open_arena(device)->notes, NULL, aligned(bytes), NOTES_BYTES, false);
    return memcpy(note, contents, bytes);
}

// First waits, because a communication queue may still send what the step before has computed.
static void rewind_blocks(Blocks *blocks, Device *device) {
    for (int i = 0; device && i <= blocks->current && i < blocks->num_chunks; i++)
        wait_for_users(device, blocks->chunks[i].memory);
    blocks->current = 0;
    blocks->used = 0;
}

static size_t bytes_of(const Blocks *blocks) {
    size_t bytes = 0;
    for (int i = 0; i < blocks->num_chunks; i++) bytes += blocks->chunks[i].bytes;
    return bytes;
}

static void free_blocks(Blocks *blocks, Device *device) {
    for (int i = 0; i < blocks->num_chunks; i++) {
        if (device)
            device_free(device, blocks->chunks[i].memory);
        else
            free(blocks->chunks[i].memory);
    }
    free(blocks->chunks);
}

// ---- loans -------------------------------------------------------------------------------------

// The first that is free and large enough. Each step borrows and gives back in the same order, so
// from the second step on it gets the same addresses each time.
static Loan *find_loan(Arena *arena, size_t bytes) {
    for (int i = 0; i < arena->num_loans; i++)
        if (!arena->loans[i].lent && arena->loans[i].bytes >= bytes) return &arena->loans[i];
    arena->loans = xgrow(arena->loans, (size_t)(arena->num_loans + 1), sizeof(Loan));
    arena->loans[arena->num_loans] =
        (Loan){device_alloc_for(arena->device, bytes, MEMORY_ACTIVATION_GRADIENTS), bytes, 0};
    return &arena->loans[arena->num_loans++];
}

void *arena_lend(Device *device, size_t bytes) {
    if (bytes == 0) return NULL;
    Arena *arena = open_arena(device);
    Loan *loan = find_loan(arena, aligned(bytes));
    wait_for_users(device, loan->memory);
    loan->lent = aligned(bytes);
    arena->lent += loan->lent;
    if (arena->lent > arena->most_lent) arena->most_lent = arena->lent;
    return loan->memory;
}

// The next borrower writes after everything that is enqueued now, because the device's compute
// queue keeps the order.
bool arena_give_back(Device *device, const void *memory) {
    Arena *arena = arena_of(device);
    for (int i = 0; i < arena->num_loans; i++)
        if (arena->loans[i].memory == memory && arena->loans[i].lent) {
            arena->lent -= arena->loans[i].lent;
            arena->loans[i].lent = 0;
            return true;
        }
    return false;
}

// ---- steps -------------------------------------------------------------------------------------

void arena_begin_step(Device *device) {
    Arena *arena = arena_of(device);
    rewind_blocks(&arena->small, device);
    rewind_blocks(&arena->large, device);
    rewind_blocks(&arena->notes, NULL);
    for (int i = 0; i < arena->num_loans; i++) arena->loans[i].lent = 0;
    arena->lent = arena->most_lent = 0;
    arena->step_bytes = arena->most_bytes = 0;
    arena->gone_back = false;
}

ArenaPosition arena_position(const Device *device) {
    const Arena *a = arena_of(device);
    return (ArenaPosition){.small_chunk = a->small.current,
                           .large_chunk = a->large.current,
                           .small_used = a->small.used,
                           .large_used = a->large.used,
                           .step_bytes = a->step_bytes,
                           .most_lent = a->most_lent};
}

void arena_move_to(Device *device, ArenaPosition position) {
    Arena *a = arena_of(device);
    a->small.current = position.small_chunk;
    a->large.current = position.large_chunk;
    a->small.used = position.small_used;
    a->large.used = position.large_used;
    a->step_bytes = position.step_bytes;
    a->most_lent = position.most_lent;
}

void arena_go_back(Device *device, ArenaPosition position) {
    Arena *a = arena_of(device);
    if (a->step_bytes > a->most_bytes) a->most_bytes = a->step_bytes;
    position.most_lent = a->most_lent;
    arena_move_to(device, position);
    a->gone_back = true;
}

size_t arena_used_bytes(const Device *device) {
    const Arena *a = arena_of(device);
    return (a->step_bytes > a->most_bytes ? a->step_bytes : a->most_bytes) + a->most_lent;
}

size_t arena_reserved_bytes(const Device *device) {
    const Arena *arena = arena_of(device);
    size_t bytes = bytes_of(&arena->small) + bytes_of(&arena->large);
    for (int i = 0; i < arena->num_loans; i++) bytes += arena->loans[i].bytes;
    return bytes;
}

void arena_close(void) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Arena *arena = &arenas[id];
        if (!arena->device) continue;
        free_blocks(&arena->small, arena->device);
        free_blocks(&arena->large, arena->device);
        free_blocks(&arena->notes, NULL);
        for (int i = 0; i < arena->num_loans; i++)
            device_free(arena->device, arena->loans[i].memory);
        free(arena->loans);
        *arena = (Arena){0};
    }
}

// ---- tensors in the arena ----------------------------------------------------------------------

Tensor *arena_header(Device *device, int ndim, const int *shape) {
    CHECK(ndim >= 1 && ndim <= MAX_DIMS, "a tensor has 1 to 4 dimensions");
    Tensor *t = take(&open_arena(device)->notes, NULL, aligned(sizeof *t), NOTES_BYTES, false);
    *t = (Tensor){.ndim = ndim, .device = device};
    memcpy(t->shape, shape, sizeof(int) * (size_t)ndim);
    return t;
}

Tensor *arena_tensor(Device *device, int ndim, const int *shape, bool requires_grad) {
    Tensor *t = arena_header(device, ndim, shape);
    t->data = arena_alloc(device, tensor_bytes(t));
    t->requires_grad = requires_grad;
    if (requires_grad) {
        t->grad = arena_header(device, ndim, shape);
        t->grad->data = arena_alloc(device, tensor_bytes(t));
    }
    return t;
}

Tensor *arena_lent(Device *device, int ndim, const int *shape) {
    Tensor *t = arena_header(device, ndim, shape);
    t->data = arena_lend(device, tensor_bytes(t));
    return t;
}

Tensor *arena_view(Tensor *t, int ndim, const int *shape) {
    Tensor *view = arena_header(t->device, ndim, shape);
    view->data = t->data;
    view->base = t->base ? t->base : t;
    view->requires_grad = t->requires_grad;
    if (t->grad) {
        view->grad = arena_header(t->device, ndim, shape);
        view->grad->data = t->grad->data;
    }
    return view;
}
