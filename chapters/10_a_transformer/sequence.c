// sequence.c: sequence parallelism. Outside the two pairs, each device has only its part of the
// tokens, so the sum of leave() becomes a reduce-scatter, and enter() an all-gather. Korthikanti et
// al., "Reducing activation recomputation in large transformer models", 2022.
#include "vit.h"

#include "common/base/error.h"
#include "common/device/trace.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

// X[i] (n,D) on each device -> all of them on each device, in lent memory.
static void gather(Tensor *const all[], Tensor *const X[], int k) {
    const char *before = trace_label("exchange");
    for (int i = 0; i < k; i++) all[i]->data = arena_lend(all[i]->device, tensor_bytes(all[i]));
    all_gather(all, X, k);
    trace_label(before);
}

// The backward pass of enter().
static void scatter_gradients(Node *const nodes[], int k) {
    Tensor *of_all[MOST_SPLIT], *of_own[MOST_SPLIT];
    for (int i = 0; i < k; i++) {
        of_all[i] = nodes[i]->out->grad;
        of_own[i] = nodes[i]->in[0]->grad;
        float beta = grad_beta(nodes[i]->in[0]);
        CHECK(beta == 0, "only enter() reads these tokens");
        arena_give_back(nodes[i]->out->device, nodes[i]->out->data);
    }
    reduce_scatter_in_halves(of_own, of_all, k);
}

// The backward pass of leave(). The first product of the pair needs all tokens for the gradient of
// its weight. They were not kept, so they are gathered once more.
static void gather_gradients(Node *const nodes[], int k) {
    Tensor *of_all[MOST_SPLIT], *of_own[MOST_SPLIT], *own[MOST_SPLIT], *all[MOST_SPLIT];
    for (int i = 0; i < k; i++) {
        Tensor *const *pair = nodes[i]->context;
        own[i] = pair[0], all[i] = pair[1];
        of_all[i] = nodes[i]->in[0]->grad;
        of_own[i] = nodes[i]->out->grad;
        grad_beta(nodes[i]->in[0]);
    }
    gather(all, own, k);
    all_gather(of_all, of_own, k);
}

void enter_from_tokens(Vit *v, Tensor *X[]) {
    for (int i = 0; i < v->k; i++) {
        v->own_tokens[i] = X[i];
        int shape[] = {X[i]->shape[0] * v->k, X[i]->shape[1]};
        v->all_tokens[i] = arena_header(X[i]->device, 2, shape);
    }
    gather(v->all_tokens, X, v->k);
    for (int i = 0; i < v->k; i++) {
        X[i] = v->all_tokens[i];
        tape_push(
            (Node){.backward_together = scatter_gradients, .out = X[i], .in = {v->own_tokens[i]}});
    }
}

void leave_to_tokens(Vit *v, Tensor *X[]) {
    Tensor *sums[MOST_SPLIT];
    for (int i = 0; i < v->k; i++) sums[i] = arena_lent(X[i]->device, 2, v->own_tokens[i]->shape);
    reduce_scatter_in_halves(sums, X, v->k);
    for (int i = 0; i < v->k; i++) {
        Tensor *pair[] = {v->own_tokens[i], v->all_tokens[i]};
        Device *device = X[i]->device;
        arena_give_back(device, X[i]->data);
        arena_give_back(device, pair[1]->data);
        tape_push((Node){.backward_together = gather_gradients,
                         .out = sums[i],
                         .in = {X[i]},
                         .context = arena_note(device, pair, sizeof pair)});
        X[i] = sums[i];
    }
}
