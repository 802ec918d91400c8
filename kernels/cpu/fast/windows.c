// windows.c: convolutions of any shape as matrix products. convolution.h says when this method is
// chosen.
//
// The plain loops in conv2d.c have two defects: about one useful multiplication per loop test, and
// no reuse of what is in the cache. But a convolution of one image is a matrix product. Let column
// (i,j) of a matrix `cols` hold the K = C kernel_h kernel_w pixels that output pixel (i,j) sees
// ("im2col"). Then Y = W cols, with W (M,K) as it lies in memory, and backward dW = dY cols^T and
// dcols = W^T dY.
//
// The defect of that: `cols` is up to 9 or 25 times as large as the image. But it need not be in
// memory all at once. A row of `cols` holds all pixels that one weight meets. With stride 1 it is
// the image itself from some pixel on. With stride 2 it is every second pixel, so pixels are first
// sorted into phases (convolution.h), and then it is a phase from some pixel on. A product gets a
// few rows at a time, side by side as it reads them. It gets them of several images, because small
// images alone would leave most of a vector empty, and because reading all of W has to pay off.
//
// Each thread takes whole images and has its own scratch memory, so threads need not meet until all
// images are done.
#include "convolution.h"
#include "product.h"

#include <string.h>

typedef struct conv2d_shape Shape;

static size_t x_size(const Shape *s) { // one image
    return (size_t)s->C * (size_t)s->H * (size_t)s->W;
}
static size_t w_size(const Shape *s) { // one output channel
    return (size_t)s->C * (size_t)s->kernel_h * (size_t)s->kernel_w;
}
static size_t out_pixels(const Shape *s) { return (size_t)s->out_h * (size_t)s->out_w; }
static size_t windows_2x2(const Shape *s) { return out_pixels(s) / 4; }

// Channels that are neighbours in memory are processed together.
enum { CHANNELS_AT_ONCE = 16 };

// Images that a thread processes at a time, such that all threads get about the same number. (Each
// number of Y and dX is one sum in a fixed order, so this makes no difference to the bits.)
static int images_at_once(const Shape *s, int threads) {
    enum { COLUMNS = 192 };
    int most = larger(COLUMNS / (int)(out_pixels(s) + 1), 1), turns = divide_up(s->N, most);
    return divide_up(s->N, divide_up(turns, threads) * threads);
}

// Room for rows of Y or dX that are computed before they are stored, and how many rows these are;
// each has `width` floats.
static size_t kept_floats(size_t width) {
    enum { CACHE_FLOATS = 128 << 10 };
    return CACHE_FLOATS > 8 * width ? CACHE_FLOATS : 8 * width;
}
static int rows_at_once(int rows, size_t width) {
    return smaller(rows, (int)(kept_floats(width) / width) / 8 * 8);
}

// The matrix `cols` of some images, which is not in memory: column (i,j) belongs to an output
// pixel, row k to a weight.
typedef struct Windows {
    const float *from; // row k begins at from + offset[k]
    size_t image, row; // floats to the next image, to the next row of pixels
    int images, rows, cols, K;
    const int *offset;
} Windows;

static size_t width_of(const Windows *w) { // of a row of the matrix, in floats
    return round_to_vectors((size_t)w->images * (size_t)w->rows * (size_t)w->cols);
}
static size_t panel_size(size_t width) { return DEPTH * width + VL; } // rows for one product()

// Where VL columns of a row of the matrix are: in pieces of rows of pixels.
typedef struct Pieces {
    int n, lane[VL];
    size_t from[VL];
} Pieces;

static Pieces pieces_of(const Windows *w, int column) {
    Pieces p = {0};
    for (int lane = 0, count; lane < VL; lane += count, column += count) {
        int row = column / w->cols, first = column % w->cols;
        if (row >= w->images * w->rows) break;
        count = smaller(w->cols - first, VL - lane);
        p.lane[p.n] = lane;
        p.from[p.n++] =
            (size_t)(row / w->rows) * w->image + (size_t)(row % w->rows) * w->row + (size_t)first;
    }
    return p;
}

