// plot.c: runs gnuplot as another process. It draws to a temporary file, which takes the name of
// the PNG when it is whole.
#include "plot.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "interrupt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_INPUTS = 8 };

char *plot_script(const char *name) {
    char *program = path_of_program(), *path = NULL;
    for (int parent = 0; program && !path && parent < 4; parent++) { // of build/asan/tests/program
        char *slash = strrchr(program, '/');
        if (!slash) break;
        *slash = '\0';
        path = xprintf("%s/plots/%s", program, name);
        if (access(path, R_OK) == 0) break;
        free(path);
        path = NULL;
    }
    free(program);
    return path ? path : xprintf("plots/%s", name);
}

// ---- gnuplot ---------------------------------------------------------------------------------

// Polls, so that a gnuplot that hangs cannot keep the program from ending.
bool gnuplot_succeeded(Process gnuplot) {
    const double PATIENCE = 5;
    double deadline = INFINITY;
    int status;
    while (!process_has_ended(gnuplot, &status)) {
        if (interrupted()) deadline = fmin(deadline, seconds_now() + PATIENCE);
        if (seconds_now() > deadline) process_kill(gnuplot);
        sleep_seconds(2e-3);
    }
    return status == 0;
}

// The path in a form that gnuplot takes for a file, whatever its name. (It takes a < or | in front
// for a command, - for its input, ~ for a home folder.) free() it.
static char *plot_path(const char *path) {
    return xprintf("%s%s", path[0] == '/' ? "" : "./", path);
}

// (Ctrl-C does not reach gnuplot, because a training that it stops still draws its last picture.
// With -d, pictures do not depend on ~/.gnuplot.)
Process gnuplot_start(const char *script, const char *const inputs[], const char *output) {
    enum { BEFORE_INPUTS = 4 };
    char *arguments[BEFORE_INPUTS + MOST_INPUTS + 2] = {"gnuplot", "-d", "-c", (char *)script};
    int n = BEFORE_INPUTS;
    for (int i = 0; inputs[i]; i++) {
        CHECK(i < MOST_INPUTS, "gnuplot passes on nine arguments; one is the output");
        arguments[n++] = plot_path(inputs[i]);
    }
    arguments[n] = (char *)output;
    Process gnuplot = process_start(arguments, false);
    for (int i = BEFORE_INPUTS; i < n; i++) free(arguments[i]);
    return gnuplot;
}

// ---- a picture -------------------------------------------------------------------------------

bool plot_can_draw(const char *script, const char *what, const char *figures) {
    if (!has_processes) return false; // in a page, which draws for itself
    Process gnuplot = process_start((char *[]){"gnuplot", "--version", NULL}, true);
    if (!gnuplot || !gnuplot_succeeded(gnuplot))
        warn("no gnuplot: %s to %s only (`make setup` installs gnuplot)", what, figures);
    else if (access(script, R_OK) != 0)
        warn("no %s beside this program's folder: %s to %s only", script, what, figures);
    else
        return true;
    return false;
}

Drawing plot_start(const char *png, const char *script, const char *const inputs[]) {
    Drawing drawing = {.file = output_open(png)};
    char *output = plot_path(drawing.file.temporary);
    drawing.gnuplot = gnuplot_start(script, inputs, output);
    free(output);
    return drawing;
}

// gnuplot does not notice that the disk is full.
static bool png_is_whole(const char *path) {
    static const char end[] = "\0\0\0\0IEND\xae\x42\x60\x82"; // the last part of each PNG
    char last[sizeof end - 1] = "";
    FILE *file = fopen(path, "rbe");
    bool whole = file && fseek(file, -(long)sizeof last, SEEK_END) == 0 &&
                 fread(last, sizeof last, 1, file) == 1 && memcmp(last, end, sizeof last) == 0;
    if (file) fclose(file);
    return whole;
}

bool plot_finish(Drawing *drawing, const char *figures) {
    if (!drawing->file.stream) return true;
    bool drawn = drawing->gnuplot && gnuplot_succeeded(drawing->gnuplot) &&
                 png_is_whole(drawing->file.temporary);
    if (drawn) {
        output_close(&drawing->file);
    } else {
        warn("gnuplot could not draw %s; the figures are in %s", drawing->file.path, figures);
        output_abandon(&drawing->file);
    }
    return drawn;
}

bool plot_draw_from(const char *png, const char *script, const char *const inputs[]) {
    char *path = plot_script(script);
    bool drawn = plot_can_draw(path, "the figures go", inputs[0]);
    if (drawn) {
        Drawing drawing = plot_start(png, path, inputs);
        drawn = plot_finish(&drawing, inputs[0]);
    }
    free(path);
    return drawn;
}
