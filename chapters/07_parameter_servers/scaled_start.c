// scaled_start.c: see scaled_start.h.
#include "scaled_start.h"

#include "common/base/error.h"
#include "worker.h"

#include <math.h>
#include <stdlib.h>

float *scaled_start(uint64_t seed) {
    Tensor *start[LENET_PARAMS];
    float *params = xmalloc(sizeof *params * lenet_floats());
    lenet_init(start, seed);
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *values = tensor_values(start[p]);
        bool is_matrix = start[p]->ndim == 2; // (in, out); a convolution's is (out, in, 5, 5)
        int inputs = is_matrix ? start[p]->shape[0] : 1;
        for (int d = 1; d < start[p]->ndim && !is_matrix; d++) inputs *= start[p]->shape[d];
        float factor = 100 * sqrtf(2 / (float)inputs); // lenet_init()'s deviation is 0.01
        for (size_t i = 0; i < numel(start[p]); i++)
            params[lenet_first(p) + i] = factor * values[i];
        free(values);
        tensor_free(start[p]);
    }
    return params;
}
