// training.c: the loop over epochs and minibatches, and what it prints.
#include "training.h"
#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/data/evaluate.h"
#include "common/device/trace.h"
#include "interrupt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

long training_steps(const Flags *flags, int batches) {
    long steps = (long)batches * flags->epochs;
    return flags->steps >= 0 && flags->steps < steps ? flags->steps : steps;
}

static void check_loss(const Training *t, double loss) {
    if (isfinite(loss) || t->no_values) return;
    animator_close(t->animator); // the epochs before this one stay
    loss_log_write(t->log, t->flags->log_loss);
    die("start again with a smaller --lr", "the loss became %s at step %ld (epoch %d) with lr %g",
        isnan(loss) ? "nan" : "infinite", t->steps, t->epoch + 1, (double)t->lr);
}

// Trains with a minibatch, waits for all devices, and returns the mean loss.
static double train_minibatch(Training *t, const Tensor *X, const Tensor *y) {
    Tensor *losses[MAX_DEVICES];
    trace_step(t->steps + 1);
    t->step(t, X, y, losses);
    items(losses, t->k, t->losses->data);
    double sum = 0; // of the shards' losses; it is divided once
    for (int i = 0; i < t->k; i++) sum += (double)t->losses->data[i];
    double loss = sum / X->shape[0];
    t->steps++;
    check_loss(t, loss);
    loss_log_add(t->log, t->steps, loss);
    finish_on_interrupt(); // now there is something to keep
    char text[80];
    snprintf(text, sizeof text, "epoch %d/%d, loss %.3f", t->epoch + 1, t->flags->epochs, loss);
    progress_step(&t->progress, text);
    return loss;
}

// Trains with the minibatches of an epoch. --steps or an interruption may end it earlier.
static void train_epoch(Training *t) {
    double loss_sum = 0, modelled_before = t->timer.modelled_sum;
    long images = 0;
    Tensor *X, *y;
    timer_start(&t->timer);
    data_iter_start(t->iter, t->epoch);
    while (t->steps != t->flags->steps && !interrupted() && data_iter_next(t->iter, &X, &y)) {
        int rows = X->shape[0];
        loss_sum += train_minibatch(t, X, y) * rows;
        images += rows;
    }
    trace_step(0);
    t->train_loss = images > 0 ? loss_sum / (double)images : NAN;
    t->seconds = timer_stop(&t->timer); // waits for all devices
    t->modelled_seconds = t->timer.modelled_sum - modelled_before;
    progress_clear(&t->progress);
}

// One digit after the point, as in the book; but an epoch on a GPU may take less than that.
static int digits_of(double seconds) { return seconds < 1 ? 3 : 1; }

// Prints the line of an epoch that was trained and evaluated, adds its point to the curves, and
// remembers its times.
static void end_epoch(Training *t) {
    t->epochs_ended = t->epoch + 1;
    double epochs = (double)t->steps / t->batches; // not whole when --steps ends within one
    printf("  epoch %2.3g: ", epochs);
    if (t->no_values) {
        printf("modelled %.3g sec\n", t->modelled_seconds);
    } else {
        printf("train loss %.3f, test acc %.3f, %.*f sec%s\n", t->train_loss, t->test_acc,
               digits_of(t->seconds), t->seconds, divergence(t->train_loss));
        animator_add(t->animator, t->k, epochs, t->train_loss, t->test_acc, t->seconds);
    }
    t->sec_per_epoch = t->timer.sum / (epochs - t->first_epoch);
    t->modelled_sec_per_epoch = t->timer.modelled_sum / (epochs - t->first_epoch);
    bool whole = t->steps == (long)t->epochs_ended * t->batches;
    if (whole && t->whole_epoch) t->whole_epoch(t);
}

// What follows "sec/epoch" if no epoch was whole.
static const char *extrapolated(const Training *t) {
    long steps = t->steps - (long)t->first_epoch * t->batches;
    return steps < t->batches ? xprintf(" (extrapolated from %ld of %d steps)", steps, t->batches)
                              : "";
}

static void print_result(const Training *t) {
    bool has_epochs = t->sec_per_epoch > 0;
    if (interrupted() && t->epochs_ended > 0) {
        printf("interrupted after epoch %d%s\n", t->epochs_ended,
               t->animator ? ", the curves are kept" : "");
    } else if (interrupted()) {
        printf("interrupted in the first epoch%s\n",
               t->animator ? ": this run has no curves to keep yet" : "");
    } else if (!t->no_values) {
        printf("test acc: %.2f", t->test_acc);
        if (has_epochs)
            printf(", %.*f sec/epoch%s", digits_of(t->sec_per_epoch), t->sec_per_epoch,
                   extrapolated(t));
        printf(" on %s", device_names(t->devices, t->k));
        if (t->modelled_sec_per_epoch > 0) // of a run before --resume it is not known
            printf("; modelled on %s: %.3g sec/epoch", modelled_machine()->name,
                   t->modelled_sec_per_epoch);
        putchar('\n');
    } else if (has_epochs) { // without values there is only the time on a machine
        printf("modelled: %.3g sec/epoch%s on %d device%s of %s\n", t->modelled_sec_per_epoch,
               extrapolated(t), t->k, t->k > 1 ? "s" : "", modelled_machine()->name);
    }
}

void train_epochs(Training *t) {
    t->no_values = !has_values(t->devices[0]);
    t->batches = data_iter_batches(t->iter);
    t->first_epoch = t->epochs_ended = t->epoch;
    t->total = training_steps(t->flags, t->batches);
    t->losses = tensor_new(host(), t->k);
    t->progress = progress_start(t->total - t->steps);
    while (t->steps < t->total && !interrupted()) {
        train_epoch(t);
        if (interrupted()) break;
        t->test_acc = t->accuracy(t);
        if (isnan(t->test_acc) && !t->no_values) break; // the evaluation was interrupted
        end_epoch(t);
        t->epoch++;
    }
    if (t->total == 0 && !interrupted()) t->test_acc = t->accuracy(t);
    tensor_free(t->losses);
    print_result(t);
}
