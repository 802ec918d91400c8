// chrome_trace.c: writes traces as JSON for trace viewers, lane by lane, and then the arrows
// between lanes. To tie an arrow, it looks up what the other device did before or after.
#include "timeline.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <math.h>
#include <stdlib.h>

// ---- JSON ------------------------------------------------------------------------------------

// A string: quotation marks, backslashes and control characters are escaped; UTF-8 stays.
static void write_string(FILE *out, const char *text) {
    putc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') putc('\\', out);
        if (c < 0x20)
            fprintf(out, "\\u%04x", (unsigned)c);
        else
            putc(c, out);
    }
    putc('"', out);
}

static void write_field(FILE *out, const char *name, const char *text) {
    fprintf(out, ",\"%s\":", name);
    write_string(out, text);
}

// Where events are written to. Commas separate them.
typedef struct Writer {
    FILE *out;
    const char *separator; // before the next event
    int pid;               // of the set that is written
    long arrows;           // so far, of all sets
} Writer;

// Begins an event. The caller writes further fields and the closing brace.
static void begin_event(Writer *w, const char *phase, int tid) {
    fprintf(w->out, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", w->separator, phase, w->pid, tid);
    w->separator = ",\n";
}

static void write_name(Writer *w, const char *of_what, int tid, const char *name) {
    begin_event(w, "M", tid);
    write_field(w->out, "name", of_what);
    fputs(",\"args\":{\"name\":", w->out);
    write_string(w->out, name);
    fputs("}}", w->out);
}

// ---- time ------------------------------------------------------------------------------------

// Whole nanoseconds, so that rounding makes no two pieces overlap.
static long long nanoseconds(double seconds) { return llround(1e9 * seconds); }

static void write_time(FILE *out, const char *name, long long ns) {
    fprintf(out, ",\"%s\":%lld.%03lld", name, ns / 1000, ns % 1000);
}

// ---- spans -----------------------------------------------------------------------------------

static int tid_of(const Lane *lane) {
    return 1 + 2 * device_id(lane->device) + (lane->communicates ? 1 : 0);
}

static void write_lane(Writer *w, const Lane *lane) {
    WorkKind kind = WORK_OTHER;
    for (int i = 0; i < lane->count; i++) {
        const TraceSpan *span = &lane->spans[i];
        long long start = nanoseconds(span->start), end = nanoseconds(span->end);
        kind = work_kind(span, kind);
        begin_event(w, "X", tid_of(lane));
        write_time(w->out, "ts", start);
        write_time(w->out, "dur", end - start);
        write_field(w->out, "name", span->work);
        write_field(w->out, "cat", span->label[0] ? span->label : work_kind_name(kind));
        const char *separator = "";
        fputs(",\"args\":{", w->out);
        if (span->step > 0) {
            fprintf(w->out, "\"training\":%d,\"step\":%ld", span->training, span->step);
            separator = ",";
        }
        if (span->from)
            fprintf(w->out, "%s\"from\":\"%s\",\"to\":\"%s\",\"bytes\":%zu", separator,
                    device_name(span->from), device_name(span->to), span->bytes);
        fputs("}}", w->out);
    }
}

// ---- arrows ----------------------------------------------------------------------------------

// A piece of work, and in which lane it is; span NULL: none.
typedef struct Place {
    const Lane *lane;
    const TraceSpan *span;
} Place;

// How many spans of the lane begin before that time.
static int begun_before(const Lane *lane, double time) {
    int low = 0, high = lane->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (lane->spans[middle].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// What the device finished last before that time or, with `after`, began first from that time on.
static Place nearest(const Lane lanes[], int n, const Device *device, double time, bool after) {
    Place best = {0};
    for (const Lane *lane = lanes; lane < lanes + n; lane++) {
        if (lane->device != device) continue;
        int i = begun_before(lane, time);
        if (!after && --i >= 0 && lane->spans[i].end > time) i--;
        if (i < 0 || i >= lane->count) continue;
        const TraceSpan *span = &lane->spans[i], *other = best.span;
        if (!other || (after ? span->start < other->start : span->end > other->end))
            best = (Place){lane, span};
    }
    return best;
}

// Viewers tie each end of an arrow to the piece of work around it. So the arrow leaves just before
// one piece ends, and arrives as the other starts.
static void write_arrow(Writer *w, Place from, Place to) {
    if (!from.span || !to.span) return;
    long long start = nanoseconds(from.span->start), last = nanoseconds(from.span->end) - 1;
    w->arrows++;
    begin_event(w, "s", tid_of(from.lane));
    write_time(w->out, "ts", last > start ? last : start);
    fprintf(w->out, ",\"name\":\"copy\",\"cat\":\"copy\",\"id\":%ld}", w->arrows);
    begin_event(w, "f", tid_of(to.lane));
    write_time(w->out, "ts", nanoseconds(to.span->start));
    fprintf(w->out, ",\"name\":\"copy\",\"cat\":\"copy\",\"id\":%ld,\"bp\":\"e\"}", w->arrows);
}

static void write_arrows_of(Writer *w, const Lane lanes[], int n, const Lane *lane) {
    for (int i = 0; i < lane->count; i++) {
        const TraceSpan *span = &lane->spans[i];
        Place here = {lane, span};
        if (!span->from || span->from == span->to) continue;
        if (span->from == host() || span->to == host()) continue; // the host has no lane
        if (span->device == span->to)
            write_arrow(w, nearest(lanes, n, span->from, span->start, false), here);
        else
            write_arrow(w, here, nearest(lanes, n, span->to, span->end, true));
    }
}

// ---- the file --------------------------------------------------------------------------------

// A GPU's times are floats, so a piece of work may seem to begin a little before the previous one
// has ended, which the format does not allow. Returns a copy in which it begins when that ends.
static TraceSpan *without_overlaps(const SpanSet *set) {
    TraceSpan *spans = xcalloc((size_t)set->count + 1, sizeof *spans);
    for (int i = 0; i < set->count; i++) {
        TraceSpan *span = &spans[i], *before = i > 0 ? &spans[i - 1] : NULL;
        *span = set->spans[i];
        bool follows =
            before && before->device == span->device && before->communicates == span->communicates;
        span->start = fmax(span->start, follows ? before->end : 0);
        span->end = fmax(span->end, span->start);
    }
    return spans;
}

static void write_set(Writer *w, const SpanSet *set) {
    TraceSpan *spans = without_overlaps(set);
    Lane *lanes;
    int n = lanes_of(&(SpanSet){set->name, spans, set->count, set->modelled}, &lanes);
    write_name(w, "process_name", 0, set->name);
    for (int l = 0; l < n; l++) {
        int tid = tid_of(&lanes[l]);
        char *name = xprintf("%s %s", device_name(lanes[l].device),
                             lanes[l].communicates ? "communication" : "compute");
        write_name(w, "thread_name", tid, name);
        begin_event(w, "M", tid);
        fprintf(w->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", tid);
        free(name);
    }
    for (int l = 0; l < n; l++) write_lane(w, &lanes[l]);
    for (int l = 0; l < n; l++) write_arrows_of(w, lanes, n, &lanes[l]);
    free(lanes);
    free(spans);
}

void chrome_trace_write(const char *path, const SpanSet sets[], int n) {
    OutputFile file = output_open(path);
    Writer w = {.out = file.stream, .separator = ""};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", file.stream);
    for (int i = 0; i < n; i++) {
        w.pid = i + 1;
        write_set(&w, &sets[i]);
    }
    fputs("\n]}\n", file.stream);
    output_close(&file);
}
