// bars.c: goes through the spans of a lane. A bar grows while the next span belongs to it.
#include "bars.h"
#include "common/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the axis --------------------------------------------------------------------------------

double axis_at(const Axis *axis, double seconds) {
    double inside = fmin(fmax(seconds, axis->start), axis->end);
    return axis->left + (inside - axis->start) * axis->per_second;
}

TimeUnit time_unit(double length) {
    if (length < 1e-3) return (TimeUnit){"microseconds", "µs", 1e-6, 1};
    return length < 1 ? (TimeUnit){"milliseconds", "ms", 1e-3, 3}
                      : (TimeUnit){"seconds", "s", 1, 6};
}

// ---- spans become bars -----------------------------------------------------------------------

// A bar that grows.
typedef struct Growing {
    Bar bar;
    double seconds[NUM_WORK_KINDS]; // how much of each kind there is in it
} Growing;

static bool belong_together(const Bar *bar, const Bar *next, int level) {
    double close = ldexp(0.5, level > 1 ? level - 2 : 0);
    if (level == 0) return false;
    if (level > 1 && next->right - bar->left < close) return true;
    if (next->kind != bar->kind || next->left - bar->right >= close) return false;
    return level > 1 || strcmp(next->spans->label, bar->spans->label) == 0;
}

static void grow(Growing *growing, const Bar *next) {
    Bar *bar = &growing->bar;
    const TraceSpan *span = next->spans;
    growing->seconds[next->kind] += span->end - span->start;
    if (growing->seconds[next->kind] > growing->seconds[bar->kind]) bar->kind = next->kind;
    bar->right = fmax(bar->right, next->right);
    bar->count = (int)(span - bar->spans) + 1;
}

static bool is_shown(const TraceSpan *span, const Axis *axis) {
    return span->end > axis->start && span->start < axis->end;
}

// The least width of a span, in pixels. Where there are few spans, each has to be visible.
static double least_width(const Lane *lane, const Axis *axis) {
    enum { FEW = 500 };
    int shown = 0;
    for (int i = 0; i < lane->count; i++) shown += is_shown(&lane->spans[i], axis);
    return shown <= FEW ? 1 : 0;
}

int bars_of(const Lane *lane, const Axis *axis, int level, Bar **bars) {
    Growing last = {0};
    double least = least_width(lane, axis);
    int n = 0;
    WorkKind kind = WORK_OTHER;
    *bars = xcalloc((size_t)lane->count + 1, sizeof **bars);
    for (int i = 0; i < lane->count; i++) {
        const TraceSpan *span = &lane->spans[i];
        kind = work_kind(span, kind);
        if (!is_shown(span, axis)) continue;
        double left = axis_at(axis, span->start);
        Bar next = {left, fmax(axis_at(axis, span->end), left + least), kind, span, 1};
        if (n == 0 || !belong_together(&last.bar, &next, level)) {
            last = (Growing){.bar = next};
            n++;
        }
        grow(&last, &next);
        (*bars)[n - 1] = last.bar;
    }
    return n;
}

// ---- what is said of them --------------------------------------------------------------------

static char *bytes_text(double bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    for (; bytes >= 999.5 && unit < 4; unit++) bytes /= 1000;
    return xprintf("%.3g %s", bytes, units[unit]);
}

char *bar_title(const Bar *bar, const Axis *axis, const char *where) {
    const TraceSpan *first = bar->spans, *last = first + bar->count - 1;
    const char *kind = work_kind_name(bar->kind), *detail = work_detail(first);
    char *work, *copied = NULL;
    if (bar->count > 1)
        work =
            xprintf("%d pieces of work that are too short here, most of it %s", bar->count, kind);
    else if (first->label[0] && *detail)
        work = xprintf("%s %s (%s)", kind, detail, first->work); // "forward conv1 (conv2d_forward)"
    else
        work = xprintf("%s (%s)", kind, first->work); // "exchange (copy)"
    double bytes = 0;
    for (const TraceSpan *span = first; span <= last; span++) bytes += (double)span->bytes;
    char *size = bytes_text(bytes);
    if (bytes > 0)
        copied = bar->count > 1 ? xprintf(", %s copied", size)
                                : xprintf(", %s from %s to %s", size, device_name(first->from),
                                          device_name(first->to));
    TimeUnit unit = time_unit(axis->end - axis->start);
    char *title =
        xprintf("%s on %s, %.*f %s to %.*f %s%s", work, where, unit.decimals,
                (first->start - axis->start) / unit.seconds, unit.sign, unit.decimals,
                (last->end - axis->start) / unit.seconds, unit.sign, copied ? copied : "");
    free(work);
    free(size);
    free(copied);
    return title;
}
