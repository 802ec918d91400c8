// curves.c: keeps the points of the curves as text. With each new point it takes over the picture
// that gnuplot has drawn, writes the CSV anew, and starts gnuplot again.
#include "curves.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/platform.h"
#include "common/data/evaluate.h"
#include "common/device/trace.h"
#include "common/model/modelled_clock.h"
#include "interrupt.h"
#include "plot.h"
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Curves {
    const Flags *flags;
    char *rows; // of the CSV, without its head
    const char *csv, *png;
    char *file; // gnuplot reads this: the CSV, or a temporary one if that cannot be read again
    char *script;
    bool can_draw;
    Drawing drawing; // the PNG that gnuplot is writing
    FILE *losses;    // "step,loss" for --log-loss, in memory until the end
    char *loss_text;
    size_t loss_size;
    // Of this run:
    Device *const *devices;
    int k;
    float lr;
    int batches; // of an epoch
    long steps, total;
    int first_epoch, last_epoch; // the run began after the first one; the last one in the curves
    double seconds, modelled_seconds; // of the timer, at the end of the last epoch
    const char *diverged;             // of the last epoch
    Progress progress;
};

Curves *curves_new(const Flags *flags, const char *csv, const char *png) {
    Curves *c = xcalloc(1, sizeof *c);
    *c = (Curves){.flags = flags, .rows = xstrdup(""), .csv = csv, .png = png};
    if (flags->log_loss) c->losses = open_memstream(&c->loss_text, &c->loss_size);
    if (!csv) return c;
    char *beside = xprintf("%s.csv", png);
    c->file = is_written_directly(csv) ? output_temporary(beside) : xstrdup(csv);
    free(beside);
    c->script = plot_script("training_curves.gp");
    c->can_draw = plot_can_draw(c->script, "the curves go", csv);
    return c;
}

// ---- the curves --------------------------------------------------------------------------------

static void write_csv(const char *path, const char *head, const char *rows) {
    OutputFile file = output_open(path);
    fprintf(file.stream, "%s\n%s", head, rows);
    output_close(&file);
}
static void write_points(const Curves *c, const char *path) {
    write_csv(path, "devices,epoch,train_loss,test_acc,seconds", c->rows);
}

static void show_as_text(const Curves *c) {
    int columns = terminal_columns(); // 0 where there is no terminal
    char *output = xprintf("dumb %d 24", columns >= 40 ? columns : 80);
    fflush(stdout); // what was printed before comes before the plot
    Process gnuplot = gnuplot_start(c->script, (const char *const[]){c->file, NULL}, output);
    if (gnuplot) gnuplot_succeeded(gnuplot);
    free(output);
}

static void finish_drawing(Curves *c) {
    if (!plot_finish(&c->drawing, c->png, c->csv)) c->can_draw = false;
}

static void add_point(Curves *c, double epoch, double loss, double acc, double seconds) {
    char *rows = xprintf("%s%d,%g,%.6f,%.4f,%.3f\n", c->rows, c->k, epoch, loss, acc, seconds);
    free(c->rows);
    c->rows = rows;
    if (!c->csv) return;
    finish_drawing(c);
    write_points(c, c->file);
    if (c->can_draw && c->flags->live) show_as_text(c);
    if (c->can_draw)
        c->drawing = plot_start(c->png, c->script, (const char *const[]){c->file, NULL});
}

void curves_free(Curves *c) {
    if (c->losses && fclose(c->losses) == 0)
        write_csv(c->flags->log_loss, "step,loss", c->loss_text);
    if (c->csv) {
        finish_drawing(c);
        bool is_temporary = strcmp(c->file, c->csv) != 0;
        if (is_temporary) write_points(c, c->csv);
        if (is_temporary) output_discard(c->file);
    }
    free(c->loss_text);
    free(c->file);
    free(c->script);
    free(c->rows);
    free(c);
}

char *curves_rows(const Curves *c) { return xstrdup(c->rows); }

// Reads the row at *rows, and goes to the next one. Returns its devices; 0: there is no whole row.
static int next_row(const char **rows, double *acc) {
    int devices, length = 0;
    double epoch, loss, seconds;
    if (sscanf(*rows, "%d,%lf,%lf,%lf,%lf%n", &devices, &epoch, &loss, acc, &seconds, &length) != 5)
        return 0;
    *rows += length;
    return *(*rows)++ == '\n' ? devices : 0;
}

bool curves_restore(Curves *c, const char *rows) {
    double acc;
    free(c->rows);
    c->rows = xstrdup(rows);
    while (*rows)
        if (next_row(&rows, &acc) < 1) return false;
    return true;
}

double curves_last(const Curves *c, int devices) {
    double acc, last = NAN;
    for (const char *rows = c->rows; *rows;)
        if (next_row(&rows, &acc) == devices) last = acc;
    return last;
}

// ---- a run -------------------------------------------------------------------------------------

