// timeline.c: draws traces as pictures. The work of a lane is columns of pixels in the PNG, and
// bars (bars.h) in the SVG. Names, seams between pieces of work, the legend and the axis are the
// same in both (sheet.h).
#include "timeline.h"
#include "bars.h"
#include "common/base/error.h"
#include "sheet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what is drawn ---------------------------------------------------------------------------

// The first step of the training that comes after `step`; 0: none.
static long step_after(const SpanSet *set, int training, long step) {
    long next = 0;
    for (int i = 0; i < set->count; i++) {
        const TraceSpan *span = &set->spans[i];
        bool comes_after = span->training == training && span->step > step;
        if (comes_after && (next == 0 || span->step < next)) next = span->step;
    }
    return next;
}

Timeline timeline_of(SpanSet set) {
    int training = 0; // the last one; 0: none
    for (int i = 0; i < set.count; i++)
        if (set.spans[i].training > training) training = set.spans[i].training;
    long first = training > 0 ? step_after(&set, training, 0) : 0;
    long second = first > 0 ? step_after(&set, training, first) : 0;
    long step = second > 0 ? second : first;
    Timeline t = {.set = set, .start = INFINITY, .end = 0};
    for (int i = 0; i < set.count; i++) {
        const TraceSpan *span = &set.spans[i];
        if (step > 0 && (span->step != step || span->training != training)) continue;
        t.start = fmin(t.start, span->start);
        t.end = fmax(t.end, span->end);
    }
    if (set.count == 0) t.start = 0;
    char *what = step > 0
                     ? xprintf("step %ld of %s training", step, training > 1 ? "the last" : "the")
                     : xstrdup("all that was enqueued");
    TimeUnit unit = time_unit(t.end - t.start);
    double length = (t.end - t.start) / unit.seconds;
    t.title = xprintf(length < 100 ? "%s: %s, %.3g %s" : "%s: %s, %.0f %s", set.name, what, length,
                      unit.sign);
    free(what);
    return t;
}

// ---- colors ----------------------------------------------------------------------------------

static const Color WHITE = {255, 255, 255}, BLACK = {30, 30, 30}, IDLE = {238, 238, 238},
                   GRID = {205, 205, 205};

// These can be told apart by readers who confuse red and green, and in print without colors.
static const struct {
    const char *text;
    Color color;
} KINDS[NUM_WORK_KINDS] = {
    [WORK_COMPUTE] = {"compute", {86, 180, 233}}, // beside training there is none: one color
    [WORK_FORWARD] = {"forward", {86, 180, 233}},
    [WORK_BACKWARD] = {"backward", {230, 159, 0}},
    [WORK_EXCHANGE] = {"exchange between devices", {0, 90, 70}},
    [WORK_LOAD] = {"load from the host", {90, 90, 90}},
    [WORK_UPDATE] = {"update", {204, 121, 167}},
    [WORK_READ] = {"read by the host", {240, 228, 66}},
    [WORK_OTHER] = {"other", {165, 165, 165}},
};

// ---- layout ----------------------------------------------------------------------------------

enum {
    WIDTH = 1900,
    RIGHT = 50,
    HEAD = 128,
    TITLE = 48,
    LANE = 46,
    GAP = 6,
    SEAM = 2, // between two pieces of work
    BELOW = 34,
    AXIS = 90,
    MOST_LANES = 64, // of one timeline; nobody can look at a picture with more
};

static int pixel_at(const Axis *axis, double seconds) {
    return (int)(axis_at(axis, seconds) + 0.5);
}

// ---- a lane ----------------------------------------------------------------------------------

// The rest of a column that is not full is idle.
static uint8_t mixed(float sum, float busy, uint8_t idle) {
    return (uint8_t)(busy > 1 ? sum / busy + 0.5f : sum + (1 - busy) * (float)idle + 0.5f);
}

// In the PNG, each column of pixels has the mean color of what was done in it. So much short work
// looks like what it is, neither solid nor nothing.
static void draw_columns(Picture *p, int y, const Lane *lane, const Axis *axis) {
    float(*share)[NUM_WORK_KINDS] = xcalloc(WIDTH, sizeof *share); // of each column
    Bar *bars;
    int n = bars_of(lane, axis, 0, &bars);
    for (const Bar *bar = bars; bar < bars + n; bar++)
        for (int x = (int)bar->left; x < bar->right && x < WIDTH; x++)
            share[x][bar->kind] += (float)(fmin(bar->right, x + 1) - fmax(bar->left, x));
    for (int x = (int)axis->left; x < pixel_at(axis, axis->end); x++) {
        float busy = 0, r = 0, g = 0, b = 0;
        for (int kind = 0; kind < NUM_WORK_KINDS; kind++) {
            busy += share[x][kind];
            r += share[x][kind] * (float)KINDS[kind].color.r;
            g += share[x][kind] * (float)KINDS[kind].color.g;
            b += share[x][kind] * (float)KINDS[kind].color.b;
        }
        Color color = {mixed(r, busy, IDLE.r), mixed(g, busy, IDLE.g), mixed(b, busy, IDLE.b)};
        picture_box(p, x, y, 1, LANE, color);
    }
    free(bars);
    free(share);
}

