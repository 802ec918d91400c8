// block.c: see block.h. What is between the layer norm and the sum is not kept for the backward
// pass, but computed again from N_all.
#include "block.h"
#include "your_part.h"

#include "common/base/error.h"
#include "common/tensor/random.h"

#include <math.h>
#include <stdlib.h>

// ## Where the numbers of a device are

Shard whole_weight(Weight w, Sizes s) {
    long rows = w == UP ? 4 * s.d : w == TOKENS ? s.tokens : w <= VALUES ? 3 * s.d : s.d;
    return (Shard){{0, rows}, {0, w == DOWN ? 4 * s.d : s.d}};
}

static bool lies_in(Range part, Range all) {
    return part.first >= 0 && part.count >= 0 && part.first + part.count <= all.count;
}

static Shard checked_shard(Sizes s, Weight w, int i, int t) {
    static const char *const names[] = {"QUERIES", "KEYS", "VALUES", "OUT", "UP", "DOWN", "TOKENS"};
    Shard part = shard(w, s, i, t), all = whole_weight(w, s);
    if (!lies_in(part.rows, all.rows) || !lies_in(part.columns, all.columns))
        die("a Range has the number of the first, and how many",
            "shard(%s) of device %d of %d: there are %ld rows and %ld columns", names[w], i, t,
            all.rows.count, all.columns.count);
    long mine = part.rows.count * part.columns.count, all_tokens = (long)s.tokens * s.d;
    if (w == TOKENS && mine != equal_range(all_tokens, t, i).count)
        die("all_gather() needs equal parts",
            "shard(TOKENS) of device %d of %d: %ld numbers of %ld", i, t, mine, all_tokens);
    return part;
}

// In how many heads these rows are. If a device has only some rows of a head, the others are zeros.
static int heads_of(Range part, int head) {
    return (int)((part.first % head + part.count + head - 1) / head);
}

static int at_least(int a, long b) { return b > a ? (int)b : a; }

static void find_sizes(Block *b, int i) {
    Layers *own = &b->layers[i];
    int head = b->sizes.d / b->sizes.heads;
    own->num_heads = at_least(1, heads_of(b->shards[OUT][i].columns, head));
    for (int w = QUERIES; w <= VALUES; w++)
        own->num_heads = at_least(own->num_heads, heads_of(b->shards[w][i].rows, head));
    own->num_hidden = at_least(1, b->shards[UP][i].rows.count);
    own->num_hidden = at_least(own->num_hidden, b->shards[DOWN][i].columns.count);
}

static Tensor *weight_on(const Block *b, Weight w, int i) {
    const Layers *own = &b->layers[i];
    return w <= VALUES ? own->qkv : w == OUT ? own->out : w == UP ? own->up : own->down;
}

// Where device i has an element of a whole weight. attention() wants query, key and value of one
// head side by side.
static long place_on(const Block *b, Weight w, int i, long row, long column) {
    const Layers *own = &b->layers[i];
    Shard s = b->shards[w][i];
    long head = b->sizes.d / b->sizes.heads, row_on = row - s.rows.first;
    long column_on = column - s.columns.first;
    if (w <= VALUES) {
        row_on += s.rows.first % head;
        row_on = (row_on / head * 3 + (int)w) * head + row_on % head;
    }
    switch (w) {
    case TOKENS:
        return row_on * s.columns.count + column_on;
    case OUT:
        return row * own->num_heads * head + column_on + s.columns.first % head;
    case DOWN:
        return row * own->num_hidden + column_on;
    default:
        return row_on * b->sizes.d + column;
    }
}

// Copies device i's part of a whole weight to its place, or adds it to the whole from there.
static void exchange_part(const Block *b, Weight w, int i, float *whole, float *part,
                          bool to_whole) {
    Range rows = b->shards[w][i].rows, columns = b->shards[w][i].columns;
    for (long r = rows.first; r < rows.first + rows.count; r++)
        for (long c = columns.first; c < columns.first + columns.count; c++) {
            float *all = &whole[r * whole_weight(w, b->sizes).columns.count + c];
            float *one = &part[place_on(b, w, i, r, c)];
            if (to_whole)
                *all += *one;
            else
                *one = *all;
        }
}

