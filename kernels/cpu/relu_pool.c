// relu_pool.c: see relu_pool.h.
#include "relu_pool.h"

static size_t half_of(const struct conv2d_shape *s) {
    return (size_t)s->out_h / 2 * (size_t)s->out_w;
}

void relu_and_pool(const struct conv2d_shape *s, float *restrict pixels, float bias,
                   float *restrict Y, unsigned char *restrict pooled) {
    size_t half = half_of(s);
    float *restrict even = pixels, *restrict odd = pixels + half;
    for (size_t i = 0; i < half; i++) {
        float a = even[i] + bias, b = odd[i] + bias;
        pooled[i] = (unsigned char)((a > 0) + 2 * (b > 0));
        even[i] = (a < 0 ? 0 : a) + (b < 0 ? 0 : b); // this way round, a NaN stays
    }
    for (size_t i = 0; i < half / 2; i++) Y[i] = (even[2 * i] + even[2 * i + 1]) * 0.25f;
}

void unpool(const struct conv2d_shape *s, const float *restrict dY,
            const unsigned char *restrict pooled, float *restrict pixels) {
    size_t half = half_of(s);
    float *restrict even = pixels, *restrict odd = pixels + half;
    for (size_t i = 0; i < half / 2; i++) odd[2 * i] = odd[2 * i + 1] = dY[i] * 0.25f;
    for (size_t i = 0; i < half; i++) {
        float d = odd[i];
        even[i] = pooled[i] & 1 ? d : 0;
        odd[i] = pooled[i] & 2 ? d : 0;
    }
}
