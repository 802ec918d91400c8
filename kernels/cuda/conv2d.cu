// conv2d.cu: convolution as matrix products.
//
// im2col writes the C*kernel_h*kernel_w pixels under each window as a column. Then the convolution
// of all windows is one product:
//     W (M, C*kernel_h*kernel_w)  times  columns (C*kernel_h*kernel_w, images*out_h*out_w).
// cuBLAS is best at few large products, so the windows of many images make one matrix: a chunk. Its
// result has the channels outermost, (M, images, out_h, out_w), while a tensor is (images, M,
// out_h, out_w); a further kernel moves each plane to its place.
#include "grid.cuh"

// ---- chunks ----------------------------------------------------------------------------------

// Scratch for a chunk stays below this, unless a single image needs more. A fixed number and not
// the free memory, because the cut decides the order of sums and so the bits of dW. (Tests compile
// with a small one: then few images are several chunks.)
#ifndef CONV_WORKSPACE
#define CONV_WORKSPACE ((size_t)256 << 20)
#endif

struct Chunks {
    size_t taps;             // rows of the columns matrix: C*kernel_h*kernel_w
    size_t plane;            // windows of one image: out_h*out_w
    int images;              // per chunk, at least 1; the last chunk may have fewer
    float *columns, *planes; // scratch: (taps, images*plane) and (M, images*plane)
};

// In floats, up to the next multiple of 256 bytes: where cuBLAS reads a matrix 16 bytes at a time,
// which it does if the matrix begins at a multiple of 16.
static size_t aligned(size_t n) { return (n + 63) / 64 * 64; }

static struct Chunks cut_into_chunks(CudaLane *lane, const struct conv2d_shape *s) {
    struct Chunks c = {};
    c.taps = (size_t)s->C * s->kernel_h * s->kernel_w;
    c.plane = (size_t)s->out_h * s->out_w;
    const size_t image_bytes = (c.taps + s->M) * c.plane * sizeof(float);
    const size_t fit = image_bytes == 0 ? 1 : CONV_WORKSPACE / image_bytes;
    c.images = fit < 1 ? 1 : fit < (size_t)s->N ? (int)fit : s->N > 0 ? s->N : 1;
    const size_t columns = aligned(c.taps * c.images * c.plane);
    const size_t planes = s->M * c.images * c.plane;
    c.columns = (float *)cuda_scratch(lane, (columns + planes) * sizeof(float));
    c.planes = c.columns + columns;
    return c;
}

// Images in the chunk that begins with image `first`.
static int chunk_length(const struct Chunks *c, const struct conv2d_shape *s, int first) {
    return s->N - first < c->images ? s->N - first : c->images;
}

// ---- between images and matrices -------------------------------------------------------------

// X (images,C,H,W) -> columns (C*kernel_h*kernel_w, images*out_h*out_w). A thread copies one window
// of one channel; outside the image there are zeros. Neighbouring threads write neighbouring
// columns.
static __global__ void im2col(const float *X, float *columns, struct conv2d_shape s, int images) {
    const size_t length = (size_t)images * s.out_h * s.out_w; // of a row of the matrix
    GRID_LOOP(i, s.C * length) {
        const int ow = i % s.out_w, oh = i / s.out_w % s.out_h;
        const size_t image = i % length / s.out_w / s.out_h, c = i / length;
        const float *plane = X + (image * s.C + c) * s.H * s.W;
        float *column = columns + c * s.kernel_h * s.kernel_w * length + i % length;
        for (int kh = 0; kh < s.kernel_h; kh++)
            for (int kw = 0; kw < s.kernel_w; kw++, column += length) {
                const int h = oh * s.stride_h - s.pad_h + kh, w = ow * s.stride_w - s.pad_w + kw;
                const bool inside = 0 <= h && h < s.H && 0 <= w && w < s.W;
                *column = inside ? plane[(size_t)h * s.W + w] : 0;
            }
    }
}

