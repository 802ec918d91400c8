// random.c: Philox 4x32-10 as a function of (seed, stream, index).
#include "random.h"
#include "common/base/platform.h"

#include <math.h>
#include <Random123/philox.h>

// 128 random bits: the seed is the key, stream and index are the counter.
static philox4x32_ctr_t random_block(uint64_t seed, uint32_t stream, uint64_t index) {
    philox4x32_ctr_t counter = {{(uint32_t)index, (uint32_t)(index >> 32), stream, 0}};
    philox4x32_ukey_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    return philox4x32(counter, philox4x32keyinit(key));
}

static uint64_t join(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

// The middles of 2^52 equal parts of (0,1): a double holds each exactly, and none is 0 or 1.
static double to_uniform(uint64_t bits) { return ((double)(bits >> 12) + 0.5) * 0x1p-52; }

uint64_t random_bits(uint64_t seed, uint32_t stream, uint64_t index) {
    philox4x32_ctr_t r = random_block(seed, stream, index);
    return join(r.v[0], r.v[1]);
}

double random_uniform(uint64_t seed, uint32_t stream, uint64_t index) {
    return to_uniform(random_bits(seed, stream, index));
}

// Box and Muller, "A note on the generation of random normal deviates", 1958. The method makes two
// normal numbers from two uniform ones. The second is not used, so no index depends on another.
double random_normal(uint64_t seed, uint32_t stream, uint64_t index) {
    philox4x32_ctr_t r = random_block(seed, stream, index);
    double radius = sqrt(-2.0 * log(to_uniform(join(r.v[0], r.v[1]))));
    return radius * cos(2.0 * M_PI * to_uniform(join(r.v[2], r.v[3])));
}

// The numbers of fill_normal() from `first` up to, but not including, `end`.
typedef struct Numbers {
    float *values;
    size_t first, end;
    double standard_deviation;
    uint64_t seed;
    uint32_t stream;
} Numbers;

static void *fill_some(void *argument) {
    const Numbers *numbers = argument;
    for (size_t i = numbers->first; i < numbers->end; i++)
        numbers->values[i] =
            (float)(numbers->standard_deviation * random_normal(numbers->seed, numbers->stream, i));
    return NULL;
}

// A network has millions of parameters, and each takes a logarithm and a cosine. If one core
// computed them all, training would start late. This thread computes the last part, and all parts
// for which no thread can be started.
void fill_normal(float *values, size_t n, double standard_deviation, uint64_t seed,
                 uint32_t stream) {
    enum { MOST_THREADS = 64, WORTH_A_THREAD = 1 << 16 };
    Thread threads[MOST_THREADS];
    Numbers parts[MOST_THREADS];
    size_t most = n / WORTH_A_THREAD, cores = (size_t)num_threads();
    if (most > cores) most = cores;
    if (most > MOST_THREADS) most = MOST_THREADS;
    int num = most > 1 ? (int)most : 1, started = 0;
    for (int i = 0; i < num; i++)
        parts[i] = (Numbers){values,
                             n * (size_t)i / (size_t)num,
                             n * (size_t)(i + 1) / (size_t)num,
                             standard_deviation,
                             seed,
                             stream};
    while (started < num - 1 && (threads[started] = thread_start(fill_some, &parts[started])))
        started++;
    for (int i = started; i < num; i++) fill_some(&parts[i]);
    for (int i = 0; i < started; i++) thread_join(threads[i]);
}

void random_order(int *order, int n, uint64_t seed, uint32_t stream) {
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        // (2^64 is not a multiple of i + 1, so some places are more likely, but only by i / 2^64.)
        int j = (int)(random_bits(seed, stream, (uint64_t)i) % ((uint64_t)i + 1));
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}
