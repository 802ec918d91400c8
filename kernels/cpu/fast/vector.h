// vector.h: vectors as wide as those of the instruction set that a file is compiled for. To read
// and write one anywhere in memory, call vec_at() and vec_to(); do not cast a pointer to Vec, which
// must be aligned. The operators + - * / work on vectors element by element, so one source serves
// all instruction sets. Only functions that move numbers inside a vector have a version for each
// set.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VL 16 // floats in a vector
#elif defined(__AVX2__)
#define VL 8
#else
#define VL 4 // SSE, NEON
#endif

#define INLINE static inline __attribute__((always_inline))
// Goes before a loop with few iterations, whose number the compiler knows. The loop's arrays can
// then be in registers.
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

typedef float Vec __attribute__((vector_size(sizeof(float) * VL)));
typedef int Bits __attribute__((vector_size(sizeof(int) * VL)));
typedef float Quad __attribute__((vector_size(sizeof(float) * 4)));
typedef int QuadBits __attribute__((vector_size(sizeof(int) * 4)));
// The same in memory, at the address of any float.
typedef float VecAnywhere __attribute__((vector_size(sizeof(float) * VL), aligned(4), may_alias));
typedef float QuadAnywhere __attribute__((vector_size(sizeof(float) * 4), aligned(4), may_alias));

// Makes a vector of some numbers of the vectors x and y; number 0 is the first of x. `Ints` is the
// vector type with the same number of ints.
#ifdef __clang__
#define SHUFFLE(Ints, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLE(Ints, x, y, ...) __builtin_shuffle(x, y, (Ints){__VA_ARGS__})
#endif

INLINE size_t round_to_vectors(size_t n) { return (n + VL - 1) / VL * VL; }

INLINE Vec vec_at(const float *p) { return *(const VecAnywhere *)p; }
INLINE void vec_to(float *p, Vec v) { *(VecAnywhere *)p = v; }
INLINE Quad quad_at(const float *p) { return *(const QuadAnywhere *)p; }
INLINE void quad_to(float *p, Quad q) { *(QuadAnywhere *)p = q; }

INLINE Vec size_of(Vec x) { return (Vec)((Bits)x & INT_MAX); } // the absolute value

// The smaller and the larger of x and y; y if one of them is NaN. (x86 has one instruction that
// does exactly this. From a comparison, compilers make three.)
INLINE Vec least_of(Vec x, Vec y) {
#if defined(__AVX512F__)
    return (Vec)_mm512_min_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
    return (Vec)_mm256_min_ps((__m256)x, (__m256)y);
#elif defined(__SSE2__)
    return (Vec)_mm_min_ps((__m128)x, (__m128)y);
#else
    Bits first = x < y;
    return (Vec)(((Bits)x & first) | ((Bits)y & ~first));
#endif
}
INLINE Vec most_of(Vec x, Vec y) {
#if defined(__AVX512F__)
    return (Vec)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
    return (Vec)_mm256_max_ps((__m256)x, (__m256)y);
#elif defined(__SSE2__)
    return (Vec)_mm_max_ps((__m128)x, (__m128)y);
#else
    Bits first = x > y;
    return (Vec)(((Bits)x & first) | ((Bits)y & ~first));
#endif
}
INLINE Vec relu_of(Vec x) { return most_of((Vec){0}, x); } // in this order, a NaN stays NaN

// memcpy() for a few numbers, such as the rows of small images, without a call.
INLINE void copy_floats(float *to, const float *from, int n) {
    int i = 0;
    for (; i + VL <= n; i += VL) vec_to(to + i, vec_at(from + i));
    if (VL > 8 && i + 8 <= n) {
        quad_to(to + i, quad_at(from + i));
        quad_to(to + i + 4, quad_at(from + i + 4));
        i += 8;
    }
    if (i + 4 <= n) {
        quad_to(to + i, quad_at(from + i));
        i += 4;
    }
    if (i + 2 <= n) {
        to[i] = from[i];
        to[i + 1] = from[i + 1];
        i += 2;
    }
    if (i < n) to[i] = from[i];
}