// In the SVG.
static void draw_bars(Sheet *sheet, int y, const Lane *lane, const Axis *axis, int level,
                      const char *where) {
    char *idle = xprintf("%s: idle", where);
    sheet_bar(sheet, axis->left, axis_at(axis, axis->end), y, LANE, IDLE, idle);
    free(idle);
    Bar *bars;
    int n = bars_of(lane, axis, level, &bars);
    for (int i = 0; i < n; i++) {
        char *title = bar_title(&bars[i], axis, where);
        sheet_bar(sheet, bars[i].left, bars[i].right, y, LANE, KINDS[bars[i].kind].color, title);
        free(title);
    }
    free(bars);
}

// Returns how many spans from number i on make one piece, because they have the same label and
// follow each other closely. A span without a label is a piece alone.
static int length_of_piece(const Lane *lane, int i, double close) {
    const TraceSpan *first = &lane->spans[i];
    int n = 1;
    if (!first->label[0]) return n;
    while (i + n < lane->count && strcmp(lane->spans[i + n].label, first->label) == 0 &&
           lane->spans[i + n].start - lane->spans[i + n - 1].end < close)
        n++;
    return n;
}

// The pieces of a lane that are at least `narrowest` pixels wide; free() them.
static int pieces_of(const Lane *lane, const Axis *axis, int narrowest, Bar **pieces) {
    int num_pieces = 0;
    WorkKind kind = WORK_OTHER;
    *pieces = xcalloc((size_t)lane->count + 1, sizeof **pieces);
    for (int i = 0, n; i < lane->count; i += n) {
        n = length_of_piece(lane, i, 3 / axis->per_second);
        const TraceSpan *first = &lane->spans[i], *last = &lane->spans[i + n - 1];
        WorkKind first_kind = work_kind(first, kind);
        for (int j = i; j < i + n; j++) kind = work_kind(&lane->spans[j], kind);
        if (last->end <= axis->start || first->start >= axis->end) continue;
        int left = pixel_at(axis, first->start), right = pixel_at(axis, last->end);
        if (right - left >= narrowest)
            (*pieces)[num_pieces++] = (Bar){left, right, first_kind, first, n};
    }
    return num_pieces;
}

// Ends each piece with a seam, and writes into it, where there is room, the layer, the number of
// the microbatch or the kernel.
static void draw_pieces(Sheet *sheet, int y, const Lane *lane, const Axis *axis, int narrowest) {
    Bar *pieces;
    int n = pieces_of(lane, axis, narrowest, &pieces);
    for (const Bar *piece = pieces; piece < pieces + n; piece++) {
        int left = (int)piece->left, right = (int)piece->right;
        sheet_box(sheet, right - SEAM, y, SEAM, LANE, WHITE);
        const char *text = work_detail(piece->spans);
        int height = piece->spans->label[0] ? 24 : 18, width = picture_text_width(text, height);
        if (width + 6 > right - left) continue;
        Color color = KINDS[piece->kind].color;
        bool is_dark = 2 * color.r + 5 * color.g + color.b < 8 * 110;
        sheet_text(sheet, left + (right - left - width) / 2, y + (LANE - height) / 2 - 1, height,
                   text, is_dark ? WHITE : BLACK);
    }
    free(pieces);
}

// ---- how much of it --------------------------------------------------------------------------

// A timeline that is laid out.
typedef struct Row {
    const Timeline *t;
    Lane *lanes;
    int n, left_out; // lanes that are drawn, and those that are too many
    Axis axis;
} Row;

// How much is drawn piece by piece. A PNG could show everything, but an SVG of hundreds of
// thousands of bars is slow to show, and larger than the page that it is on.
typedef struct Detail {
    int level;     // of bars (bars.h)
    int narrowest; // piece, in pixels
} Detail;

