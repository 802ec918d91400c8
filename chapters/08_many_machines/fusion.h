// fusion.h: Horovod's tensor fusion: gradients that happen to be ready on all ranks travel
// together. Source: Sergeev and Del Balso, "Horovod: fast and easy distributed deep learning in
// TensorFlow", 2018, section "Tensor Fusion"; horovod/common/controller.cc, docs/tensor-fusion.rst.
#pragma once

#include "common/tensor/nn.h"

typedef struct FusionOptions {
    size_t threshold; // bytes of the fusion buffer; 0: no fusion, each gradient goes alone
    double cycle;     // seconds between two looks at what is ready
} FusionOptions;

// Horovod's own today: 128 MiB, 1 ms. (When it was published: 64 MiB, 5 ms.)
#define FUSION_THRESHOLD ((size_t)128 << 20)

typedef struct Fusion Fusion;

// For a network that is placed on this rank's device. For fusion_free().
Fusion *fusion_new(Module *net, FusionOptions options);
void fusion_free(Fusion *fusion);

// Call these before the backward pass is enqueued, and after it. fusion_exchange() waits, a cycle
// at a time, until all gradients are the sums over all ranks. What comes next on the compute queue
// finds them.
void fusion_begin(Fusion *fusion);
void fusion_exchange(Fusion *fusion);

// Since fusion_new(): cycles, and vectors that were summed.
typedef struct FusionCounts {
    long cycles, exchanges;
} FusionCounts;
FusionCounts fusion_counts(const Fusion *fusion);
