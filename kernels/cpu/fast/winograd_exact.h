// winograd_exact.h: two kinds of pixels in which Winograd's method must not leave its rounding
// errors, because ReLU comes next, and asks for their sign. `full` is what the tiles gave of an
// image's channel, in rows that are `width` floats apart, before the bias is added.
#ifndef KERNELS_CPU_WINOGRAD_EXACT_H
#define KERNELS_CPU_WINOGRAD_EXACT_H

#include "kernels/cpu/cpu.h"

// ---- blank windows
//
// A window whose pixels are all 0 gives exactly the bias. The transforms would leave rounding
// errors of its neighbours in the tile there; and where the bias is 0, as when training begins,
// those would open ReLU's gate at random, for one blank pixel in two. Photographs of clothes are
// mostly blank.

// image (C,H,W): keep[i * width + j] = all bits, or none if the window of output pixel (i,j) is
// blank. Returns whether any is. `seen` has room for H W numbers.
bool find_blanks(const struct conv2d_shape *s, const float *image, size_t width, unsigned *keep,
                 unsigned *seen);
// full = 0 at blank windows
void erase_blanks(const struct conv2d_shape *s, size_t width, const unsigned *keep, float *full);

// ---- pixels next to ReLU's gate
//
// A bias says that no batch norm follows, so that ReLU will ask of this very number whether it is
// positive. Where it is so near to 0 that our rounding errors, larger than those of plain sums, may
// answer for it, it is computed once more, as a plain sum.

// How near that is for an image's channel, by what its tiles of 16 pixels say of theirs: each one's
// sum of squares, and the size of its smallest with its bias. 0 if no pixel is as near.
float limit_near_gate(const float *squares, const float *least, int tiles);

// For channel m of that image, whose blank windows are exact already.
void mend_small_pixels(const struct conv2d_forward_args *a, int image, int m, size_t width,
                       float limit, float *full);

#endif
