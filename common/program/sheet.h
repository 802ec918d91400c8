// sheet.h: one picture as two files: a PNG (picture.h), and beside it the same as SVG, which stays
// sharp however far one zooms in, and whose bars say what they are when the mouse is over them.
// Make one with sheet_new(), draw into it, write both files with sheet_save(), and sheet_free() it.
//
// What is drawn goes into both, at the same place and in the same color. The SVG has a white
// background of its own, so it looks the same on a light and on a dark page; no width and height,
// so it is as wide as there is room; and no script.
#ifndef SHEET_H
#define SHEET_H

#include <stdio.h>
#include "picture.h"

typedef struct Sheet {
    Picture png;
    FILE *svg;      // into memory:
    char *svg_text; // its text, as far as svg was flushed
    size_t svg_size;
} Sheet;

// `about` is what the SVG says of itself to those who cannot see it.
Sheet *sheet_new(int width, int height, Color background, const char *about);
void sheet_free(Sheet *sheet);

void sheet_box(Sheet *sheet, int x, int y, int width, int height, Color color);
// As picture_text(). In the SVG it is as wide as in the PNG, whatever font is there.
int sheet_text(Sheet *sheet, int x, int y, int height, const char *text, Color color);
// In the SVG alone: a box from `left` to `right` that shows `title` under the mouse. The caller
// draws into the pixels of the PNG.
void sheet_bar(Sheet *sheet, double left, double right, int y, int height, Color color,
               const char *title);

// The path of the SVG beside this PNG: "F.svg" for "F.png", and also for any other name F. free()
// it. NULL if there is nothing beside it, because the PNG is written directly, as into a pipe
// (file.h), or because the path ends with .svg, so that there is no PNG.
char *sheet_svg_path(const char *path);
// Writes both, each whole or not at all; die()s if that fails.
void sheet_save(Sheet *sheet, const char *path);

#endif