static size_t size_of(Shard s) { return (size_t)(s.rows.count * s.columns.count); }

float *weight_gradient(const Block *b, Weight w) {
    float *whole = xcalloc(size_of(whole_weight(w, b->sizes)), sizeof *whole);
    for (int i = 0; i < b->halves[0].t; i++) {
        float *part = tensor_values(weight_on(b, w, i)->grad);
        exchange_part(b, w, i, whole, part, true);
        free(part);
    }
    return whole;
}

size_t weights_on(const Block *b, int i) {
    const Layers *own = &b->layers[i];
    return numel(own->qkv) + numel(own->out) + numel(own->up) + numel(own->down);
}

// ## Making a block

static Tensor *keep(Block *b, Tensor *t) {
    b->tensors = xgrow(b->tensors, b->num_tensors + 1, sizeof *b->tensors);
    // If nothing is written there, numbers that no result has show it.
    if (has_values(t->device) && !t->is_slice) tensor_fill(t, 7);
    return b->tensors[b->num_tensors++] = t;
}
#define NEW(device, ...) keep(b, tensor_new(device, __VA_ARGS__))

static Tensor *slice(Block *b, const Tensor *flat, Range part, int columns) {
    int shape[] = {(int)part.count / columns, columns};
    return keep(b, tensor_slice(flat, (size_t)part.first, 2, shape));
}

static Tensor *parameter(Block *b, Tensor *t) {
    keep(b, t);
    if (has_values(t->device)) tensor_fill(t, 0);
    attach_grad(t);
    return t;
}

static void make_layers(Block *b, int i) {
    Layers *own = &b->layers[i];
    Device *device = b->devices[i];
    int d = b->sizes.d;
    find_sizes(b, i);
    int inner = own->num_heads * (d / b->sizes.heads);
    own->qkv = parameter(b, tensor_new(device, 3 * inner, d));
    own->out = parameter(b, tensor_new(device, d, inner));
    own->up = parameter(b, tensor_new(device, own->num_hidden, d));
    own->down = parameter(b, tensor_new(device, d, own->num_hidden));
}

static float *drawn(size_t n, double deviation, uint64_t seed, int stream) {
    float *values = xmalloc(n * sizeof *values);
    fill_normal(values, n, deviation, seed, STREAM_TEST + (uint32_t)stream);
    return values;
}

// The vectors that all devices have, or the columns of them that own tokens have.
static void make_replicated(Block *b, int i, int half, uint64_t seed) {
    Tensor **vectors[] = {b->layers[i].norm_weight, b->layers[i].norm_bias, b->layers[i].bias};
    Range columns = b->shards[TOKENS][i].columns;
    Tensor *flat = NEW(b->devices[i], 3 * b->sizes.d), *grad = NEW(b->devices[i], 3 * b->sizes.d);
    b->halves[half].replicated[i] = grad;
    if (has_values(grad->device)) {
        float *values = drawn(numel(flat), 0.5, seed, 20 + half);
        tensor_write(flat, values);
        tensor_fill(grad, 0);
        free(values);
    }
    for (int v = 0; v < 3; v++) {
        size_t first = (size_t)(v * b->sizes.d + columns.first);
        Tensor *t = keep(b, tensor_slice(flat, first, 1, (int[]){(int)columns.count}));
        attach_grad_at(t, grad, first);
        vectors[v][half] = t;
    }
}

