// plot.h: pictures that gnuplot draws from figures in files. To draw one, call plot_draw(). A
// script plots/NAME.gp gets the names of its input files and, last, that of the PNG:
// `gnuplot -c plots/NAME.gp INPUT.. PNG`.
#pragma once

#include <stdbool.h>
#include "common/base/file.h"
#include "common/base/platform.h"

// plot_draw("run.png", "allreduce.gp", "run.csv") draws, and waits for it. The PNG is whole or not
// there. Returns whether it was drawn. If it was not, a warning says that the figures are in the
// first input.
#define plot_draw(png, script, ...)                                                                \
    plot_draw_from((png), (script), (const char *const[]){__VA_ARGS__, (void *)0})
bool plot_draw_from(const char *png, const char *script, const char *const inputs[]);

// ---- the steps of that, to draw while other work goes on -------------------------------------

// Where the script is: plots/NAME beside the program's folder, so that it is found from anywhere.
// free() it.
char *plot_script(const char *name);
// Whether gnuplot and the script are there. If not, warns: "no gnuplot: WHAT to FIGURES only".
bool plot_can_draw(const char *script, const char *what, const char *figures);

// A picture that gnuplot is drawing.
typedef struct Drawing {
    OutputFile file; // the PNG; without a stream, nothing is being drawn
    Process gnuplot; // 0: it could not be started
} Drawing;

// `inputs` ends with NULL; `script` is a path.
Drawing plot_start(const char *png, const char *script, const char *const inputs[]);
// Waits, and takes over the picture. Returns false, with a warning that says where the figures are,
// if there is none. Does nothing, and returns true, when nothing is being drawn.
bool plot_finish(Drawing *drawing, const char *figures);

// Starts gnuplot with a script, its inputs and any `output`; 0 if it could not be started.
Process gnuplot_start(const char *script, const char *const inputs[], const char *output);
// Whether it ended well.
bool gnuplot_succeeded(Process gnuplot);
