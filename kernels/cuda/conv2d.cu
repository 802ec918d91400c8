// conv2d.cu: convolution as matrix products.
//
// im2col writes the C*kernel_h*kernel_w pixels under each window as a column. Then the convolution
// of all windows is one product:
//     W (M, C*kernel_h*kernel_w)  times  columns (C*kernel_h*kernel_w, images*out_h*out_w).
// cuBLAS is best at few large products, so the windows of many images, a chunk, make one matrix.
// Its result has the channels outermost, (M, images, out_h, out_w), while a tensor is (images, M,
// out_h, out_w). Another kernel moves each plane to its place.
//
// This is the version to read first, and it does any convolution on any GPU. Its defect: it moves
// nine times as many numbers as there are pixels. patch.cu and patch_weights.cu do not.
#include "conv2d_patch.h"
#include "conv2d_plan.h"
#include "grid.cuh"

// ---- chunks ----------------------------------------------------------------------------------

struct Chunks {
    size_t taps;  // rows of the columns matrix: C*kernel_h*kernel_w
    size_t plane; // windows of one image: out_h*out_w
    int images;   // per chunk, at least 1; the last chunk may have fewer
    // Scratch: (taps, images*plane), (M, images*plane), and (parts, M) for the sums of db, or
    // (parts, M*taps) for those of dW.
    float *columns, *planes, *sums;
};

// n floats, rounded up to a multiple of 256 bytes. cuBLAS reads a matrix 16 bytes at a time only if
// the matrix begins at a multiple of 16.
static size_t aligned(size_t n) { return (n + 63) / 64 * 64; }

// For few weights, a block has a thread for each weight. FEW_PARTS blocks share the work, about two
// for each multiprocessor of a large GPU.
static_assert(FEW_WEIGHTS == THREADS, "a thread for each");
constexpr size_t FEW_PARTS = MAX_BLOCKS < 256 ? MAX_BLOCKS : 256;

static struct Chunks cut_into_chunks(CudaLane *lane, const struct conv2d_shape *s) {
    struct Chunks c = {};
    c.taps = (size_t)s->C * s->kernel_h * s->kernel_w;
    c.plane = (size_t)s->out_h * s->out_w;
    c.images = conv2d_chunk_images(s);
    const size_t columns = aligned(c.taps * c.images * c.plane);
    const size_t planes = aligned(s->M * c.images * c.plane);
    const size_t of_db = most_parts(s->M), of_dW = FEW_PARTS * FEW_WEIGHTS;
    const size_t sums = conv2d_has_few_weights(s) && of_dW > of_db ? of_dW : of_db;
    c.columns = (float *)cuda_scratch(lane, (columns + planes + sums) * sizeof(float));
    c.planes = c.columns + columns;
    c.sums = c.planes + planes;
    return c;
}

// Images in the chunk that begins with image `first`.
static int chunk_length(const struct Chunks *c, const struct conv2d_shape *s, int first) {
    return s->N - first < c->images ? s->N - first : c->images;
}

// ---- between images and matrices -------------------------------------------------------------

// Indices of a chunk are split by these.
struct ConvDivisors {
    struct Divisor images, C, H, W, M, out_h, out_w, plane, half_h, half_w, stride_h, stride_w;
};

static struct ConvDivisors divisors_of(const struct conv2d_shape *s, int images) {
    return {divisor(images),       divisor(s->C),
            divisor(s->H),         divisor(s->W),
            divisor(s->M),         divisor(s->out_h),
            divisor(s->out_w),     divisor((size_t)s->out_h * s->out_w),
            divisor(s->out_h / 2), divisor(s->out_w / 2),
            divisor(s->stride_h),  divisor(s->stride_w)};
}

// X (images,C,H,W) -> columns (C*kernel_h*kernel_w, images*out_h*out_w). A thread copies one window
// of one channel; outside the image there are zeros. Neighbouring threads write neighbouring
// columns. SIDE is the side of the kernel if it is known at compile time, else 0. With a known side
// the compiler unrolls the loops, and as X and columns do not overlap (__restrict__), a thread
// starts all its reads before it writes.
template <int SIDE>
static __global__ void im2col(const float *__restrict__ X, float *__restrict__ columns,
                              struct conv2d_shape s, struct ConvDivisors by, unsigned n) {
    const size_t length = (size_t)by.images.n * s.out_h * s.out_w; // of a row of the matrix
    const int kernel_h = SIDE ? SIDE : s.kernel_h, kernel_w = SIDE ? SIDE : s.kernel_w;
    INDEX_LOOP(i, n) {
        const auto [row, ow] = split(i, by.out_w);
        const auto [window, oh] = split(row, by.out_h);
        const auto [c, image] = split(window, by.images);
        const int top = (int)oh * s.stride_h - s.pad_h, left = (int)ow * s.stride_w - s.pad_w;
        const float *plane = X + ((size_t)image * s.C + c) * s.H * s.W;
        // Row c*kernel_h*kernel_w: behind it are c*(kernel_h*kernel_w - 1)*length numbers more.
        float *column = columns + (size_t)c * (kernel_h * kernel_w - 1) * length + i;
        for (int kh = 0; kh < kernel_h; kh++)
            for (int kw = 0; kw < kernel_w; kw++, column += length) {
                const int h = top + kh, w = left + kw;
                const bool inside = 0 <= h && h < s.H && 0 <= w && w < s.W;
                *column = inside ? plane[(size_t)h * s.W + w] : 0;
            }
    }
}

