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
    float start;     // the value of all its numbers before training, or NAN: they are random
    uint32_t number; // of the kind, and where its numbers begin, when all parameters are together
    size_t first;
} Kind;

enum { OF_BLOCK = 12, NUM_KINDS = 3 + OF_BLOCK * BLOCKS + 4 };

#define KIND(name, num_rows, num_cols, how, value)                                                 \
    ((Kind){.field = offsetof(VitShard, name),                                                     \
            .rows = (num_rows),                                                                    \
            .cols = (num_cols),                                                                    \
            .cut = (how),                                                                          \
            .start = (value)})

static Kind *list_block(int D, int b, Kind *list) {
    const Kind kinds[OF_BLOCK] = {
        KIND(blocks[0].norm1_weight, D, 0, WHOLE, 1),
        KIND(blocks[0].norm1_bias, D, 0, WHOLE, 0),
        KIND(blocks[0].qkv_weight, 3 * D, D, BY_COLUMNS, NAN),
        KIND(blocks[0].qkv_bias, 3 * D, 0, BY_COLUMNS, 0),
        KIND(blocks[0].out_weight, D, D, BY_ROWS, NAN),
        KIND(blocks[0].out_bias, D, 0, WHOLE, 0), // added to whole sums
        KIND(blocks[0].norm2_weight, D, 0, WHOLE, 1),
        KIND(blocks[0].norm2_bias, D, 0, WHOLE, 0),
        KIND(blocks[0].up_weight, 4 * D, D, BY_COLUMNS, NAN),
        KIND(blocks[0].up_bias, 4 * D, 0, BY_COLUMNS, 0),
        KIND(blocks[0].down_weight, D, 4 * D, BY_ROWS, NAN),
        KIND(blocks[0].down_bias, D, 0, WHOLE, 0),
    };
    for (int i = 0; i < OF_BLOCK; i++, list++) {
        *list = kinds[i];
        list->field += (size_t)b * sizeof(VitBlock);
    }
    return list;
}

static size_t numbers_of(const Kind *kind) {
    return (size_t)kind->rows * (size_t)(kind->cols ? kind->cols : 1);
}

// In the order of the forward pass.
static void list_all(int D, Kind *list) {
    *list++ = KIND(patch_weight, D, PATCH * PATCH, WHOLE, NAN);
    *list++ = KIND(patch_bias, D, 0, WHOLE, 0);
    *list++ = KIND(position, TOKENS, D, WHOLE, NAN);
    for (int b = 0; b < BLOCKS; b++) list = list_block(D, b, list);
    *list++ = KIND(norm_weight, D, 0, WHOLE, 1);
    *list++ = KIND(norm_bias, D, 0, WHOLE, 0);
    *list++ = KIND(head_weight, FASHION_MNIST_CLASSES, D, WHOLE, NAN);
    *list++ = KIND(head_bias, FASHION_MNIST_CLASSES, 0, WHOLE, 0);
}