// Copies rows k, k + 1, ... in the order in which product() reads B: VL columns of all rows, then
// the next VL columns. A whole vector is copied for each piece; the next piece overwrites the rest
// of it.
static void copy_windows(const Windows *w, int k, int depth, float *to) {
    for (int column = 0; column < (int)width_of(w); column += VL) {
        Pieces p = pieces_of(w, column);
        for (int i = k; i < k + depth; i++, to += VL)
            for (int n = 0; n < p.n; n++)
                vec_to(to + p.lane[n], vec_at(w->from + w->offset[i] + p.from[n]));
    }
}

// C (rows, width) = A (rows, K) times the matrix.
static void multiply_windows(const Windows *w, const float *A, int rows, float *panel, float *C) {
    int k = 0;
    do {
        int depth = smaller(w->K - k, DEPTH);
        copy_windows(w, k, depth, panel);
        product(&(Product){.A = A + k,
                           .a_row = (size_t)w->K,
                           .a_col = 1,
                           .B = panel,
                           .b_block = (size_t)depth * VL,
                           .C = C,
                           .c_row = width_of(w),
                           .c_block = VL,
                           .rows = rows,
                           .vectors = (int)(width_of(w) / VL),
                           .depth = depth,
                           .add = k > 0});
    } while ((k += DEPTH) < w->K);
}

// ---- forward

static void store_pixels(const struct conv2d_forward_args *a, size_t plane, const float *from) {
    const Shape *s = &a->s;
    float bias = a->b ? a->b[plane % (size_t)s->M] : 0, *Y = a->Y + plane * out_pixels(s);
    if (a->pooled) {
        relu_and_pool(s, from, (size_t)s->out_w, bias, a->Y + plane * windows_2x2(s),
                      a->pooled + 2 * plane * windows_2x2(s));
        return;
    }
    for (size_t i = 0; i < out_pixels(s); i++) Y[i] = from[i] + bias;
}

// Y of some images, whose phases have been filled.
static void forward_images(const struct conv2d_forward_args *a, const Windows *w, int first,
                           float *mine) {
    const Shape *s = &a->s;
    size_t width = width_of(w);
    int most = rows_at_once(s->M, width);
    float *Y = mine + panel_size(width);
    for (int m = 0; m < s->M; m += most) {
        int rows = smaller(most, s->M - m);
        multiply_windows(w, a->W + (size_t)m * w_size(s), rows, mine, Y);
        for (int g = 0; g < w->images; g++)
            for (int row = 0; row < rows; row++)
                store_pixels(a, (size_t)(first + g) * (size_t)s->M + (size_t)(m + row),
                             Y + (size_t)row * width + (size_t)g * out_pixels(s));
    }
}

void windows_forward(CpuLane *lane, const struct conv2d_forward_args *a) {
    const Shape *s = &a->s;
    if (s->N == 0 || out_pixels(s) == 0) return;
    Phases f = phases_of(s);
    size_t image = (size_t)s->C * f.channel;
    int images = images_at_once(s, lane->threads), K = (int)w_size(s);
    size_t of_phases = round_to_vectors((size_t)images * image + 4 * VL);
    size_t width = round_to_vectors((size_t)images * out_pixels(s));
    size_t of_thread = of_phases + panel_size(width) + kept_floats(width);
    int *offset = cpu_scratch(
        lane, sizeof(float) * (round_to_vectors((size_t)K) + of_thread * (size_t)lane->threads));
    float *scratch = (float *)offset + round_to_vectors((size_t)K);
    find_offsets(s, f, s->C, offset);
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int n = 0; n < s->N; n += images) {
        float *mine = scratch + (size_t)omp_get_thread_num() * of_thread;
        int count = smaller(images, s->N - n);
        for (int g = 0; g < count; g++)
            fill_phases(s, f, a->X + (size_t)(n + g) * x_size(s), s->C, mine + (size_t)g * image);
        Windows w = {mine, image, (size_t)f.w, count, s->out_h, s->out_w, K, offset};
        forward_images(a, &w, n, mine + of_phases);
    }
}

// ---- backward to the input
//
// Each phase of dX is a convolution of dY with the weights that meet the phase. In one dimension,
// pixel x of phase b gets W[b + stride v] dY[x - v] for all v. So here dY is the image, with zeros
// where x - v is outside. Neighbouring rows share the zeros between them.

typedef struct Gradients {
    int taps_h, taps_w; // the most weights that meet a phase
    int h, w;           // of a channel of dY with its zeros, of which taps_h - 1 rows are above it
    size_t channel;     // floats
} Gradients;