long curves_begin(Curves *c, const DataIter *iter, Device *const devices[], int k, float lr) {
    const Flags *flags = c->flags;
    c->devices = devices;
    c->k = k;
    c->lr = lr;
    c->batches = data_iter_batches(iter);
    c->total = (long)c->batches * flags->epochs;
    if (flags->steps >= 0 && flags->steps < c->total) c->total = flags->steps;
    c->seconds = c->modelled_seconds = 0;
    c->diverged = "";
    curves_go_on(c, 0);
    return c->total;
}

void curves_go_on(Curves *c, int epoch) {
    c->first_epoch = c->last_epoch = epoch;
    c->steps = (long)epoch * c->batches;
    c->progress = progress_start(c->total - c->steps);
}

long curves_steps(const Curves *c) { return c->steps; }

bool curves_more(const Curves *c) { return c->steps < c->total && !interrupted(); }

bool curves_next(Curves *c, DataIter *iter, Tensor **X, Tensor **y) {
    bool more = curves_more(c) && data_iter_next(iter, X, y);
    trace_step(more ? c->steps + 1 : 0);
    if (!more) progress_clear(&c->progress);
    return more;
}

static int epoch_of_step(const Curves *c) { return (int)((c->steps - 1) / c->batches) + 1; }

static void check_loss(Curves *c, double loss) {
    if (isfinite(loss) || !has_values(c->devices[0])) return;
    int epoch = epoch_of_step(c);
    long step = c->steps;
    float lr = c->lr;
    curves_free(c); // the epochs before this one stay
    die("start again with a smaller --lr", "the loss became %s at step %ld (epoch %d) with lr %g",
        isnan(loss) ? "nan" : "infinite", step, epoch, (double)lr);
}

double curves_loss(Curves *c, Tensor *const losses[], int rows) {
    float values[MAX_DEVICES];
    double sum = 0; // of the shards' losses
    items(losses, c->k, values);
    for (int i = 0; i < c->k; i++) sum += (double)values[i];
    c->steps++;
    check_loss(c, sum / rows);
    if (c->losses) fprintf(c->losses, "%ld,%.9g\n", c->steps, (double)(float)(sum / rows));
    finish_on_interrupt(); // now there is something to keep
    char text[80];
    snprintf(text, sizeof text, "epoch %d/%d, loss %.3f", epoch_of_step(c), c->flags->epochs,
             sum / rows);
    progress_step(&c->progress, text);
    return sum;
}

// One digit after the point, as in the book; but an epoch on a GPU may take less than that.
static int digits_of(double seconds) { return seconds < 1 ? 3 : 1; }

bool curves_epoch(Curves *c, double loss, double acc, const Timer *timer) {
    double seconds = timer->sum - c->seconds, modelled = timer->modelled_sum - c->modelled_seconds;
    double epochs = (double)c->steps / c->batches; // not whole when --steps ends within one
    c->last_epoch = epoch_of_step(c);
    c->diverged = has_values(c->devices[0]) ? divergence(loss) : "";
    c->seconds = timer->sum;
    c->modelled_seconds = timer->modelled_sum;
    printf("  epoch %2.3g: ", epochs);
    if (has_values(c->devices[0])) {
        printf("train loss %.3f, test acc %.3f, %.*f sec%s\n", loss, acc, digits_of(seconds),
               seconds, c->diverged);
        add_point(c, epochs, loss, acc, seconds);
    } else {
        printf("modelled %.3g sec\n", modelled);
    }
    return c->steps == (long)c->last_epoch * c->batches;
}

// What follows "sec/epoch" if no epoch was whole.
static const char *extrapolated(const Curves *c) {
    long steps = c->steps - (long)c->first_epoch * c->batches;
    if (steps >= c->batches) return "";
    return xprintf(" (extrapolated from %ld of %d steps)", steps, c->batches);
}

const char *curves_end(const Curves *c, double acc) {
    double epochs = (double)c->steps / c->batches - c->first_epoch;
    double seconds = c->seconds / epochs, modelled = c->modelled_seconds / epochs; // or 0 / 0
    if (interrupted() && c->last_epoch > 0) {
        printf("interrupted after epoch %d%s\n", c->last_epoch,
               c->csv ? ", the curves are kept" : "");
    } else if (interrupted()) {
        printf("interrupted in the first epoch%s\n",
               c->csv ? ": this run has no curves to keep yet" : "");
    } else if (has_values(c->devices[0])) {
        printf("test acc: %.2f", acc);
        if (seconds > 0) printf(", %.*f sec/epoch%s", digits_of(seconds), seconds, extrapolated(c));
        printf(" on %s", device_names(c->devices, c->k));
        if (modelled > 0)
            printf("; modelled on %s: %.3g sec/epoch", modelled_machine()->name, modelled);
        putchar('\n');
    } else if (epochs > 0) { // without values there is only the time on a machine
        printf("modelled: %.3g sec/epoch%s on %d device%s of %s\n", modelled, extrapolated(c), c->k,
               c->k > 1 ? "s" : "", modelled_machine()->name);
    }
    return c->diverged;
}
