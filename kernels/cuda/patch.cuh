// patch.cuh: which pixels a tile of a convolution's output needs. patch.cu and patch_weights.cu
// copy them into shared memory once, a *patch*, and read them there for each tap of the kernel.
#pragma once

#include "mma.cuh"

constexpr int MAX_TAPS = 9;

// A convolution is swept by a grid of output pixels, and for each there is a window of input
// pixels, one for each tap. For the forward pass the grid is Y. For the gradient by the input, the
// "input" is dY and the "output" dX; with stride 2 its pixels (0,0), (0,2), ... are reached by
// other taps than (0,1), (0,3), ..., so there are four sweeps.
//
// Images have borders of zeros, `rows` x `cols` pixels with them, and the rows of all images are
// counted through: row r of image i is row i * rows + r. A tile of pixels side by side needs some
// of these rows in a row, the patch.
struct Sweep {
    int taps, offset[MAX_TAPS]; // of each tap from the first one in a patch, in pixels
    int weight[MAX_TAPS];       // its number in the kernel
    int first_tap;              // taps of the sweeps before this one
    int top, left;         // the image's pixel at row 0, column 0; negative if a border is there
    int patch_rows;        // the most that a tile needs
    int stride, step;      // from one window to the next in a patch; from pixel to pixel
    int out_top, out_left; // the output pixel of the grid's pixel (0,0)
    unsigned pixels;       // of the grid, in all images
    struct Divisor plane, width, rows, cols; // of the grid, of an image with borders
};

// Taps of one dimension that belong to a sweep, and the window's first pixel.
struct Taps {
    int n, tap[3], at[3], first, span, out_first, grid;
};

// Fills in what the taps of both dimensions together say. Returns the pixels of a patch.
static inline int plan_sweep(struct Sweep *s, int images, const struct Taps *h,
                             const struct Taps *w, int kernel_w, int stride, int step, int tile) {
    const int rows = (h->grid - 1) * stride + h->span, cols = (w->grid - 1) * stride + w->span;
    s->taps = 0;
    for (int i = 0; i < h->n; i++)
        for (int j = 0; j < w->n; j++) {
            s->offset[s->taps] = h->at[i] * cols + w->at[j];
            s->weight[s->taps++] = h->tap[i] * kernel_w + w->tap[j];
        }
    s->top = h->first;
    s->left = w->first;
    s->stride = stride;
    s->step = step;
    s->out_top = h->out_first;
    s->out_left = w->out_first;
    s->pixels = index_count((size_t)images * h->grid * w->grid);
    s->plane = divisor((size_t)h->grid * w->grid);
    s->width = divisor(w->grid);
    s->rows = divisor(rows);
    s->cols = divisor(cols);
    if (s->pixels == 0) return s->patch_rows = 0;
    // The tile touches at most `lines` lines of the grid, beginning with any.
    const int lines = (tile + w->grid - 2) / w->grid + 1;
    s->patch_rows = 0;
    for (int line = 0; line < h->grid; line++) {
        const int last = line + lines - 1;
        const int end = last / h->grid * rows + last % h->grid * stride + h->span;
        if (end - line * stride > s->patch_rows) s->patch_rows = end - line * stride;
    }
    return s->patch_rows * cols;
}

// The sweep of a forward pass, and of the gradient by the weights. With one tap, a patch has only
// the pixels that are needed; with more, those between them too.
static inline struct Taps forward_taps(int kernel, int pad, int out) {
    return {kernel, {0, 1, 2}, {0, 1, 2}, -pad, kernel, 0, out};
}

static inline int plan_forward(struct Sweep *s, const struct conv2d_shape *c, int tile) {
    const struct Taps h = forward_taps(c->kernel_h, c->pad_h, c->out_h);
    const struct Taps w = forward_taps(c->kernel_w, c->pad_w, c->out_w);
    const bool one = c->kernel_h * c->kernel_w == 1;
    return plan_sweep(s, c->N, &h, &w, c->kernel_w, one ? 1 : c->stride_h, one ? c->stride_h : 1,
                      tile);
}

// The sweep over pixels h of dX (H rows) with (h + pad) % stride == rest. They are reached by the
// taps rest, rest + stride, ...: pixel stride * q + rest - pad of dX by pixels q, q - 1, ... of dY.
static inline struct Taps gradient_taps(int kernel, int pad, int stride, int rest, int H) {
    struct Taps t = {};
    t.n = (kernel - rest + stride - 1) / stride;
    const int q = pad > rest ? (pad - rest + stride - 1) / stride : 0;
    t.out_first = stride * q + rest - pad;
    t.grid = H > t.out_first ? (H - t.out_first + stride - 1) / stride : 0;
    t.first = q - (t.n - 1);
    t.span = t.n > 0 ? t.n : 1;
    for (int i = 0; i < t.n; i++) {
        t.tap[i] = rest + stride * (t.n - 1 - i);
        t.at[i] = i;
    }
    return t;
}

static inline int plan_gradient(struct Sweep *s, const struct conv2d_shape *c, int rest_h,
                                int rest_w, int tile) {
    const struct Taps h = gradient_taps(c->kernel_h, c->pad_h, c->stride_h, rest_h, c->H);
    const struct Taps w = gradient_taps(c->kernel_w, c->pad_w, c->stride_w, rest_w, c->W);
    return plan_sweep(s, c->N, &h, &w, c->kernel_w, 1, 1, tile);
}

// The pixel of a grid where a patch begins, and the row of all images with borders that it is in.
static inline __device__ unsigned patch_begin(const struct Sweep &s, unsigned pixel) {
    const auto [image, inner] = split(pixel, s.plane);
    return image * s.rows.n + split(inner, s.width).quotient * s.stride;
}

// Where this pixel's window begins in the patch that begins with row `begin`.
static inline __device__ int window_in_patch(const struct Sweep &s, unsigned pixel,
                                             unsigned begin) {
    const auto [line, col] = split(pixel, s.width);
    (void)line;
    return (int)((patch_begin(s, pixel) - begin) * s.cols.n + col * s.stride);
}

// Which pixel of channel 0 of all images (channels,H,W) is at `position` of that patch; -1 in
// borders and behind the last image.
static inline __device__ int pixel_at(const struct Sweep &s, unsigned begin, unsigned position,
                                      int images, int channels, int H, int W) {
    const auto [r, col] = split(position, s.cols);
    const auto [image, row] = split(begin + r, s.rows);
    const int h = (int)row * s.step + s.top, w = (int)col * s.step + s.left;
    const bool inside = image < (unsigned)images && 0 <= h && h < H && 0 <= w && w < W;
    return inside ? ((int)image * channels * H + h) * W + w : -1;
}
