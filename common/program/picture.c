// picture.c: draws into an array of pixels; stb_truetype draws text, stb_image_write makes the PNG.
#include "picture.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <stb/stb_image_write.h>
#include <stb/stb_truetype.h>

// The font (DejaVu Sans; .make/probe.sh asks fontconfig where it is) is put into the program
// (common/generated.mk), so that pictures look the same wherever it runs.
extern const unsigned char picture_font_file[];

Picture picture_new(int width, int height, Color background) {
    Picture p = {width, height, xmalloc(3 * (size_t)width * (size_t)height)};
    picture_box(&p, 0, 0, width, height, background);
    return p;
}

void picture_free(Picture *picture) {
    free(picture->pixels);
    picture->pixels = NULL;
}

// Mixes the color into a pixel; opacity 0..255.
static void blend(Picture *p, int x, int y, Color color, int opacity) {
    if (x < 0 || y < 0 || x >= p->width || y >= p->height) return;
    uint8_t *pixel = p->pixels + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
    const uint8_t rgb[3] = {color.r, color.g, color.b};
    for (int i = 0; i < 3; i++)
        pixel[i] = (uint8_t)((pixel[i] * (255 - opacity) + rgb[i] * opacity + 127) / 255);
}

void picture_box(Picture *p, int x, int y, int width, int height, Color color) {
    for (int j = y; j < y + height; j++)
        for (int i = x; i < x + width; i++) blend(p, i, j, color, 255);
}

void picture_frame(Picture *p, int x, int y, int width, int height, int thickness, Color color) {
    picture_box(p, x, y, width, thickness, color);
    picture_box(p, x, y + height - thickness, width, thickness, color);
    picture_box(p, x, y, thickness, height, color);
    picture_box(p, x + width - thickness, y, thickness, height, color);
}

// ---- text ------------------------------------------------------------------------------------

static const stbtt_fontinfo *font(void) {
    static stbtt_fontinfo info;
    static bool ready;
    if (!ready && !stbtt_InitFont(&info, picture_font_file, 0))
        die("run `make clean`, then `make setup` and `make`",
            "the font in this program cannot be read");
    ready = true;
    return &info;
}

// Returns the next character of UTF-8 text, and moves on.
static int next_character(const char **text) {
    int c = (unsigned char)*(*text)++;
    int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    if (more) c &= 0x3F >> more;
    for (; more && (**text & 0xC0) == 0x80; more--) c = c << 6 | (*(*text)++ & 0x3F);
    return c;
}

static void draw_glyph(Picture *p, int glyph, float x, int baseline, float scale, Color color) {
    int width, height, left, top;
    float shift = x - floorf(x);
    unsigned char *alpha = stbtt_GetGlyphBitmapSubpixel(font(), scale, scale, shift, 0, glyph,
                                                        &width, &height, &left, &top);
    for (int j = 0; j < height; j++)
        for (int i = 0; i < width; i++)
            blend(p, (int)floorf(x) + left + i, baseline + top + j, color, alpha[j * width + i]);
    stbtt_FreeBitmap(alpha, NULL);
}

static float scale_for(int height) { return stbtt_ScaleForPixelHeight(font(), (float)height); }

int picture_baseline(int y, int height) {
    int ascent;
    stbtt_GetFontVMetrics(font(), &ascent, NULL, NULL);
    return y + (int)((float)ascent * scale_for(height) + 0.5f);
}

float picture_font_size(int height) {
    return scale_for(height) / stbtt_ScaleForMappingEmToPixels(font(), 1);
}

// Draws the text, unless p is NULL. Returns its width.
static int layout(Picture *p, int x, int y, int height, const char *text, Color color) {
    float scale = scale_for(height), at = (float)x;
    int before = 0, baseline = picture_baseline(y, height);
    while (*text) {
        int glyph = stbtt_FindGlyphIndex(font(), next_character(&text)), advance, bearing;
        if (before) at += scale * (float)stbtt_GetGlyphKernAdvance(font(), before, glyph);
        if (p) draw_glyph(p, glyph, at, baseline, scale, color);
        stbtt_GetGlyphHMetrics(font(), glyph, &advance, &bearing);
        at += scale * (float)advance;
        before = glyph;
    }
    return (int)(at - (float)x + 0.5f);
}

int picture_text(Picture *p, int x, int y, int height, const char *text, Color color) {
    return layout(p, x, y, height, text, color);
}

int picture_text_width(const char *text, int height) {
    return layout(NULL, 0, 0, height, text, (Color){0, 0, 0});
}

// ---- values ----------------------------------------------------------------------------------

void picture_values(Picture *p, int x, int y, int zoom, const float *values, int rows, int cols) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            float light = fminf(fmaxf(1 - values[i * cols + j], 0), 1);
            uint8_t level = (uint8_t)(light * 255.0f + 0.5f);
            picture_box(p, x + j * zoom, y + i * zoom, zoom, zoom, (Color){level, level, level});
        }
}

// ---- file ------------------------------------------------------------------------------------

static void write_to_stream(void *stream, void *data, int size) {
    fwrite(data, 1, (size_t)size, stream);
}

void picture_save(const Picture *p, const char *path) {
    OutputFile file = output_open(path);
    if (!stbi_write_png_to_func(write_to_stream, file.stream, p->width, p->height, 3, p->pixels,
                                3 * p->width))
        die("close other programs", "%s: the picture could not be compressed", path);
    output_close(&file); // checks that all was written
}