static Gradients gradients_of(const Shape *s) {
    Gradients g = {.taps_h = divide_up(s->kernel_h, s->stride_h),
                   .taps_w = divide_up(s->kernel_w, s->stride_w)};
    int last_h = (s->H - 1 + s->pad_h) / s->stride_h, last_w = (s->W - 1 + s->pad_w) / s->stride_w;
    g.h = g.taps_h - 1 + larger(s->out_h, last_h + 1);
    g.w = larger(s->out_w + g.taps_w - 1, last_w + 1);
    g.channel = (size_t)g.h * (size_t)g.w;
    return g;
}

// One phase of dX. Its rows y0..y1 and columns x0..x1 are pixels of the image. For each output and
// input channel, taps_h x taps_w weights meet it.
typedef struct Phase {
    int a, b, taps_h, taps_w, y0, y1, x0, x1;
} Phase;

static Phase phase_of(const Shape *s, int number) {
    Phase f = {.a = number / s->stride_w, .b = number % s->stride_w};
    f.taps_h = f.a < s->kernel_h ? divide_up(s->kernel_h - f.a, s->stride_h) : 0;
    f.taps_w = f.b < s->kernel_w ? divide_up(s->kernel_w - f.b, s->stride_w) : 0;
    f.y0 = divide_up(larger(s->pad_h - f.a, 0), s->stride_h);
    f.x0 = divide_up(larger(s->pad_w - f.b, 0), s->stride_w);
    f.y1 = divide_up(larger(s->H + s->pad_h - f.a, 0), s->stride_h);
    f.x1 = divide_up(larger(s->W + s->pad_w - f.b, 0), s->stride_w);
    return f;
}

static int taps_of(Phase f) { return f.taps_h * f.taps_w; }

static void sort_window(const Shape *s, const float *W, Phase f, float *to) {
    for (int u = 0; u < f.taps_h; u++)
        for (int v = 0; v < f.taps_w; v++)
            *to++ = W[(f.a + u * s->stride_h) * s->kernel_w + f.b + v * s->stride_w];
}

// The weights of all phases, one after the other: a matrix (C, M taps) for each.
static void sort_weights(const Shape *s, const float *W, int threads, float *sorted) {
    size_t window = (size_t)(s->kernel_h * s->kernel_w);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int first = 0; first < s->C; first += CHANNELS_AT_ONCE) {
        float *to = sorted;
        for (int number = 0; number < s->stride_h * s->stride_w; number++) {
            Phase f = phase_of(s, number);
            size_t taps = (size_t)taps_of(f), row = (size_t)s->M * taps;
            for (int m = 0; m < s->M; m++)
                for (int c = first; c < smaller(first + CHANNELS_AT_ONCE, s->C); c++)
                    sort_window(s, W + ((size_t)m * s->C + c) * window, f,
                                to + (size_t)c * row + (size_t)m * taps);
            to += (size_t)s->C * row;
        }
    }
}

// For each column of these matrices: where in dY the pixels begin that it meets.
static void find_gradient_offsets(const Shape *s, Gradients g, int *offset) {
    for (int number = 0; number < s->stride_h * s->stride_w; number++) {
        Phase f = phase_of(s, number);
        for (int m = 0; m < s->M; m++)
            for (int u = 0; u < f.taps_h; u++)
                for (int v = 0; v < f.taps_w; v++)
                    *offset++ = m * (int)g.channel + (g.taps_h - 1 - u) * g.w - v;
    }
}

// dY of an image, with zeros above, below and to the right of each channel.
static void fill_gradients(const struct conv2d_backward_input_args *a, Gradients g, int image,
                           float *to) {
    const Shape *s = &a->s;
    memset(to, 0, sizeof(float) * (size_t)s->M * g.channel);
    to += (g.taps_h - 1) * g.w;
    for (int m = 0; m < s->M; m++, to += g.channel) {
        size_t plane = (size_t)image * s->M + m;
        const float *from = a->dY + plane * (a->pooled ? windows_2x2(s) : out_pixels(s));
        if (a->pooled)
            unpool(s, from, a->pooled + 2 * plane * windows_2x2(s), to, (size_t)g.w);
        else
            for (int i = 0; i < s->out_h; i++)
                copy_floats(to + i * g.w, from + i * s->out_w, s->out_w);
    }
}

