// animator.c: keeps the points of the curves. With each new point it takes over the picture that
// gnuplot has drawn, writes the CSV anew, and starts gnuplot again.
#include "animator.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/platform.h"
#include "plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Row {
    int devices;
    double epoch, train_loss, test_acc, seconds;
} Row;

struct Animator {
    char *csv, *png, *script;
    char *curves;    // gnuplot reads this: the CSV, or a temporary one if that cannot be read again
    int num_written; // rows that went to a CSV that cannot (a pipe, a terminal)
    Drawing drawing; // the PNG that gnuplot is writing
    bool can_draw, live;
    FILE *window; // a gnuplot that shows a window, or NULL
    Row *rows;
    int num_rows;
};

// ---- live ------------------------------------------------------------------------------------

static void show_live(Animator *a) {
    if (a->window) {
        fprintf(a->window, "call sprintf('%%s', script) curves 'window'\n");
        if (fflush(a->window) == 0) return;
        pipe_close(a->window); // its user has closed it
        a->window = NULL;
        return;
    }
    int columns = terminal_columns(); // 0 where there is no terminal
    char *output = xprintf("dumb %d 24", columns >= 40 ? columns : 80);
    fflush(stdout); // what was printed before comes before the plot
    Process gnuplot = gnuplot_start(a->script, (const char *const[]){a->curves, NULL}, output);
    if (gnuplot) gnuplot_succeeded(gnuplot);
    free(output);
}

// In gnuplot's single-quoted strings only the quote itself is special. It is doubled.
static void set_string(FILE *gnuplot, const char *name, const char *value) {
    fprintf(gnuplot, "%s = '", name);
    for (; *value; value++) {
        fputc(*value, gnuplot);
        if (*value == '\'') fputc('\'', gnuplot);
    }
    fputs("'\n", gnuplot);
}

static FILE *open_window(const Animator *a) {
    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")) return NULL;
    // A display is not enough: gnuplot-nox has no windows.
    if (!gnuplot_runs((char *[]){"gnuplot", "-e", "if (GPVAL_TERM eq 'unknown') { exit status 1 }",
                                 "-d", NULL}))
        return NULL;
    FILE *gnuplot = pipe_open("gnuplot -d -persist 2>/dev/null"); // it may be closed any time
    if (!gnuplot) return NULL;
    set_string(gnuplot, "script", a->script);
    char *curves = plot_path(a->curves);
    set_string(gnuplot, "curves", curves);
    free(curves);
    return gnuplot;
}

// ---- the interface ---------------------------------------------------------------------------

Animator *animator_new(const char *csv, const char *png, bool live) {
    Animator *a = xcalloc(1, sizeof *a);
    a->csv = xstrdup(csv);
    a->png = xstrdup(png);
    char *beside = xprintf("%s.csv", png);
    a->curves = is_written_directly(csv) ? output_temporary(beside) : xstrdup(csv);
    free(beside);
    a->script = plot_script("training_curves.gp");
    a->can_draw = plot_can_draw(a->script, "the curves go", csv);
    a->live = live && a->can_draw;
    if (a->live) a->window = open_window(a);
    return a;
}

static void print_rows(const Animator *a, int first, FILE *out) {
    for (int i = first; i < a->num_rows; i++) {
        const Row *row = &a->rows[i];
        fprintf(out, "%d,%g,%.6f,%.4f,%.3f\n", row->devices, row->epoch, row->train_loss,
                row->test_acc, row->seconds);
    }
}

static void write_rows(const Animator *a, const char *path, int first) {
    OutputFile file = output_open(path);
    if (first == 0) fprintf(file.stream, "devices,epoch,train_loss,test_acc,seconds\n");
    print_rows(a, first, file.stream);
    output_close(&file);
}

// Takes over the picture that gnuplot has been drawing.
static void finish_drawing(Animator *a) {
    if (!plot_finish(&a->drawing, a->png, a->csv)) a->can_draw = false;
}

static void add_row(Animator *a, Row row) {
    a->rows = xgrow(a->rows, (size_t)a->num_rows + 1, sizeof *a->rows);
    a->rows[a->num_rows++] = row;
}

char *animator_rows(const Animator *a) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out) print_rows(a, 0, out);
    if (!out || fclose(out) != 0) die("close other programs", "there is no memory for the curves");
    return text;
}

bool animator_restore(Animator *a, const char *rows) {
    while (*rows) {
        Row row;
        int length = 0;
        if (sscanf(rows, "%d,%lf,%lf,%lf,%lf%n", &row.devices, &row.epoch, &row.train_loss,
                   &row.test_acc, &row.seconds, &length) != 5 ||
            rows[length] != '\n')
            return false;
        add_row(a, row);
        rows += length + 1;
    }
    return true;
}

bool animator_last(const Animator *a, int devices, double *train_loss, double *test_acc,
                   double *seconds) {
    int count = 0;
    double total = 0;
    for (int i = 0; i < a->num_rows; i++) {
        const Row *row = &a->rows[i];
        if (row->devices != devices) continue;
        *train_loss = row->train_loss;
        *test_acc = row->test_acc;
        total += row->seconds;
        count++;
    }
    if (count > 0) *seconds = total / count;
    return count > 0;
}

void animator_add(Animator *a, int devices, double epoch, double train_loss, double test_acc,
                  double seconds) {
    add_row(a, (Row){devices, epoch, train_loss, test_acc, seconds});
    finish_drawing(a);
    // A file is written anew, whole; a pipe gets just the new rows.
    write_rows(a, a->csv, a->num_written);
    if (strcmp(a->curves, a->csv) != 0) {
        a->num_written = a->num_rows;
        if (a->can_draw) write_rows(a, a->curves, 0);
    }
    if (a->live) show_live(a);
    if (a->can_draw)
        a->drawing = plot_start(a->png, a->script, (const char *const[]){a->curves, NULL});
}

void animator_close(Animator *a) {
    finish_drawing(a);
    if (a->window) pipe_close(a->window);
    if (strcmp(a->curves, a->csv) != 0) output_discard(a->curves);
    free(a->curves);
    free(a->csv);
    free(a->png);
    free(a->script);
    free(a->rows);
    free(a);
}