// columns -> dX = beta dX + ..., the way back: a pixel was copied once for each window that holds
// it, so its gradient is the sum over these. A thread per pixel gathers them, in a fixed order.
static __global__ void col2im(const float *columns, float beta, float *dX, struct conv2d_shape s,
                              int images) {
    const size_t length = (size_t)images * s.out_h * s.out_w;
    GRID_LOOP(i, (size_t)images * s.C * s.H * s.W) {
        const int w = i % s.W + s.pad_w, h = i / s.W % s.H + s.pad_h; // in the padded image
        const size_t c = i / s.W / s.H % s.C, image = i / s.W / s.H / s.C;
        const struct Windows rows = windows_over(h, s.kernel_h, s.stride_h, s.out_h);
        const struct Windows cols = windows_over(w, s.kernel_w, s.stride_w, s.out_w);
        float sum = 0;
        for (int oh = rows.first; oh < rows.end; oh++)
            for (int ow = cols.first; ow < cols.end; ow++) {
                const int kh = h - oh * s.stride_h, kw = w - ow * s.stride_w;
                const size_t row = (c * s.kernel_h + kh) * s.kernel_w + kw;
                sum += columns[row * length + (image * s.out_h + oh) * s.out_w + ow];
            }
        dX[i] = accumulate(beta, &dX[i], sum);
    }
}

// planes (M,images,plane) -> Y (images,M,plane), with the bias added on the way
static __global__ void planes_to_images(const float *planes, const float *b, float *Y, int images,
                                        int M, size_t plane) {
    GRID_LOOP(i, M * plane * images) {
        const size_t pixel = i % plane, m = i / plane % M, image = i / plane / M;
        Y[i] = planes[(m * images + image) * plane + pixel] + (b ? b[m] : 0);
    }
}

// dY (images,M,plane) -> planes (M,images,plane)
static __global__ void images_to_planes(const float *dY, float *planes, int images, int M,
                                        size_t plane) {
    GRID_LOOP(i, M * plane * images) {
        const size_t pixel = i % plane, image = i / plane % images, m = i / plane / images;
        planes[i] = dY[(image * M + m) * plane + pixel];
    }
}

// ---- the same, if ReLU and 2x2 pooling follow: see kernels.h ---------------------------------

// Where a window's top left pixel lies in planes (M,images,out_h,out_w). Window i is the i-th of
// (images,M,out_h/2,out_w/2).
static __device__ size_t window_at(size_t i, struct conv2d_shape s, int images) {
    const int w = s.out_w / 2, h = s.out_h / 2;
    const size_t col = i % w, row = i / w % h, m = i / w / h % s.M, image = i / w / h / s.M;
    return ((m * images + image) * s.out_h + 2 * row) * s.out_w + 2 * col;
}

static __global__ void planes_to_pooled(const float *planes, const float *b, float *Y,
                                        unsigned char *pooled, struct conv2d_shape s, int images) {
    const int windows = s.out_h / 2 * (s.out_w / 2);
    GRID_LOOP(i, (size_t)images * s.M * windows) {
        const float *at = planes + window_at(i, s, images), bias = b ? b[i / windows % s.M] : 0;
        float sum = 0;
        for (int col = 0; col < 2; col++) {
            const float top = at[col] + bias, low = at[s.out_w + col] + bias;
            pooled[2 * i + col] = (top > 0) + 2 * (low > 0);
            sum += (top < 0 ? 0 : top) + (low < 0 ? 0 : low); // this way round, a NaN stays
        }
        Y[i] = sum * 0.25f;
    }
}

static __global__ void pooled_to_planes(const float *dY, const unsigned char *pooled, float *planes,
                                        struct conv2d_shape s, int images) {
    GRID_LOOP(i, (size_t)images * s.M * (s.out_h / 2) * (s.out_w / 2)) {
        float *to = planes + window_at(i, s, images);
        const float d = dY[i] * 0.25f;
        for (int col = 0; col < 2; col++) {
            to[col] = pooled[2 * i + col] & 1 ? d : 0;
            to[s.out_w + col] = pooled[2 * i + col] & 2 ? d : 0;
        }
    }
}

// What both gradients begin with: dY of the images from `first` on, as planes.
static void load_planes(CudaLane *lane, const struct Chunks *c, const float *dY,
                        const unsigned char *pooled, struct conv2d_shape s, int first, int images) {
    const size_t outputs = s.M * c->plane, begin = first * outputs;
    if (pooled)
        pooled_to_planes<<<blocks_for(images * outputs / 4), THREADS, 0, lane->stream>>>(
            dY + begin / 4, pooled + begin / 2, c->planes, s, images);
    else
        images_to_planes<<<blocks_for(images * outputs), THREADS, 0, lane->stream>>>(
            dY + begin, c->planes, images, s.M, c->plane);
}

