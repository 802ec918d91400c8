// shards.c: which part of each parameter a device keeps.
#include "vit.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "common/base/error.h"
#include "common/tensor/random.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

// ## All parameters, and how each is cut

// W (out,in) is stored as its transpose is used, so a matrix that is cut by columns is cut between
// rows in memory, and so is its bias. One that is cut by rows is cut within each row in memory.
typedef enum Cut { WHOLE, BY_COLUMNS, BY_ROWS } Cut;

typedef struct Kind {
    size_t field;   // where VitShard has the tensor
    int rows, cols; // as stored; cols is 0 for a vector
    Cut cut;
    float start; // the value of all its numbers before training, or NAN: they are random
} Kind;

enum { OF_BLOCK = 12, NUM_KINDS = 3 + OF_BLOCK * BLOCKS + 4 };

#define FIELD(name) offsetof(VitShard, name)

static Kind *list_block(int D, int b, Kind *list) {
    const Kind kinds[OF_BLOCK] = {
        {FIELD(blocks[0].norm1_weight), D, 0, WHOLE, 1},
        {FIELD(blocks[0].norm1_bias), D, 0, WHOLE, 0},
        {FIELD(blocks[0].qkv_weight), 3 * D, D, BY_COLUMNS, NAN},
        {FIELD(blocks[0].qkv_bias), 3 * D, 0, BY_COLUMNS, 0},
        {FIELD(blocks[0].out_weight), D, D, BY_ROWS, NAN},
        {FIELD(blocks[0].out_bias), D, 0, WHOLE, 0}, // added to whole sums
        {FIELD(blocks[0].norm2_weight), D, 0, WHOLE, 1},
        {FIELD(blocks[0].norm2_bias), D, 0, WHOLE, 0},
        {FIELD(blocks[0].up_weight), 4 * D, D, BY_COLUMNS, NAN},
        {FIELD(blocks[0].up_bias), 4 * D, 0, BY_COLUMNS, 0},
        {FIELD(blocks[0].down_weight), D, 4 * D, BY_ROWS, NAN},
        {FIELD(blocks[0].down_bias), D, 0, WHOLE, 0},
    };
    for (int i = 0; i < OF_BLOCK; i++, list++) {
        *list = kinds[i];
        list->field += (size_t)b * sizeof(VitBlock);
    }
    return list;
}

static void list_kinds(int D, Kind list[NUM_KINDS]) {
    *list++ = (Kind){FIELD(patch_weight), D, PATCH * PATCH, WHOLE, NAN};
    *list++ = (Kind){FIELD(patch_bias), D, 0, WHOLE, 0};
    *list++ = (Kind){FIELD(position), TOKENS, D, WHOLE, NAN};
    for (int b = 0; b < BLOCKS; b++) list = list_block(D, b, list);
    *list++ = (Kind){FIELD(norm_weight), D, 0, WHOLE, 1};
    *list++ = (Kind){FIELD(norm_bias), D, 0, WHOLE, 0};
    *list++ = (Kind){FIELD(head_weight), FASHION_MNIST_CLASSES, D, WHOLE, NAN};
    *list++ = (Kind){FIELD(head_bias), FASHION_MNIST_CLASSES, 0, WHOLE, 0};
}

static size_t numbers_of(const Kind *kind) {
    return (size_t)kind->rows * (size_t)(kind->cols ? kind->cols : 1);
}

static Tensor **tensor_at(VitShard *shard, const Kind *kind) {
    return (Tensor **)(void *)((char *)shard + kind->field);
}

// ## Who has what

Range vit_groups(int k, int i) { return equal_range(GROUPS, k, i); }

// Of `size` rows or columns.
static Range vit_part(int size, int k, int i) {
    Range groups = vit_groups(k, i);
    int each = size / GROUPS;
    return (Range){.first = groups.first * each, .count = groups.count * each};
}

bool vit_is_exact(int k) { return GROUPS % k == 0; }
int vit_num_groups(int k) { return vit_is_exact(k) ? GROUPS / k : 0; }

// The part of a kind that device i of k keeps, as rows and columns in memory.
typedef struct Part {
    Range rows, cols;
} Part;

static Part part_of_kind(const Kind *kind, int k, int i) {
    Part part = {{0, kind->rows}, {0, kind->cols ? kind->cols : 1}};
    if (kind->cut == BY_COLUMNS) part.rows = vit_part(kind->rows, k, i);
    if (kind->cut == BY_ROWS) part.cols = vit_part(kind->cols, k, i);
    return part;
}

static size_t numbers_of_device(const Kind list[], int k, int i) {
    size_t n = 0;
    for (int p = 0; p < NUM_KINDS; p++) {
        Part part = part_of_kind(&list[p], k, i);
        n += (size_t)(part.rows.count * part.cols.count);
    }
    return n;
}