// Every second pixel of a row = beta times itself + from. Four at a time, as in phases.c.
static void store_every_second(float *to, const float *from, int n, float beta) {
    int i = 0;
    for (; i + 4 < n; i += 4) {
        Quad a = quad_at(to + 2 * i), b = quad_at(to + 2 * i + 4), f = quad_at(from + i);
        Quad own = SHUFFLE(QuadBits, a, b, 0, 2, 4, 6), other = SHUFFLE(QuadBits, a, b, 1, 3, 5, 7);
        if (beta != 0) f += own;
        quad_to(to + 2 * i, SHUFFLE(QuadBits, f, other, 0, 4, 1, 5));
        quad_to(to + 2 * i + 4, SHUFFLE(QuadBits, f, other, 2, 6, 3, 7));
    }
    for (; i < n; i++) to[2 * i] = beta != 0 ? to[2 * i] + from[i] : from[i];
}

// dX = beta dX + a phase of channel c of an image
static void store_phase(const struct conv2d_backward_input_args *a, Phase f, int image, int c,
                        const float *from) {
    const Shape *s = &a->s;
    float *dX = a->dX + (size_t)image * x_size(s) + (size_t)c * s->H * s->W;
    for (int y = f.y0; y < f.y1; y++, from += f.x1 - f.x0) {
        ptrdiff_t to = (ptrdiff_t)(y * s->stride_h + f.a - s->pad_h) * s->W + f.b - s->pad_w;
        if (s->stride_w == 2) {
            store_every_second(dX + to + 2 * (ptrdiff_t)f.x0, from, f.x1 - f.x0, a->beta);
            continue;
        }
        for (int x = f.x0; x < f.x1; x++) {
            float *pixel = &dX[to + (ptrdiff_t)x * s->stride_w];
            *pixel = a->beta != 0 ? *pixel + from[x - f.x0] : from[x - f.x0];
        }
    }
}

// One phase of some images, whose dY has been filled.
static void phase_of_images(const struct conv2d_backward_input_args *a, Phase f, const Windows *w,
                            const float *W, int first, float *mine) {
    const Shape *s = &a->s;
    size_t width = width_of(w), pixels = (size_t)w->rows * (size_t)w->cols;
    int most = rows_at_once(s->C, width);
    float *dX = mine + panel_size(width);
    for (int c = 0; c < s->C; c += most) {
        int rows = smaller(most, s->C - c);
        multiply_windows(w, W + (size_t)c * (size_t)w->K, rows, mine, dX);
        for (int i = 0; i < w->images; i++)
            for (int row = 0; row < rows; row++)
                store_phase(a, f, first + i, c + row,
                            dX + (size_t)row * width + (size_t)i * pixels);
    }
}

static void input_of_images(const struct conv2d_backward_input_args *a, Gradients g, const float *W,
                            const int *offset, int first, int images, const float *dY,
                            float *mine) {
    const Shape *s = &a->s;
    // With gaps, there are pixels that meet no weight.
    bool gaps = s->kernel_h < s->stride_h || s->kernel_w < s->stride_w || s->M == 0;
    if (gaps && a->beta == 0)
        memset(a->dX + (size_t)first * x_size(s), 0, sizeof(float) * (size_t)images * x_size(s));
    for (int number = 0; number < s->stride_h * s->stride_w; number++) {
        Phase f = phase_of(s, number);
        Windows w = {.from = dY + (size_t)f.y0 * (size_t)g.w + f.x0,
                     .image = (size_t)s->M * g.channel,
                     .row = (size_t)g.w,
                     .images = images,
                     .rows = f.y1 - f.y0,
                     .cols = f.x1 - f.x0,
                     .K = s->M * taps_of(f),
                     .offset = offset};
        if (w.rows > 0 && w.cols > 0 && w.K > 0) phase_of_images(a, f, &w, W, first, mine);
        W += (size_t)s->C * (size_t)(s->M * taps_of(f));
        offset += s->M * taps_of(f);
    }
}

