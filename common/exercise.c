// exercise.c: see exercise.h.
#include "exercise.h"
#include "error.h"
#include "plot.h"

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

void draw_plot(const char *script, const char *csv, const char *png) {
    fflush(stdout);
    if (plot_draw(png, script, csv)) printf("\nplot: %s, figures: %s\n", png, csv);
}
