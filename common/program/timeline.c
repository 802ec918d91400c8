// timeline.c: see timeline.h.
#include "timeline.h"
#include "common/base/error.h"
#include "picture.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what is drawn ---------------------------------------------------------------------------

// The last training's second step that is in the trace, else its first; 0 if there is no training.
static long step_to_show(const SpanSet *set, int *training) {
    long first = LONG_MAX, second = LONG_MAX;
    *training = 0;
    for (int i = 0; i < set->count; i++)
        if (set->spans[i].training > *training) *training = set->spans[i].training;
    for (int i = 0; i<set->count && * training> 0; i++) {
        long step = set->spans[i].step;
        if (set->spans[i].training != *training || step == first) continue;
        if (step < first) {
            second = first;
            first = step;
        } else if (step < second) {
            second = step;
        }
    }
    return second < LONG_MAX ? second : first < LONG_MAX ? first : 0;
}

typedef struct Unit {
    const char *name, *sign;
    double seconds;
} Unit;

static Unit unit_for(double length) {
    if (length < 1e-3) return (Unit){"microseconds", "µs", 1e-6};
    return length < 1 ? (Unit){"milliseconds", "ms", 1e-3} : (Unit){"seconds", "s", 1};
}

Timeline timeline_of(SpanSet set) {
    int training;
    long step = step_to_show(&set, &training);
    Timeline t = {.set = set, .start = INFINITY, .end = 0};
    for (int i = 0; i < set.count; i++) {
        const TraceSpan *span = &set.spans[i];
        if (span->step != step && step > 0) continue;
        if (span->training != training && step > 0) continue;
        t.start = fmin(t.start, span->start);
        t.end = fmax(t.end, span->end);
    }
    if (set.count == 0) t.start = 0;
    char *what = step > 0
                     ? xprintf("step %ld of %s training", step, training > 1 ? "the last" : "the")
                     : xstrdup("all that was enqueued");
    Unit unit = unit_for(t.end - t.start);
    double length = (t.end - t.start) / unit.seconds;
    t.title = xprintf(length < 100 ? "%s: %s, %.3g %s" : "%s: %s, %.0f %s", set.name, what, length,
                      unit.sign);
    free(what);
    return t;
}

// ---- colors ----------------------------------------------------------------------------------

static const Color WHITE = {255, 255, 255}, BLACK = {30, 30, 30}, IDLE = {238, 238, 238},
                   GRID = {205, 205, 205};

// Told apart by those who see no red and green, and in print without colors.
static const struct {
    const char *text;
    Color color;
} KINDS[NUM_WORK_KINDS] = {
    [WORK_FORWARD] = {"forward", {86, 180, 233}},
    [WORK_BACKWARD] = {"backward", {230, 159, 0}},
    [WORK_EXCHANGE] = {"exchange between devices", {0, 90, 70}},
    [WORK_LOAD] = {"load from the host", {90, 90, 90}},
    [WORK_UPDATE] = {"update", {204, 121, 167}},
    [WORK_READ] = {"read by the host", {240, 228, 66}},
    [WORK_OTHER] = {"other", {165, 165, 165}},
};

static Color ink_on(Color color) {
    return 2 * color.r + 5 * color.g + color.b < 8 * 110 ? WHITE : BLACK;
}

// ---- layout ----------------------------------------------------------------------------------

enum {
    WIDTH = 1900,
    RIGHT = 50,
    HEAD = 128,
    TITLE = 48,
    LANE = 46,
    GAP = 6,
    BELOW = 34,
    AXIS = 90,
    MOST_LANES = 64, // of one timeline; more would make a picture that nobody can look at
};

// Where things are: pixels from the left for what is at 0, and for a second.
typedef struct Scale {
    int left;
    double per_second;
} Scale;

static double at(double seconds, Scale scale) { return scale.left + seconds * scale.per_second; }
static int at_pixel(double seconds, Scale scale) { return (int)(at(seconds, scale) + 0.5); }

// ---- a lane ----------------------------------------------------------------------------------

