// block.h: a transformer block on t devices, without the places where they meet, which are your
// part.
//
// X, a row of d numbers for each token, goes through two halves, attention and the MLP:
//
//     N = layer norm(X)      Z = split layers(N)      Y = X + Z + bias
//
// The first half's Y is the second's X. Each device has its part of the split layers, and a copy of
// everything else.
#pragma once

#include "common/base/range.h"
#include "common/tensor/transformer.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <stdint.h>

enum { MOST_SPLIT_BLOCK = 16, NUM_HALVES = 2 };

typedef struct Sizes {
    int tokens, d, heads; // of one sequence; heads divides d
} Sizes;

// The matrices that are cut. W (out,in) is used as in linear(): N W^T.
typedef enum Weight {
    QUERIES, // These three are rows of one matrix (3 d,d): first the d rows of the queries,
    KEYS,    // head after head, then d rows of the keys,
    VALUES,  // then d rows of the values.
    OUT,     // (d,d): its input has the heads' results, head after head
    UP,      // (4 d,d): before GELU
    DOWN,    // (d,4 d)
    TOKENS,  // (tokens,d), no weight, but X, N and Y with sequence parallelism
    NUM_WEIGHTS
} Weight;

typedef struct Shard {
    Range rows, columns;
} Shard;

// One half. Each tensor is there on each device. "Own" tokens are all tokens, or with sequence
// parallelism (`sequence`) the rows of TOKENS that the device has.
typedef Tensor *OnDevices[MOST_SPLIT_BLOCK];
typedef struct Half {
    int t; // devices
    bool sequence;
    OnDevices X, N, Y; // own tokens
    OnDevices N_all;   // all tokens: what the split layers read, in both passes. Without sequence
                       // parallelism it is N. With it, it is NULL until you gather() it.
    OnDevices Z_all;   // all tokens: what the device's part of the split layers gives
    OnDevices Z;       // own tokens, in the memory of Z_all
    // The gradients of these, in the backward pass. dY is given.
    OnDevices dX, dY, dY_all, dN_all, dN;
    // The gradients of what all devices have: the layer norm's weight and bias, and the half's
    // bias, 3 d numbers.
    OnDevices replicated;
    OnDevices received; // room for reduce_scatter()
    // For block.c:
    OnDevices rooms[2];
    struct Block *block;
} Half;

// ---- for your part ---------------------------------------------------------------------------------
// Each works on device i alone, and on its own tokens.
void normalize(Half *h, int i);          // N = layer norm(X)
void add_residual(Half *h, int i);       // Y = X + Z + bias
void normalize_backward(Half *h, int i); // dX = dY + what dN says about X; adds to replicated

// all[i] becomes memory for all tokens, and gets every device's own tokens by all_gather(). This
// is for N_all and dY_all with sequence parallelism.
void gather(Half *h, OnDevices all, const OnDevices own);
// Gives this memory back: all[i] becomes NULL.
void drop(Half *h, OnDevices all);

// ---- for the others --------------------------------------------------------------------------------

typedef struct Layers { // on one device
    int num_heads, num_hidden;
    Tensor *qkv, *out, *up, *down;
    Tensor *norm_weight[NUM_HALVES], *norm_bias[NUM_HALVES], *bias[NUM_HALVES];
} Layers;

typedef struct Block {
    Sizes sizes;
    Half halves[NUM_HALVES]; // attention, MLP
    Device *devices[MOST_SPLIT_BLOCK];
    Shard shards[NUM_WEIGHTS][MOST_SPLIT_BLOCK];
    Layers layers[MOST_SPLIT_BLOCK];
    Tensor **tensors; // all that is freed in the end
    size_t num_tensors;
} Block;

// On devices with values, weights, X and the gradient of the result are drawn from the seed.
Block *block_new(Sizes sizes, int t, bool sequence, Device *const devices[], uint64_t seed);
void block_free(Block *b);
void block_forward(Block *b);
void block_backward(Block *b); // once for each forward pass

// The shape of a whole matrix.
Shard whole_weight(Weight w, Sizes sizes);
// The gradient of a whole weight, put together. free() it.
float *weight_gradient(const Block *b, Weight w);
// How many numbers device i has of the weights that are cut.
size_t weights_on(const Block *b, int i);
// How many it keeps in X, N and N_all at this moment.
size_t tokens_on(const Block *b, int i);