// columns -> dX = beta dX + ..., the reverse. A pixel was copied once for each window that contains
// it, so its gradient is the sum over these copies. One thread per pixel adds them up in a fixed
// order.
static __global__ void col2im(const float *columns, float beta, float *dX, struct conv2d_shape s,
                              struct ConvDivisors by, unsigned n) {
    const size_t length = (size_t)by.images.n * s.out_h * s.out_w;
    INDEX_LOOP(i, n) {
        const auto [row, col] = split(i, by.W);
        const auto [plane, line] = split(row, by.H);
        const auto [image, c] = split(plane, by.C);
        const int w = col + s.pad_w, h = line + s.pad_h; // in the padded image
        const struct Windows rows = windows_over(h, s.kernel_h, by.stride_h, s.out_h);
        const struct Windows cols = windows_over(w, s.kernel_w, by.stride_w, s.out_w);
        float sum = 0;
        for (int oh = rows.first; oh < rows.end; oh++)
            for (int ow = cols.first; ow < cols.end; ow++) {
                const int kh = h - oh * s.stride_h, kw = w - ow * s.stride_w;
                const size_t tap = ((size_t)c * s.kernel_h + kh) * s.kernel_w + kw;
                sum += columns[tap * length + ((size_t)image * s.out_h + oh) * s.out_w + ow];
            }
        dX[i] = accumulate(beta, &dX[i], sum);
    }
}

// The same for stride 1 and windows of SIDE x SIDE. Tap (kh,kw) belongs to the window that begins
// kh rows above the pixel and kw columns to its left. The number of taps is known at compile time,
// so they are read all at once and not one after the other.
template <int SIDE>
static __global__ void col2im_of_side(const float *columns, float beta, float *dX,
                                      struct conv2d_shape s, struct ConvDivisors by, unsigned n) {
    const size_t length = (size_t)by.images.n * s.out_h * s.out_w;
    INDEX_LOOP(i, n) {
        const auto [row, col] = split(i, by.W);
        const auto [plane, line] = split(row, by.H);
        const auto [image, c] = split(plane, by.C);
        const int w = col + s.pad_w, h = line + s.pad_h; // in the padded image
        const float *first = columns + (size_t)c * SIDE * SIDE * length;
        first += (size_t)image * s.out_h * s.out_w;
        float taps[SIDE][SIDE], sum = 0;
        for (int kh = 0; kh < SIDE; kh++)
            for (int kw = 0; kw < SIDE; kw++) {
                const int oh = h - kh, ow = w - kw;
                const bool window = 0 <= oh && oh < s.out_h && 0 <= ow && ow < s.out_w;
                taps[kh][kw] = window ? first[(kh * SIDE + kw) * length + oh * s.out_w + ow] : 0;
            }
        for (int kh = 0; kh < SIDE; kh++)
            for (int kw = 0; kw < SIDE; kw++) sum += taps[kh][kw];
        dX[i] = accumulate(beta, &dX[i], sum);
    }
}

// The side of the kernel if it is square and there are functions for this side, else 0.
static int known_side(const struct conv2d_shape *s) {
    const bool known = s->kernel_h == 3 || s->kernel_h == 5;
    return s->kernel_h == s->kernel_w && known ? s->kernel_h : 0;
}

// planes (M,images,plane) -> Y (images,M,plane), adding the bias
static __global__ void planes_to_images(const float *planes, const float *b, float *Y,
                                        struct ConvDivisors by, unsigned n) {
    INDEX_LOOP(i, n) {
        const auto [row, pixel] = split(i, by.plane);
        const auto [image, m] = split(row, by.M);
        const size_t from = (size_t)m * by.images.n + image;
        Y[i] = planes[from * by.plane.n + pixel] + (b ? b[m] : 0);
    }
}

