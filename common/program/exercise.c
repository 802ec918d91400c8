// exercise.c: see exercise.h.
#include "exercise.h"
#include "common/base/error.h"
#include "plot.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void check_failed(const char *format, ...) {
    va_list args;
    char message[512];
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    die("the comment above the function says what it has to do", "check failed: %s", message);
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

void draw_plot(const char *script, const char *csv, const char *png) {
    fflush(stdout);
    if (plot_draw(png, script, csv)) printf("\nplot: %s, figures: %s\n", png, csv);
}
