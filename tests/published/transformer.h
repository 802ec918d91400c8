// transformer.h: how long a training step takes for a transformer in 16-bit numbers that is split
// over `data` groups of `tensor` devices. Launches, the loss and the update are left out: they make
// products seem slower where truth.c calibrates these by a published step.
#pragma once

#include "chapters/02_get_params_and_allreduce/behind/nccl_model.h"
#include "common/base/error.h"

#include <math.h>

typedef enum { KEEP_ALL, RECOMPUTE_ATTENTION, RECOMPUTE_ALL } Recompute; // in backward

typedef struct Transformer {
    double hidden, heads, layers, ffn, vocab, sequence;
    bool llama; // or GPT: three matrices in an MLP, not two; attention stays on the chip, and half
                // of it, which is masked, is not computed
    Recompute recompute;
} Transformer;

typedef struct Split {
    int tensor, data;
    bool sequence; // what is not split by `tensor` is split by tokens: sequence parallelism
    double microbatch, accumulation; // sequences at a time, and how often
    double gradient_bytes;           // of one number
} Split;

static double mlp_numbers(const Transformer *n) { return (n->llama ? 3 : 2) * n->ffn; }

static double transformer_params(const Transformer *n) {
    return n->layers * n->hidden * (4 * n->hidden + mlp_numbers(n)) + n->vocab * n->hidden;
}

// Backward takes twice as long as forward, and repeats what is recomputed.
static double passes(const Transformer *n, double attention, double others) {
    return (n->recompute >= RECOMPUTE_ATTENTION ? 4 : 3) * attention +
           (n->recompute == RECOMPUTE_ALL ? 4 : 3) * others;
}

// FLOP of a token in a step, on all devices together.
static double token_flop(const Transformer *n) {
    double attention = (n->llama ? 2 : 4) * n->sequence * n->hidden;
    double products = 2 * n->hidden * (4 * n->hidden + mlp_numbers(n));
    return n->layers * passes(n, attention, products) + 6 * n->vocab * n->hidden;
}

// Bytes that the kernels between products read and write for a token, on one device. Each number
// goes in and out once: in softmax and dropout of attention, in the MLP's activation, and, not
// split by `tensor`, in two norms (2 hidden each), and two dropouts with their additions (3).
static double token_bytes(const Transformer *n, const Split *s) {
    double attention = n->llama ? 0 : 4 * n->heads * n->sequence / s->tensor;
    double whole = 10 * n->hidden / (s->sequence ? s->tensor : 1);
    return 2 * n->layers * passes(n, attention, mlp_numbers(n) / s->tensor + whole);
}

// How many allreduces the layers have in a step, each of `hidden` numbers for each token.
static double num_allreduces(const Transformer *n) {
    return n->layers * (n->recompute == RECOMPUTE_ALL ? 6 : 4);
}

// An allreduce over ranks whose numbers are `stride` apart. So many such groups share the cards of
// a host.
static double group_seconds(const Machine *machine, int ranks, int stride, double bytes) {
    Machine m = *machine;
    CHECK(m.links == LINKS_SWITCH && m.devices % stride == 0 && m.cards >= stride,
          "a group has a device and a card of each host");
    m.devices /= stride;
    m.cards /= stride;
    return nccl_allreduce_seconds(&m, ranks, bytes, NULL);
}

// A reduce-scatter and an all-gather are the two halves of a ring.
static double tensor_seconds(const Machine *machine, const Split *s, double bytes) {
    NcclChoice ring = {NCCL_RING, NCCL_SIMPLE};
    return s->sequence ? nccl_seconds(machine, ring, s->tensor, bytes)
                       : group_seconds(machine, s->tensor, 1, bytes);
}

// FLOP of a device in a step.
static double device_flop(const Transformer *n, const Split *s) {
    return s->accumulation * s->microbatch * n->sequence * token_flop(n) / s->tensor;
}

// Seconds of a step, by what takes them.
typedef struct TransformerStep {
    double products, elements, tensor, data;
} TransformerStep;

static TransformerStep transformer_step(const Machine *machine, const Transformer *n,
                                        const Split *s) {
    double tokens = s->microbatch * n->sequence;
    double flops = machine->fp16 * machine->fp16_efficiency;
    double bandwidth = machine->memory_bandwidth * machine->efficiency[COST_ELEMENTS];
    double gradients = s->gradient_bytes * transformer_params(n) / s->tensor;
    return (TransformerStep){
        .products = device_flop(n, s) / flops,
        .elements = s->accumulation * tokens * token_bytes(n, s) / bandwidth,
        .tensor = s->accumulation * num_allreduces(n) *
                  tensor_seconds(machine, s, 2 * tokens * n->hidden),
        .data = group_seconds(machine, s->data, s->tensor, gradients),
    };
}
