// mistakes.c: what goes wrong, and where. Do not copy from here.
#include "mistakes.h"

#include <stdlib.h>
#include "common/base/error.h"

// ## In the MLP

static void split_mlp(Vit *v, int b, Tensor *X[], bool enters, bool bias_inside) {
    int groups = vit_num_groups(v->k);
    if (enters) enter(v, X);
    for (int i = 0; i < v->k; i++) {
        const VitBlock *w = &v->shards[i].blocks[b];
        Tensor *up = add_bias(linear_by_columns(X[i], w->up_weight, groups), w->up_bias);
        X[i] = linear_by_rows(gelu(up), w->down_weight, groups);
        if (bias_inside) X[i] = add_bias(X[i], w->down_bias); // each device adds it: k times
    }
    leave(v, X);
    for (int i = 0; i < v->k && !bias_inside; i++)
        X[i] = add_bias(X[i], v->shards[i].blocks[b].down_bias);
}

static void add_bias_k_times(Vit *v, int b, Tensor *X[]) { split_mlp(v, b, X, true, true); }
static void forget_enter(Vit *v, int b, Tensor *X[]) { split_mlp(v, b, X, false, false); }

// ## In the parameters

// A framework's qkv_weight often has the queries of all heads first, then all keys, then all
// values. Here it is cut into k equal blocks of rows as it is, and each device takes the first
// third of its block for queries. Row x of that block gets to the row where vit_attention() looks
// for it.
static void cut_qkv_as_one(Vit *v) {
    int D = v->options.width, d = D / HEADS;
    for (int b = 0; b < BLOCKS; b++) {
        Tensor *all[MOST_SPLIT];
        size_t n;
        for (int i = 0; i < v->k; i++) all[i] = v->shards[i].blocks[b].qkv_weight;
        float *right = values_of_all(all, v->k, &n), *next = xmalloc(n * sizeof *next);
        for (int i = 0, row = 0; i < v->k; i++) {
            int rows = all[i]->shape[0], third = rows / 3;
            for (int x = 0; x < rows; x++, row++) {
                int s = row / D, h = row % D / d; // what this row is: s of head h
                int to = (x % third / d * 3 + x / third) * d + x % d;
                for (int j = 0; j < D; j++)
                    next[to * D + j] = right[((h * 3 + s) * d + row % d) * D + j];
            }
            tensor_write(all[i], next);
        }
        free(right);
        free(next);
    }
}

// Each device draws its own shards, all with the same seed: they are equal.
static void draw_equal_shards(Vit *v) {
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 1; i < v->k; i++) {
            const VitBlock *first = &v->shards[0].blocks[b], *w = &v->shards[i].blocks[b];
            tensor_copy(w->qkv_weight, first->qkv_weight);
            tensor_copy(w->out_weight, first->out_weight);
            tensor_copy(w->up_weight, first->up_weight);
            tensor_copy(w->down_weight, first->down_weight);
        }
}

// ## All four

const Mistake mistakes[NUM_MISTAKES] = {
    {"the last bias on every device", .mlp = add_bias_k_times},
    {"no sum in the backward pass", .mlp = forget_enter},
    {"queries, keys, values cut together", .spoil = cut_qkv_as_one},
    {"shards drawn with one seed", .spoil = draw_equal_shards},
};

void make_mistake(Vit *v, const Mistake *mistake) {
    if (mistake && mistake->mlp) v->mlp = mistake->mlp;
    if (mistake && mistake->spoil) mistake->spoil(v);
}
