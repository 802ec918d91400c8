// random.h: random numbers as functions of (seed, stream, index): Philox (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011) from Random123. There is no hidden state, so any
// thread can make any number, in any order. For a new purpose, add a stream below.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The streams of a seed. Parameter i uses STREAM_PARAMS + i, and the order of epoch e uses
// STREAM_SHUFFLE + e. STREAM_PACE + w says how long worker w takes for its steps, and STREAM_STALLS
// + w where it stalls.
enum {
    STREAM_PARAMS = 0,
    STREAM_SHUFFLE = 1 << 20,
    STREAM_PACE = 1 << 22,
    STREAM_STALLS = (1 << 22) + (1 << 16),
    STREAM_TEST = 1 << 24
};

uint64_t random_bits(uint64_t seed, uint32_t stream, uint64_t index);
double random_uniform(uint64_t seed, uint32_t stream, uint64_t index); // in (0,1)
double random_normal(uint64_t seed, uint32_t stream,
                     uint64_t index); // mean 0, standard deviation 1

// values[i] = standard_deviation * random_normal(seed, stream, i), computed on all cores that CPU
// devices may use.
void fill_normal(float *values, size_t n, double standard_deviation, uint64_t seed,
                 uint32_t stream);
// A random order of 0..n-1 (Fisher-Yates).
void random_order(int *order, int n, uint64_t seed, uint32_t stream);
