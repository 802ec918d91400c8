// timeline.c: see timeline.h.
#include "timeline.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/book.h"
#include "common/program/picture.h"
#include "bubble.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Color WHITE = {255, 255, 255}, BLACK = {30, 30, 30}, IDLE = {238, 238, 238},
                   GRID = {205, 205, 205};

// Told apart by those who see no red and green, and in print without colors.
static const struct {
    const char *kind, *text;
    Color color;
} KINDS[] = {
    {"forward", "forward", {86, 180, 233}},
    {"backward", "backward", {230, 159, 0}},
    {"exchange", "exchange between devices", {0, 90, 70}},
    {"load", "load the minibatch", {90, 90, 90}},
    {"update", "update", {204, 121, 167}},
};
enum { NUM_KINDS = 5 };

enum {
    WIDTH = 1900,
    LEFT = 130,
    RIGHT = 50,
    HEAD = 128,
    TITLE = 48,
    LANE = 46,
    GAP = 6,
    BELOW = 34,
    AXIS = 90
};

static int at_time(double seconds, double scale) { return LEFT + (int)(seconds * scale + 0.5); }

static void draw_legend(Picture *p, int x, int y) {
    for (int i = 0; i <= NUM_KINDS; i++) {
        const char *text = i < NUM_KINDS ? KINDS[i].text : "idle";
        picture_box(p, x, y, 30, 24, i < NUM_KINDS ? KINDS[i].color : IDLE);
        picture_text(p, x + 40, y, 24, text, BLACK);
        x += 40 + picture_text_width(text, 24) + 44;
    }
}

static void draw_box(Picture *p, int y, const TraceSpan *span, double scale) {
    int left = at_time(span->start, scale), right = at_time(span->end, scale);
    for (int i = 0; i < NUM_KINDS; i++)
        if (span_is(span, KINDS[i].kind))
            picture_box(p, left, y, right > left ? right - left : 1, LANE, KINDS[i].color);
}

// The number of the microbatch, or the layer, where there is room for it.
static void draw_detail(Picture *p, int y, const char *label, int left, int right) {
    const char *detail = strchr(label, ' ');
    enum { HEIGHT = 24 };
    if (!detail) return;
    int width = picture_text_width(detail + 1, HEIGHT);
    if (width + 6 <= right - left)
        picture_text(p, left + (right - left - width) / 2, y + (LANE - HEIGHT) / 2 - 1, HEIGHT,
                     detail + 1, BLACK);
}

// The end of a piece: of the spans from `first` on that are of one device, have one label, and
// follow each other closely. In seconds; sets `next` to the span after these.
static double end_of_piece(const Recorded *r, int first, double close, int *next) {
    double end = r->spans[first].end;
    int i = first + 1;
    for (; i < r->count && r->spans[i].device == r->spans[first].device &&
           r->spans[i].label == r->spans[first].label && r->spans[i].start - end < close;
         i++)
        end = r->spans[i].end;
    *next = i;
    return end;
}

static void draw_lane(Picture *p, int y, const Recorded *r, const Device *device, double scale,
                      int end) {
    enum { SEAM = 2 }; // pixels between two pieces
    picture_text(p, 24, y + 9, 26, device_name(device), BLACK);
    picture_box(p, LEFT, y, end - LEFT, LANE, IDLE);
    for (int i = 0; i < r->count; i++)
        if (r->spans[i].device == device) draw_box(p, y, &r->spans[i], scale);
    for (int i = 0, next; i < r->count; i = next) {
        double piece_end = end_of_piece(r, i, 3 / scale, &next);
        int left = at_time(r->spans[i].start, scale), right = at_time(piece_end, scale);
        if (r->spans[i].device != device || right - left < 4 * SEAM) continue;
        picture_box(p, right - SEAM, y, SEAM, LANE, WHITE);
        draw_detail(p, y, r->spans[i].label, left, right);
    }
}

