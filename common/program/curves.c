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

static void show_as_text(const Curves *c) {
    int columns = terminal_columns(); // 0 where there is no terminal
    char *output = xprintf("dumb %d 24", columns >= 40 ? columns : 80);
    fflush(stdout); // what was printed before comes before the plot
    Process gnuplot = gnuplot_start(c->script, (const char *const[]){c->csv, NULL}, output);
    if (gnuplot) gnuplot_succeeded(gnuplot);
    free(output);
}

static void finish_drawing(Curves *c) {
    if (!plot_finish(&c->drawing, c->csv)) c->can_draw = false;
}

static void add_point(Curves *c, double epoch, double loss, double acc, double seconds) {
    char *rows = xprintf("%s%d,%g,%.6f,%.4f,%.3f\n", c->rows, c->k, epoch, loss, acc, seconds);
    free(c->rows);
    c->rows = rows;
    if (!c->csv) return;
    finish_drawing(c);
    write_csv(c->csv, "devices,epoch,train_loss,test_acc,seconds", c->rows);
    if (c->can_draw && c->flags->live) show_as_text(c);
    if (c->can_draw)
        c->drawing = plot_start(c->png, c->script, (const char *const[]){c->csv, NULL});
}

void curves_free(Curves *c) {
    if (c->losses && fclose(c->losses) == 0)
        write_csv(c->flags->log_loss, "step,loss", c->loss_text);
    finish_drawing(c);
    free(c->loss_text);
    free(c->script);
    free(c->rows);
    free(c);
}

const char *curves_rows(const Curves *c) { return c->rows; }

// ---- a run -------------------------------------------------------------------------------------

static void go_on_after(Curves *c, int epoch) {
    c->first_epoch = c->last_epoch = epoch;
    c->steps = (long)epoch * c->batches;
    c->progress = progress_start(c->total - c->steps);
}

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
    go_on_after(c, 0);
    return c->total;
}

void curves_go_on(Curves *c, int epoch, const char *rows) {
    free(c->rows);
    c->rows = xstrdup(rows);
    go_on_after(c, epoch);
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
