// pooled_3x3.c: a convolution of one input channel with kernels of 3x3 and stride 1 that ends in
// ReLU and pooling: LeNet's first layer. Everything that happens to a number between the image and
// the pooled pixel happens in registers.
//
// As a matrix product, such a layer has sums of only nine products. To write such a sum to memory
// and read it again to add the bias, compare it with 0 and pool it costs more than to compute it.
// So here a vector holds pooled pixels side by side. The four windows of a pooled pixel see 4x4
// pixels of the image, its `taps`. The taps are sorted once for all output channels, so that they
// can be read as vectors, and each is used in up to four of the windows.
#include "convolution.h"

#include <string.h>

typedef struct conv2d_shape Shape;
enum { SIDE = 4, TAPS = SIDE * SIDE, K = 3, WEIGHTS = K * K };

bool pooled_3x3_suits(const Shape *s, const unsigned char *pooled) {
    return pooled && s->C == 1 && s->kernel_h == K && s->kernel_w == K && s->stride_h == 1 &&
           s->stride_w == 1 && s->N > 0 && s->M > 0 && s->out_h > 1 && s->out_w > 1;
}

// ---- taps --------------------------------------------------------------------------------------

// Pooled pixels of an image, and floats from one tap to the next.
static size_t num_pooled(const Shape *s) { return (size_t)(s->out_h / 2) * (size_t)(s->out_w / 2); }
static size_t tap_size(const Shape *s) { return round_to_vectors(num_pooled(s)); }

// The four windows of a pooled pixel together are one window of 4x4, two pixels away from that of
// the next pooled pixel.
typedef struct Windows {
    Shape wide;
    Phases f;
    int offset[TAPS];
    size_t size, scratch; // floats: of a tap, and for all that fill_taps() writes
} Windows;

static Windows windows_of(const Shape *s) {
    Windows w = {.wide = *s, .size = tap_size(s)};
    w.wide.kernel_h = w.wide.kernel_w = SIDE;
    w.wide.stride_h = w.wide.stride_w = 2;
    w.wide.out_h = s->out_h / 2;
    w.wide.out_w = s->out_w / 2;
    w.f = phases_of(&w.wide);
    w.scratch = TAPS * w.size + round_to_vectors(w.f.channel + 4);
    find_offsets(&w.wide, w.f, 1, w.offset);
    return w;
}

// taps[(u,v)][(i,j)] = the pixel (2i + u, 2j + v) of an image, for all pooled pixels (i,j), with
// zeros after the last one.
static void fill_taps(const Windows *w, const float *image, float *taps) {
    float *phases = taps + TAPS * w->size;
    fill_phases(&w->wide, w->f, image, 1, phases);
    for (int tap = 0; tap < TAPS; tap++) {
        const float *from = phases + w->offset[tap];
        float *to = taps + (size_t)tap * w->size;
        memset(to + w->size - VL, 0, sizeof(float) * VL);
        for (int i = 0; i < w->wide.out_h; i++)
            copy_floats(to + i * w->wide.out_w, from + i * w->f.w, w->wide.out_w);
    }
}

// A pooled pixel has four windows, (a,b). In window (a,b) the tap (u,v) is pixel (u - a, v - b).
// This is the number of the weight for pixel (p,q) of a window, or -1 if that is outside the
// window. (The loops that call this are unrolled, so the compiler knows the result.)
INLINE int weight_of(int p, int q) { return p >= 0 && p < K && q >= 0 && q < K ? p * K + q : -1; }

// ---- bytes of `pooled` -------------------------------------------------------------------------

// The two bytes of a pooled pixel (kernels.h) as one number, with a bit for each of its windows.
static const int window_bit[2][2] = {{1, 1 << 8}, {2, 2 << 8}};

// ---- forward -----------------------------------------------------------------------------------

// The four sums of VL pooled pixels, each in two halves. A single sum would be a chain of nine
// additions that wait for each other.
typedef struct Sums {
    Vec half[2][2][2];
} Sums;