void windows_backward_input(CpuLane *lane, const struct conv2d_backward_input_args *a) {
    const Shape *s = &a->s;
    if (s->N == 0 || x_size(s) == 0) return;
    Gradients g = gradients_of(s);
    size_t image = (size_t)s->M * g.channel, lead = round_to_vectors((size_t)g.taps_w);
    int images = images_at_once(s, lane->threads), window = s->kernel_h * s->kernel_w;
    size_t weights = round_to_vectors((size_t)s->M * w_size(s));
    size_t offsets = round_to_vectors((size_t)(s->M * window));
    // zeros | dY of the images | some of dX
    size_t of_dY = lead + round_to_vectors((size_t)images * image + 4 * VL);
    size_t width = round_to_vectors((size_t)images * g.channel); // at least that of a phase
    size_t of_thread = of_dY + panel_size(width) + kept_floats(width);
    float *W =
        cpu_scratch(lane, sizeof(float) * (weights + offsets + of_thread * (size_t)lane->threads));
    int *offset = (int *)(W + weights);
    float *scratch = W + weights + offsets;
    sort_weights(s, a->W, lane->threads, W);
    find_gradient_offsets(s, g, offset);
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int n = 0; n < s->N; n += images) {
        float *zeros = scratch + (size_t)omp_get_thread_num() * of_thread, *dY = zeros + lead;
        int count = smaller(images, s->N - n);
        memset(zeros, 0, sizeof(float) * lead);
        for (int i = 0; i < count; i++) fill_gradients(a, g, n + i, dY + (size_t)i * image);
        input_of_images(a, g, W, offset, n, count, dY, zeros + of_dY);
    }
}

// ---- gradients of the parameters: a sum over images, as a tree (cpu.h) -----------------------
//
// A minibatch on one device may be a single group of the tree, so threads share the work of a
// group, too: each computes the gradients of the weights for some of the input channels.
//
// dW = dY cols^T. Here a vector holds the pixels that VL weights meet at the same place, so pixels
// are transposed into panels (as in gemm.c). If images are small, the sum runs over several at a
// time, because each product reads all of its part of dW and writes it back.

// If the parts of all groups were more than 64 MB together, groups become larger than the tree's.
static SumTree tree_of_images(const Shape *s) {
    enum { MOST_BYTES = 64 << 20 };
    size_t part = sizeof(float) * (size_t)s->M * (w_size(s) + 1) + 1;
    SumTree tree = sum_tree(s->N);
    while (tree.groups > 1 && (size_t)tree.groups * part > MOST_BYTES)
        tree = (SumTree){.group = 2 * tree.group,
                         .groups = (s->N + 2 * tree.group - 1) / (2 * tree.group)};
    return tree;
}

// Images that share a product: enough for a sum of a good length.
static int images_per_product(const Shape *s, int most) {
    enum { LENGTH = 192 };
    int pixels = (int)out_pixels(s), images = pixels > 0 ? divide_up(LENGTH, pixels) : 1;
    return larger(smaller(images, most), 1);
}

// Some input channels of a group of images, for one thread.
typedef struct Part {
    int first, images, c, channels;
} Part;

// Input channels that are worked on together.
static int channels_per_slice(const Shape *s) {
    enum { LEAST = 32, MOST_SLICES = 8 };
    return larger(smaller(larger(divide_up(s->C, MOST_SLICES), LEAST), s->C), 1);
}

