// picture.h: small pictures. Make one with picture_new(), draw boxes, text and values into it,
// write it as PNG with picture_save(), and picture_free() it. (sheet.h draws the same as SVG, too.)
#pragma once

#include <stdint.h>

typedef struct Color {
    uint8_t r, g, b;
} Color;

typedef struct Picture {
    int width, height;
    uint8_t *pixels; // RGB, row by row
} Picture;

Picture picture_new(int width, int height, Color background);
void picture_free(Picture *picture);

// What is outside of the picture is cut off, here and below.
void picture_box(Picture *p, int x, int y, int width, int height, Color color);
// A frame of the given thickness just inside that rectangle.
void picture_frame(Picture *p, int x, int y, int width, int height, int thickness, Color color);

// One line of text (UTF-8); (x, y) is the upper left corner of its line, `height` pixels
// high. Returns its width.
int picture_text(Picture *p, int x, int y, int height, const char *text, Color color);
int picture_text_width(const char *text, int height);
// For the same text in an SVG: where its baseline is, and the size of its font (its em), in pixels.
int picture_baseline(int y, int height);
float picture_font_size(int height);

// rows x cols values, each a square of `zoom` pixels: 0 is white, 1 black, as ink on paper. (Images
// of the data set are white on black.)
void picture_values(Picture *p, int x, int y, int zoom, const float *values, int rows, int cols);

// Writes the PNG, whole or not at all; die()s if that fails.
void picture_save(const Picture *p, const char *path);