// How much of each column of pixels was which kind of work. Each column then has the mean color of
// what was done in it: much that is short looks like what it is, neither solid nor nothing.
typedef struct Columns {
    float share[WIDTH][NUM_WORK_KINDS];
} Columns;

static void add_to_columns(Columns *columns, WorkKind kind, double left, double right) {
    for (int x = (int)left; x < right && x < WIDTH; x++)
        columns->share[x][kind] += (float)(fmin(right, x + 1) - fmax(left, x));
}

static uint8_t mixed(const float share[NUM_WORK_KINDS], const uint8_t colors[NUM_WORK_KINDS],
                     uint8_t idle) {
    float busy = 0, sum = 0;
    for (int kind = 0; kind < NUM_WORK_KINDS; kind++) {
        busy += share[kind];
        sum += share[kind] * (float)colors[kind];
    }
    return (uint8_t)(busy > 1 ? sum / busy + 0.5f : sum + (1 - busy) * (float)idle + 0.5f);
}

static void draw_columns(Picture *p, int y, const Columns *columns, int left, int right) {
    uint8_t r[NUM_WORK_KINDS], g[NUM_WORK_KINDS], b[NUM_WORK_KINDS];
    for (int kind = 0; kind < NUM_WORK_KINDS; kind++) {
        r[kind] = KINDS[kind].color.r;
        g[kind] = KINDS[kind].color.g;
        b[kind] = KINDS[kind].color.b;
    }
    for (int x = left; x < right; x++) {
        const float *share = columns->share[x];
        Color color = {mixed(share, r, IDLE.r), mixed(share, g, IDLE.g), mixed(share, b, IDLE.b)};
        picture_box(p, x, y, 1, LANE, color);
    }
}

static bool is_shown(const TraceSpan *span, const Timeline *t) {
    return span->end > t->start && span->start < t->end;
}

// Pixels that a span has at least: of few, each is to be seen.
static double least_width(const Lane *lane, const Timeline *t) {
    enum { FEW = 500 };
    int shown = 0;
    for (int i = 0; i < lane->count; i++) shown += is_shown(&lane->spans[i], t);
    return shown <= FEW ? 1 : 0;
}

static void draw_spans(Picture *p, int y, const Timeline *t, const Lane *lane, Scale scale,
                       int right) {
    Columns *columns = xcalloc(1, sizeof *columns);
    double least = least_width(lane, t);
    WorkKind kind = WORK_OTHER;
    for (int i = 0; i < lane->count; i++) {
        const TraceSpan *span = &lane->spans[i];
        kind = work_kind(span, kind);
        if (!is_shown(span, t)) continue;
        double begin = at(fmax(span->start, t->start) - t->start, scale);
        double end = at(fmin(span->end, t->end) - t->start, scale);
        add_to_columns(columns, kind, begin, fmax(end, begin + least));
    }
    draw_columns(p, y, columns, scale.left, right);
    free(columns);
}

// Returns how many spans from the i-th on belong together: they have one label and follow each
// other closely. Without a label each is by itself.
static int length_of_piece(const Lane *lane, int i, double close) {
    const TraceSpan *first = &lane->spans[i];
    int n = 1;
    if (!first->label[0]) return n;
    while (i + n < lane->count && strcmp(lane->spans[i + n].label, first->label) == 0 &&
           lane->spans[i + n].start - lane->spans[i + n - 1].end < close)
        n++;
    return n;
}

// The layer, the number of the microbatch or the kernel, where there is room for it.
static void draw_detail(Picture *p, int y, const TraceSpan *span, WorkKind kind, int left,
                        int right) {
    const char *text = work_detail(span);
    int height = span->label[0] ? 24 : 18, width = picture_text_width(text, height);
    if (width + 6 > right - left) return;
    picture_text(p, left + (right - left - width) / 2, y + (LANE - height) / 2 - 1, height, text,
                 ink_on(KINDS[kind].color));
}