INLINE Sums sums_of_windows(const float *taps, size_t size, const float *W, float bias) {
    Sums y;
    UNROLL for (int i = 0; i < 4; i++) {
        y.half[i / 2][i % 2][0] = (Vec){0} + bias;
        y.half[i / 2][i % 2][1] = (Vec){0};
    }
    UNROLL for (int u = 0; u < SIDE; u++) {
        UNROLL for (int v = 0; v < SIDE; v++) {
            Vec x = vec_at(taps + (size_t)(u * SIDE + v) * size);
            UNROLL for (int a = 0; a < 2; a++) {
                UNROLL for (int b = 0; b < 2; b++) {
                    int k = weight_of(u - a, v - b);
                    if (k >= 0) y.half[a][b][k % 2] += W[k] * x;
                }
            }
        }
    }
    return y;
}

// The mean of their ReLUs, and which sums were positive.
INLINE Vec relu_and_mean(Sums y, Bits *positive) {
    Vec relu[2][2];
    *positive = (Bits){0};
    UNROLL for (int a = 0; a < 2; a++) {
        UNROLL for (int b = 0; b < 2; b++) {
            Vec sum = y.half[a][b][0] + y.half[a][b][1];
            *positive |= (sum > 0) & window_bit[a][b];
            relu[a][b] = relu_of(sum);
        }
    }
    return ((relu[0][0] + relu[1][0]) + (relu[0][1] + relu[1][1])) * 0.25f;
}

static void forward_plane(const Shape *s, const float *taps, const float *W, float bias, float *Y,
                          unsigned char *pooled) {
    size_t n = num_pooled(s), size = tap_size(s);
    for (size_t i = 0; i < n; i += VL) {
        Bits positive;
        Vec mean = relu_and_mean(sums_of_windows(taps + i, size, W, bias), &positive);
        if (i + VL <= n) {
            vec_to(Y + i, mean);
            shorts_to(pooled + 2 * i, positive);
        } else {
            unsigned char bytes[2 * VL];
            shorts_to(bytes, positive);
            memcpy(Y + i, &mean, sizeof(float) * (n - i));
            memcpy(pooled + 2 * i, bytes, 2 * (n - i));
        }
    }
}

void pooled_3x3_forward(CpuLane *lane, const struct conv2d_forward_args *a) {
    const Shape *s = &a->s;
    Windows windows = windows_of(s);
    size_t n = num_pooled(s), of_thread = windows.scratch;
    float *scratch = cpu_scratch(lane, sizeof(float) * of_thread * (size_t)lane->threads);
#pragma omp parallel for num_threads(lane->threads) schedule(dynamic)
    for (int image = 0; image < s->N; image++) {
        float *taps = scratch + of_thread * (size_t)omp_get_thread_num();
        fill_taps(&windows, a->X + (size_t)image * (size_t)(s->H * s->W), taps);
        for (int m = 0; m < s->M; m++) {
            size_t at = ((size_t)image * (size_t)s->M + (size_t)m) * n;
            forward_plane(s, taps, a->W + m * WEIGHTS, a->b ? a->b[m] : 0, a->Y + at,
                          a->pooled + 2 * at);
        }
    }
}

// ---- the gradients of the kernels and of the bias ----------------------------------------------

// The sums of a channel: one for each of its weights, and one for its bias.
enum { SUMS = WEIGHTS + 1 };

// Adds the products of VL pooled pixels: tap times gradient, where the window was positive.
INLINE void add_products(const float *taps, size_t size, Vec dY, Bits positive, Vec sum[SUMS]) {
    Vec d[2][2], mean = dY * 0.25f;
    UNROLL for (int a = 0; a < 2; a++) {
        UNROLL for (int b = 0; b < 2; b++) d[a][b] =
            (Vec)((Bits)mean & ((positive & window_bit[a][b]) != 0));
    }
    UNROLL for (int u = 0; u < SIDE; u++) {
        UNROLL for (int v = 0; v < SIDE; v++) {
            Vec x = vec_at(taps + (size_t)(u * SIDE + v) * size);
            UNROLL for (int a = 0; a < 2; a++) {
                UNROLL for (int b = 0; b < 2; b++) {
                    int k = weight_of(u - a, v - b);
                    if (k >= 0) sum[k] += d[a][b] * x;
                }
            }
        }
    }
    sum[WEIGHTS] += (d[0][0] + d[0][1]) + (d[1][0] + d[1][1]);
}