// A distance between marks that leaves at most twelve of them: 1, 2 or 5 times a power of ten.
static double mark_every(double length) {
    double step = pow(10, floor(log10(length / 12)));
    while (length / step > 12)
        step *= length / (2 * step) <= 12 ? 2 : length / (5 * step) <= 12 ? 5 : 10;
    return step;
}

static void draw_axis(Picture *p, int top, int bottom, double length, double scale) {
    double step = mark_every(1e3 * length);
    for (int i = 0; i * step <= 1e3 * length; i++) {
        int x = at_time(1e-3 * i * step, scale);
        char text[32];
        snprintf(text, sizeof text, "%g", i * step);
        picture_box(p, x, top, 1, bottom - top, GRID);
        picture_box(p, x, bottom, 2, 10, BLACK);
        picture_text(p, x - picture_text_width(text, 24) / 2, bottom + 14, 24, text, BLACK);
    }
    picture_box(p, LEFT, bottom, WIDTH - LEFT - RIGHT, 2, BLACK);
    const char *label = "milliseconds since the step began";
    picture_text(p, LEFT + (WIDTH - LEFT - RIGHT - picture_text_width(label, 24)) / 2, bottom + 46,
                 24, label, BLACK);
}

static void draw_timeline(const char *path, const char *heading, const Recorded steps[],
                          int num_steps) {
    double longest = 0;
    int height = HEAD + AXIS;
    for (int i = 0; i < num_steps; i++) {
        longest = fmax(longest, recorded_seconds(&steps[i]));
        height += TITLE + steps[i].k * (LANE + GAP) + BELOW;
    }
    double scale = (WIDTH - LEFT - RIGHT) / longest;
    Picture p = picture_new(WIDTH, height, WHITE);
    picture_text(&p, 24, 18, 34, heading, BLACK);
    draw_legend(&p, 24, 76);
    draw_axis(&p, HEAD, height - AXIS, longest, scale);
    for (int i = 0, y = HEAD; i < num_steps; i++) {
        picture_box(&p, 0, y + 4, WIDTH, TITLE - 8, WHITE); // the grid stays out of the title
        picture_text(&p, 24, y + 10, 28, steps[i].title, BLACK);
        y += TITLE;
        for (int d = 0; d < steps[i].k; d++, y += LANE + GAP)
            draw_lane(&p, y, &steps[i], steps[i].devices[d], scale,
                      at_time(recorded_seconds(&steps[i]), scale));
        y += BELOW;
    }
    picture_save(&p, path);
    picture_free(&p);
}

void draw_steps(const char *suffix, const char *heading, const Recorded steps[], int n) {
    const char *path = book_output(suffix);
    draw_timeline(path, heading, steps, n);
    printf("%s: %s\n", heading, path);
}

void show_timeline(const Problem *problem, int k) {
    Recorded steps[NUM_STRATEGIES];
    int n = 0;
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        if (k > strategies[i]->most_devices(problem->network)) continue;
        Recorded r = record_step(problem, strategies[i], k);
        r.title = xprintf("%s%s: %.1f ms, idle %.0f%%", strategies[i]->name,
                          strategies[i] == &across_layers ? " (numbers: microbatches)" : "",
                          1e3 * recorded_seconds(&r), 100 * idle_share(&r));
        steps[n++] = r;
    }
    char *cores =
        crowded(k) ? xprintf(" that share %d core%s", num_threads(), num_threads() > 1 ? "s" : "")
                   : xstrdup("");
    char *heading = xprintf("One step of %s, %d images, on %d devices%s", problem->network->name,
                            problem->X->shape[0], k, cores);
    char *suffix = xprintf("_timeline_%d.png", k);
    draw_steps(suffix, heading, steps, n);
    for (int i = 0; i < n; i++) recorded_free(&steps[i]);
    free(cores);
    free(heading);
    free(suffix);
}
