// claims.h: what the text says about DP and DDP, and what is measured.
#ifndef CLAIMS_H
#define CLAIMS_H

#include "common/tensor/tensor.h"

// Each claim is answered "true", "false" or "half", from figures that the program has just counted,
// measured or modelled; a CHECK holds what the answer rests on. `X` and `y`: a minibatch on the
// host. Without values (--backend model) claims that need them are left open.

// 1. DataParallel computes in parallel only in forward.
void claim_parallel_only_forward(int k, int rows);
// 2. DDP averages gradients at each layer, and all ranks pass the same one on to the next layer.
void claim_same_gradient_passed_on(const Tensor *X, const Tensor *y);
// 3. Rank 0 broadcasts the averaged gradient.
void claim_rank_0_broadcasts(int k, int rows);
// 4. Between the processes only gradients cross.
void claim_only_gradients_cross(int k, int rows);
// 5. With DataParallel, device 0 runs out of memory first. Returns how many times the memory of the
// others it needs.
double claim_device_0_is_full_first(int k, int rows);
// 6. The loss inside forward fixes that.
void claim_loss_inside_forward_fixes_it(int k, int rows, const Tensor *X, const Tensor *y);

#endif
