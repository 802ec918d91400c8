// relu_pool.c: ReLU and average pooling with 2x2 windows at the end of a convolution, and backward.
#include "convolution.h"

#include <string.h>

// Small images have rows of 8 pixels, so a vector here has at most 8 numbers on any instruction
// set. Three steps have a version for each set, because from plain code compilers would make them
// number by number: bytes to ints, ints to bytes, and half a vector with each number repeated.
#ifdef __AVX2__
enum { PIXELS = 8 };
#define OF_EVEN_PLACE 0, 2, 4, 6, 0, 2, 4, 6
#define OF_ODD_PLACE  1, 3, 5, 7, 1, 3, 5, 7
#else
enum { PIXELS = 4 };
#define OF_EVEN_PLACE 0, 2, 0, 2
#define OF_ODD_PLACE  1, 3, 1, 3
#endif
typedef float Row __attribute__((vector_size(sizeof(float) * PIXELS)));
typedef float RowAnywhere __attribute__((vector_size(sizeof(Row)), aligned(4), may_alias));
typedef int Ints __attribute__((vector_size(sizeof(int) * PIXELS)));

INLINE Ints ints_of_bytes(const unsigned char *p) {
#if defined(__AVX2__)
    return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#elif defined(__SSE2__)
    int bytes;
    memcpy(&bytes, p, sizeof bytes);
    __m128i zero = _mm_setzero_si128(), v = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), zero);
    return (Ints)_mm_unpacklo_epi16(v, zero);
#else
    return (Ints){p[0], p[1], p[2], p[3]};
#endif
}

INLINE void ints_to_bytes(unsigned char *p, Ints ints) {
#if defined(__AVX2__)
    __m256i v = (__m256i)ints;
    __m128i s = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(s, s));
#elif defined(__SSE2__)
    __m128i s = _mm_packs_epi32((__m128i)ints, (__m128i)ints);
    int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(s, s));
    memcpy(p, &bytes, sizeof bytes);
#else
    for (int i = 0; i < PIXELS; i++) p[i] = (unsigned char)ints[i];
#endif
}

INLINE Row each_twice(const float *p) {
#if defined(__AVX2__)
    __m256i places = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return (Row)_mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), places);
#elif defined(__SSE2__)
    __m128 v = _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)p));
    return (Row)_mm_unpacklo_ps(v, v);
#else
    return (Row){p[0], p[0], p[1], p[1]};
#endif
}

// ---- between two rows of pixels and a row of pooled ones ---------------------------------------

INLINE void pool_some(const float *even, const float *odd, float bias, float *Y,
                      unsigned char *pooled) {
    Row a = *(const RowAnywhere *)even + bias, b = *(const RowAnywhere *)odd + bias;
    ints_to_bytes(pooled, ((a > 0) & 1) | ((b > 0) & 2));
    // Unlike a comparison with > 0, this keeps a NaN.
    a = (Row)((Ints)a & ~(a < 0));
    b = (Row)((Ints)b & ~(b < 0));
    Row sum = a + b;
    Row mean =
        (SHUFFLE(Ints, sum, sum, OF_EVEN_PLACE) + SHUFFLE(Ints, sum, sum, OF_ODD_PLACE)) * 0.25f;
    memcpy(Y, &mean, sizeof mean / 2);
}

INLINE void unpool_some(const float *dY, const unsigned char *pooled, float *even, float *odd) {
    Ints twice = (Ints)(each_twice(dY) * 0.25f), bits = ints_of_bytes(pooled);
    *(RowAnywhere *)even = (Row)(twice & ((bits & 1) != 0));
    *(RowAnywhere *)odd = (Row)(twice & ((bits & 2) != 0));
}

// One window: two pixels of each row.
static void pool_window(const float *even, const float *odd, float bias, float *Y,
                        unsigned char *pooled) {
    float sum[2];
    for (int j = 0; j < 2; j++) {
        float a = even[j] + bias, b = odd[j] + bias;
        pooled[j] = (unsigned char)((a > 0) + 2 * (b > 0));
        sum[j] = (a < 0 ? 0 : a) + (b < 0 ? 0 : b);
    }
    *Y = (sum[0] + sum[1]) * 0.25f;
}

static void unpool_window(float dY, const unsigned char *pooled, float *even, float *odd) {
    for (int j = 0; j < 2; j++) {
        even[j] = pooled[j] & 1 ? dY * 0.25f : 0;
        odd[j] = pooled[j] & 2 ? dY * 0.25f : 0;
    }
}

// ---- all rows ----------------------------------------------------------------------------------

// If fewer than PIXELS are left at the end of a row, the last PIXELS of it are taken, some of them
// for the second time.
INLINE int next_column(int j, int out_w) {
    return j + PIXELS < out_w && j + 2 * PIXELS > out_w ? out_w - PIXELS : j + PIXELS;
}

void relu_and_pool(const struct conv2d_shape *s, const float *pixels, size_t width, float bias,
                   float *Y, unsigned char *pooled) {
    int w = s->out_w;
    for (int i = 0; i < s->out_h; i += 2, pixels += 2 * width, Y += w / 2, pooled += w) {
        const float *odd = pixels + width;
        if (w >= PIXELS)
            for (int j = 0; j < w; j = next_column(j, w))
                pool_some(pixels + j, odd + j, bias, Y + j / 2, pooled + j);
        else
            for (int j = 0; j < w; j += 2)
                pool_window(pixels + j, odd + j, bias, Y + j / 2, pooled + j);
    }
}

void unpool(const struct conv2d_shape *s, const float *dY, const unsigned char *pooled,
            float *pixels, size_t width) {
    int w = s->out_w;
    for (int i = 0; i < s->out_h; i += 2, pixels += 2 * width, dY += w / 2, pooled += w) {
        float *odd = pixels + width;
        if (w >= PIXELS)
            for (int j = 0; j < w; j = next_column(j, w))
                unpool_some(dY + j / 2, pooled + j, pixels + j, odd + j);
        else
            for (int j = 0; j < w; j += 2)
                unpool_window(dY[j / 2], pooled + j, pixels + j, odd + j);
    }
}