static void make_tokens(Block *b, Half *h, int i) {
    Device *device = b->devices[i];
    Shard own = b->shards[TOKENS][i];
    int rows = (int)own.rows.count, columns = (int)own.columns.count, d = b->sizes.d;
    Range all = {0, (long)b->sizes.tokens * d};
    Range part = h->sequence ? equal_range(all.count, h->t, i) : all;
    Tensor *Z = NEW(device, (int)all.count), *dN = NEW(device, (int)all.count);
    h->Z_all[i] = slice(b, Z, all, d);
    h->Z[i] = slice(b, Z, part, columns);
    h->dN_all[i] = slice(b, dN, all, d);
    h->dN[i] = slice(b, dN, part, columns);
    h->received[i] = NEW(device, h->t - 1, (int)part.count);
    h->N[i] = NEW(device, rows, columns);
    h->Y[i] = NEW(device, rows, columns);
    h->dX[i] = NEW(device, rows, columns);
    if (h == b->halves) {
        h->X[i] = NEW(device, rows, columns);
    } else {
        h->X[i] = h[-1].Y[i];
        h->dY[i] = NEW(device, rows, columns);
        h[-1].dY[i] = h->dX[i];
    }
    h->N_all[i] = h->sequence ? NULL : h->N[i];
    for (int r = 0; r < 2 && h->sequence; r++) h->rooms[r][i] = NEW(device, b->sizes.tokens, d);
}

// ## Values

static void write_part(const Block *b, Weight w, int i, Tensor *t, float *whole) {
    float *part = tensor_values(t); // queries are there when keys come
    exchange_part(b, w, i, whole, part, false);
    tensor_write(t, part);
    free(part);
}

static void write_values(Block *b, uint64_t seed) {
    Half *first = b->halves, *last = b->halves + NUM_HALVES - 1;
    for (Weight w = QUERIES; w <= TOKENS; w++) {
        size_t n = size_of(whole_weight(w, b->sizes));
        float *whole =
            drawn(n, w == TOKENS ? 1 : 1 / sqrt(b->sizes.d), seed, w <= VALUES ? 0 : (int)w);
        float *gradient = drawn(n, 1, seed, 10);
        for (int i = 0; i < first->t; i++) {
            write_part(b, w, i, w == TOKENS ? first->X[i] : weight_on(b, w, i), whole);
            if (w == TOKENS) write_part(b, w, i, last->dY[i], gradient);
        }
        free(whole);
        free(gradient);
    }
}

Block *block_new(Sizes sizes, int t, bool sequence, Device *const devices[], uint64_t seed) {
    Block *b = xcalloc(1, sizeof *b);
    CHECK(t <= MOST_SPLIT_BLOCK, "room for the devices");
    b->sizes = sizes;
    choose_allreduce("sharded"); // each device sends as much as each other
    for (int i = 0; i < t; i++) {
        b->devices[i] = devices[i];
        for (Weight w = QUERIES; w <= DOWN; w++) b->shards[w][i] = checked_shard(sizes, w, i, t);
        b->shards[TOKENS][i] =
            sequence ? checked_shard(sizes, TOKENS, i, t) : whole_weight(TOKENS, sizes);
        make_layers(b, i);
        for (int half = 0; half < NUM_HALVES; half++) {
            Half *h = &b->halves[half];
            h->t = t, h->sequence = sequence, h->block = b;
            make_replicated(b, i, half, seed);
            make_tokens(b, h, i);
        }
        for (int half = 0; half < NUM_HALVES; half++)
            b->halves[half].dY_all[i] = sequence ? NULL : b->halves[half].dY[i];
    }
    if (has_values(devices[0])) write_values(b, seed);
    return b;
}

void block_free(Block *b) {
    synchronize_all();
    while (b->num_tensors > 0) tensor_free(b->tensors[--b->num_tensors]);
    free(b->tensors);
    free(b);
}

// ## All tokens on each device, for a while

void gather(Half *h, OnDevices all, const OnDevices own) {
    for (int i = 0; i < h->t; i++) all[i] = h->rooms[all == h->dY_all][i];
    all_gather(all, own, h->t);
}

