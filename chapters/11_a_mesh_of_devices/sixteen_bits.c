// sixteen_bits.c: what 16 bits do to sums and to weights.
#include "sixteen_bits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "common/base/error.h"

// ## Rounding

void round_to_bfloat16(float x[], size_t n) {
    for (size_t j = 0; j < n; j++) {
        uint32_t bits;
        if (isnan(x[j])) x[j] = NAN; // whose lower half is 0, so that nothing is carried
        memcpy(&bits, &x[j], sizeof bits);
        uint32_t last_kept = bits >> 16 & 1;
        bits += 0x7fff + last_kept; // carries if the lower half is above 0x8000; a tie goes to even
        bits &= 0xffff0000;
        memcpy(&x[j], &bits, sizeof bits);
    }
}

// ## Sums

static void add_to(float sum[], const float x[], size_t n) {
    for (size_t j = 0; j < n; j++) sum[j] += x[j];
}

void sum_along_ring(float *const x[], int k, size_t n, float sum[]) {
    memcpy(sum, x[0], n * sizeof *sum);
    for (int i = 1; i < k; i++) {
        add_to(sum, x[i], n);
        round_to_bfloat16(sum, n); // device i sends this on
    }
}

void sum_up_tree(float *const x[], int k, size_t n, float sum[]) {
    if (k == 1) {
        memcpy(sum, x[0], n * sizeof *sum);
        return;
    }
    float *other = xmalloc(n * sizeof *other);
    sum_up_tree(x, k / 2, n, sum);
    sum_up_tree(x + k / 2, k - k / 2, n, other);
    add_to(sum, other, n);
    round_to_bfloat16(sum, n);
    free(other);
}

void sum_in_float32(float *const x[], int k, size_t n, float sum[]) {
    memcpy(sum, x[0], n * sizeof *sum);
    for (int i = 1; i < k; i++) add_to(sum, x[i], n);
    round_to_bfloat16(sum, n);
}

// ## Weights

float train_batch_in_bfloat16(Vit *v, float weights[], bool is_float32_copy, const Tensor *X,
                              const Tensor *y, float lr) {
    Tensor *flat = v->shards[0].flat, *loss;
    float *rounded = xmalloc(tensor_bytes(flat));
    memcpy(rounded, weights, tensor_bytes(flat));
    round_to_bfloat16(rounded, numel(flat));
    tensor_write(flat, rounded);
    vit_gradients(v, X, y, (Range){0, X->shape[0]}, &loss);
    tensor_write(flat, is_float32_copy ? weights : rounded);
    adam_step(v->shards[0].adam, lr, X->shape[0]);
    tensor_read(flat, weights);
    free(rounded);
    return item(loss);
}