// As a device has them in `flat`: those that all devices have come first.
static void list_kinds(int D, Kind list[NUM_KINDS]) {
    Kind all[NUM_KINDS];
    size_t first = 0;
    list_all(D, all);
    for (int p = 0; p < NUM_KINDS; first += numbers_of(&all[p++])) {
        all[p].number = (uint32_t)p;
        all[p].first = first;
    }
    for (int cut = 0; cut < 2; cut++)
        for (int p = 0; p < NUM_KINDS; p++)
            if ((all[p].cut != WHOLE) == cut) *list++ = all[p];
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

int vit_num_groups(int k) { return GROUPS % k == 0 ? GROUPS / k : 0; }

// Of the rows that a device adds for the gradient of a parameter.
static int groups_of_rows(const Vit *v, const Kind *kind) {
    int data = v->options.data > 1 ? v->options.data : 1;
    int sharing = v->options.sequence && kind->cut == WHOLE ? data * v->k : data;
    return ROW_GROUPS % sharing == 0 ? ROW_GROUPS / sharing : 0;
}

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

// If `cut_ones` is not set, only what all devices have.
static size_t numbers_of_device(const Kind list[], int k, int i, bool cut_ones) {
    size_t n = 0;
    for (int p = 0; p < NUM_KINDS; p++) {
        if (list[p].cut != WHOLE && !cut_ones) continue;
        Part part = part_of_kind(&list[p], k, i);
        n += (size_t)(part.rows.count * part.cols.count);
    }
    return n;
}

// Cuts device i's part out of all parameters, or puts it back.
static void copy_parts(const Kind list[], int k, int i, float *whole, float *own, bool back) {
    for (int p = 0; p < NUM_KINDS; p++) {
        Part part = part_of_kind(&list[p], k, i);
        long stride = list[p].cols ? list[p].cols : 1;
        for (long row = part.rows.first; row < part.rows.first + part.rows.count; row++) {
            float *there = whole + list[p].first + row * stride + part.cols.first;
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
    int k = v->options.parts, number = v->options.part + i;
    size_t first = 0;
    shard->flat = tensor_new(v->devices[i], (int)numbers_of_device(list, k, number, true));
    attach_grad(shard->flat);
    shard->whole_grad = tensor_slice(shard->flat->grad, 0, 1,
                                     (int[]){(int)numbers_of_device(list, k, number, false)});
    for (int p = 0; p < NUM_KINDS; p++) {
        Part part = part_of_kind(&list[p], k, number);
        int shape[] = {(int)part.rows.count, (int)part.cols.count};
        Tensor *t = tensor_slice(shard->flat, first, list[p].cols ? 2 : 1, shape);
        attach_grad_at(t, shard->flat->grad, first);
        t->grad_groups = groups_of_rows(v, &list[p]);
        *tensor_at(shard, &list[p]) = t;
        first += numel(t);
    }
}

static void list_flats(const Vit *v, Tensor *flats[]) {
    for (int i = 0; i < v->k; i++) flats[i] = v->shards[i].flat;
}

Vit *vit_new(VitOptions options, Device *const devices[], int k, const float *start) {
    CHECK(k >= 1 && k <= MOST_SPLIT, "a layer is split over 1 to 8 devices");
    CHECK(options.width % GROUPS == 0, "each group has equally many numbers");
    Kind list[NUM_KINDS];
    Tensor *flats[MOST_SPLIT];
    Vit *v = xcalloc(1, sizeof *v);
    list_kinds(options.width, list);
    if (!options.sum) options.parts = k, options.sum = sum_in_halves;
    *v = (Vit){.options = options, .k = k, .mlp = vit_mlp};
    v->options.sequence = options.sequence && k > 1;
    memcpy(v->devices, devices, sizeof *devices * (size_t)k);
    share_cores(devices, k);
    for (int i = 0; i < k; i++) {
        make_shard(v, list, i);
        v->shards[i].adam = adam_new(&v->shards[i].flat, 1, options.adam);
    }
    list_flats(v, flats);
    if (start) vit_cut(v, start, flats);
    return v;
}

void vit_free(Vit *v) {
    Kind list[NUM_KINDS];
    list_kinds(v->options.width, list);
    for (int i = 0; i < v->k; i++) {
        adam_free(v->shards[i].adam);
        for (int p = 0; p < NUM_KINDS; p++) tensor_free(*tensor_at(&v->shards[i], &list[p]));
        tensor_free(v->shards[i].whole_grad);
        tensor_free(v->shards[i].flat);
    }
    free(v);
}

// ## All parameters together

size_t vit_numbers(int width) {
    Kind list[NUM_KINDS];
    list_kinds(width, list);
    return numbers_of_device(list, 1, 0, true);
}

// Drawn before it is cut: so it does not depend on k.
float *vit_start(int width, uint64_t seed) {
    Kind list[NUM_KINDS];
    float *values = xmalloc(vit_numbers(width) * sizeof *values);
    list_kinds(width, list);
    for (const Kind *kind = list; kind < list + NUM_KINDS; kind++) {
        size_t n = numbers_of(kind);
        float *here = values + kind->first;
        if (isnan(kind->start))
            fill_normal(here, n, 1 / sqrt(kind->cols), seed, STREAM_PARAMS + kind->number);
        else
            for (size_t j = 0; j < n; j++) here[j] = kind->start;
    }
    return values;
}

void vit_cut(const Vit *v, const float *whole, Tensor *const parts[]) {
    Kind list[NUM_KINDS];
    list_kinds(v->options.width, list);
    for (int i = 0; i < v->k; i++) {
        float *own = xmalloc(tensor_bytes(parts[i]));
        copy_parts(list, v->options.parts, v->options.part + i, (float *)whole, own, false);
        tensor_write(parts[i], own);
        free(own);
    }
}

void vit_put_together(const Vit *v, Tensor *const parts[], float *whole) {
    Kind list[NUM_KINDS];
    list_kinds(v->options.width, list);
    for (int i = v->k - 1; i >= 0; i--) { // what all have, from device 0 last
        float *own = tensor_values(parts[i]);
        copy_parts(list, v->k, i, whole, own, true);
        free(own);
    }
}

float *vit_join(const Vit *v) {
    Tensor *flats[MOST_SPLIT];
    float *whole = xmalloc(vit_numbers(v->options.width) * sizeof *whole);
    list_flats(v, flats);
    vit_put_together(v, flats, whole);
    return whole;
}

bool vit_copies_are_equal(const Vit *v) {
    Kind list[NUM_KINDS];
    bool equal = true;
    list_kinds(v->options.width, list);
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

size_t vit_bytes(const VitOptions *options, int k, int i, int images) {
    Kind list[NUM_KINDS];
    size_t tokens = (size_t)images * TOKENS * (size_t)options->width, floats;
    floats = 4 * BLOCKS * allreduce_sharded_floats(tokens, k, i).sent;
    if (options->sequence) { // also the tokens once more, and the gradients of what all have
        list_kinds(options->width, list);
        floats += 2 * BLOCKS * all_gather_floats(tokens, k, i).sent;
        floats += allreduce_sharded_floats(numbers_of_device(list, k, i, false), k, i).sent;
    }
    return floats * sizeof(float);
}

size_t vit_bytes_of_ddp(int width, int k, int i) {
    return allreduce_sharded_floats(vit_numbers(width), k, i).sent * sizeof(float);
}