static Detail most_detail(const Row rows[], int n) {
    enum { MOST_BARS = 4000, MOST_PIECES = 2000 };
    Detail detail = {.level = 0, .narrowest = 4 * SEAM};
    for (;;) {
        int bars = 0, pieces = 0;
        for (int i = 0; i < n; i++)
            for (int l = 0; l < rows[i].n; l++) {
                Bar *some;
                bars += bars_of(&rows[i].lanes[l], &rows[i].axis, detail.level, &some);
                free(some);
                pieces += pieces_of(&rows[i].lanes[l], &rows[i].axis, detail.narrowest, &some);
                free(some);
            }
        if (bars <= MOST_BARS && pieces <= MOST_PIECES) return detail;
        if (bars > MOST_BARS) detail.level++;
        if (pieces > MOST_PIECES) detail.narrowest *= 2;
    }
}

// ---- a timeline ------------------------------------------------------------------------------

enum { NAME = 26 }; // height of a lane's name

// "cpu:0", or "device 0" on another machine, whose devices are not ours. A timeline may call its
// lanes otherwise. Where one queue communicates, each lane says which queue it is. free() it.
static char *name_of_lane(const Row *row, int l) {
    const Lane *lane = &row->lanes[l];
    const char *name = device_name(lane->device), *number = strchr(name, ':');
    const char *called = row->t->lane ? row->t->lane : "device";
    bool is_ours = !row->t->lane && !(row->t->set.modelled && number), two_queues = false;
    for (int i = 0; i < row->n; i++) two_queues |= row->lanes[i].communicates;
    const char *queue = !two_queues ? "" : lane->communicates ? " communication" : " compute";
    if (is_ours) return xprintf("%s%s", name, queue);
    int i = has_values(lane->device) ? device_id(lane->device) : atoi(number + 1); // of "model:2"
    return xprintf("%s %d%s", called, i, queue);
}

// In the space below the last lane, from one time to another, with words beside it.
static void draw_arrow(Sheet *sheet, int y, const Row *row) {
    enum { HEIGHT = 22, TIP = 8 };
    const Timeline *t = row->t;
    int left = pixel_at(&row->axis, t->from), right = pixel_at(&row->axis, t->to);
    int middle = y + BELOW / 2 - GAP, text = right + TIP;
    sheet_box(sheet, left, middle - TIP, 3, 2 * TIP, BLACK);
    sheet_box(sheet, left, middle - 1, right - left - TIP, 3, BLACK);
    for (int i = 0; i < TIP; i++) sheet_box(sheet, right - i - 1, middle - i, 1, 2 * i + 1, BLACK);
    sheet_box(sheet, text, y, picture_text_width(t->arrow, HEIGHT), HEIGHT, WHITE); // no grid
    sheet_text(sheet, text, y, HEIGHT, t->arrow, BLACK);
}

static int height_of(const Row *row) { return TITLE + row->n * (LANE + GAP) + BELOW; }

static void draw_row(Sheet *sheet, int y, const Row *row, Detail detail) {
    char *title = row->left_out > 0
                      ? xprintf("%s (and %d more lanes)", row->t->title, row->left_out)
                      : xstrdup(row->t->title);
    sheet_box(sheet, 0, y + 4, WIDTH, TITLE - 8, WHITE); // the grid stays out of the title
    sheet_text(sheet, 24, y + 10, 28, title, BLACK);
    free(title);
    y += TITLE;
    for (int l = 0; l < row->n; l++, y += LANE + GAP) {
        char *name = name_of_lane(row, l);
        sheet_text(sheet, 24, y + 9, NAME, name, BLACK);
        draw_columns(&sheet->png, y, &row->lanes[l], &row->axis);
        draw_bars(sheet, y, &row->lanes[l], &row->axis, detail.level,
                  row->t->lane ? name : device_name(row->lanes[l].device));
        draw_pieces(sheet, y, &row->lanes[l], &row->axis, detail.narrowest);
        free(name);
    }
    if (row->t->arrow) draw_arrow(sheet, y, row);
}

// ---- the picture -----------------------------------------------------------------------------

static int draw_legend_entry(Sheet *sheet, int x, int y, const char *text, Color color) {
    sheet_box(sheet, x, y, 30, 24, color);
    return x + 40 + sheet_text(sheet, x + 40, y, 24, text, BLACK) + 44;
}

// The kinds of work that occur, even if only in lanes that are left out.
static void draw_legend(Sheet *sheet, int x, int y, const Row rows[], int n) {
    bool occurs[NUM_WORK_KINDS] = {false};
    for (int i = 0; i < n; i++)
        for (int l = 0; l < rows[i].n + rows[i].left_out; l++) {
            Bar *bars;
            int num_bars = bars_of(&rows[i].lanes[l], &rows[i].axis, 0, &bars);
            for (int b = 0; b < num_bars; b++) occurs[bars[b].kind] = true;
            free(bars);
        }
    for (int kind = 0; kind < NUM_WORK_KINDS; kind++) {
        bool renamed = kind == WORK_OTHER && rows->t->other;
        const char *text = renamed ? rows->t->other : KINDS[kind].text;
        if (occurs[kind]) x = draw_legend_entry(sheet, x, y, text, KINDS[kind].color);
    }
    draw_legend_entry(sheet, x, y, "idle", IDLE);
}

