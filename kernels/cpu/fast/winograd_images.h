// winograd_images.h: brings images to where Winograd's tiles read them, and results back. Tiles
// read images in place if they cover them exactly; else from copies in planes with zeros around
// them. To read a channel, call zeros_for_copies() once, then planes_to_read(). For winograd.c and
// winograd_weights.c.
#pragma once

#include "winograd_plan.h"

// Memory for `copies` channels, set to 0 because nothing around the images, or behind the last one,
// is written later. (In place, it is not set to 0.)
float *zeros_for_copies(const Scratch *scratch, Side side, int copies);
// Copies channel c of a chunk's images to where their tiles read them. The zeros around them are
// already there.
void copy_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *images, int c,
                  float *to);
// Channel c of a chunk's images, where tiles can read it: in place, or copied to `full`.
const float *planes_to_read(const struct conv2d_shape *s, Side side, Chunk chunk,
                            const float *images, int c, float *full);

// Where a tile of channel m of pooled images begins, in place.
INLINE size_t pooled_at(const Side *out, const Scratch *scratch, Chunk chunk, int m, size_t tile) {
    size_t size = (size_t)(out->h / 2) * (size_t)(out->w / 2);
    return ((size_t)chunk.first * (size_t)out->channels + (size_t)m) * size +
           (size_t)scratch->pooled_start[tile];
}

// Lane i becomes the tile that begins at Y + at. Forward, Y and gates are written; backward, they
// are dY and gates, and only read.
INLINE void set_lane(PooledTiles *tiles, int i, const float *Y, const unsigned char *gates,
                     size_t at) {
    tiles->Y[i] = (float *)Y + at;
    tiles->gates[i] = (unsigned char *)gates + 2 * at;
}

typedef struct Output {
    float *images;
    const float *bias; // or NULL
    float beta;
    unsigned char *pooled; // or NULL; if not, ReLU and pooling are applied
} Output;

// Writes channel c to its images, from `full`, where the tiles have written it.
void store_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *full, int c,
                   Output out);
