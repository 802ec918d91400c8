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

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static Flags flags;
static bool reads_data; // whether the program has --data
static bool is_tracing;
static time_t began;
static char *came_out; // of book_result()

Flags book_begin(int argc, char *argv[], const char *about, const char *names, Flags defaults) {
    began = time(NULL);
    flags = parse_flags(argc, argv, about, names, defaults);
    reads_data = is_listed(names, "data");
    if (!flags.of_ranks && strcmp(flags.out, defaults.out) == 0) launch_must_be_one();
    if (!flags.checkpoint) flags.checkpoint = flags.resume;
    is_tracing = flags.trace || flags.timeline;
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

static bool has_csv(void) {
    for (int i = 0; i < num_outputs; i++)
        if (is_csv(outputs[i].suffix)) return true;
    return false;
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
    if (flags.resume && is_written_directly(flags.resume)) // it is written, too: to --checkpoint
        die("give the name of a file", "%s: is not a file", flags.resume);
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
        bool is_named = flags.csv && is_csv(s) && !has_csv();
        add_output(xstrdup(s), is_named ? xstrdup(flags.csv) : out_file(flags.out, s));
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

// ---- the end ---------------------------------------------------------------------------------

void book_another_writes(void) { flags.trace = flags.timeline = flags.next = NULL; }

void book_end_trace(void) {
    if (is_tracing) trace_write_files(flags.trace, flags.timeline);
    is_tracing = false;
}

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
    if (flags.next && !interrupted()) {
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
        printf("next: %s\n", flags.next);
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
