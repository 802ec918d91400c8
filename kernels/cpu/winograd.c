// winograd.c: 3x3 convolutions with stride 1 in a quarter of the multiplications. See winograd.h.
#include "winograd.h"

#include <cblas.h>
#include <stdbool.h>
#include <string.h>

// Names as in Lavin & Gray: a tile of TILE x TILE output pixels sees a piece d of 6x6 input pixels,
// and with a kernel g
//
//     y = A^T [ (G g G^T) * (B^T d B) ] A           (* is element by element)
//
// takes 36 multiplications, where the loops take 16 x 9 = 144. The transforms G, B and A are
// additions, and products with small constants; each is done once for many products. The sum over
// input channels may be taken before A: so each of the 36 points is a matrix product of its own,
//
//     (output channels, input channels) x (input channels, tiles)
//
// and BLAS does those.
enum { TILE = 4, PIECE = TILE + 2, POINTS = PIECE * PIECE };

// The transforms run on this many tiles (or kernels) at once, side by side in vectors. GCC and
// clang make of them what the machine has.
enum { LANES = 16 };
typedef float Lanes __attribute__((vector_size(sizeof(float) * LANES), may_alias));

static size_t round_up(size_t n) { return (n + LANES - 1) / LANES * LANES; }

// ---- the transforms, of one row or column; its elements are `step` apart -----------------------
//
// The method multiplies polynomials by their values at some points; ours are 0, a, -a, b, -b and
// infinity. Most texts take a = 1 and b = 2: the fewest operations, but sums of numbers with the
// weights 1 and 8, which costs accuracy. With these, the largest error is a sixth of that.
#define a1 0.75f
#define b1 1.5f
#define a2 (a1 * a1)
#define b2 (b1 * b1)
#define a3 (a1 * a2)
#define b3 (b1 * b2)
// What the values of a kernel are divided by: the products of the distances to the other points.
#define of_0 (1 / (a2 * b2))
#define of_a (1 / (2 * a2 * (a2 - b2)))
#define of_b (1 / (2 * b2 * (b2 - a2)))

typedef void Transform(const Lanes *in, Lanes *out, int step);

// B^T: 6 -> 6
INLINE void of_input(const Lanes *d, Lanes *out, int step) {
    Lanes d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step];
    Lanes even = d4 - b2 * d2, odd = a1 * (d3 - b2 * d1);
    Lanes even2 = d4 - a2 * d2, odd2 = b1 * (d3 - a2 * d1);
    out[0] = a2 * b2 * d0 - (a2 + b2) * d2 + d4;
    out[step] = even + odd;
    out[2 * step] = even - odd;
    out[3 * step] = even2 + odd2;
    out[4 * step] = even2 - odd2;
    out[5 * step] = a2 * b2 * d1 - (a2 + b2) * d3 + d[5 * step];
}

// A^T: 6 -> 4
INLINE void of_output(const Lanes *m, Lanes *out, int step) {
    Lanes m0 = m[0], m5 = m[5 * step];
    Lanes sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
    Lanes sum2 = m[3 * step] + m[4 * step], difference2 = m[3 * step] - m[4 * step];
    out[0] = m0 + sum + sum2;
    out[step] = a1 * difference + b1 * difference2;
    out[2 * step] = a2 * sum + b2 * sum2;
    out[3 * step] = a3 * difference + b3 * difference2 + m5;
}

// A: 4 -> 6
INLINE void of_output_gradient(const Lanes *y, Lanes *out, int step) {
    Lanes y0 = y[0], y1 = y[step], y2 = y[2 * step], y3 = y[3 * step];
    Lanes even = y0 + a2 * y2, odd = a1 * y1 + a3 * y3;
    Lanes even2 = y0 + b2 * y2, odd2 = b1 * y1 + b3 * y3;
    out[0] = y0;
    out[step] = even + odd;
    out[2 * step] = even - odd;
    out[3 * step] = even2 + odd2;
    out[4 * step] = even2 - odd2;
    out[5 * step] = y3;
}