static void draw_pieces(Picture *p, int y, const Timeline *t, const Lane *lane, Scale scale) {
    enum { SEAM = 2 }; // pixels between two pieces
    WorkKind kind = WORK_OTHER;
    for (int i = 0, n; i < lane->count; i += n) {
        n = length_of_piece(lane, i, 3 / scale.per_second);
        const TraceSpan *first = &lane->spans[i], *last = &lane->spans[i + n - 1];
        WorkKind first_kind = work_kind(first, kind);
        for (int j = i; j < i + n; j++) kind = work_kind(&lane->spans[j], kind);
        if (last->end <= t->start || first->start >= t->end) continue;
        int left = at_pixel(fmax(first->start, t->start) - t->start, scale);
        int right = at_pixel(fmin(last->end, t->end) - t->start, scale);
        if (right - left < 4 * SEAM) continue;
        picture_box(p, right - SEAM, y, SEAM, LANE, WHITE);
        draw_detail(p, y, first, first_kind, left, right);
    }
}

// ---- a timeline ------------------------------------------------------------------------------

static bool has_communication(const Lane lanes[], int n) {
    for (int l = 0; l < n; l++)
        if (lanes[l].communicates) return true;
    return false;
}

// Where no queue communicates, the device's name says it all.
static char *short_name(const Lane lanes[], int n, int l) {
    return has_communication(lanes, n) ? lane_name(&lanes[l])
                                       : xstrdup(device_name(lanes[l].device));
}

enum { NAME = 26 }; // height of a lane's name

static int widest_name(const Lane lanes[], int n) {
    int widest = 0;
    for (int l = 0; l < n; l++) {
        char *name = short_name(lanes, n, l);
        int width = picture_text_width(name, NAME);
        if (width > widest) widest = width;
        free(name);
    }
    return widest;
}

static int lanes_to_draw(const Timeline *t, Lane **lanes, int *left_out) {
    int n = lanes_of(&t->set, lanes);
    *left_out = n > MOST_LANES ? n - MOST_LANES : 0;
    return n - *left_out;
}

static int height_of(const Timeline *t) {
    Lane *lanes;
    int left_out, n = lanes_to_draw(t, &lanes, &left_out);
    free(lanes);
    return TITLE + n * (LANE + GAP) + BELOW;
}

static int left_of(const Timeline *t) {
    Lane *lanes;
    int left_out, n = lanes_to_draw(t, &lanes, &left_out), widest = widest_name(lanes, n);
    free(lanes);
    return 24 + widest + 30;
}

static void draw_title(Picture *p, int y, const Timeline *t, int left_out) {
    char *title =
        left_out > 0 ? xprintf("%s (and %d more lanes)", t->title, left_out) : xstrdup(t->title);
    picture_box(p, 0, y + 4, WIDTH, TITLE - 8, WHITE); // the grid stays out of the title
    picture_text(p, 24, y + 10, 28, title, BLACK);
    free(title);
}

static void draw_timeline(Picture *p, int y, const Timeline *t, Scale scale) {
    Lane *lanes;
    int left_out, n = lanes_to_draw(t, &lanes, &left_out);
    draw_title(p, y, t, left_out);
    y += TITLE;
    for (int l = 0; l < n; l++, y += LANE + GAP) {
        char *name = short_name(lanes, n, l);
        picture_text(p, 24, y + 9, NAME, name, BLACK);
        free(name);
        draw_spans(p, y, t, &lanes[l], scale, at_pixel(t->end - t->start, scale));
        draw_pieces(p, y, t, &lanes[l], scale);
    }
    free(lanes);
}

// ---- the picture -----------------------------------------------------------------------------

static void note_kinds(bool occurs[NUM_WORK_KINDS], const Timeline *t) {
    Lane *lanes;
    int n = lanes_of(&t->set, &lanes);
    for (int l = 0; l < n; l++) {
        WorkKind kind = WORK_OTHER;
        for (int i = 0; i < lanes[l].count; i++) {
            const TraceSpan *span = &lanes[l].spans[i];
            kind = work_kind(span, kind);
            if (is_shown(span, t)) occurs[kind] = true;
        }
    }
    free(lanes);
}

