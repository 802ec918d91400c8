// exercise.c: see exercise.h.
#include "exercise.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "book.h"
#include "graded.h"
#include "plot.h"
#include "say.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

static void run_experiment(const Exercise *exercise, const Flags *flags) {
    const char *csv = book_output(".csv"), *png = book_output(".png");
    book_check_outputs();
    OutputFile file = output_open(csv);
    exercise->experiment(flags, file.stream);
    output_close(&file);
    fflush(stdout); // gnuplot's warnings come after it
    if (plot_draw(png, exercise->plot, csv)) printf("\nplot: %s, figures: %s\n", png, csv);
}

static int check_one(const Exercise *exercise, const Flags *flags, int part) {
    exercise->parts[part].check(flags);
    graded_passed();
    return book_end();
}

int exercise_main(int argc, char *argv[], const Exercise *exercise) {
    int part = graded_begin(exercise->parts);
    char *names = xprintf("%s data check", exercise->flags);
    Flags flags = book_begin(argc, argv, exercise->about, names, exercise->defaults);
    free(names);
    if (flags.backend == BACKEND_MODEL)
        die_usage("leave --backend model out", "an exercise is checked by values, and model "
                                               "devices have none");
    if (exercise->prepare) exercise->prepare(&flags);
    if (part != NOT_GRADED) return check_one(exercise, &flags, part);
    for (const CheckPart *p = exercise->parts; p->what; p++) p->check(&flags);
    say("check passed: %s\n", exercise->passed);
    if (!flags.check) run_experiment(exercise, &flags);
    return book_end();
}

void check_failed(const char *hint, const char *format, ...) {
    va_list args;
    char message[512];
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    check_failed_elsewhere(hint, message);
}

void check_failed_elsewhere(const char *hint, const char *error) {
    graded_failed(hint, error);
    die(hint, "check failed: %s", error);
}

double relative_difference(const float *a, const float *b, const float *start, size_t n) {
    double largest = 0, change = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i])) return INFINITY;
        largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
        change = fmax(change, fabs((double)b[i] - (double)start[i]));
    }
    return largest > 0 ? largest / change : 0;
}
