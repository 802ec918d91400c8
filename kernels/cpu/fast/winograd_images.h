// winograd_images.h: images where Winograd's tiles look for them, and back: in place, or copies in
// planes with zeros around them. For winograd.c and winograd_weights.c.
#ifndef KERNELS_CPU_WINOGRAD_IMAGES_H
#define KERNELS_CPU_WINOGRAD_IMAGES_H

#include "winograd_plan.h"

// Zeros for the copies: nothing around the images, or behind the last one, is written later.
float *zeros_for_copies(const Scratch *scratch, Side side, int copies);
// Copies channel c of a chunk's images to where their tiles look for them. There are zeros around
// them already.
void copy_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *images, int c,
                  float *to);
// Channel c of a chunk's images, where tiles can be read: there, or copied to `full`.
const float *planes_to_read(const struct conv2d_shape *s, Side side, Chunk chunk,
                            const float *images, int c, float *full);

// Where a tile of channel m of pooled images is, in place.
INLINE size_t pooled_at(const Side *out, const Scratch *scratch, Chunk chunk, int m, size_t tile) {
    size_t size = (size_t)(out->h / 2) * (size_t)(out->w / 2);
    return ((size_t)chunk.first * (size_t)out->channels + (size_t)m) * size +
           (size_t)scratch->pooled_start[tile];
}

// Lane i is the tile that begins there: forward, Y and gates are written; backward, dY and gates
// are only read.
INLINE void set_lane(PooledTiles *tiles, int i, const float *Y, const unsigned char *gates,
                     size_t at) {
    tiles->Y[i] = (float *)Y + at;
    tiles->gates[i] = (unsigned char *)gates + 2 * at;
}

typedef struct Output {
    float *images;
    const float *bias; // or NULL
    float beta;
    unsigned char *pooled; // or NULL: goes through ReLU and pooling
} Output;

// From `full`, what the tiles have given of channel c, to its images.
void store_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *full, int c,
                   Output out);

#endif
