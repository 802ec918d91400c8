// sheet.h: one picture as two files, a PNG (picture.h) and an SVG. The SVG stays sharp however far
// you zoom in, and its bars say what they are when the mouse is over them. Make a sheet with
// sheet_new(), draw into it, write both files with sheet_save(), and sheet_free() it.
//
// What is drawn goes into both, at the same place and in the same color. The SVG has a white
// background, so it looks the same on a light and on a dark page. It has no width and height, so it
// is as wide as there is room. It has no script.
#pragma once

#include <stdio.h>
#include "picture.h"

typedef struct Sheet {
    Picture png;
    FILE *svg;      // writes into memory:
    char *svg_text; // what svg has flushed
    size_t svg_size;
} Sheet;

// `about` is what a screen reader says about the SVG.
Sheet *sheet_new(int width, int height, Color background, const char *about);
void sheet_free(Sheet *sheet);

void sheet_box(Sheet *sheet, int x, int y, int width, int height, Color color);
// As picture_text(). In the SVG it is as wide as in the PNG, whatever font is there.
int sheet_text(Sheet *sheet, int x, int y, int height, const char *text, Color color);
// Draws a box from `left` to `right` that shows `title` under the mouse, in the SVG only. The
// caller draws into the pixels of the PNG.
void sheet_bar(Sheet *sheet, double left, double right, int y, int height, Color color,
               const char *title);

// The path of the SVG beside this PNG: "F.svg" for "F.png", and also for any other name F. free()
// it. NULL if the path ends with .svg, and there is no PNG.
char *sheet_svg_path(const char *path);
// Writes both, each whole or not at all; die()s if that fails.
void sheet_save(Sheet *sheet, const char *path);
