// vit.h: a small vision transformer whose layers are split over k devices. Dosovitskiy et al., "An
// image is worth 16x16 words", ICLR 2021; Shoeybi et al., "Megatron-LM", 2019.
//
// To train one network, call vit_new() and then vit_train_batch() for each minibatch. Every device
// gets all images, and keeps a part of the large matrices.
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
    ROW_GROUPS = 32,     // in which the gradients of parameters are added, over a minibatch
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

// All parameters of one device. They are slices of `flat`, first those that all devices have.
typedef struct VitShard {
    Tensor *patch_weight, *patch_bias, *position; // (D,49), (D), (16,D)
    VitBlock blocks[BLOCKS];
    Tensor *norm_weight, *norm_bias, *head_weight, *head_bias; // (D), (10,D)
    Tensor *flat;
    Tensor *whole_grad; // the first gradients of flat->grad: of parameters that all devices have
    Adam *adam;
} VitShard;

typedef struct VitOptions {
    int width;
    int data;      // of mesh.c: networks that share each minibatch. 0: only this one
    bool sequence; // outside enter() and leave(), each device has only its part of the tokens
    AdamOptions adam;
    // Chapter 11's over_ranks.c: this process has one device, number `part` of `parts`, and sum()
    // adds over all of them. If sum is NULL, the process has all devices.
    int parts, part;
    void (*sum)(Tensor *const data[], int k);
} VitOptions;

typedef struct Vit Vit;
// The MLP of block b, from enter() on: X[i], on device i, is what the layer norm gave, and becomes
// what is added to the tokens.
typedef void Mlp(Vit *v, int b, Tensor *X[]);
struct Vit {
    VitOptions options;
    int k; // devices in this process
    Device *devices[MOST_SPLIT];
    VitShard shards[MOST_SPLIT];
    Mlp *mlp; // vit_mlp(), or a mistake (mistakes.h)
    // sequence.c: what enter() was called with, and what it gave, until leave() is called
    Tensor *own_tokens[MOST_SPLIT], *all_tokens[MOST_SPLIT];
};

// A network on k devices, which get their parts of `start`: all parameters, as vit_start() or
// vit_join() gives them. NULL on devices without values.
Vit *vit_new(VitOptions options, Device *const devices[], int k, const float *start);
void vit_free(Vit *v);

// vit.c: begins a step, and copies these rows of a minibatch to every device (with `sequence`: to
// each its part of them, and k divides their number).
void vit_load(const Vit *v, const Tensor *X, const Tensor *y, Range rows, Tensor *images[],
              Tensor *labels[]);
// The logits of the images that a device has. X[i] (n,1,28,28) -> y_hat[i] (n,10).
void vit_forward(Vit *v, Tensor *const X[], Tensor *y_hat[]);
// The gradients of the loss of these rows. losses[i] (1) is the summed loss of the rows that device
// i has.
void vit_gradients(Vit *v, const Tensor *X, const Tensor *y, Range rows, Tensor *losses[]);
// One step of Adam.
void vit_train_batch(Vit *v, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);
// The part of the images that is classified correctly. All devices compute, with all tokens, and
// the first one counts. Waits.
double vit_accuracy(Vit *v, DataIter *iter);
Mlp vit_mlp;

// ---- exchange.c: where the devices meet -----------------------------------------------------------

// Before a matrix that is cut by columns. Forward, nothing happens: each device has the whole X.
// Backward, each has only what its columns say about X's gradient: the sum goes to all.
void enter(Vit *v, Tensor *X[]);
// After a matrix that is cut by rows. Forward, each device has only its part of the sums in X: the
// whole sums go to all. Backward, nothing happens: each device gets the gradient of the whole sum.
void leave(Vit *v, Tensor *X[]);
// data[i], on device i, becomes the sum of all, halves to halves: (0 + 1) + (2 + 3). Each device
// sends 2 (k-1)/k of its size, as in allreduce_sharded().
void sum_in_halves(Tensor *const data[], int k);
// Half of it: part j of data[j] becomes the sum of all, and goes to sums[j]. The other parts stay.
void reduce_scatter_in_halves(Tensor *const sums[], Tensor *const data[], int k);

// ---- sequence.c: the same, if each device has only its part of the tokens -------------------------

void enter_from_tokens(Vit *v, Tensor *X[]);
void leave_to_tokens(Vit *v, Tensor *X[]);

// ---- shards.c: which device keeps what ------------------------------------------------------------

// How many numbers vit_start() gives.
size_t vit_numbers(int width);
// All parameters as they are before training, the same for every k. free() them.
float *vit_start(int width, uint64_t seed);
// The parameters of all devices, put together. What all devices have comes from device 0. free()
// them. Waits.
float *vit_join(const Vit *v);
// The same for any tensors, parts[i] on device i, which have a number for each of its parameters,
// in the order of `flat`; and back. `whole` has vit_numbers(). Both wait.
void vit_put_together(const Vit *v, Tensor *const parts[], float *whole);
void vit_cut(const Vit *v, const float *whole, Tensor *const parts[]);
// Whether all devices have the same bits in the parameters that they all have. Waits.
bool vit_copies_are_equal(const Vit *v);

// The groups that device i of k adds, and so its heads and its columns of the MLP.
Range vit_groups(int k, int i);
// `groups` of linear_by_columns() on a device of k: 8 / k, or 0 if the devices have unequal parts.
int vit_num_groups(int k);

// The formulas, in bytes, of a step: what device i sends to the devices of its network, which has
// so many images; and what it would send with data parallelism, where it sums the gradients of all
// parameters.
size_t vit_bytes(const VitOptions *options, int k, int i, int images);
size_t vit_bytes_of_ddp(int width, int k, int i);

// ---- checkpoint.c: to go on later, on any number of devices ---------------------------------------

// Writes parameters, moments and the number of steps, put together, as safetensors_save() does, or
// reads them (die()s if the file does not fit). Both wait.
void vit_save(const Vit *v, const char *path);
void vit_resume(Vit *v, const char *path);
