// winograd_exact.c: finds the pixels in which Winograd's rounding errors would matter, and computes
// them exactly.
#include "winograd_exact.h"

#include <float.h>
#include <math.h>
#include <string.h>

// ---- blank windows -----------------------------------------------------------------------------

typedef unsigned Word __attribute__((may_alias));

// seen[i] becomes 0 if pixel i is 0 (or -0) in all channels. Returns whether there is such a pixel.
// Most images deep in a network have none, and a few channels are enough to see that.
static bool has_blank_pixels(const struct conv2d_shape *s, const float *image, unsigned *seen) {
    int pixels = s->H * s->W, blank = pixels;
    memset(seen, 0, sizeof *seen * (size_t)pixels);
    for (int c = 0; c < s->C && blank > 0; c++, image += pixels) {
        const Word *bits = (const Word *)image;
        blank = 0;
        for (int i = 0; i < pixels; i++) {
            seen[i] |= bits[i] << 1;
            blank += seen[i] == 0;
        }
    }
    return blank > 0;
}

bool find_blanks(const struct conv2d_shape *s, const float *image, size_t width, unsigned *keep,
                 unsigned *seen) {
    if (!has_blank_pixels(s, image, seen)) return false;
    unsigned any_blank = 0;
    for (int i = 0; i < s->out_h; i++, keep += width) {
        memset(keep, 0, sizeof *keep * (size_t)s->out_w);
        for (int p = 0; p < s->kernel_h; p++) {
            int h = i + p - s->pad_h;
            if (h < 0 || h >= s->H) continue;
            for (int q = 0; q < s->kernel_w; q++) {
                int first = larger(s->pad_w - q, 0), end = smaller(s->W + s->pad_w - q, s->out_w);
                const unsigned *from = seen + h * s->W + q - s->pad_w;
                for (int j = first; j < end; j++) keep[j] |= from[j];
            }
        }
        for (int j = 0; j < s->out_w; j++) {
            keep[j] = keep[j] ? ~0u : 0;
            any_blank |= ~keep[j];
        }
    }
    return any_blank != 0;
}

void erase_blanks(const struct conv2d_shape *s, size_t width, const unsigned *keep, float *full) {
    for (int h = 0; h < s->out_h; h++, full += width, keep += width) {
        Word *row = (Word *)full;
        for (int w = 0; w < s->out_w; w++) row[w] &= keep[w];
    }
}

// ---- pixels next to ReLU's gate ----------------------------------------------------------------

static double plain_sum(const struct conv2d_shape *s, const float *X, const float *W, int i,
                        int j) {
    double sum = 0;
    for (int c = 0; c < s->C; c++)
        for (int p = 0; p < s->kernel_h; p++)
            for (int q = 0; q < s->kernel_w; q++) {
                int h = i + p - s->pad_h, w = j + q - s->pad_w;
                if (h >= 0 && h < s->H && w >= 0 && w < s->W)
                    sum += (double)W[(c * s->kernel_h + p) * s->kernel_w + q] *
                           X[(c * s->H + h) * s->W + w];
            }
    return sum;
}

// Relative to the usual size of a pixel. The largest errors are a quarter of this.
static const float NEAR = 1e-4f;

float limit_near_gate(const float *squares, const float *least, int tiles) {
    float sum = 0, smallest = FLT_MAX;
    for (int i = 0; i < tiles; i++) {
        sum += squares[i];
        smallest = least[i] < smallest ? least[i] : smallest;
    }
    float limit = NEAR * sqrtf(sum / (16 * (float)tiles));
    return smallest < limit ? limit : 0;
}

void mend_small_pixels(const struct conv2d_forward_args *a, int image, int m, size_t width,
                       float limit, float *full) {
    const struct conv2d_shape *s = &a->s;
    const float *X = a->X + (size_t)image * (size_t)(s->C * s->H * s->W);
    const float *W = a->W + (size_t)m * (size_t)(s->C * s->kernel_h * s->kernel_w);
    for (int h = 0; h < s->out_h; h++, full += width)
        for (int w = 0; w < s->out_w; w++)
            if (fabsf(full[w] + a->b[m]) < limit && full[w] != 0)
                full[w] = (float)plain_sum(s, X, W, h, w);
}
