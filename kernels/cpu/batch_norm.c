// batch_norm.c: batch normalisation, in the steps that kernels.h lists, at the speed of memory.
// (What is computed, in plain loops: tests/definitions.h.)
#include "cpu.h"
#include "fast/vector.h"

#include <math.h>
#include <string.h>

// Where channel c of image n begins.
static size_t plane_at(int C, int S, int n, int c) {
    return ((size_t)n * (size_t)C + (size_t)c) * (size_t)S;
}

// In plain loops over a channel, its numbers would be spread over N pieces that are far apart, so
// each would be fetched anew for every pass; and each addition would wait for the one before.
//
// So memory is read once and in order: image after image, and in an image the planes of
// neighbouring channels. The sums of a piece of a plane are float, VL of them side by side. If
// planes are small, adding up the VL sums would take longer than reading the plane, so these sums
// run over a few images. From there on, sums are double. A thread takes some neighbouring channels.
// Their sums do not depend on which thread takes them.
enum { PIECE = 1024, TOGETHER = 128 }; // numbers of a channel that are added up in float
enum { MOST_IMAGES = 8 };              // whose small planes are added up in float

// If `threads` threads share n things, thread t has those from share(n, t) to share(n, t + 1) - 1.
static long share(long n, int t, int threads) { return n * t / threads; }

// Only then is it worth waking other threads.
static inline bool is_large(int N, int C, int S) { return plane_at(C, S, N, 0) > PARALLEL_FLOATS; }

typedef struct Sums {
    double values, products; // of A - a; of (A - a) (B - b)
} Sums;

typedef struct Lanes {
    Vec values, products;
} Lanes;

// Two arrays (N,C,S), and for each array one number per channel.
typedef struct Planes {
    int N, C, S;
    const float *A, *a, *B, *b;
} Planes;

INLINE void add_vectors(Lanes *to, Vec value, Vec other) {
    to->values += value;
    to->products += value * other;
}

// Two sums of each kind, because each addition waits for the one before it.
INLINE void add_piece(Lanes *to, const float *A, float a, const float *B, float b, int n) {
    Lanes sums = *to, others = {0};
    int i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        add_vectors(&sums, vec_at(A + i) - a, vec_at(B + i) - b);
        add_vectors(&others, vec_at(A + i + VL) - a, vec_at(B + i + VL) - b);
    }
    if (i + VL <= n) {
        add_vectors(&sums, vec_at(A + i) - a, vec_at(B + i) - b);
        i += VL;
    }
    float rest[2][VL] = {{0}};
    for (int lane = 0; i < n; i++, lane++) {
        rest[0][lane] = A[i] - a;
        rest[1][lane] = B[i] - b;
    }
    add_vectors(&others, vec_at(rest[0]), vec_at(rest[1]));
    *to = (Lanes){sums.values + others.values, sums.products + others.products};
}

static void add_lanes(Sums *sums, Lanes *lanes) {
    sums->values += total_of(lanes->values);
    sums->products += total_of(lanes->products);
    *lanes = (Lanes){0};
}

static void sums_of_channels(const Planes *p, long first, long last, Lanes *lanes, Sums *sums) {
    int images = smaller(divide_up(TOGETHER, larger(p->S, 1)), MOST_IMAGES);
    for (long c = first; c < last; c++) lanes[c] = (Lanes){0}, sums[c] = (Sums){0};
    for (int n = 0; n < p->N; n++) {
        size_t at = plane_at(p->C, p->S, n, (int)first);
        for (long c = first; c < last; c++)
            for (int left = p->S, some; left > 0; left -= some, at += (size_t)some) {
                some = smaller(left, PIECE);
                add_piece(&lanes[c], p->A + at, p->a[c], p->B + at, p->b[c], some);
                if (p->S > PIECE) add_lanes(&sums[c], &lanes[c]);
            }
        if ((n + 1) % images == 0 || n + 1 == p->N)
            for (long c = first; c < last; c++) add_lanes(&sums[c], &lanes[c]);
    }
}

typedef struct Moments {
    double mean, M2, count; // M2: the sum of the squared deviations from the mean
} Moments;

// The moments of two sets together, by Chan's formula. The last term is there because the
// deviations of each set are from its own mean.
static inline Moments merge(Moments a, Moments b) {
    if (b.count == 0) return a;
    double count = a.count + b.count, part = b.count / count, delta = b.mean - a.mean;
    return (Moments){
        .mean = a.mean + delta * part,
        .M2 = a.M2 + b.M2 + delta * delta * a.count * part,
        .count = count,
    };
}

static float mean_of(const float *x, int n) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (int i = 0; i < n; i++) total += x[i];
    return n > 0 ? (float)(total / n) : 0;
}

// Deviations are taken from the mean of the first image's plane, because sum(x^2) - sum(x)^2 / n
// would lose all digits if the mean is large compared to the deviations. The plane's mean may
// differ from the mean of all N planes, but the square of the difference is at most N times the
// variance, so few digits are lost.
static void stats_of_channels(const struct batch_norm_stats_args *a, long first, long last,
                              Lanes *lanes, Sums *sums, float *near) {
    double count = larger(a->N * a->S, 1);
    for (long c = first; c < last; c++) near[c] = a->N > 0 ? mean_of(a->X + c * a->S, a->S) : 0;
    Planes planes = {a->N, a->C, a->S, a->X, near, a->X, near};
    sums_of_channels(&planes, first, last, lanes, sums);
    for (long c = first; c < last; c++) {
        double off = sums[c].values / count, M2 = sums[c].products - sums[c].values * off;
        a->stats[c] = (float)(near[c] + off);
        a->stats[a->C + c] = (float)(M2 < 0 ? 0 : M2); // a NaN stays
    }
}

