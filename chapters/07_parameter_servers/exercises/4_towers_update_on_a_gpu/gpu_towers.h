// gpu_towers.h: towers whose variables are on device 0: all of a step but your part.
#ifndef GPU_TOWERS_H
#define GPU_TOWERS_H

#include "chapters/07_parameter_servers/towers.h"

enum { MOST_VARS = 128 };

// Tower i, of 0..k-1, is a copy of the model on devices[i]. Those of tower 0 are the variables
// themselves; the others have copies of them.
typedef struct GpuTowers {
    int k, n; // towers, variables of each
    Combine combine;
    Device *devices[MAX_COMPUTING];
    Tensor **vars[MAX_COMPUTING];     // vars[i][v]: on devices[i], with a gradient
    Tensor **received[MAX_COMPUTING]; // received[i][v]: on device 0, for that gradient
    Tensor **sums;                    // sums[v]: on device 0, for the sum of all; at first 0
} GpuTowers;

// vars[i] are n variables on devices[i], which stay the caller's. For gpu_towers_free().
GpuTowers *gpu_towers_new(Device *const devices[], int k, Tensor **const vars[], int n,
                          Combine combine);
void gpu_towers_free(GpuTowers *towers);

// A step of LeNet on a minibatch on the host, as towers_step(): send_variables_from_gpu(), the
// gradients, which begin at 0 in each step, update_on_gpu(). workers[i].list is vars[i]. Enqueued.
// In a trace (trace.h) the parts are labelled "load", "send", "compute" and "update".
void gpu_towers_step(GpuTowers *towers, Worker workers[], const Tensor *X, const Tensor *y,
                     float lr);

// Bytes of n variables.
uint64_t bytes_of_vars(Tensor *const vars[], int n);

#endif