// G: 3 -> 6
INLINE void of_kernel(const Lanes *g, Lanes *out, int step) {
    Lanes g0 = g[0], g1 = g[step], g2 = g[2 * step];
    Lanes even = of_a * (g0 + a2 * g2), odd = of_a * a1 * g1;
    Lanes even2 = of_b * (g0 + b2 * g2), odd2 = of_b * b1 * g1;
    out[0] = of_0 * g0;
    out[step] = even + odd;
    out[2 * step] = even - odd;
    out[3 * step] = even2 + odd2;
    out[4 * step] = even2 - odd2;
    out[5 * step] = g2;
}

// G^T: 6 -> 3
INLINE void of_kernel_gradient(const Lanes *u, Lanes *out, int step) {
    Lanes u0 = u[0], u5 = u[5 * step];
    Lanes sum = of_a * (u[step] + u[2 * step]), sum2 = of_b * (u[3 * step] + u[4 * step]);
    Lanes difference = of_a * a1 * (u[step] - u[2 * step]);
    Lanes difference2 = of_b * b1 * (u[3 * step] - u[4 * step]);
    out[0] = of_0 * u0 + sum + sum2;
    out[step] = difference + difference2;
    out[2 * step] = a2 * sum + b2 * sum2 + u5;
}

// A square x of up to 6x6, its rows PIECE apart: transforms its first `columns` columns, then the
// `rows` rows that this gives.
INLINE void transform(Transform *of, int columns, int rows, Lanes x[POINTS]) {
    for (int j = 0; j < columns; j++) of(x + j, x + j, PIECE);
    for (int i = 0; i < rows; i++) of(x + i * PIECE, x + i * PIECE, 1);
}

// ---- where things are --------------------------------------------------------------------------

// One side of a convolution: its images, and how they lie on the grid of tiles.
typedef struct Side {
    int channels, h, w; // of the images
    int pad_h, pad_w;   // rows of zeros above an image, columns to its left
    int full_h, full_w; // with all zeros around it: what its tiles cover
} Side;

// A chunk of images is worked on at a time, so that its transforms stay in the cache.
typedef struct Tiling {
    Side in, out;
    int N, chunk;   // images, and those of a chunk
    int rows, cols; // of tiles in an image
    size_t stride;  // tiles of a chunk, rounded up
} Tiling;

// What the transforms of a chunk may need: the caches of several cores together.
enum { CHUNK_BYTES = 8 << 20 };

static Tiling tiling_of(int N, Side in, Side out) {
    Tiling t = {in, out, N, 1, (out.h + TILE - 1) / TILE, (out.w + TILE - 1) / TILE, 0};
    size_t tiles = (size_t)t.rows * (size_t)t.cols;
    size_t bytes = tiles * POINTS * (size_t)(in.channels + out.channels) * sizeof(float);
    int most = bytes < CHUNK_BYTES ? (int)(CHUNK_BYTES / bytes) : 1;
    int chunks = (N + most - 1) / most;
    t.chunk = (N + chunks - 1) / chunks;
    t.stride = round_up(tiles * (size_t)t.chunk);
    t.out.full_h = t.rows * TILE, t.out.full_w = t.cols * TILE;
    t.in.full_h = t.out.full_h + 2, t.in.full_w = t.out.full_w + 2;
    return t;
}

static Tiling tiling_of_forward(const struct conv2d_shape *s) {
    return tiling_of(s->N, (Side){s->C, s->H, s->W, s->pad_h, s->pad_w, 0, 0},
                     (Side){s->M, s->out_h, s->out_w, 0, 0, 0, 0});
}

// The gradient of the input is a convolution as well: of dY, with as much padding as makes the
// result as large as X, and with kernels that are turned round.
static Tiling tiling_of_backward(const struct conv2d_shape *s) {
    return tiling_of(s->N, (Side){s->M, s->out_h, s->out_w, 2 - s->pad_h, 2 - s->pad_w, 0, 0},
                     (Side){s->C, s->H, s->W, 0, 0, 0, 0});
}

static size_t full_size(Side side) { return (size_t)side.full_h * (size_t)side.full_w; }

// Each of the POINTS points is a matrix. One odd vector between them: at multiples of 4 KiB they
// would push each other out of the cache.
static size_t point_size(size_t rows, size_t stride) { return rows * stride + LANES; }
static size_t points_size(size_t rows, size_t stride) { return POINTS * point_size(rows, stride); }

// ---- kernels -----------------------------------------------------------------------------------