CPU_KERNEL(batch_norm_stats) {
    int threads = lane->threads;
    size_t C = (size_t)a->C;
    Lanes *lanes = cpu_scratch(lane, (sizeof(Lanes) + sizeof(Sums) + sizeof(float)) * C);
    Sums *sums = (Sums *)(lanes + C);
#pragma omp parallel for num_threads(threads) schedule(static) if (is_large(a->N, a->C, a->S))
    for (int t = 0; t < threads; t++)
        stats_of_channels(a, share(a->C, t, threads), share(a->C, t + 1, threads), lanes, sums,
                          (float *)(sums + C));
    a->stats[2 * a->C] = (float)a->N * (float)a->S;
}

// Merges one device after the other, a few numbers each.
CPU_KERNEL(batch_norm_merge) {
    size_t C = (size_t)a->C, stride = 2 * C + 1;
    double total = 0;
    for (int i = 0; i < a->k; i++) total += a->stats[(size_t)i * stride + 2 * C];
    a->count[0] = (float)total;
    for (size_t c = 0; c < C; c++) {
        Moments all = {0};
        for (int i = 0; i < a->k; i++) {
            const float *s = a->stats + (size_t)i * stride;
            all = merge(all, (Moments){.mean = s[c], .M2 = s[C + c], .count = s[2 * C]});
        }
        a->mean[c] = (float)all.mean;
        a->var[c] = (float)(all.count > 0 ? all.M2 / all.count : 0);
        float keep = 1 - a->momentum;
        if (a->running_mean && all.count > 0)
            a->running_mean[c] = keep * a->running_mean[c] + a->momentum * a->mean[c];
        if (a->running_var && all.count > 1)
            a->running_var[c] =
                keep * a->running_var[c] + a->momentum * (float)(all.M2 / (all.count - 1));
    }
}

// (X - mean) comes first. X scale + (bias - mean scale) would save an operation, but it would lose
// the digits that X and a large mean have in common.
static void forward_planes(const struct batch_norm_forward_args *a, long first, long last) {
    for (long plane = first; plane < last; plane++) {
        const float *restrict X = a->X + plane * a->S;
        float *restrict Y = a->Y + plane * a->S;
        long c = plane % a->C;
        float mean = a->mean[c], bias = a->bias[c],
              scale = a->weight[c] / sqrtf(a->var[c] + a->eps);
        for (int i = 0; i < a->S; i++) Y[i] = (X[i] - mean) * scale + bias;
    }
}

CPU_KERNEL(batch_norm_forward) {
    int threads = lane->threads;
    long planes = (long)a->N * a->C;
#pragma omp parallel for num_threads(threads) schedule(static) if (is_large(a->N, a->C, a->S))
    for (int t = 0; t < threads; t++)
        forward_planes(a, share(planes, t, threads), share(planes, t + 1, threads));
}

CPU_KERNEL(batch_norm_backward_sums) {
    int threads = lane->threads;
    size_t C = (size_t)a->C;
    Lanes *lanes = cpu_scratch(lane, (sizeof(Lanes) + sizeof(Sums) + sizeof(float)) * C);
    Sums *sums = (Sums *)(lanes + C);
    float *zeros = memset(sums + C, 0, sizeof(float) * C);
    Planes planes = {a->N, a->C, a->S, a->dY, zeros, a->X, a->mean};
#pragma omp parallel for num_threads(threads) schedule(static) if (is_large(a->N, a->C, a->S))
    for (int t = 0; t < threads; t++) {
        long first = share(a->C, t, threads), last = share(a->C, t + 1, threads);
        sums_of_channels(&planes, first, last, lanes, sums);
        for (long c = first; c < last; c++) {
            a->sums[c] = (float)sums[c].values;
            a->sums[C + (size_t)c] = (float)(sums[c].products / sqrt((double)a->var[c] + a->eps));
        }
    }
}

// The questions about beta and sums have the same answer throughout a plane, so the compiler makes
// a plain loop for each answer.
static void input_of_planes(const struct batch_norm_backward_input_args *a, long first, long last) {
    bool overwrite = a->beta == 0;
    for (long plane = first; plane < last; plane++) {
        const float *restrict dY = a->dY + plane * a->S;
        float *restrict dX = a->dX + plane * a->S;
        long c = plane % a->C;
        float inverse = 1 / sqrtf(a->var[c] + a->eps), scale = a->weight[c] * inverse;
        if (!a->sums) {
            for (int i = 0; i < a->S; i++)
                dX[i] = overwrite ? scale * dY[i] : dX[i] + scale * dY[i];
            continue;
        }
        const float *restrict X = a->X + plane * a->S;
        float mean = a->mean[c], mean_dY = a->sums[c] / *a->count;
        float slope = a->sums[a->C + c] / *a->count * inverse; // of dY as a linear function of X
        for (int i = 0; i < a->S; i++) {
            float d = scale * (dY[i] - mean_dY - (X[i] - mean) * slope);
            dX[i] = overwrite ? d : dX[i] + d;
        }
    }
}

CPU_KERNEL(batch_norm_backward_input) {
    int threads = lane->threads;
    long planes = (long)a->N * a->C;
#pragma omp parallel for num_threads(threads) schedule(static) if (is_large(a->N, a->C, a->S))
    for (int t = 0; t < threads; t++)
        input_of_planes(a, share(planes, t, threads), share(planes, t + 1, threads));
}
