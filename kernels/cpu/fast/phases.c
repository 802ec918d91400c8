// phases.c: sorts the pixels of an image into phases, each of which a convolution with strides
// reads in order, with zeros for the padding. convolution.h defines a phase.
#include "convolution.h"

typedef struct conv2d_shape Shape;

Phases phases_of(const Shape *s) {
    Phases f = {
        .rows = smaller(s->stride_h, s->kernel_h),
        .cols = smaller(s->stride_w, s->kernel_w),
        .h = s->out_h + (s->kernel_h - 1) / s->stride_h,
        .w = s->out_w + (s->kernel_w - 1) / s->stride_w,
    };
    f.channel = (size_t)f.rows * (size_t)f.cols * (size_t)f.h * (size_t)f.w;
    return f;
}

static int phase_offset(const Shape *s, Phases f, int k) {
    int q = k % s->kernel_w, p = k / s->kernel_w % s->kernel_h, c = k / s->kernel_w / s->kernel_h;
    int phase = (p % s->stride_h) * f.cols + q % s->stride_w;
    return c * (int)f.channel + (phase * f.h + p / s->stride_h) * f.w + q / s->stride_w;
}

void find_offsets(const Shape *s, Phases f, int channels, int *offset) {
    int n = channels * s->kernel_h * s->kernel_w;
    for (int k = 0; k < n; k++) offset[k] = phase_offset(s, f, k);
}

// Copies four at a time, reading eight. For the last four it would read a pixel too many, so they
// are copied one by one.
static void copy_every_second(float *to, const float *from, int n) {
    int i = 0;
    for (; i + 4 < n; i += 4) {
        Quad a = quad_at(from + 2 * i), b = quad_at(from + 2 * i + 4);
        quad_to(to + i, SHUFFLE(QuadBits, a, b, 0, 2, 4, 6));
    }
    for (; i < n; i++) to[i] = from[2 * i];
}

// In a phase of columns b, b + stride_w, ... the places first <= x < end are pixels of the image;
// the others are padding.
typedef struct Columns {
    int b, first, end;
} Columns;

static Columns columns_of(const Shape *s, Phases f, int b) {
    int stride = s->stride_w;
    return (Columns){b, divide_up(larger(s->pad_w - b, 0), stride),
                     smaller(divide_up(larger(s->W + s->pad_w - b, 0), stride), f.w)};
}

// Copies row `row` of an image to a row of a phase. A row outside the image becomes zeros.
static void fill_row(const Shape *s, Phases f, const float *image, int row, Columns c, float *to) {
    int stride = s->stride_w, first = c.first, end = c.end;
    if (row < 0 || row >= s->H || end <= first)
        first = end = f.w;
    else
        image += (ptrdiff_t)row * s->W + (ptrdiff_t)first * stride - s->pad_w + c.b;
    for (int x = 0; x < first; x++) to[x] = 0;
    if (stride == 1)
        copy_floats(to + first, image, end - first);
    else if (stride == 2)
        copy_every_second(to + first, image, end - first);
    else
        for (int x = first; x < end; x++) to[x] = image[(ptrdiff_t)(x - first) * stride];
    for (int x = end; x < f.w; x++) to[x] = 0;
}

void fill_phases(const Shape *s, Phases f, const float *X, int channels, float *to) {
    for (int c = 0; c < channels; c++, X += s->H * s->W)
        for (int a = 0; a < f.rows; a++)
            for (int b = 0; b < f.cols; b++) {
                Columns columns = columns_of(s, f, b);
                for (int y = 0; y < f.h; y++, to += f.w)
                    fill_row(s, f, X, y * s->stride_h + a - s->pad_h, columns, to);
            }
}