// U: W (M,C,3,3) transformed, as POINTS matrices (M, C rounded up); of kernel m. Channels that do
// not exist are 0.
SIMD_CLONES static void transform_kernel(const struct conv2d_shape *s, const float *W, int m,
                                         bool turned, float *U) {
    size_t stride = round_up((size_t)s->C), point = point_size((size_t)s->M, stride);
    for (int c = 0; c < s->C; c += LANES) {
        Lanes x[POINTS] = {0};
        for (int lane = 0; lane < LANES && c + lane < s->C; lane++) {
            const float *g = W + ((size_t)m * s->C + c + lane) * 9;
            for (int i = 0; i < 9; i++) x[i / 3 * PIECE + i % 3][lane] = g[turned ? 8 - i : i];
        }
        transform(of_kernel, 3, 6, x);
        for (int p = 0; p < POINTS; p++) *(Lanes *)(U + p * point + m * stride + c) = x[p];
    }
}

// The reverse: dW of kernel m = beta dW + what the gradient of U gives.
SIMD_CLONES static void kernel_gradient(const struct conv2d_shape *s, const float *dU, int m,
                                        float beta, float *dW) {
    size_t stride = round_up((size_t)s->C), point = point_size((size_t)s->M, stride);
    for (int c = 0; c < s->C; c += LANES) {
        Lanes x[POINTS];
        for (int p = 0; p < POINTS; p++) x[p] = *(const Lanes *)(dU + p * point + m * stride + c);
        transform(of_kernel_gradient, 6, 3, x);
        for (int lane = 0; lane < LANES && c + lane < s->C; lane++) {
            float *g = dW + ((size_t)m * s->C + c + lane) * 9;
            for (int i = 0; i < 9; i++) {
                float d = x[i / 3 * PIECE + i % 3][lane];
                g[i] = beta != 0 ? g[i] + d : d;
            }
        }
    }
}

// ---- tiles -------------------------------------------------------------------------------------

typedef struct Chunk {
    int first, images;
    size_t tiles;
} Chunk;

static Chunk chunk_at(const Tiling *t, int first) {
    int images = first + t->chunk < t->N ? t->chunk : t->N - first;
    return (Chunk){first, images, (size_t)images * (size_t)t->rows * (size_t)t->cols};
}

// Where each tile of a chunk starts among the images of a channel. What rounding up adds is the
// first tile once more: nobody reads the results.
static void find_tiles(const Tiling *t, Side side, int *at) {
    size_t n = 0;
    for (int image = 0; image < t->chunk; image++)
        for (int row = 0; row < t->rows; row++)
            for (int col = 0; col < t->cols; col++)
                at[n++] = (image * side.full_h + row * TILE) * side.full_w + col * TILE;
    while (n < t->stride) at[n++] = 0;
}

// Copies channel c of a chunk's images, with the zeros around them.
static void copy_channel(Side side, Chunk chunk, const float *images, int c, float *to) {
    for (int image = 0; image < chunk.images; image++) {
        size_t plane = (size_t)(chunk.first + image) * side.channels + c;
        const float *from = images + plane * side.h * side.w;
        float *row = to + image * full_size(side) + (size_t)side.pad_h * side.full_w + side.pad_w;
        for (int h = 0; h < side.h; h++, from += side.w, row += side.full_w)
            memcpy(row, from, sizeof(float) * (size_t)side.w);
    }
}

// The tiles of one channel, from `full` with zeros around it, transformed: point p of tile i goes
// to points[p * point + i].
SIMD_CLONES static void transform_inputs(const float *full, int width, const int *at, size_t tiles,
                                         float *points, size_t point) {
    for (size_t tile = 0; tile < tiles; tile += LANES) {
        Lanes x[POINTS];
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < PIECE; i++)
                for (int j = 0; j < PIECE; j++)
                    x[i * PIECE + j][lane] = full[at[tile + lane] + i * width + j];
        transform(of_input, 6, 6, x);
        for (int p = 0; p < POINTS; p++) *(Lanes *)(points + p * point + tile) = x[p];
    }
}