// dY (images,M,plane) -> planes (M,images,plane)
static __global__ void images_to_planes(const float *dY, float *planes, struct ConvDivisors by,
                                        unsigned n) {
    INDEX_LOOP(i, n) {
        const auto [row, pixel] = split(i, by.plane);
        const auto [m, image] = split(row, by.images);
        planes[i] = dY[((size_t)image * by.M.n + m) * by.plane.n + pixel];
    }
}

// ---- the same, if ReLU and 2x2 pooling follow (`pooled` in kernels.h) ------------------------

// The two bytes of `pooled` of a window are side by side, and so are the two pixels of each of its
// rows. They begin at even places, so they are read and written together. (`pooled` itself begins
// at an even address, as all allocations do.)
struct alignas(2) Positive {
    unsigned char left, right; // each: bit 0 for the pixel above, bit 1 for the one below
};
struct alignas(8) Pixels {
    float left, right;
};

// Window i of (images,M,out_h/2,out_w/2).
struct PooledWindow {
    unsigned m;      // its channel
    size_t top_left; // where its first pixel lies in planes (M,images,out_h,out_w)
};

static __device__ struct PooledWindow pooled_window(unsigned i, struct ConvDivisors by) {
    const auto [line, col] = split(i, by.half_w);
    const auto [plane, row] = split(line, by.half_h);
    const auto [image, m] = split(plane, by.M);
    const size_t lines = ((size_t)m * by.images.n + image) * by.out_h.n + 2 * row;
    return {m, lines * by.out_w.n + 2 * col};
}

static __device__ float relu(float x) { return x < 0 ? 0 : x; } // this way round, a NaN stays

static __global__ void planes_to_pooled(const float *planes, const float *b, float *Y,
                                        struct Positive *pooled, struct ConvDivisors by,
                                        unsigned n) {
    INDEX_LOOP(i, n) {
        const auto [m, top_left] = pooled_window(i, by);
        const float bias = b ? b[m] : 0;
        struct Pixels top = *(const struct Pixels *)(planes + top_left);
        struct Pixels low = *(const struct Pixels *)(planes + top_left + by.out_w.n);
        top = {top.left + bias, top.right + bias};
        low = {low.left + bias, low.right + bias};
        pooled[i] = {(unsigned char)((top.left > 0) + 2 * (low.left > 0)),
                     (unsigned char)((top.right > 0) + 2 * (low.right > 0))};
        Y[i] = (relu(top.left) + relu(low.left) + (relu(top.right) + relu(low.right))) * 0.25f;
    }
}

static __global__ void pooled_to_planes(const float *dY, const struct Positive *pooled,
                                        float *planes, struct ConvDivisors by, unsigned n) {
    INDEX_LOOP(i, n) {
        float *to = planes + pooled_window(i, by).top_left;
        const struct Positive p = pooled[i];
        const float d = dY[i] * 0.25f;
        *(struct Pixels *)to = {p.left & 1 ? d : 0, p.right & 1 ? d : 0};
        *(struct Pixels *)(to + by.out_w.n) = {p.left & 2 ? d : 0, p.right & 2 ? d : 0};
    }
}

// The first step of both gradients: dY of the images from `first` on, as planes.
static void load_planes(CudaLane *lane, const struct Chunks *c, const float *dY,
                        const unsigned char *pooled, const struct conv2d_shape *s, int first,
                        int images) {
    const size_t outputs = s->M * c->plane, begin = first * outputs;
    const unsigned n = index_count(images * outputs);
    const struct ConvDivisors by = divisors_of(s, images);
    if (pooled)
        pooled_to_planes<<<blocks_for(n / 4), THREADS, 0, lane->stream>>>(
            dY + begin / 4, (const struct Positive *)pooled + begin / 4, c->planes, by, n / 4);
    else
        images_to_planes<<<blocks_for(n), THREADS, 0, lane->stream>>>(dY + begin, c->planes, by, n);
}

// ---- the three kernels -----------------------------------------------------------------------

static void load_columns(CudaLane *lane, const struct Chunks *c, const float *X,
                         const struct conv2d_shape *s, int first, int images) {
    const unsigned n = index_count(c->plane * images * s->C), blocks = blocks_for(n);
    const struct ConvDivisors by = divisors_of(s, images);
    X += (size_t)first * s->C * s->H * s->W;
    switch (known_side(s)) {
    case 3:
        im2col<3><<<blocks, THREADS, 0, lane->stream>>>(X, c->columns, *s, by, n);
        break;
    case 5:
        im2col<5><<<blocks, THREADS, 0, lane->stream>>>(X, c->columns, *s, by, n);
        break;
    default:
        im2col<0><<<blocks, THREADS, 0, lane->stream>>>(X, c->columns, *s, by, n);
    }
}

