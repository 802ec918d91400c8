// over_ranks.h: the mesh over chapter 8's ranks, which have one device each. Rank d tensor + t is
// number t of network d.
#pragma once

#include "chapters/10_a_transformer/vit.h"

// By all ranks: this rank's part of its network, as vit_new().
Vit *over_ranks_new(VitOptions options, int tensor, const float *start);
void over_ranks_free(Vit *v);
// One step of Adam. *loss (1) is the summed loss of this network's rows.
void over_ranks_train_batch(Vit *v, const Tensor *X, const Tensor *y, float lr, Tensor **loss);

// The formulas: the bytes that this rank sends in a step, to its network and to others.
size_t over_ranks_bytes(const Vit *v, int images);
size_t over_ranks_bytes_to_others(const Vit *v);