SIMD_CLONES static void transform_output_gradients(const float *full, int width, const int *at,
                                                   size_t tiles, float *points, size_t point) {
    for (size_t tile = 0; tile < tiles; tile += LANES) {
        Lanes x[POINTS];
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < TILE; i++)
                for (int j = 0; j < TILE; j++)
                    x[i * PIECE + j][lane] = full[at[tile + lane] + i * width + j];
        transform(of_output_gradient, 4, 6, x);
        for (int p = 0; p < POINTS; p++) *(Lanes *)(points + p * point + tile) = x[p];
    }
}

// From points back to pixels.
SIMD_CLONES static void transform_outputs(const float *points, size_t point, const int *at,
                                          size_t tiles, float *full, int width) {
    for (size_t tile = 0; tile < tiles; tile += LANES) {
        Lanes x[POINTS];
        for (int p = 0; p < POINTS; p++) x[p] = *(const Lanes *)(points + p * point + tile);
        transform(of_output, 6, 4, x);
        for (int lane = 0; lane < LANES && tile + lane < tiles; lane++)
            for (int i = 0; i < TILE; i++)
                for (int j = 0; j < TILE; j++)
                    full[at[tile + lane] + i * width + j] = x[i * PIECE + j][lane];
    }
}

// images = beta images + `full` + bias, of channel c
static void store_channel(Side side, Chunk chunk, const float *full, int c, float bias, float beta,
                          float *images) {
    for (int image = 0; image < chunk.images; image++) {
        float *to = images + ((size_t)(chunk.first + image) * side.channels + c) * side.h * side.w;
        const float *from = full + image * full_size(side);
        for (int h = 0; h < side.h; h++, to += side.w, from += side.full_w)
            for (int w = 0; w < side.w; w++)
                to[w] = beta != 0 ? to[w] + (from[w] + bias) : from[w] + bias;
    }
}

// ---- the passes --------------------------------------------------------------------------------

bool winograd_suits(const struct conv2d_shape *s) {
    return s->kernel_h == 3 && s->kernel_w == 3 && s->stride_h == 1 && s->stride_w == 1 &&
           s->pad_h <= 2 && s->pad_w <= 2 && s->C >= LANES && s->M >= LANES && s->N > 0 &&
           s->out_h > 0 && s->out_w > 0;
}

// A convolution: forward, or that which backward makes.
typedef struct Pass {
    Tiling t;
    const float *in, *W, *bias;
    float *out, beta;
    bool turned;
} Pass;

// Columns of a product that a thread takes at once.
enum { COLUMNS = 512 };

// One point of one chunk: products (output channels, input channels) x (input channels, tiles).
static void multiply(const struct conv2d_shape *s, const Pass *pass, int p, size_t column,
                     const float *U, const float *V, float *Y) {
    int M = pass->t.out.channels, K = pass->t.in.channels, ld = (int)pass->t.stride;
    int stride = (int)round_up((size_t)s->C);
    int columns = ld - (int)column < COLUMNS ? ld - (int)column : COLUMNS;
    cblas_sgemm(CblasRowMajor, pass->turned ? CblasTrans : CblasNoTrans, CblasNoTrans, M, columns,
                K, 1.0f, U + p * point_size((size_t)s->M, (size_t)stride), stride,
                V + p * point_size((size_t)K, (size_t)ld) + column, ld, 0.0f,
                Y + p * point_size((size_t)M, (size_t)ld) + column, ld);
}

