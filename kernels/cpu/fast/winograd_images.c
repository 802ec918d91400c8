// winograd_images.c: copies channels of images into planes with zeros around them, and results
// back.
#include "winograd_images.h"
#include "convolution.h"

#include <string.h>

float *zeros_for_copies(const Scratch *scratch, Side side, int copies) {
    float *full = planes_of_member(scratch);
    if (!side.in_place) memset(full, 0, sizeof(float) * scratch->full * (size_t)copies);
    return full;
}

// Prefetches a channel of an image that is needed soon. Images are larger than the core's cache,
// and if channels are short, the processor does not guess which comes next. (Of a large channel,
// the beginning is enough.)
#define SEND_FOR(plane, size, write)                                                               \
    for (size_t at = 0; at < (size) && at < 1024; at += 16) __builtin_prefetch((plane) + at, write)

void copy_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *images, int c,
                  float *to) {
    int rows = smaller(side.h, side.full_h - side.pad_h);
    int cols = smaller(side.w, side.full_w - side.pad_w);
    size_t size = (size_t)side.h * (size_t)side.w, width = (size_t)side.full_w;
    to += (size_t)side.pad_h * width + (size_t)side.pad_w;
    for (int image = 0; image < chunk.images; image++, to += full_size(side)) {
        size_t plane = (size_t)(chunk.first + image) * side.channels + c;
        if (side.pooled) { // few bytes: the beginning of the next channel is prefetched
            __builtin_prefetch(images + (plane + 1) * size / 4);
            __builtin_prefetch(side.pooled + (plane + 1) * size / 2);
            unpool(s, images + plane * size / 4, side.pooled + plane * size / 2, to, width);
            continue;
        }
        const float *from = images + plane * size;
        SEND_FOR(from + COPIES_AT_ONCE * size, size, false);
        for (int h = 0; h < rows; h++)
            copy_floats(to + (size_t)h * width, from + (size_t)h * side.w, cols);
    }
}

const float *planes_to_read(const struct conv2d_shape *s, Side side, Chunk chunk,
                            const float *images, int c, float *full) {
    size_t size = (size_t)side.h * (size_t)side.w;
    if (side.in_place) return images + ((size_t)chunk.first * side.channels + c) * size;
    copy_channel(s, side, chunk, images, c, full);
    return full;
}

// A row of `count` pixels = from + bias, or += if beta is not 0. Tiles cover only the first
// `covered` pixels; `from` counts as 0 in the others.
static void store_row(float *to, const float *from, int count, int covered, float bias,
                      float beta) {
    for (int w = 0; w < covered; w++) to[w] = beta != 0 ? to[w] + (from[w] + bias) : from[w] + bias;
    for (int w = covered; w < count; w++) to[w] = beta != 0 ? to[w] + bias : bias;
}

void store_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *full, int c,
                   Output out) {
    size_t size = (size_t)side.h * (size_t)side.w, width = (size_t)side.full_w;
    int rows = smaller(side.h, side.full_h - side.pad_h);
    int cols = smaller(side.w, side.full_w - side.pad_w);
    float bias = out.bias ? out.bias[c] : 0;
    for (int image = 0; image < chunk.images; image++, full += full_size(side)) {
        size_t plane = (size_t)(chunk.first + image) * side.channels + c;
        if (out.pooled) {
            relu_and_pool(s, full, width, bias, out.images + plane * size / 4,
                          out.pooled + plane * size / 2);
            continue;
        }
        SEND_FOR(out.images + (plane + 1) * size, size, true);
        for (int h = 0; h < side.h; h++) {
            float *to = out.images + plane * size + (size_t)h * side.w;
            store_row(to, full + (size_t)(h + side.pad_h) * width + side.pad_w, side.w,
                      h < rows ? cols : 0, bias, out.beta);
        }
    }
}