// ---- the end of an array: only n of a vector's numbers are in memory, the others read as 0 -------

INLINE Vec some_at(const float *p, int n) {
    if (n >= VL) return vec_at(p);
#if defined(__AVX512F__)
    return (Vec)_mm512_maskz_loadu_ps((__mmask16)((1 << n) - 1), p);
#else
    float some[VL] = {0};
    copy_floats(some, p, n);
    return vec_at(some);
#endif
}

INLINE void some_to(float *p, Vec v, int n) {
    if (n >= VL) {
        vec_to(p, v);
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1 << n) - 1), (__m512)v);
#else
    float some[VL];
    vec_to(some, v);
    copy_floats(p, some, n);
#endif
}

// ---- small numbers in memory, ints in a vector -------------------------------------------------
//
// (__builtin_convertvector() would do the same, but compilers convert the numbers one by one.)

// VL numbers of two bytes, below 0x8000.
INLINE Bits shorts_at(const unsigned char *p) {
#if defined(__AVX512F__)
    return (Bits)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
    return (Bits)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__SSE2__)
    return (Bits)_mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)p), _mm_setzero_si128());
#else
    Bits bits;
    for (int i = 0; i < VL; i++) bits[i] = p[2 * i] | p[2 * i + 1] << 8;
    return bits;
#endif
}

INLINE void shorts_to(unsigned char *p, Bits bits) {
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)bits));
#elif defined(__AVX2__)
    __m256i v = _mm256_packs_epi32((__m256i)bits, (__m256i)bits); // each half of the result twice
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(v, 0x08)));
#elif defined(__SSE2__)
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi32((__m128i)bits, (__m128i)bits));
#else
    for (int i = 0; i < VL; i++) {
        p[2 * i] = (unsigned char)bits[i];
        p[2 * i + 1] = (unsigned char)(bits[i] >> 8);
    }
#endif
}

// ---- four floats from each of VL places, and back ----------------------------------------------
//
// The numbers that a vector needs (the same pixel of VL tiles, the same weight of VL kernels) are
// far apart in memory. But four neighbouring pixels of one tile are side by side. So four are read
// from each place, and then transposed.

// The four floats at `lane[0]`, those at lane[4], ...
INLINE Vec vec_of_quads(const float *const lane[]) {
#if defined(__AVX512F__)
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(lane[0]));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(lane[4]), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(lane[8]), 2);
    return (Vec)_mm512_insertf32x4(v, _mm_loadu_ps(lane[12]), 3);
#elif defined(__AVX2__)
    return (Vec)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(lane[0])),
                                     _mm_loadu_ps(lane[4]), 1);
#else
    return vec_at(lane[0]);
#endif
}

INLINE Quad quad_of(Vec v, int i) {
#if defined(__AVX512F__)
    return (Quad)(i == 0   ? _mm512_castps512_ps128((__m512)v)
                  : i == 1 ? _mm512_extractf32x4_ps((__m512)v, 1)
                  : i == 2 ? _mm512_extractf32x4_ps((__m512)v, 2)
                           : _mm512_extractf32x4_ps((__m512)v, 3));
#elif defined(__AVX2__)
    return (Quad)(i == 0 ? _mm256_castps256_ps128((__m256)v) : _mm256_extractf128_ps((__m256)v, 1));
#else
    (void)i;
    return (Quad)v;
#endif
}