static void convolve(CpuLane *lane, const struct conv2d_shape *s, const Pass *pass) {
    const Tiling *t = &pass->t;
    size_t M = (size_t)t->out.channels, K = (size_t)t->in.channels, ld = t->stride;
    size_t full = round_up((size_t)t->chunk * full_size(t->in));
    size_t u = points_size((size_t)s->M, round_up((size_t)s->C));
    size_t v = points_size(K, ld), y = points_size(M, ld);
    float *U =
        cpu_scratch(lane, sizeof(float) * (u + v + y + 2 * ld + full * (size_t)lane->threads));
    float *V = U + u, *Y = V + v, *planes = Y + y;
    int *in_at = (int *)(planes + full * (size_t)lane->threads), *out_at = in_at + ld;
    find_tiles(t, t->in, in_at);
    find_tiles(t, t->out, out_at);
#pragma omp parallel num_threads(lane->threads)
    {
        float *mine = planes + full * (size_t)omp_get_thread_num();
#pragma omp for schedule(static)
        for (int m = 0; m < s->M; m++) transform_kernel(s, pass->W, m, pass->turned, U);
        for (int first = 0; first < t->N; first += t->chunk) {
            Chunk chunk = chunk_at(t, first);
            memset(mine, 0, sizeof(float) * full);
#pragma omp for schedule(static)
            for (size_t c = 0; c < K; c++) {
                copy_channel(t->in, chunk, pass->in, (int)c, mine);
                transform_inputs(mine, t->in.full_w, in_at, chunk.tiles, V + c * ld,
                                 point_size(K, ld));
            }
#pragma omp for schedule(static) collapse(2)
            for (int p = 0; p < POINTS; p++)
                for (size_t column = 0; column < ld; column += COLUMNS)
                    multiply(s, pass, p, column, U, V, Y);
#pragma omp for schedule(static)
            for (size_t m = 0; m < M; m++) {
                transform_outputs(Y + m * ld, point_size(M, ld), out_at, chunk.tiles, mine,
                                  t->out.full_w);
                store_channel(t->out, chunk, mine, (int)m, pass->bias ? pass->bias[m] : 0,
                              pass->beta, pass->out);
            }
        }
    }
}

void winograd_forward(CpuLane *lane, const struct conv2d_forward_args *a) {
    convolve(lane, &a->s,
             &(Pass){tiling_of_forward(&a->s), a->X, a->W, a->b, a->Y, 0, .turned = false});
}

void winograd_backward_input(CpuLane *lane, const struct conv2d_backward_input_args *a) {
    convolve(lane, &a->s,
             &(Pass){tiling_of_backward(&a->s), a->dY, a->W, NULL, a->dX, a->beta, .turned = true});
}

// The gradient of the kernels: the transforms' transposes, in reverse order.
void winograd_backward_weights(CpuLane *lane, const struct conv2d_backward_params_args *a) {
    const struct conv2d_shape *s = &a->s;
    Tiling t = tiling_of_forward(s);
    size_t M = (size_t)s->M, C = (size_t)s->C, ld = t.stride, stride = round_up(C);
    size_t full = round_up((size_t)t.chunk * full_size(t.in));
    size_t u = points_size(M, stride), v = points_size(C, ld), y = points_size(M, ld);
    float *dU =
        cpu_scratch(lane, sizeof(float) * (u + v + y + 2 * ld + full * (size_t)lane->threads));
    float *V = dU + u, *dY = V + v, *planes = dY + y;
    int *in_at = (int *)(planes + full * (size_t)lane->threads), *out_at = in_at + ld;
    find_tiles(&t, t.in, in_at);
    find_tiles(&t, t.out, out_at);
#pragma omp parallel num_threads(lane->threads)
    {
        float *mine = planes + full * (size_t)omp_get_thread_num();
        for (int first = 0; first < t.N; first += t.chunk) {
            Chunk chunk = chunk_at(&t, first);
            memset(mine, 0, sizeof(float) * full);
#pragma omp for schedule(static) nowait
            for (size_t c = 0; c < C; c++) {
                copy_channel(t.in, chunk, a->X, (int)c, mine);
                transform_inputs(mine, t.in.full_w, in_at, chunk.tiles, V + c * ld,
                                 point_size(C, ld));
            }
            memset(mine, 0, sizeof(float) * full);
#pragma omp for schedule(static)
            for (size_t m = 0; m < M; m++) {
                copy_channel(t.out, chunk, a->dY, (int)m, mine);
                transform_output_gradients(mine, t.out.full_w, out_at, chunk.tiles, dY + m * ld,
                                           point_size(M, ld));
            }
#pragma omp for schedule(static)
            for (int p = 0; p < POINTS; p++)
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s->M, s->C, (int)chunk.tiles,
                            1.0f, dY + p * point_size(M, ld), (int)ld, V + p * point_size(C, ld),
                            (int)ld, first > 0 ? 1.0f : 0.0f, dU + p * point_size(M, stride),
                            (int)stride);
        }
#pragma omp for schedule(static)
        for (size_t m = 0; m < M; m++) kernel_gradient(s, dU, (int)m, a->beta, a->dW);
    }
}