// A distance between marks that leaves at most twelve of them: 1, 2 or 5 times a power of ten.
static double mark_every(double length) {
    double step = pow(10, floor(log10(length / 12)));
    while (length / step > 12)
        step *= length / (2 * step) <= 12 ? 2 : length / (5 * step) <= 12 ? 5 : 10;
    return step;
}

// The axis of the longest timeline, which begins at 0, and its grid from `top` to `bottom`.
static void draw_axis(Sheet *sheet, int top, int bottom, const Axis *axis, const char *since) {
    TimeUnit unit = time_unit(axis->end);
    int left = (int)axis->left, width = WIDTH - left - RIGHT;
    double step = mark_every(axis->end / unit.seconds);
    for (int i = 0; i * step <= axis->end / unit.seconds; i++) {
        int x = pixel_at(axis, i * step * unit.seconds);
        char text[32];
        snprintf(text, sizeof text, "%g", i * step);
        sheet_box(sheet, x, top, 1, bottom - top, GRID);
        sheet_box(sheet, x, bottom, 2, 10, BLACK);
        sheet_text(sheet, x - picture_text_width(text, 24) / 2, bottom + 14, 24, text, BLACK);
    }
    sheet_box(sheet, left, bottom, width, 2, BLACK);
    char *label = xprintf("%s since %s", unit.name, since);
    sheet_text(sheet, left + (width - picture_text_width(label, 24)) / 2, bottom + 46, 24, label,
               BLACK);
    free(label);
}

// How many of the timelines share the scale of the first.
static int sharing_scale(const Row rows[], int n) {
    int sharing = 1;
    while (sharing < n && !rows[sharing].t->own_scale) sharing++;
    return sharing;
}

static double longest_of(const Row rows[], int n) {
    double longest = 1e-9; // a scale is needed even if nothing takes any time
    for (int i = 0; i < n; i++) longest = fmax(longest, rows[i].t->end - rows[i].t->start);
    return longest;
}

void timelines_draw(const char *path, const char *heading, const char *since,
                    const Timeline timelines[], int n) {
    Row *rows = xcalloc((size_t)n, sizeof *rows);
    int height = HEAD, left = 130;
    for (int i = 0; i < n; i++) {
        Row *row = &rows[i];
        row->t = &timelines[i];
        row->n = lanes_of(&row->t->set, &row->lanes);
        row->left_out = row->n > MOST_LANES ? row->n - MOST_LANES : 0;
        row->n -= row->left_out;
        height += height_of(row) + (i == 0 || row->t->own_scale ? AXIS : 0);
        for (int l = 0; l < row->n; l++) {
            char *name = name_of_lane(row, l);
            int right = 24 + picture_text_width(name, NAME) + 30;
            if (right > left) left = right;
            free(name);
        }
    }
    for (int i = 0, sharing; i < n; i += sharing) {
        sharing = sharing_scale(rows + i, n - i);
        double per_second = (WIDTH - left - RIGHT) / longest_of(rows + i, sharing);
        for (int j = i; j < i + sharing; j++)
            rows[j].axis = (Axis){timelines[j].start, timelines[j].end, left, per_second};
    }
    Detail detail = most_detail(rows, n);
    Sheet *sheet = sheet_new(WIDTH, height, WHITE, heading);
    sheet_text(sheet, 24, 18, 34, heading, BLACK);
    draw_legend(sheet, 24, 76, rows, n);
    for (int i = 0, top = HEAD, sharing; i < n; i += sharing) {
        sharing = sharing_scale(rows + i, n - i);
        int bottom = top, y = top;
        for (int j = i; j < i + sharing; j++) bottom += height_of(&rows[j]);
        Axis whole = {0, longest_of(rows + i, sharing), left, rows[i].axis.per_second};
        draw_axis(sheet, top, bottom, &whole, since);
        for (int j = i; j < i + sharing; y += height_of(&rows[j++]))
            draw_row(sheet, y, &rows[j], detail);
        top = bottom + AXIS;
    }
    sheet_save(sheet, path);
    sheet_free(sheet);
    for (int i = 0; i < n; i++) free(rows[i].lanes);
    free(rows);
}