// totals (SUMS,VL) += the gradient of one channel of an image. The lanes have separate sums.
static void gradient_of_plane(const Shape *s, const float *taps, const float *dY,
                              const unsigned char *pooled, float *totals) {
    size_t n = num_pooled(s), size = tap_size(s), i = 0;
    Vec sum[SUMS] = {{0}};
    for (; i + VL <= n; i += VL)
        add_products(taps + i, size, vec_at(dY + i), shorts_at(pooled + 2 * i), sum);
    if (i < n) {
        Vec last = {0};
        unsigned char bytes[2 * VL] = {0};
        memcpy(&last, dY + i, sizeof(float) * (n - i));
        memcpy(bytes, pooled + 2 * i, 2 * (n - i));
        add_products(taps + i, size, last, shorts_at(bytes), sum);
    }
    UNROLL for (int k = 0; k < SUMS; k++) vec_to(totals + k * VL, vec_at(totals + k * VL) + sum[k]);
}

// The images and channels that a thread takes at a time. Their gradient goes to the sums of their
// group: dW of all channels, then db.
typedef struct Part {
    int image, end, m, end_m;
} Part;

static void gradient_of_part(const struct conv2d_backward_params_args *a, const Windows *windows,
                             Part part, float *taps, float *sums) {
    enum { OF_CHANNEL = SUMS * VL };
    const Shape *s = &a->s;
    size_t n = num_pooled(s);
    float *totals = taps + windows->scratch;
    memset(totals, 0, sizeof(float) * OF_CHANNEL * (size_t)(part.end_m - part.m));
    for (int image = part.image; image < part.end; image++) {
        fill_taps(windows, a->X + (size_t)image * (size_t)(s->H * s->W), taps);
        for (int m = part.m; m < part.end_m; m++) {
            size_t at = ((size_t)image * (size_t)s->M + (size_t)m) * n;
            gradient_of_plane(s, taps, a->dY + at, a->pooled + 2 * at,
                              totals + OF_CHANNEL * (m - part.m));
        }
    }
    for (int m = part.m; m < part.end_m; m++)
        for (int k = 0; k < SUMS; k++, totals += VL)
            sums[k < WEIGHTS ? m * WEIGHTS + k : s->M * WEIGHTS + m] = total_of(vec_at(totals));
}

// The sum over images is added up as a tree (cpu.h). With fewer groups than threads, several
// threads share a group, and each takes some channels.
void pooled_3x3_backward_params(CpuLane *lane, const struct conv2d_backward_params_args *a) {
    const Shape *s = &a->s;
    SumTree tree = sum_tree(s->N);
    int channels = divide_up(s->M, divide_up(lane->threads, tree.groups));
    size_t M = (size_t)s->M, of_group = M * SUMS;
    Windows windows = windows_of(s);
    size_t of_thread = windows.scratch + M * SUMS * VL;
    float *sums = cpu_scratch(
        lane, sizeof(float) * (of_thread * (size_t)lane->threads + of_group * (size_t)tree.groups));
    float *scratch = sums + of_group * (size_t)tree.groups;
#pragma omp parallel for num_threads(lane->threads) schedule(dynamic) collapse(2)
    for (int group = 0; group < tree.groups; group++)
        for (int m = 0; m < s->M; m += channels) {
            Part part = {group * tree.group, smaller((group + 1) * tree.group, s->N), m,
                         smaller(m + channels, s->M)};
            gradient_of_part(a, &windows, part, scratch + of_thread * (size_t)omp_get_thread_num(),
                             sums + of_group * (size_t)group);
        }
    add_halves(sums, of_group, tree.groups, of_group);
    store_sums(a->dW, sums, M * WEIGHTS, a->beta);
    if (a->db) store_sums(a->db, sums + M * WEIGHTS, M, a->beta);
}