static void add_up_columns(CudaLane *lane, const struct Chunks *c, float beta, float *dX,
                           const struct conv2d_shape *s, int first, int images) {
    const size_t image = (size_t)s->C * s->H * s->W;
    const unsigned n = index_count(images * image), blocks = blocks_for(n);
    const struct ConvDivisors by = divisors_of(s, images);
    const bool dense = s->stride_h == 1 && s->stride_w == 1;
    dX += first * image;
    switch (dense ? known_side(s) : 0) {
    case 3:
        col2im_of_side<3><<<blocks, THREADS, 0, lane->stream>>>(c->columns, beta, dX, *s, by, n);
        break;
    case 5:
        col2im_of_side<5><<<blocks, THREADS, 0, lane->stream>>>(c->columns, beta, dX, *s, by, n);
        break;
    default:
        col2im<<<blocks, THREADS, 0, lane->stream>>>(c->columns, beta, dX, *s, by, n);
    }
}

CUDA_KERNEL(conv2d_forward) {
    const struct conv2d_shape s = a->s;
    if (patches_fit(lane, &s, a->pooled)) return conv2d_forward_by_patches(lane, a);
    const struct Chunks c = cut_into_chunks(lane, &s);
    for (int first = 0; first < s.N; first += c.images) {
        const int images = chunk_length(&c, &s, first);
        const size_t length = images * c.plane, begin = first * c.plane * s.M;
        const unsigned n = index_count(s.M * length);
        const struct ConvDivisors by = divisors_of(&s, images);
        load_columns(lane, &c, a->X, &s, first, images);
        cuda_gemm(lane, 0, 0, s.M, (int)length, (int)c.taps, a->W, c.columns, 0, c.planes);
        if (a->pooled)
            planes_to_pooled<<<blocks_for(n / 4), THREADS, 0, lane->stream>>>(
                c.planes, a->b, a->Y + begin / 4, (struct Positive *)a->pooled + begin / 4, by,
                n / 4);
        else
            planes_to_images<<<blocks_for(n), THREADS, 0, lane->stream>>>(c.planes, a->b,
                                                                          a->Y + begin, by, n);
    }
}

// The gradient of the columns is W^T dY. col2im adds it up to that of the pixels.
CUDA_KERNEL(conv2d_backward_input) {
    const struct conv2d_shape s = a->s;
    if (patches_fit(lane, &s, a->pooled)) return conv2d_backward_input_by_patches(lane, a);
    const struct Chunks c = cut_into_chunks(lane, &s);
    for (int first = 0; first < s.N; first += c.images) {
        const int images = chunk_length(&c, &s, first);
        const size_t length = images * c.plane;
        load_planes(lane, &c, a->dY, a->pooled, &s, first, images);
        cuda_gemm(lane, 1, 0, (int)c.taps, (int)length, s.M, a->W, c.planes, 0, c.columns);
        add_up_columns(lane, &c, a->beta, a->dX, &s, first, images);
    }
}

// The sum of the gradients of a window's pixels: a quarter of d for each pixel that was positive.
static __device__ float pooled_sum(float d, struct Positive p) {
    return d * 0.25f * (float)((p.left & 1) + (p.left >> 1) + (p.right & 1) + (p.right >> 1));
}

// db[m] is the sum of dY's channel m over all images and pixels. sums (parts,M): a block for each
// part of a channel. In float, unlike sum.cu: a thread adds only a few numbers, and after that
// numbers of about the same size are added, which loses little.
static __global__ void sums_of_parts(const float *dY, const struct Positive *pooled,
                                     struct Channels ch, float *sums) {
    for (unsigned m = blockIdx.x; m < ch.C; m += gridDim.x) {
        float sum = 0;
        CHANNEL_LOOP(i, ch, m) sum += pooled ? pooled_sum(dY[i], pooled[i]) : dY[i];
        sum = block_sum(sum);
        if (threadIdx.x == 0) sums[blockIdx.y * ch.C + m] = sum;
    }
}

// ---- the gradient of few weights -------------------------------------------------------------
//
// This is a product of two matrices with few, very long rows: for LeNet's first layer and 256
// images, (20, 173056) times (173056, 9). cuBLAS cuts such rows into 132 parts and computes a block
// of 64 x 64 for each, of which 20 x 9 are needed. That takes 62 us of a step's 465 on an H100.
// Here a block of threads takes a part of all rows, and each thread one weight: 42 us.