static int draw_legend_entry(Picture *p, int x, int y, const char *text, Color color) {
    picture_box(p, x, y, 30, 24, color);
    picture_text(p, x + 40, y, 24, text, BLACK);
    return x + 40 + picture_text_width(text, 24) + 44;
}

static void draw_legend(Picture *p, int x, int y, const Timeline timelines[], int n) {
    bool occurs[NUM_WORK_KINDS] = {false};
    for (int i = 0; i < n; i++) note_kinds(occurs, &timelines[i]);
    for (int kind = 0; kind < NUM_WORK_KINDS; kind++)
        if (occurs[kind]) x = draw_legend_entry(p, x, y, KINDS[kind].text, KINDS[kind].color);
    draw_legend_entry(p, x, y, "idle", IDLE);
}

// A distance between marks that leaves at most twelve of them: 1, 2 or 5 times a power of ten.
static double mark_every(double length) {
    double step = pow(10, floor(log10(length / 12)));
    while (length / step > 12)
        step *= length / (2 * step) <= 12 ? 2 : length / (5 * step) <= 12 ? 5 : 10;
    return step;
}

static void draw_axis(Picture *p, int top, int bottom, double length, const char *since,
                      Scale scale) {
    Unit unit = unit_for(length);
    double step = mark_every(length / unit.seconds);
    for (int i = 0; i * step <= length / unit.seconds; i++) {
        int x = at_pixel(i * step * unit.seconds, scale);
        char text[32];
        snprintf(text, sizeof text, "%g", i * step);
        picture_box(p, x, top, 1, bottom - top, GRID);
        picture_box(p, x, bottom, 2, 10, BLACK);
        picture_text(p, x - picture_text_width(text, 24) / 2, bottom + 14, 24, text, BLACK);
    }
    int width = WIDTH - scale.left - RIGHT;
    picture_box(p, scale.left, bottom, width, 2, BLACK);
    char *label = xprintf("%s since %s", unit.name, since);
    picture_text(p, scale.left + (width - picture_text_width(label, 24)) / 2, bottom + 46, 24,
                 label, BLACK);
    free(label);
}

// How many of the timelines share the scale of the first.
static int sharing_scale(const Timeline timelines[], int n) {
    int sharing = 1;
    while (sharing < n && !timelines[sharing].own_scale) sharing++;
    return sharing;
}

// Some timelines on one scale, and its axis below them. Returns where they end.
static int draw_block(Picture *p, int top, int left, const char *since, const Timeline timelines[],
                      int n) {
    double longest = 1e-9; // where nothing takes any time there is a scale, too
    int bottom = top;
    for (int i = 0; i < n; i++) {
        longest = fmax(longest, timelines[i].end - timelines[i].start);
        bottom += height_of(&timelines[i]);
    }
    Scale scale = {left, (WIDTH - left - RIGHT) / longest};
    draw_axis(p, top, bottom, longest, since, scale);
    for (int i = 0, y = top; i < n; i++) {
        draw_timeline(p, y, &timelines[i], scale);
        y += height_of(&timelines[i]);
    }
    return bottom + AXIS;
}

void timelines_draw(const char *path, const char *heading, const char *since,
                    const Timeline timelines[], int n) {
    int height = HEAD, left = 130;
    for (int i = 0; i < n; i++) {
        height += height_of(&timelines[i]) + (i == 0 || timelines[i].own_scale ? AXIS : 0);
        if (left_of(&timelines[i]) > left) left = left_of(&timelines[i]);
    }
    Picture p = picture_new(WIDTH, height, WHITE);
    picture_text(&p, 24, 18, 34, heading, BLACK);
    draw_legend(&p, 24, 76, timelines, n);
    for (int i = 0, y = HEAD, sharing; i < n; i += sharing) {
        sharing = sharing_scale(timelines + i, n - i);
        y = draw_block(&p, y, left, since, timelines + i, sharing);
    }
    picture_save(&p, path);
    picture_free(&p);
}
