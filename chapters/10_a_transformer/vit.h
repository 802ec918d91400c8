// vit.h: a small vision transformer whose layers are split over k devices. Dosovitskiy et al., "An
// image is worth 16x16 words", ICLR 2021; Shoeybi et al., "Megatron-LM", 2019.
//
// To train, call vit_new() and then vit_train_batch() for each minibatch. Every device gets all
// images, and keeps a part of the large matrices.
#pragma once

#include "common/base/range.h"
#include "common/data/fashion_mnist.h"
#include "common/tensor/adam.h"
#include "common/tensor/transformer.h"

enum {
    PATCH = 7,                            // pixels, in both directions
    TOKENS = (28 / PATCH) * (28 / PATCH), // of an image
    BLOCKS = 4,
    HEADS = 8,           // of attention in each block
    GROUPS = 8,          // in which the sums that are cut are added; group g of attention is head g
    MOST_SPLIT = GROUPS, // devices
};

// The tensors of a block, on one device. D is the width of a token. A matrix W (out,in) is used as
// in linear(): X W^T.
typedef struct VitBlock {
    Tensor *norm1_weight, *norm1_bias; // (D)
    Tensor *qkv_weight, *qkv_bias;     // (3 D,D): q, k and v of head 0, then those of head 1, ..
    Tensor *out_weight, *out_bias;     // (D,D)
    Tensor *norm2_weight, *norm2_bias;
    Tensor *up_weight, *up_bias;     // (4 D,D)
    Tensor *down_weight, *down_bias; // (D,4 D)
} VitBlock;

// All parameters of one device. They are slices of `flat`, in this order.
typedef struct VitShard {
    Tensor *patch_weight, *patch_bias, *position; // (D,49), (D), (16,D)
    VitBlock blocks[BLOCKS];
    Tensor *norm_weight, *norm_bias, *head_weight, *head_bias; // (D), (10,D)
    Tensor *flat;
    Adam *adam;
} VitShard;

typedef struct Vit Vit;
// The MLP of block b, from enter() on: X[i], on device i, is what the layer norm gave, and becomes
// what is added to the tokens.
typedef void Mlp(const Vit *v, int b, Tensor *X[]);
struct Vit {
    int width, k;
    Device *devices[MOST_SPLIT];
    VitShard shards[MOST_SPLIT];
    Mlp *mlp; // vit_mlp(), or a mistake (mistakes.h)
};

// A network on k devices, which get their parts of `start`: all parameters, as vit_start() or
// vit_join() gives them. NULL on devices without values.
Vit *vit_new(int width, Device *const devices[], int k, const float *start, AdamOptions options);
void vit_free(Vit *v);

// vit.c: begins a step, and copies the whole minibatch to every device.
void vit_load(const Vit *v, const Tensor *X, const Tensor *y, Tensor *images[], Tensor *labels[]);
// The logits of all images, on each device. X[i] (N,1,28,28) -> y_hat[i] (N,10).
void vit_forward(const Vit *v, Tensor *const X[], Tensor *y_hat[]);
// One step of Adam. losses[i] (1) is the summed loss, the same on each device.
void vit_train_batch(Vit *v, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);
Mlp vit_mlp;

// ---- exchange.c: where the devices meet -----------------------------------------------------------

// Before a matrix that is cut by columns. Forward, nothing happens: each device has the whole X.
// Backward, each has only what its columns say about X's gradient: the sum goes to all.
void enter(Tensor *const X[], int k);
// After a matrix that is cut by rows. Forward, each device has only its part of the sums in X: the
// whole sums go to all. Backward, nothing happens: each device gets the gradient of the whole sum.
void leave(Tensor *const X[], int k);
// data[i], on device i, becomes the sum of all, halves to halves: (0 + 1) + (2 + 3). Each device
// sends 2 (k-1)/k of its size, as in allreduce_sharded().
void sum_in_halves(Tensor *const data[], int k);

// ---- shards.c: which device keeps what ------------------------------------------------------------

// How many numbers vit_start() gives.
size_t vit_numbers(int width);
// All parameters as they are before training, the same for every k. free() them.
float *vit_start(int width, uint64_t seed);
// The parameters of all devices, put together. What all devices have comes from device 0. free()
// them. Waits.
float *vit_join(const Vit *v);
// Whether all devices have the same bits in the parameters that they all have. Waits.
bool vit_copies_are_equal(const Vit *v);

// The groups that device i of k adds, and so its heads and its columns of the MLP.
Range vit_groups(int k, int i);
// `groups` of linear_in_groups() on a device of k: 8 / k, or 0 if the devices have unequal parts.
int vit_num_groups(int k);
// Whether all devices compute the bits of one: k is 1, 2, 4 or 8.
bool vit_is_exact(int k);

// The formulas, in bytes: what device i sends in a step with so many images; and what it would send
// with data parallelism, where it sums the gradients of all parameters.
size_t vit_bytes(int width, int k, int i, int images);
size_t vit_bytes_of_ddp(int width, int k, int i);