// The sum of its numbers.
INLINE float total_of(Vec v) {
    Quad sum = quad_of(v, 0);
    UNROLL for (int i = 1; i < VL / 4; i++) sum += quad_of(v, i);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// For SHUFFLE(): the same shuffle in each quad, where 0 to 3 are numbers of the first vector's quad
// and 4 to 7 those of the second's.
#define OF_QUAD(i, quad)       ((i) % 4 + ((i) < 4 ? 0 : VL) + 4 * (quad))
#define IN_QUAD(a, b, c, d, q) OF_QUAD(a, q), OF_QUAD(b, q), OF_QUAD(c, q), OF_QUAD(d, q)
#if defined(__AVX512F__)
#define IN_QUADS(a, b, c, d)                                                                       \
    IN_QUAD(a, b, c, d, 0), IN_QUAD(a, b, c, d, 1), IN_QUAD(a, b, c, d, 2), IN_QUAD(a, b, c, d, 3)
#elif defined(__AVX2__)
#define IN_QUADS(a, b, c, d) IN_QUAD(a, b, c, d, 0), IN_QUAD(a, b, c, d, 1)
#else
#define IN_QUADS(a, b, c, d) IN_QUAD(a, b, c, d, 0)
#endif

// Transposes the 4x4 matrix that the same quad of the four vectors makes, for each quad.
INLINE void transpose_quads(Vec r[4]) {
    Vec a = SHUFFLE(Bits, r[0], r[1], IN_QUADS(0, 4, 1, 5)),
        b = SHUFFLE(Bits, r[0], r[1], IN_QUADS(2, 6, 3, 7));
    Vec c = SHUFFLE(Bits, r[2], r[3], IN_QUADS(0, 4, 1, 5)),
        d = SHUFFLE(Bits, r[2], r[3], IN_QUADS(2, 6, 3, 7));
    r[0] = SHUFFLE(Bits, a, c, IN_QUADS(0, 1, 4, 5)),
    r[1] = SHUFFLE(Bits, a, c, IN_QUADS(2, 3, 6, 7));
    r[2] = SHUFFLE(Bits, b, d, IN_QUADS(0, 1, 4, 5)),
    r[3] = SHUFFLE(Bits, b, d, IN_QUADS(2, 3, 6, 7));
}

// r[i] = the float `at + i` of each lane.
INLINE void load_transposed(const float *const lane[VL], size_t at, Vec r[4]) {
    UNROLL for (int i = 0; i < 4; i++) {
        const float *quads[VL];
        UNROLL for (int q = 0; q < VL; q += 4) quads[q] = lane[q + i] + at;
        r[i] = vec_of_quads(quads);
    }
    transpose_quads(r);
}

// The reverse. `add` adds to what is there, one lane after the other. Overwrites r.
INLINE void store_transposed(Vec r[4], float *const lane[VL], size_t at, bool add) {
    transpose_quads(r);
    UNROLL for (int q = 0; q < VL / 4; q++) {
        UNROLL for (int i = 0; i < 4; i++) {
            float *to = lane[4 * q + i] + at;
            Quad quad = quad_of(r[i], q);
            if (add) quad += quad_at(to);
            quad_to(to, quad);
        }
    }
}

// The same with two floats: r[i] = the float i of each lane, and back.
typedef double Pairs __attribute__((vector_size(sizeof(Vec)))); // each "double" is two floats

INLINE Vec vec_of_pairs(const float *const lane[]) { // of lanes 0 and 1, 4 and 5, ...
    Pairs pairs;
    UNROLL for (int i = 0; i < VL / 2; i++) {
        double pair;
        memcpy(&pair, lane[i / 2 * 4 + i % 2], sizeof pair);
        pairs[i] = pair;
    }
    return (Vec)pairs;
}

INLINE void load_pairs(const float *const lane[VL], Vec r[2]) {
    Vec a = vec_of_pairs(lane), b = vec_of_pairs(lane + 2);
    r[0] = SHUFFLE(Bits, a, b, IN_QUADS(0, 2, 4, 6));
    r[1] = SHUFFLE(Bits, a, b, IN_QUADS(1, 3, 5, 7));
}

INLINE void store_pairs(const Vec r[2], float *const lane[VL]) {
    Pairs a = (Pairs)SHUFFLE(Bits, r[0], r[1], IN_QUADS(0, 4, 1, 5));
    Pairs b = (Pairs)SHUFFLE(Bits, r[0], r[1], IN_QUADS(2, 6, 3, 7));
    UNROLL for (int i = 0; i < VL / 2; i++) {
        double first = a[i], second = b[i];
        memcpy(lane[i / 2 * 4 + i % 2], &first, sizeof first);
        memcpy(lane[i / 2 * 4 + i % 2 + 2], &second, sizeof second);
    }
}