// Cuts device i's part out of all parameters, or puts it back.
static void copy_parts(const Kind list[], int k, int i, float *whole, float *own, bool back) {
    for (int p = 0; p < NUM_KINDS; whole += numbers_of(&list[p++])) {
        Part part = part_of_kind(&list[p], k, i);
        long stride = list[p].cols ? list[p].cols : 1;
        for (long row = part.rows.first; row < part.rows.first + part.rows.count; row++) {
            float *there = whole + row * stride + part.cols.first;
            size_t n = (size_t)part.cols.count;
            memcpy(back ? there : own, back ? own : there, n * sizeof(float));
            own += n;
        }
    }
}

// ## A network

// The tensors of a device, as slices of one long vector.
static void make_shard(Vit *v, const Kind list[], int i) {
    VitShard *shard = &v->shards[i];
    size_t first = 0;
    shard->flat = tensor_new(v->devices[i], (int)numbers_of_device(list, v->k, i));
    attach_grad(shard->flat);
    for (int p = 0; p < NUM_KINDS; p++) {
        Part part = part_of_kind(&list[p], v->k, i);
        int shape[] = {(int)part.rows.count, (int)part.cols.count};
        Tensor *t = tensor_slice(shard->flat, first, list[p].cols ? 2 : 1, shape);
        attach_grad_at(t, shard->flat->grad, first);
        *tensor_at(shard, &list[p]) = t;
        first += numel(t);
    }
}

Vit *vit_new(int width, Device *const devices[], int k, const float *start, AdamOptions options) {
    CHECK(k >= 1 && k <= MOST_SPLIT, "a layer is split over 1 to 8 devices");
    CHECK(width % GROUPS == 0, "each group has equally many numbers");
    Kind list[NUM_KINDS];
    Vit *v = xcalloc(1, sizeof *v);
    list_kinds(width, list);
    *v = (Vit){.width = width, .k = k, .mlp = vit_mlp};
    memcpy(v->devices, devices, sizeof *devices * (size_t)k);
    share_cores(devices, k);
    for (int i = 0; i < k; i++) {
        make_shard(v, list, i);
        v->shards[i].adam = adam_new(&v->shards[i].flat, 1, options);
        if (!start) continue;
        float *own = xmalloc(tensor_bytes(v->shards[i].flat));
        copy_parts(list, k, i, (float *)start, own, false);
        tensor_write(v->shards[i].flat, own);
        free(own);
    }
    return v;
}

void vit_free(Vit *v) {
    Kind list[NUM_KINDS];
    list_kinds(v->width, list);
    for (int i = 0; i < v->k; i++) {
        adam_free(v->shards[i].adam);
        for (int p = 0; p < NUM_KINDS; p++) tensor_free(*tensor_at(&v->shards[i], &list[p]));
        tensor_free(v->shards[i].flat);
    }
    free(v);
}

// ## All parameters together

size_t vit_numbers(int width) {
    Kind list[NUM_KINDS];
    list_kinds(width, list);
    return numbers_of_device(list, 1, 0);
}

// Drawn before it is cut: so it does not depend on k.
float *vit_start(int width, uint64_t seed) {
    Kind list[NUM_KINDS];
    float *values = xmalloc(vit_numbers(width) * sizeof *values), *next = values;
    list_kinds(width, list);
    for (int p = 0; p < NUM_KINDS; next += numbers_of(&list[p++])) {
        size_t n = numbers_of(&list[p]);
        if (isnan(list[p].start))
            fill_normal(next, n, 1 / sqrt(list[p].cols), seed, (uint32_t)(STREAM_PARAMS + p));
        else
            for (size_t j = 0; j < n; j++) next[j] = list[p].start;
    }
    return values;
}

float *vit_join(const Vit *v) {
    Kind list[NUM_KINDS];
    float *whole = xmalloc(vit_numbers(v->width) * sizeof *whole);
    list_kinds(v->width, list);
    for (int i = v->k - 1; i >= 0; i--) {
        float *own = tensor_values(v->shards[i].flat);
        copy_parts(list, v->k, i, whole, own, true);
        free(own);
    }
    return whole;
}

bool vit_copies_are_equal(const Vit *v) {
    Kind list[NUM_KINDS];
    bool equal = true;
    list_kinds(v->width, list);
    for (int p = 0; p < NUM_KINDS; p++)
        for (int i = 1; i < v->k && list[p].cut == WHOLE; i++) {
            VitShard *shard = (VitShard *)&v->shards[i];
            float *first = tensor_values(*tensor_at((VitShard *)&v->shards[0], &list[p]));
            float *other = tensor_values(*tensor_at(shard, &list[p]));
            equal = equal && memcmp(first, other, numbers_of(&list[p]) * sizeof *first) == 0;
            free(first);
            free(other);
        }
    return equal;
}

// ## The formulas

size_t vit_bytes(int width, int k, int i, int images) {
    size_t tokens = (size_t)images * TOKENS * (size_t)width;
    return 4 * BLOCKS * allreduce_sharded_floats(tokens, k, i).sent * sizeof(float);
}

size_t vit_bytes_of_ddp(int width, int k, int i) {
    return allreduce_sharded_floats(vit_numbers(width), k, i).sent * sizeof(float);
}
