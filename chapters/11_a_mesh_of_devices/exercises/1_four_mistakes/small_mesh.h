// small_mesh.h: a small network on dp x tp devices. A *tensor group* of tp devices splits the
// layers over its devices, and dp such groups split the minibatch. (The rest is what the exercise
// is about.)
#pragma once

#include "common/tensor/adam.h"
#include "common/tensor/transformer.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

enum { MOST_DEVICES = 8 };

// The network: layer norm, `up`, GELU, `down`; each row of a minibatch is a token. `up` is cut by
// columns and `down` by rows, as in the chapter. The other parameters are whole on each device.
enum { NORM_WEIGHT, NORM_BIAS, UP_WEIGHT, UP_BIAS, DOWN_WEIGHT, DOWN_BIAS, NUM_PARAMS };
typedef struct Sizes {
    int in, hidden, out; // hidden is a multiple of tp
} Sizes;
bool is_split(int p); // whether a device of a tensor group keeps only 1/tp of parameter p

// Tensors are [parameter][device]. Host h has the devices h tp to h tp + tp - 1.
typedef struct Mesh {
    int dp, tp, rows; // rows of a tensor group in this step
    Sizes sizes;
    int tensor_groups[MOST_DEVICES][MOST_DEVICES]; // [d][t]: the device with shard t in group d
    int data_groups[MOST_DEVICES][MOST_DEVICES];   // [t][d]: the same device
    Device *devices[MOST_DEVICES];
    Tensor *params[NUM_PARAMS][MOST_DEVICES], *grads[NUM_PARAMS][MOST_DEVICES];
    Tensor *averages[NUM_PARAMS][MOST_DEVICES]; // Adam's moving averages of the gradient
    Tensor *squares[MOST_DEVICES];              // one number on each device, undefined at first
    Adam *adam;                                 // of all parameters of all devices
} Mesh;

// Calls groups_of(), and gives each device its shards of a network that is drawn from the seed, the
// same for all meshes.
Mesh *small_mesh_new(int dp, int tp, Sizes sizes, uint64_t seed);
void small_mesh_free(Mesh *m);

// Begins a step with the minibatch X (rows,in), y (rows), where dp tp divides rows, and computes
// gradients. Returns the mean loss of all rows. Waits.
//
// Group d has part d of the rows. With sequence parallelism, device t of it has 1/tp of them before
// `up` and after `down`. An all-gather puts the rows of the group together, and a reduce-scatter
// adds the partial sums after `down`. So on each device, the gradients of split parameters are sums
// over the rows of its group, and the others are sums over its own 1/tp of these rows.
float compute_gradients(Mesh *m, const Tensor *X, const Tensor *y);

// Each of the n tensors of[group[0]], of[group[1]], .. becomes the sum of all.
void sum_over(Tensor *const of[], const int group[], int n);
// *total += the sum of the squares of all numbers in t, which is on the same device.
void add_squares(Tensor *total, const Tensor *t);
// All numbers in t are multiplied by factor.
void multiply(Tensor *t, float factor);

// ---- for the cases and the experiment -----------------------------------------------------------

// All numbers of such tensors (params, grads or averages), as one device would have them, from the
// first tensor group. free() them.
float *small_mesh_join(const Mesh *m, Tensor *const of[NUM_PARAMS][MOST_DEVICES]);
size_t small_mesh_numbers(const Mesh *m);
// The reverse, for all tensor groups.
void small_mesh_cut(const Mesh *m, Tensor *const of[NUM_PARAMS][MOST_DEVICES], const float *whole);
// How many tensors of params differ in a bit from the first copy, which another device has.
int small_mesh_copies_apart(const Mesh *m);
// Since ledger_reset(): bytes between devices of one host, and of two hosts.
typedef struct HostBytes {
    long inside, across;
} HostBytes;
HostBytes small_mesh_bytes(const Mesh *m);
