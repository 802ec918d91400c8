// training.c: the loop over epochs and minibatches, and what is printed of it.
#include "training.h"
#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "interrupt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

long training_steps(const Flags *flags, int batches) {
    long steps = (long)batches * flags->epochs;
    return flags->steps >= 0 && flags->steps < steps ? flags->steps : steps;
}

static void start(Training *t) {
    t->batches = data_iter_batches(t->iter);
    t->first_epoch = t->epochs_ended = t->epoch;
    t->total = training_steps(t->flags, t->batches);
    t->losses = tensor_new(host(), t->k);
    t->progress = progress_start(t->total - t->steps);
}

// Whether there is an epoch left to begin. With --steps 0 there is one without minibatches.
static bool next_epoch(Training *t) {
    bool only_evaluates = t->total == 0 && !t->begun;
    if (t->over || (t->steps >= t->total && !only_evaluates) || interrupted()) return false;
    if (t->begun) t->epoch++;
    t->begun = true;
    t->loss_sum = 0;
    t->images = 0;
    timer_start(&t->timer);
    data_iter_start(t->iter, t->epoch);
    return true;
}

// At the end of the epoch (or that of --steps, or when interrupted()) waits for all devices.
static bool next_batch(Training *t, Tensor **X, Tensor **y) {
    if (t->steps != t->flags->steps && !interrupted() && data_iter_next(t->iter, X, y)) {
        t->rows = (*X)->shape[0];
        trace_step(t->steps + 1);
        return true;
    }
    trace_step(0);
    t->train_loss = t->images > 0 ? t->loss_sum / (double)t->images : NAN;
    double before = t->timer.modelled_sum;
    t->seconds = timer_stop(&t->timer);
    t->modelled_seconds = t->timer.modelled_sum - before;
    progress_clear(&t->progress);
    return false;
}

static void check_loss(const Training *t, double loss) {
    if (isfinite(loss) || t->no_values) return;
    animator_close(t->animator); // the epochs before this one stay
    loss_log_write(t->log, t->flags->log_loss);
    die("start again with a smaller --lr", "the loss became %s at step %ld (epoch %d) with lr %g",
        isnan(loss) ? "nan" : "infinite", t->steps, t->epoch + 1, (double)t->lr);
}

// The mean loss of a minibatch: the summed losses of the shards, divided once.
static double mean_loss(Training *t, Tensor *const losses[]) {
    double total = 0;
    items(losses, t->k, t->losses->data);
    for (int i = 0; i < t->k; i++) total += (double)t->losses->data[i];
    return total / t->rows;
}

static void end_batch(Training *t, Tensor *const losses[]) {
    t->no_values = !has_values(losses[0]->device);
    double loss = mean_loss(t, losses);
    char text[80];
    t->steps++;
    check_loss(t, loss);
    loss_log_add(t->log, t->steps, loss);
    finish_on_interrupt(); // now there is something to keep
    t->loss_sum += loss * t->rows;
    t->images += t->rows;
    snprintf(text, sizeof text, "epoch %d/%d, loss %.3f", t->epoch + 1, t->flags->epochs, loss);
    progress_step(&t->progress, text);
}

// One digit after the point, as in the book; but an epoch on a GPU may take less than that.
static int digits_of(double seconds) { return seconds < 1 ? 3 : 1; }

// Returns whether a whole epoch has ended.
static bool end_epoch(Training *t, double test_acc) {
    t->over = t->total == 0 || (isnan(test_acc) && !t->no_values);
    t->test_acc = test_acc;
    if (t->over) return false;
    t->epochs_ended = t->epoch + 1;
    double epochs = (double)t->steps / t->batches; // not whole when --steps ends within one
    printf("  epoch %2.3g: ", epochs);
    if (t->no_values) {
        printf("modelled %.3g sec\n", t->modelled_seconds);
    } else {
        printf("train loss %.3f, test acc %.3f, %.*f sec\n", t->train_loss, test_acc,
               digits_of(t->seconds), t->seconds);
        animator_add(t->animator, t->k, epochs, t->train_loss, test_acc, t->seconds);
    }
    t->sec_per_epoch = t->timer.sum / (epochs - t->first_epoch);
    t->modelled_sec_per_epoch = t->timer.modelled_sum / (epochs - t->first_epoch);
    bool whole = t->steps == (long)(t->epoch + 1) * t->batches;
    if (whole) {
        t->fastest = t->fastest > 0 ? fmin(t->fastest, t->seconds) : t->seconds;
        t->slowest = fmax(t->slowest, t->seconds);
    }
    return whole;
}

static void end(Training *t) {
    tensor_free(t->losses);
    t->losses = NULL;
    t->no_values = !has_values(t->devices[0]); // with --steps 0 no minibatch has told
    bool has_epochs = t->sec_per_epoch > 0;
    if (interrupted() && t->epochs_ended > 0) {
        printf("interrupted after epoch %d%s\n", t->epochs_ended,
               t->animator ? ", the curves are kept" : "");
    } else if (interrupted()) {
        printf("interrupted in the first epoch%s\n",
               t->animator ? ": this run has no curves to keep yet" : "");
    } else if (!t->no_values) {
        printf("test acc: %.2f", t->test_acc);
        if (has_epochs) printf(", %.*f sec/epoch", digits_of(t->sec_per_epoch), t->sec_per_epoch);
        printf(" on %s", device_names(t->devices, t->k));
        if (t->modelled_sec_per_epoch > 0) // of a run before --resume it is not known
            printf("; modelled on %s: %.3g", modelled_machine()->name, t->modelled_sec_per_epoch);
        putchar('\n');
    } else if (has_epochs) { // without values there is only the time on a machine
        printf("modelled: %.3g sec/epoch on %d device%s of %s\n", t->modelled_sec_per_epoch, t->k,
               t->k > 1 ? "s" : "", modelled_machine()->name);
    }
}

void train_epochs(Training *t) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    start(t);
    while (next_epoch(t)) {
        while (next_batch(t, &X, &y)) {
            t->step(t, X, y, losses);
            end_batch(t, losses); // waits for all devices
        }
        if (interrupted()) break;
        bool whole = end_epoch(t, t->accuracy(t));
        if (whole && t->whole_epoch) t->whole_epoch(t);
    }
    end(t);
}

// ---- two runs --------------------------------------------------------------------------------

// What k devices compute with. free() it.
static char *where_they_run(const Training *t) {
    int each = t->flags->threads_per_device, gpus = num_gpus(), cores = num_threads();
    if (gpus > 0) return xprintf("%d devices on %d GPU%s", t->k, gpus, gpus > 1 ? "s" : "");
    if (each > 0) return xprintf("%d devices of %d core%s each", t->k, each, each > 1 ? "s" : "");
    return xprintf("%d devices that share %d core%s", t->k, cores, cores > 1 ? "s" : "");
}

static Quartiles epoch_times(const Training *t) {
    return (Quartiles){t->fastest, t->sec_per_epoch, t->slowest};
}

double compare_epochs(const Training *one, const Training *two) {
    int fewest = 5; // of three epochs each, any may be the slow one
    bool noisy = one->epochs_ended - one->first_epoch < fewest ||
                 two->epochs_ended - two->first_epoch < fewest ||
                 too_noisy_to_compare(epoch_times(one), epoch_times(two));
    double times = noisy ? (double)NAN : two->sec_per_epoch / one->sec_per_epoch;
    char *where = where_they_run(two);
    if (noisy)
        printf("Time, measured, on %s: too noisy to compare\n", where);
    else
        printf("Time, measured, on %s: %.2f times as long as on 1\n", where, times);
    free(where);
    return times;
}
