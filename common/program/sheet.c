// sheet.c: draws everything twice: into the pixels of the PNG, and as an element of the SVG, whose
// text grows in memory until it is saved.
#include "sheet.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// ---- text in XML -----------------------------------------------------------------------------

// How many bytes the character at this place has. 0 if they are no UTF-8, or no character that XML
// allows.
static int character_length(const unsigned char *at) {
    int length = at[0] < 0x80 ? 1 : at[0] < 0xC2 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    if (at[0] > 0xF4 || (at[0] < 0x20 && at[0] != '\t')) return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    bool overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xED && at[1] > 0x9F;
    bool beyond = at[0] == 0xF4 && at[1] > 0x8F;
    bool no_character = at[0] == 0xEF && at[1] == 0xBF && at[2] > 0xBD; // U+FFFE, U+FFFF
    return overlong || surrogate || beyond || no_character ? 0 : length;
}

// Bytes that are no text become question marks. A name may hold any bytes, and a single one that
// XML does not allow would make the whole file unreadable.
static void write_text(FILE *out, const char *text) {
    while (*text) {
        int length = character_length((const unsigned char *)text);
        const char *escape = *text == '&'   ? "&amp;"
                             : *text == '<' ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        if (length == 0)
            putc('?', out);
        else if (escape)
            fputs(escape, out);
        else
            fwrite(text, 1, (size_t)length, out);
        text += length > 0 ? length : 1;
    }
}

static void write_fill(FILE *out, Color color) {
    fprintf(out, " fill=\"#%02x%02x%02x\"", color.r, color.g, color.b);
}

// ---- drawing ---------------------------------------------------------------------------------

static void box_in_svg(FILE *out, int x, int y, int width, int height, Color color) {
    fprintf(out, "<path d=\"M%d %dh%dv%dh%dz\"", x, y, width, height, -width);
    write_fill(out, color);
    fputs("/>\n", out);
}

Sheet *sheet_new(int width, int height, Color background, const char *about) {
    Sheet *sheet = xcalloc(1, sizeof *sheet);
    sheet->png = picture_new(width, height, background);
    sheet->svg = open_memstream(&sheet->svg_text, &sheet->svg_size);
    if (!sheet->svg) die("close other programs", "there is no memory for a picture");
    fprintf(sheet->svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" class=\"timeline\" "
            "viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans, Verdana, sans-serif\" "
            "role=\"img\" aria-label=\"",
            width, height);
    write_text(sheet->svg, about);
    // Elements without a title let the mouse through to the bar below them, so that a name on a bar
    // does not hide the bar's title. (The class is there because the SVG may become part of a page,
    // whose other elements are to stay as they are.)
    fputs("\">\n<style>.timeline path, .timeline text { pointer-events: none }</style>\n",
          sheet->svg);
    box_in_svg(sheet->svg, 0, 0, width, height, background);
    return sheet;
}

void sheet_free(Sheet *sheet) {
    picture_free(&sheet->png);
    fclose(sheet->svg);
    free(sheet->svg_text);
    free(sheet);
}

void sheet_box(Sheet *sheet, int x, int y, int width, int height, Color color) {
    picture_box(&sheet->png, x, y, width, height, color);
    box_in_svg(sheet->svg, x, y, width, height, color);
}

int sheet_text(Sheet *sheet, int x, int y, int height, const char *text, Color color) {
    int width = picture_text(&sheet->png, x, y, height, text, color);
    FILE *out = sheet->svg;
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"%.4g\"", x, picture_baseline(y, height),
            (double)picture_font_size(height));
    if (width > 0) fprintf(out, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"", width);
    write_fill(out, color);
    putc('>', out);
    write_text(out, text);
    fputs("</text>\n", out);
    return width;
}

void sheet_bar(Sheet *sheet, double left, double right, int y, int height, Color color,
               const char *title) {
    FILE *out = sheet->svg;
    fprintf(out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"", left, y, right - left,
            height);
    write_fill(out, color);
    fputs("><title>", out);
    write_text(out, title);
    fputs("</title></rect>\n", out);
}

// ---- files -----------------------------------------------------------------------------------

static bool ends_with(const char *path, const char *suffix) {
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

char *sheet_svg_path(const char *path) {
    if (ends_with(path, ".svg")) return NULL;
    size_t length = strlen(path);
    return xprintf("%.*s.svg", (int)(ends_with(path, ".png") ? length - 4 : length), path);
}

void sheet_save(Sheet *sheet, const char *path) {
    char *beside = sheet_svg_path(path);
    bool only_svg = ends_with(path, ".svg");
    const char *svg = only_svg ? path : beside;
    if (!only_svg) picture_save(&sheet->png, path);
    if (svg) {
        fputs("</svg>\n", sheet->svg);
        if (fflush(sheet->svg) != 0 || ferror(sheet->svg))
            die("close other programs", "%s: there is no memory for the picture", svg);
        OutputFile file = output_open(svg);
        fwrite(sheet->svg_text, 1, sheet->svg_size, file.stream);
        output_close(&file); // checks that all was written
    }
    free(beside);
}
