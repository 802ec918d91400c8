// vit.c: the network, and a training step. The layers between enter() and leave() are split; all
// devices compute the others alike.
#include "vit.h"

#include "common/data/evaluate.h"
#include "common/device/trace.h"
#include "chapters/03_split_batch/split_batch.h"

// ## A block, split

// The backward pass does not need the sums, so their memory is free again.
static Tensor *with_bias(Tensor *sums, Tensor *bias) {
    Tensor *Y = add_bias(sums, bias);
    arena_give_back(sums->device, sums->data);
    return Y;
}

// Of device i of this process.
static int vit_heads(const Vit *v, int i) {
    return (int)vit_groups(v->options.parts, v->options.part + i).count;
}

static void vit_attention(Vit *v, int b, Tensor *X[]) {
    int groups = vit_num_groups(v->options.parts);
    enter(v, X);
    for (int i = 0; i < v->k; i++) {
        const VitBlock *w = &v->shards[i].blocks[b];
        Tensor *QKV = add_bias(linear_by_columns(X[i], w->qkv_weight, groups), w->qkv_bias);
        Tensor *heads = attention(QKV, TOKENS, vit_heads(v, i));
        X[i] = linear_by_rows(heads, w->out_weight, groups);
    }
    leave(v, X);
    for (int i = 0; i < v->k; i++) X[i] = with_bias(X[i], v->shards[i].blocks[b].out_bias);
}

void vit_mlp(Vit *v, int b, Tensor *X[]) {
    int groups = vit_num_groups(v->options.parts);
    enter(v, X);
    for (int i = 0; i < v->k; i++) {
        const VitBlock *w = &v->shards[i].blocks[b];
        Tensor *up = add_bias(linear_by_columns(X[i], w->up_weight, groups), w->up_bias);
        X[i] = linear_by_rows(gelu(up), w->down_weight, groups);
    }
    leave(v, X);
    for (int i = 0; i < v->k; i++) X[i] = with_bias(X[i], v->shards[i].blocks[b].down_bias);
}

static void vit_block(Vit *v, int b, Tensor *X[]) {
    Tensor *H[MOST_SPLIT]; // as X: tokens (N T,D), the same on each device
    for (int i = 0; i < v->k; i++) {
        const VitBlock *w = &v->shards[i].blocks[b];
        H[i] = layer_norm(X[i], w->norm1_weight, w->norm1_bias);
    }
    vit_attention(v, b, H);
    for (int i = 0; i < v->k; i++) {
        const VitBlock *w = &v->shards[i].blocks[b];
        X[i] = add(X[i], H[i]);
        H[i] = layer_norm(X[i], w->norm2_weight, w->norm2_bias);
    }
    v->mlp(v, b, H);
    for (int i = 0; i < v->k; i++) X[i] = add(X[i], H[i]);
}

// ## The whole network

void vit_forward(Vit *v, Tensor *const X[], Tensor *y_hat[]) {
    Tensor *H[MOST_SPLIT];
    for (int i = 0; i < v->k; i++) {
        const VitShard *w = &v->shards[i];
        Tensor *tokens = linear(patches(X[i], PATCH), w->patch_weight, w->patch_bias);
        H[i] = add_position(tokens, w->position); // (N T,D)
    }
    for (int b = 0; b < BLOCKS; b++) vit_block(v, b, H);
    for (int i = 0; i < v->k; i++) {
        const VitShard *w = &v->shards[i];
        Tensor *tokens = layer_norm(H[i], w->norm_weight, w->norm_bias);
        y_hat[i] = linear(mean_of_tokens(tokens, TOKENS), w->head_weight, w->head_bias);
    }
}

// ## A step

void vit_load(const Vit *v, const Tensor *X, const Tensor *y, Range rows, Tensor *images[],
              Tensor *labels[]) {
    for (int i = 0; i < v->k; i++) {
        Range own = v->options.sequence ? equal_range(rows.count, v->k, i) : (Range){0, rows.count};
        own.first += rows.first;
        begin_step(v->devices[i]);
        images[i] = rows_on(X, own, v->devices[i]);
        labels[i] = rows_on(y, own, v->devices[i]);
    }
}

void vit_gradients(Vit *v, const Tensor *X, const Tensor *y, Range rows, Tensor *losses[]) {
    Tensor *images[MOST_SPLIT], *labels[MOST_SPLIT], *y_hat[MOST_SPLIT], *gradients[MOST_SPLIT];
    vit_load(v, X, y, rows, images, labels);
    trace_label("forward");
    vit_forward(v, images, y_hat);
    for (int i = 0; i < v->k; i++) losses[i] = sum(cross_entropy(y_hat[i], labels[i]));
    trace_label("backward");
    backward_all(losses, v->k);
    for (int i = 0; i < v->k; i++) gradients[i] = v->shards[i].whole_grad;
    if (v->options.sequence) sum_in_halves(gradients, v->k); // each has those of its tokens
}

void vit_train_batch(Vit *v, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]) {
    vit_gradients(v, X, y, (Range){0, X->shape[0]}, losses);
    trace_label("update");
    for (int i = 0; i < v->k; i++) adam_step(v->shards[i].adam, lr, X->shape[0]);
}

double vit_accuracy(Vit *v, DataIter *iter) {
    Tensor *X, *y, *images[MOST_SPLIT], *labels[MOST_SPLIT], *y_hat[MOST_SPLIT];
    Accuracy a = accuracy_begin(v->devices, 1);
    bool sequence = v->options.sequence;
    v->options.sequence = false;
    data_iter_start(iter, 0);
    while (data_iter_next(iter, &X, &y)) {
        vit_load(v, X, y, (Range){0, X->shape[0]}, images, labels);
        vit_forward(v, images, y_hat);
        accuracy_count(&a, y_hat, labels);
    }
    v->options.sequence = sequence;
    return accuracy_end(&a);
}