constexpr int SLICE = 64;

struct alignas(16) Four {
    float a, b, c, d;
};

// The rows of a part, a slice at a time. The additional Four at the end of a row makes each row
// begin four banks of shared memory after the one before it. So threads that read different rows,
// four numbers each, do not wait for each other.
struct Slices {
    struct Four row[FEW_ROWS][SLICE / 4 + 1];
};

// sums (parts,M*taps): the products of `part` columns of planes (M,length) and columns
// (taps,length).
static __global__ void few_weights(const float *planes, const float *columns, unsigned M,
                                   unsigned taps, unsigned length, unsigned part, float *sums) {
    __shared__ struct Slices slices;
    const unsigned weight = threadIdx.x, m = weight / taps, tap = weight % taps;
    const unsigned begin = blockIdx.x * part, end = begin + part < length ? begin + part : length;
    float sum = 0;
    for (unsigned at = begin; at < end; at += SLICE) {
        for (unsigned i = threadIdx.x; i < (M + taps) * SLICE; i += THREADS) {
            const unsigned row = i / SLICE, j = i % SLICE;
            const float *from =
                row < M ? planes + (size_t)row * length : columns + (size_t)(row - M) * length;
            ((float *)slices.row[row])[j] = at + j < end ? from[at + j] : 0;
        }
        __syncthreads();
        if (weight < M * taps)
            for (int j = 0; j < SLICE / 4; j++) {
                const struct Four x = slices.row[m][j], y = slices.row[M + tap][j];
                sum += x.a * y.a + x.b * y.b + (x.c * y.c + x.d * y.d);
            }
        __syncthreads(); // all have read it before the next slice overwrites it
    }
    if (weight < M * taps) sums[blockIdx.x * M * taps + weight] = sum;
}

static void multiply_few_weights(CudaLane *lane, const struct Chunks *c, int M, unsigned length,
                                 float beta, float *dW) {
    const unsigned slices = (length + SLICE - 1) / SLICE;
    const unsigned part = (slices + FEW_PARTS - 1) / FEW_PARTS * SLICE;
    const unsigned parts = (length + part - 1) / part, taps = (unsigned)c->taps;
    few_weights<<<parts, THREADS, 0, lane->stream>>>(c->planes, c->columns, M, taps, length, part,
                                                     c->sums);
    const struct add_bias_backward_args rows = {c->sums,         dW, beta, (int)parts,
                                                (int)(M * taps), 1,  0};
    cuda_kernels[KERNEL_add_bias_backward](lane, &rows); // the sum of the rows
}

// dW is dY columns^T, summed over the chunks one after the other.
static void weights_by_columns(CudaLane *lane, const struct conv2d_backward_params_args *a) {
    const struct conv2d_shape s = a->s;
    const struct Chunks c = cut_into_chunks(lane, &s);
    int first = 0;
    do { // once even for no images: with beta = 0, dW has to become 0
        const int images = chunk_length(&c, &s, first);
        const unsigned length = index_count(images * c.plane);
        const float beta = first == 0 ? a->beta : 1;
        load_columns(lane, &c, a->X, &s, first, images);
        load_planes(lane, &c, a->dY, a->pooled, &s, first, images);
        if (length > 0 && conv2d_has_few_weights(&s))
            multiply_few_weights(lane, &c, s.M, length, beta, a->dW);
        else
            cuda_gemm(lane, 0, 1, s.M, (int)c.taps, (int)length, c.planes, c.columns, beta, a->dW);
        first += c.images;
    } while (first < s.N);
}

CUDA_KERNEL(conv2d_backward_params) {
    const struct conv2d_shape *s = &a->s;
    if (!a->pooled && patch_weights_fit(lane, s))
        conv2d_weights_by_patches(lane, a);
    else
        weights_by_columns(lane, a);
    if (!a->db) return;
    const size_t plane = (size_t)s->out_h * s->out_w;
    const struct Channels ch = cut_channels(s->N, s->M, a->pooled ? plane / 4 : plane);
    // The scratch memory is this kernel's, and what it held is not needed any more.
    float *sums = (float *)cuda_scratch(lane, sizeof(float) * most_parts(s->M));
    sums_of_parts<<<blocks_for(ch), THREADS, 0, lane->stream>>>(
        a->dY, (const struct Positive *)a->pooled, ch, sums);
    const struct add_bias_backward_args rows = {sums, a->db, a->beta, (int)ch.parts, s->M, 1, 0};
    cuda_kernels[KERNEL_add_bias_backward](lane, &rows); // the sum of the rows
}
