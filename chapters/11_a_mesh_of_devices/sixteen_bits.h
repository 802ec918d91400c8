// sixteen_bits.h: bfloat16 in software: rounding, three ways to add k gradients, and a training
// step whose weights have 16 bits. Kalamkar et al., "A study of bfloat16 for deep learning
// training", 2019.
#pragma once

#include "chapters/10_a_transformer/vit.h"

// Each number becomes the nearest one that is a bfloat16: a float whose lower 16 bits are 0. Of two
// that are equally near, the one whose last bit is 0. A NaN stays one.
void round_to_bfloat16(float x[], size_t n);

// sum[j] is the sum of all x[i][j]. The n numbers of each of the k devices are bfloat16, and the n
// sums are, too.
typedef void SumOfDevices(float *const x[], int k, size_t n, float sum[]);
SumOfDevices sum_along_ring, sum_up_tree, sum_in_float32;

// One step of Adam on one device, which computes with the weights rounded to bfloat16. The update
// is added to `weights` (in the order of `flat`) as they are if they are a float32 copy, or else to
// the rounded ones, and the result goes to `weights`. Products, activations and Adam's moving
// averages are float32. Returns the summed loss. Waits.
float train_batch_in_bfloat16(Vit *v, float weights[], bool is_float32_copy, const Tensor *X,
                              const Tensor *y, float lr);
