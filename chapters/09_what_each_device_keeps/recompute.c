// recompute.c: a block keeps only its input, and is computed again when backward() needs the rest.
// Chen et al., "Training deep nets with sublinear memory cost", 2016; torch.utils.checkpoint.
#include "zero.h"

// A module with parameters, and the modules without parameters that follow it.
typedef struct Block {
    const NetPart *parts;
    int num_parts;
} Block;

static void forward_block(const Block *block, Tensor *X[], int k) {
    for (int p = 0; p < block->num_parts; p++) forward_part(&block->parts[p], X, k);
}

// ## Backward: once more, with a tape

static void track_running_stats(const Block *block, bool track) {
    for (int p = 0; p < block->num_parts; p++)
        set_track_running_stats(block->parts[p].module, track);
}

// The same values and the same gradient, but not the result of an operation on the tape.
static Tensor *detached(Tensor *t) {
    Tensor *X = arena_header(t->device, t->ndim, t->shape);
    X->data = t->data;
    X->requires_grad = t->requires_grad;
    X->grad = t->grad;
    if (t->requires_grad) X->grad_filled = grad_beta(t) == 1;
    return X;
}

static void recompute_backward(Node *const nodes[], int k) {
    const Block *block = nodes[0]->context;
    Tensor *Y[MAX_DEVICES];
    ArenaPosition before[MAX_DEVICES];
    int begin = tape_length(nodes[0]->out->device);
    for (int i = 0; i < k; i++) {
        arena_give_back(nodes[i]->out->device, nodes[i]->out->data); // read for the last time
        before[i] = arena_position(nodes[i]->out->device);
        Y[i] = detached(nodes[i]->in[0]);
    }
    track_running_stats(block, false); // they already include this minibatch
    forward_block(block, Y, k);
    track_running_stats(block, true);
    backward_inside(nodes, Y, k, begin);
    for (int i = 0; i < k; i++) arena_go_back(nodes[i]->out->device, before[i]);
}

// ## Forward: without a tape

// A copy of the output in lent memory, so that all other activations can be discarded.
static Tensor *keep_output(const Tensor *Y) {
    Tensor *kept = arena_header(Y->device, Y->ndim, Y->shape);
    kept->data = arena_lend(Y->device, tensor_bytes(Y));
    tensor_copy(kept, Y);
    return kept;
}

// Images need no gradient, but parameters do. So one parameter is also an input of the operation.
static Tensor *a_parameter(const Module *net, const Block *block, const Device *device) {
    if (block->parts->num == 0) return NULL;
    return parameter_data(parameters_of(net).list[block->parts->first], device);
}

// The operation on the tape: from X[i] and the parameters to `out`.
static void push_block(const Module *net, const Block *block, Tensor *X, Tensor *out) {
    tape_push((Node){.backward_together = recompute_backward,
                     .out = out,
                     .in = {X, a_parameter(net, block, X->device)},
                     .reads_in = true,
                     .context = arena_note(X->device, block, sizeof *block)});
}

static void checkpoint(const Module *net, const Block *block, Tensor *X[], int k) {
    Tensor *Y[MAX_DEVICES];
    ArenaPosition before[MAX_DEVICES];
    for (int i = 0; i < k; i++) {
        Y[i] = X[i];
        before[i] = arena_position(X[i]->device);
    }
    set_grad_enabled(false); // nothing is added to the tape
    forward_block(block, Y, k);
    set_grad_enabled(true);
    for (int i = 0; i < k; i++) {
        Tensor *out = keep_output(Y[i]);
        arena_go_back(X[i]->device, before[i]); // discards all other activations
        push_block(net, block, X[i], out);
        X[i] = out;
    }
}

void forward_recomputed(const Zero *z, const Unit *unit, Tensor *Y[]) {
    for (int p = 0, end; p < unit->num_parts; p = end) {
        for (end = p + 1; end < unit->num_parts && unit->parts[end].num == 0;) end++;
        checkpoint(z->net, &(Block){&unit->parts[p], end - p}, Y, z->k);
    }
}
