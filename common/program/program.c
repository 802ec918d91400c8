// program.c: begins and ends a program of the book. It remembers the paths of all outputs, to check
// them before long work, and writes the files of --trace and --timeline at the end.
#include "program.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/launcher.h"
#include "common/data/fashion_mnist.h"
#include "common/model/modelled_clock.h"
#include "interrupt.h"
#include "say.h"
#include "sheet.h"
#include "timeline.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static Flags flags;
static Program program;
static bool reads_data; // whether the program has --data
static bool is_tracing;
static const char *named_csv; // --csv, until an output has that name
static time_t began;
static char *came_out; // of book_result()

Flags book_begin(int argc, char *argv[], const char *about, const char *names, Program also) {
    began = time(NULL);
    program = also;
    flags = parse_flags(argc, argv, about, names, program);
    reads_data = is_listed(names, "data");
    if (!program.of_ranks && strcmp(flags.out, DEFAULT_OUT) == 0) launch_must_be_one();
    if (!flags.checkpoint) flags.checkpoint = flags.resume;
    is_tracing = flags.trace || flags.timeline;
    named_csv = flags.csv;
    if (is_tracing) trace_begin_at_most(1 << 19); // pieces of work
    return flags;
}

bool book_can_use_devices(int count) {
    const Machine *machine = modelled_machine();
    return !machine || machine_has_devices(machine, count);
}

void book_needs_devices(int count) {
    const Machine *machine = modelled_machine();
    if (!book_can_use_devices(count))
        die_usage("use fewer devices, another --machine, or --machine none",
                  "%d devices are used, and the machine %s has %d and no network to others", count,
                  machine->name, machine->devices);
}

int book_devices(int asked_for, int usual, int fewer) {
    int k = asked_for ? asked_for : book_can_use_devices(usual) ? usual : fewer;
    book_needs_devices(k);
    return k;
}

const Machine *book_needs_machine(const char *what) {
    if (!modelled_machine()) die_usage("--machine NAME", "%s: times are modelled", what);
    return modelled_machine();
}

// ---- outputs ---------------------------------------------------------------------------------

enum { MOST_OUTPUTS = 32 };
static struct { char *suffix, *path; } outputs[MOST_OUTPUTS];
static int num_outputs;

static void add_output(char *suffix, char *path) {
    CHECK(num_outputs < MOST_OUTPUTS, "make MOST_OUTPUTS larger");
    outputs[num_outputs].suffix = suffix;
    outputs[num_outputs++].path = path;
}

static bool is_csv(const char *suffix) {
    const char *dot = strrchr(suffix, '.');
    return dot && strcmp(dot, ".csv") == 0;
}

static void check_all_outputs(void) {
    const char *all[MOST_OUTPUTS + 6];
    char *svg = flags.timeline ? sheet_svg_path(flags.timeline) : NULL;
    int n = 0;
    for (; n < num_outputs; n++) all[n] = outputs[n].path;
    all[n++] = svg;
    all[n++] = flags.log_loss;
    all[n++] = flags.trace;
    all[n++] = flags.timeline;
    all[n++] = flags.save;
    all[n++] = flags.checkpoint;
    if (reads_data) fashion_mnist_keep(flags.data, all, n);
    check_kept(flags.resume, all, n - 1); // all but --checkpoint
    check_kept(flags.load, all, n - 2);   // all but --checkpoint and --save
    check_kept(flags.load, &flags.checkpoint, 1);
    check_outputs(all, n);
    free(svg);
}

void book_outputs(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *suffixes = xvprintf(format, args);
    va_end(args);
    for (const char *s = strtok(suffixes, " "); s; s = strtok(NULL, " ")) {
        bool is_named = named_csv && is_csv(s);
        add_output(xstrdup(s), is_named ? xstrdup(named_csv) : out_file(flags.out, s));
        if (is_named) named_csv = NULL;
    }
    free(suffixes);
    check_all_outputs();
}

const char *book_output(const char *suffix) {
    int i = 0;
    while (i < num_outputs && strcmp(outputs[i].suffix, suffix) != 0) i++;
    CHECK(i < num_outputs, "name it in book_outputs(), which checks that it can be written");
    return outputs[i].path;
}