// The sum of the n numbers of a plane, as 4 VL sums side by side. So no addition waits for the one
// before it, and rounding errors are those of short sums. Sums over several planes are in double,
// because positive and negative pixels may add up to little more than the rounding errors of a
// float.
static float sum_of(const float *x, size_t n) {
    enum { SUMS = 4 };
    Vec sums[SUMS] = {{0}};
    float total = 0;
    size_t i = 0;
    for (; i + SUMS * VL <= n; i += SUMS * VL)
        UNROLL for (int v = 0; v < SUMS; v++) sums[v] += vec_at(x + i + v * VL);
    for (; i + VL <= n; i += VL) sums[0] += vec_at(x + i);
    for (; i < n; i++) total += x[i];
    return total + total_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// The sum before pooling: each number counts once for every bit that is set in its two bytes.
static float sum_of_pooled(const float *x, const unsigned char *pooled, size_t n) {
    Vec sums = {0};
    float total = 0;
    size_t i = 0;
    for (; i + VL <= n; i += VL) {
        Bits bits = shorts_at(pooled + 2 * i), ones = (bits & 0x101) + (bits >> 1 & 0x101);
        sums += vec_at(x + i) * __builtin_convertvector((ones & 0xff) + (ones >> 8), Vec);
    }
    for (; i < n; i++) {
        int ones = 0;
        for (int byte = 0; byte < 2; byte++)
            ones += (pooled[2 * i + byte] & 1) + (pooled[2 * i + byte] >> 1 & 1);
        total += x[i] * (float)ones;
    }
    return (total + total_of(sums)) * 0.25f;
}

// The sums of some channels of dY over a group of images. The channels of an image are neighbours
// in memory, so they are the inner loop.
static void channel_sums(const struct conv2d_backward_params_args *a, int first, Part group,
                         float *sums) {
    const Shape *s = &a->s;
    size_t n = a->pooled ? windows_2x2(s) : out_pixels(s);
    double total[CHANNELS_AT_ONCE] = {0};
    int channels = smaller(CHANNELS_AT_ONCE, s->M - first);
    for (int image = group.first; image < group.first + group.images; image++)
        for (int m = 0; m < channels; m++) {
            size_t at = ((size_t)image * (size_t)s->M + (size_t)(first + m)) * n;
            total[m] += (double)(a->pooled ? sum_of_pooled(a->dY + at, a->pooled + 2 * at, n)
                                           : sum_of(a->dY + at, n));
        }
    for (int m = 0; m < channels; m++) sums[first + m] = (float)total[m];
}

// dY of some images as a matrix (M, images out_pixels). That of a single image is not copied,
// unless it is pooled.
static const float *gather(const struct conv2d_backward_params_args *a, int first, int images,
                           float *to) {
    const Shape *s = &a->s;
    size_t P = out_pixels(s), start = (size_t)first * (size_t)s->M;
    if (images == 1 && !a->pooled) return a->dY + start * P;
    for (int m = 0; m < s->M; m++)
        for (int g = 0; g < images; g++) {
            size_t plane = start + (size_t)g * s->M + m;
            float *mine = to + ((size_t)m * images + g) * P;
            if (a->pooled)
                unpool(s, a->dY + plane * windows_2x2(s), a->pooled + 2 * plane * windows_2x2(s),
                       mine, (size_t)s->out_w);
            else
                memcpy(mine, a->dY + plane * P, sizeof(float) * P);
        }
    return to;
}

// The pixels that the VL weights k, k + 1, ... meet, side by side, in the order of the columns of
// dY's matrix. (After weight `last`, its pixels are repeated.)
static void fill_panel(const Shape *s, Phases f, const float *phases, size_t image, int images,
                       const int *offset, int k, int last, float *to) {
    const float *lane[VL];
    for (int i = 0; i < VL; i++) lane[i] = phases + offset[smaller(k + i, last)];
    for (int g = 0; g < images; g++)
        for (int i = 0; i < s->out_h; i++) {
            size_t row = (size_t)g * image + (size_t)i * (size_t)f.w;
            for (int j = 0; j < s->out_w; j += 4) {
                Vec r[4];
                int count = smaller(4, s->out_w - j);
                load_transposed(lane, row + (size_t)j, r);
                for (int n = 0; n < count; n++, to += VL) vec_to(to, r[n]);
            }
        }
}

// The memory that a thread needs for that, in floats.
typedef struct Room {
    size_t phases, panels, dY;
} Room;

static Room room_for(const Shape *s, Phases f, int images, int channels, bool pooled) {
    size_t pixels = (size_t)images * out_pixels(s), window = (size_t)(s->kernel_h * s->kernel_w);
    return (Room){
        .phases = round_to_vectors((size_t)images * (size_t)channels * f.channel + 4 * VL),
        .panels = round_to_vectors((size_t)channels * window) * pixels,
        .dY = images > 1 || pooled ? round_to_vectors((size_t)s->M * pixels) : 0,
    };
}

// dW of the part's images and channels, written to the columns of dW that belong to these channels.
static void weights_of_part(const struct conv2d_backward_params_args *a, Phases f, Part part,
                            int most, const int *offset, float *dW, float *mine, Room room) {
    const Shape *s = &a->s;
    int window = s->kernel_h * s->kernel_w, weights = part.channels * window;
    float *panels = mine + room.phases;
    size_t image = (size_t)part.channels * f.channel;
    for (int n = 0; n < part.images; n += most) {
        int images = smaller(most, part.images - n), first = part.first + n;
        size_t pixels = (size_t)images * out_pixels(s);
        for (int g = 0; g < images; g++)
            fill_phases(s, f, a->X + (size_t)(first + g) * x_size(s) + (size_t)part.c * s->H * s->W,
                        part.channels, mine + (size_t)g * image);
        for (int k = 0; k < weights; k += VL)
            fill_panel(s, f, mine, image, images, offset, k, weights - 1,
                       panels + (size_t)k * pixels);
        product(&(Product){.A = gather(a, first, images, panels + room.panels),
                           .a_row = pixels,
                           .a_col = 1,
                           .B = panels,
                           .b_block = VL * pixels,
                           .C = dW + (size_t)part.c * (size_t)window,
                           .c_row = w_size(s),
                           .c_block = VL,
                           .rows = s->M,
                           .vectors = divide_up(weights, VL),
                           .depth = (int)pixels,
                           .last = weights % VL,
                           .add = n > 0});
    }
}

// Adds up the parts. Each thread takes a range of the n floats.
static void add_parts(float *parts, size_t stride, int num, size_t n, int threads) {
    int ranges = (int)((n + PARALLEL_FLOATS - 1) / PARALLEL_FLOATS);
#pragma omp parallel for num_threads(threads) schedule(static) if (ranges > 1)
    for (int range = 0; range < ranges; range++) {
        size_t first = (size_t)range * PARALLEL_FLOATS, left = n - first;
        add_halves(parts + first, stride, num, left < PARALLEL_FLOATS ? left : PARALLEL_FLOATS);
    }
}

static Part group_of(const Shape *s, SumTree tree, int group) {
    int first = group * tree.group;
    return (Part){first, smaller(tree.group, s->N - first), 0, s->C};
}

// db without dW, added up as a tree
void windows_backward_bias(CpuLane *lane, const struct conv2d_backward_params_args *a) {
    const Shape *s = &a->s;
    SumTree tree = tree_of_images(s);
    size_t M = (size_t)s->M;
    float *sums = cpu_scratch(lane, sizeof(float) * M * (size_t)tree.groups);
#pragma omp parallel for num_threads(lane->threads) schedule(static) collapse(2)
    for (int group = 0; group < tree.groups; group++)
        for (int m = 0; m < s->M; m += CHANNELS_AT_ONCE)
            channel_sums(a, m, group_of(s, tree, group), sums + (size_t)group * M);
    add_halves(sums, M, tree.groups, M);
    store_sums(a->db, sums, M, a->beta);
}

void windows_backward_params(CpuLane *lane, const struct conv2d_backward_params_args *a) {
    const Shape *s = &a->s;
    SumTree tree = tree_of_images(s);
    Phases f = phases_of(s);
    int images = images_per_product(s, tree.group), channels = channels_per_slice(s);
    int slices = larger(divide_up(s->C, channels), 1), window = s->kernel_h * s->kernel_w;
    Room room = room_for(s, f, images, channels, a->pooled);
    size_t weights = (size_t)s->M * w_size(s), of_part = round_to_vectors(weights + (size_t)s->M);
    size_t of_thread = room.phases + room.panels + room.dY, threads = (size_t)lane->threads;
    size_t offsets = round_to_vectors((size_t)(channels * window));
    int *offset = cpu_scratch(
        lane, sizeof(float) * (offsets + of_thread * threads + of_part * (size_t)tree.groups));
    float *scratch = (float *)offset + offsets, *sums = scratch + of_thread * threads;
    find_offsets(s, f, channels, offset);
    bool nothing = s->N == 0 || s->C == 0 || out_pixels(s) == 0;
    if (nothing) memset(sums, 0, sizeof(float) * of_part * (size_t)tree.groups);
#pragma omp parallel for num_threads(lane->threads) schedule(static) collapse(2)
    for (int group = 0; group < tree.groups; group++)
        for (int slice = 0; slice < slices; slice++) {
            Part part = group_of(s, tree, group);
            part.c = slice * channels;
            part.channels = smaller(channels, s->C - part.c);
            float *mine = scratch + (size_t)omp_get_thread_num() * of_thread;
            float *sum = sums + (size_t)group * of_part;
            weights_of_part(a, f, part, images, offset, sum, mine, room);
            if (!a->db || slice > 0) continue;
            for (int m = 0; m < s->M; m += CHANNELS_AT_ONCE)
                channel_sums(a, m, part, sum + weights);
        }
    add_parts(sums, of_part, tree.groups, weights + (size_t)s->M, lane->threads);
    store_sums(a->dW, sums, weights, a->beta);
    if (a->db) store_sums(a->db, sums + weights, (size_t)s->M, a->beta);
}