// ---- the three kernels -----------------------------------------------------------------------

CUDA_KERNEL(conv2d_forward) {
    const struct conv2d_shape s = a->s;
    const struct Chunks c = cut_into_chunks(lane, &s);
    for (int first = 0; first < s.N; first += c.images) {
        const int images = chunk_length(&c, &s, first);
        const size_t length = images * c.plane, outputs = s.M * length;
        im2col<<<blocks_for(s.C * length), THREADS, 0, lane->stream>>>(
            a->X + (size_t)first * s.C * s.H * s.W, c.columns, s, images);
        cuda_gemm(lane, 0, 0, s.M, (int)length, (int)c.taps, a->W, c.columns, 0, c.planes);
        const size_t begin = first * c.plane * s.M;
        if (a->pooled)
            planes_to_pooled<<<blocks_for(outputs / 4), THREADS, 0, lane->stream>>>(
                c.planes, a->b, a->Y + begin / 4, a->pooled + begin / 2, s, images);
        else
            planes_to_images<<<blocks_for(outputs), THREADS, 0, lane->stream>>>(
                c.planes, a->b, a->Y + begin, images, s.M, c.plane);
    }
}

// The gradient of the columns is W^T dY, and col2im adds it up.
CUDA_KERNEL(conv2d_backward_input) {
    const struct conv2d_shape s = a->s;
    const struct Chunks c = cut_into_chunks(lane, &s);
    for (int first = 0; first < s.N; first += c.images) {
        const int images = chunk_length(&c, &s, first);
        const size_t length = images * c.plane, image = (size_t)s.C * s.H * s.W;
        load_planes(lane, &c, a->dY, a->pooled, s, first, images);
        cuda_gemm(lane, 1, 0, (int)c.taps, (int)length, s.M, a->W, c.planes, 0, c.columns);
        col2im<<<blocks_for(images * image), THREADS, 0, lane->stream>>>(
            c.columns, a->beta, a->dX + first * image, s, images);
    }
}

// The gradient of the window's pixels together: its four parts went to those that were positive.
static __device__ float pooled_sum(float d, const unsigned char *bits) {
    return d * 0.25f * (float)((bits[0] & 1) + (bits[0] >> 1) + (bits[1] & 1) + (bits[1] >> 1));
}

// db[m] is the sum of dY's channel m over all images and pixels; a block per channel. In double,
// like sum.cu.
static __global__ void sum_channels(const float *dY, const unsigned char *pooled, float beta,
                                    float *db, int N, int M, size_t plane) {
    for (int m = blockIdx.x; m < M; m += gridDim.x) {
        double sum = 0;
        for (size_t i = threadIdx.x; i < N * plane; i += THREADS) {
            const size_t at = (i / plane * M + m) * plane + i % plane;
            sum += pooled ? pooled_sum(dY[at], pooled + 2 * at) : dY[at];
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) db[m] = accumulate(beta, &db[m], (float)sum);
    }
}

// dW is dY columns^T, summed over the chunks one after the other.
CUDA_KERNEL(conv2d_backward_params) {
    const struct conv2d_shape s = a->s;
    const struct Chunks c = cut_into_chunks(lane, &s);
    int first = 0;
    do { // once even for no images: with beta = 0, dW has to become 0
        const int images = chunk_length(&c, &s, first);
        const size_t length = images * c.plane;
        im2col<<<blocks_for(s.C * length), THREADS, 0, lane->stream>>>(
            a->X + (size_t)first * s.C * s.H * s.W, c.columns, s, images);
        load_planes(lane, &c, a->dY, a->pooled, s, first, images);
        cuda_gemm(lane, 0, 1, s.M, (int)c.taps, (int)length, c.planes, c.columns,
                  first == 0 ? a->beta : 1, a->dW);
        first += c.images;
    } while (first < s.N);
    if (a->db)
        sum_channels<<<blocks_for(s.M, 1), THREADS, 0, lane->stream>>>(
            a->dY, a->pooled, a->beta, a->db, s.N, s.M, a->pooled ? c.plane / 4 : c.plane);
}