const char *book_timeline(const char *suffix) {
    const char *png = book_output(suffix);
    char *svg = sheet_svg_path(png);
    int i = 0;
    while (svg && i < num_outputs && strcmp(outputs[i].path, svg) != 0) i++;
    CHECK(!svg || i < num_outputs, "name the SVG beside it in book_outputs(), too");
    free(svg);
    return png;
}

// ---- the trace -------------------------------------------------------------------------------

static void draw_trace(const char *path, const SpanSet sets[], int n) {
    Timeline timelines[2];
    for (int i = 0; i < n; i++) {
        timelines[i] = timeline_of(sets[i]);
        timelines[i].own_scale = i > 0; // another machine's time may be a thousandth of ours
    }
    char *heading = xprintf("%s: which queue did what, and when", program_name());
    timelines_draw(path, heading, "the first work shown began", timelines, n);
    for (int i = 0; i < n; i++) free(timelines[i].title);
    free(heading);
    printf("timeline: %s\n", path);
    char *svg = sheet_svg_path(path);
    if (svg) printf("timeline, to zoom in and to point at: %s\n", svg);
    free(svg);
}

void book_end_trace(void) {
    if (!is_tracing) return;
    is_tracing = false;
    SpanSet measured = {.name = "measured here"}, modelled = {.modelled = true}, sets[2];
    TraceSpan *spans = trace_end(&measured.count), *others = trace_modelled(&modelled.count);
    char *title = NULL;
    int n = 0;
    measured.spans = spans;
    modelled.spans = others;
    if (trace_left_out()) {
        const SpanSet *full = measured.count > 0 ? &measured : &modelled;
        double last = 0;
        for (int i = 0; i < full->count; i++) last = fmax(last, full->spans[i].end);
        warn("the trace was full after %.1f s: it has the first %d pieces of work, and no later "
             "ones",
             last, full->count);
    }
    if (measured.count > 0 || modelled.count == 0) sets[n++] = measured;
    if (modelled.count > 0) {
        modelled.name = title = xprintf("modelled on %s", modelled_machine()->name);
        sets[n++] = modelled;
    }
    if (flags.trace) {
        chrome_trace_write(flags.trace, sets, n);
        printf("trace, for https://ui.perfetto.dev or chrome://tracing: %s\n", flags.trace);
    }
    if (flags.timeline) draw_trace(flags.timeline, sets, n);
    free(title);
    free(spans);
    free(others);
}

// ---- the end ---------------------------------------------------------------------------------

void book_another_writes(void) { flags.trace = flags.timeline = program.next = NULL; }

void book_result(const char *format, ...) {
    va_list args;
    va_start(args, format);
    free(came_out);
    came_out = xvprintf(format, args);
    va_end(args);
}

static bool was_drawn(const char *path) {
    const char *suffix = strrchr(path, '.');
    struct stat file;
    return suffix && strcmp(suffix, ".png") == 0 && stat(path, &file) == 0 &&
           file.st_mtime >= began;
}

int book_end(void) {
    book_end_trace();
    if (program.next && !interrupted()) {
        const char *picture = NULL; // the first of the outputs
        int others = 0;
        for (int i = num_outputs - 1; i >= 0; i--)
            if (was_drawn(outputs[i].path)) {
                others += picture != NULL;
                picture = outputs[i].path;
            }
        putchar('\n');
        if (came_out) say("came out: %s", came_out);
        if (picture && others > 0)
            printf("to open: %s (and %d more picture%s beside it)\n", picture, others,
                   others > 1 ? "s" : "");
        else if (picture)
            printf("to open: %s\n", picture);
        printf("next: %s\n", program.next);
    }
    free(came_out);
    came_out = NULL;
    devices_close();
    for (int i = 0; i < num_outputs; i++) {
        free(outputs[i].suffix);
        free(outputs[i].path);
    }
    num_outputs = 0;
    check_stdout();
    return interrupted() ? EXIT_INTERRUPTED : EXIT_SUCCESS;
}