void drop(Half *h, OnDevices all) {
    for (int i = 0; i < h->t; i++) all[i] = NULL;
}

size_t tokens_on(const Block *b, int i) {
    size_t n = 0;
    for (int half = 0; half < NUM_HALVES; half++) {
        const Half *h = &b->halves[half];
        n += numel(h->X[i]) + numel(h->N[i]);
        if (h->sequence && h->N_all[i]) n += numel(h->N_all[i]);
    }
    return n;
}

// ## What a device computes alone

static Layers *layers_of(const Half *h, int i) { return &h->block->layers[i]; }
static int number_of(const Half *h) { return (int)(h - h->block->halves); }

static Tensor *norm(const Half *h, int i, Tensor *X) {
    Layers *own = layers_of(h, i);
    return layer_norm(X, own->norm_weight[number_of(h)], own->norm_bias[number_of(h)]);
}

void normalize(Half *h, int i) { tensor_copy(h->N[i], norm(h, i, h->X[i])); }

void add_residual(Half *h, int i) {
    Tensor *bias = layers_of(h, i)->bias[number_of(h)];
    tensor_copy(h->Y[i], add(h->X[i], add_bias(h->Z[i], bias)));
}

static Tensor *split_layers(const Half *h, int i, Tensor *N) {
    const Layers *own = layers_of(h, i);
    if (number_of(h) == 1) return linear(gelu(linear(N, own->up, NULL)), own->down, NULL);
    Tensor *QKV = linear(N, own->qkv, NULL);
    return linear(attention(QKV, N->shape[0], own->num_heads), own->out, NULL);
}

static Tensor *with_gradient(const Tensor *t) {
    Tensor *copy = arena_tensor(t->device, t->ndim, t->shape, true);
    tensor_copy(copy, t);
    return copy;
}

static void backward_of_bias(Half *h, int i) {
    backward_from(add_bias(h->X[i], layers_of(h, i)->bias[number_of(h)]), h->dY[i]);
}

static void backward_of_layers(Half *h, int i) {
    Tensor *N = with_gradient(h->N_all[i]);
    backward_from(split_layers(h, i, N), h->dY_all[i]);
    tensor_copy(h->dN_all[i], N->grad);
}

void normalize_backward(Half *h, int i) {
    Tensor *X = with_gradient(h->X[i]);
    backward_from(norm(h, i, X), h->dN[i]);
    set_grad_enabled(false);
    tensor_copy(h->dX[i], add(h->dY[i], X->grad));
    set_grad_enabled(true);
}

// ## Both passes

static void need_all_tokens(const OnDevices all, int t, const char *what) {
    for (int i = 0; i < t; i++)
        if (!all[i]) die("gather() them first", "device %d has not all tokens of %s", i, what);
}

void block_forward(Block *b) {
    set_grad_enabled(false);
    for (int i = 0; i < b->halves[0].t; i++) begin_step(b->devices[i]);
    for (Half *h = b->halves; h < b->halves + NUM_HALVES; h++) {
        enter_forward(h);
        need_all_tokens(h->N_all, h->t, "N");
        for (int i = 0; i < h->t; i++) tensor_copy(h->Z_all[i], split_layers(h, i, h->N_all[i]));
        leave_forward(h);
    }
}

void block_backward(Block *b) {
    set_grad_enabled(true);
    for (Half *h = b->halves + NUM_HALVES - 1; h >= b->halves; h--) {
        for (int i = 0; i < h->t; i++) backward_of_bias(h, i);
        leave_backward(h);
        need_all_tokens(h->N_all, h->t, "N");
        need_all_tokens(h->dY_all, h->t, "dY");
        for (int i = 0; i < h->t; i++) backward_of_layers(h, i);
        enter_backward(h);
        if (!h->sequence) continue;
        drop(h, h->N_all);
        drop(h, h->dY_all);
    }
}
