// winograd_exact.h: makes two kinds of pixels exact, because ReLU comes next and depends on their
// sign. For blank windows call find_blanks(), then erase_blanks(); for pixels next to 0 call
// limit_near_gate(), then mend_small_pixels(). In all of them `full` is a channel of an image as
// the tiles gave it, before the bias is added, in rows that are `width` floats apart.
#pragma once

#include "kernels/cpu/cpu.h"

// ---- blank windows
//
// A window whose pixels are all 0 gives exactly the bias. The transforms would leave rounding
// errors there, which come from its neighbours in the tile. If the bias is 0, as when training
// begins, these errors would decide at random whether ReLU lets the pixel pass, and half of all
// blank pixels would. Photographs of clothes are mostly blank.

// image (C,H,W): keep[i * width + j] = no bits if the window of output pixel (i,j) is blank, else
// all bits. Returns whether any window is blank. `seen` is scratch memory for H W numbers.
bool find_blanks(const struct conv2d_shape *s, const float *image, size_t width, unsigned *keep,
                 unsigned *seen);
// full = 0 where windows are blank
void erase_blanks(const struct conv2d_shape *s, size_t width, const unsigned *keep, float *full);

// ---- pixels next to ReLU's gate
//
// If a convolution has a bias, no batch norm follows, so ReLU asks whether this very number is
// positive. If the number is so close to 0 that our rounding errors, which are larger than those of
// plain sums, could change its sign, it is computed once more as a plain sum.

// How close that is, for a channel of an image; 0 if no pixel is that close. It follows from its
// tiles of 16 pixels: the sum of squares of each tile, and the least size in it with the bias
// added.
float limit_near_gate(const float *squares, const float *least, int tiles);

// For channel m of that image. Call erase_blanks() before.
void mend_small_pixels(const struct conv2d_forward_args *a, int image, int m, size_t width,
                       float limit, float *full);
