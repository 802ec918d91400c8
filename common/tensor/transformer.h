// transformer.h: the differentiable operations of transformers; functional.h has all others.
//
// N sequences of T tokens are a matrix with N T rows, the tokens of the first sequence first. So a
// layer that treats each token alone (linear(), layer_norm(), gelu()) sees only rows.
#pragma once

#include "functional.h"

// Cuts images into square patches, from left to right and from top to bottom, and makes each a row:
// X (N,C,H,W) -> (N T, C side side) with T = (H / side) (W / side). side divides H and W. Images
// get no gradient: die()s if X requires one. F.unfold(X, side, stride=side).transpose(1, 2)
Tensor *patches(Tensor *X, int side);

// Token t of each sequence gets row t of P. X (N T,D), P (T,D) -> (N T,D)
Tensor *add_position(Tensor *X, Tensor *P);

// Each row gets mean 0 and variance 1, then a weight and a bias. X (n,D), weight and bias (D).
// F.layer_norm(X, (D,), weight, bias), with its eps of 1e-5
Tensor *layer_norm(Tensor *X, Tensor *weight, Tensor *bias);

// X P(X), elementwise, where P is the distribution function of the normal distribution. F.gelu
Tensor *gelu(Tensor *X);

// softmax(Q K^T / sqrt(d)) V for each sequence and head. QKV (N T, heads 3 d): for each head its
// query, its key and its value, side by side -> (N T, heads d).
// F.scaled_dot_product_attention
Tensor *attention(Tensor *QKV, int tokens, int heads);

// The mean over the tokens of each sequence. X (N T,D) -> (N,D)
Tensor *mean_of_tokens(Tensor *X, int tokens);

// linear(X, W, NULL) with a fixed order of additions on CPUs, for a W of which each device has a
// part. X (n,in), W (out,in) -> (n,out). If W is cut by columns (of X W^T), each device has only a
// part of each sum over `out`, which make X's gradient. If W is cut by rows, this is so for the
// sums over `in`, which make the result. These sums are added in groups: each group by itself, then
// halves to halves. 0: in any order. See gemm_args in kernels/kernels.h.
Tensor *linear_by_columns(Tensor *X, Tensor *W, int groups);
// The backward pass does not need the result, so it is in lent memory. Call arena_give_back() when
// the sums have been put together.
Tensor *linear_by_rows(Tensor *X, Tensor *W, int groups);
