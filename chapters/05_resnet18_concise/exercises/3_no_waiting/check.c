// check.c: the host must be as far ahead as it is said to be, and no further; and losses and
// parameters must have the bits of a host that waits at the end of each step.
#include "common/base/clock.h"
#include "common/device/trace.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ## How far was it ahead?

// By the clocks of the devices: see trace.h.
static int most_ahead(const Loader *loader, int steps, const TraceSpan *spans, int count) {
    double end[MOST_STEPS] = {0};
    int most = 0;
    for (int s = 0; s < count; s++) {
        if (!spans[s].label[0]) continue;
        int step = atoi(spans[s].label);
        end[step] = fmax(end[step], spans[s].end);
    }
    for (int n = 1; n < steps; n++) {
        int under_way = 0;
        for (int before = 0; before < n; before++) under_way += end[before] > loader->prepared[n];
        most = under_way > most ? under_way : most;
    }
    return most;
}

int trace_run(DataParallel *dp, Loader *loader, int steps, int ahead, float lr, double losses[]) {
    int count;
    synchronize_all();
    loader->began = seconds_now();
    trace_begin();
    train_ahead(dp, loader, steps, ahead, lr, losses);
    TraceSpan *spans = trace_end(&count);
    int most = most_ahead(loader, steps, spans, count);
    free(spans);
    return most;
}

// ## The check

enum { CHECKED_STEPS = 8, CHECKED_BATCH = 24 };

// As chapter 5's program: waits for the losses of each step. Returns the parameters; free() them.
static float *train_waiting(Module *net, const Dataset *data, int k, double losses[]) {
    Tensor *shard_losses[MAX_DEVICES];
    DataParallel dp = network_on(net, k, BN_AVERAGED, 7);
    Loader *loader = loader_new(data, CHECKED_BATCH, k, 1);
    for (int n = 0; n < CHECKED_STEPS; n++) {
        Slot *slot = prepare(loader, n);
        train_step(&dp, slot->X, slot->y, 0.5f, shard_losses);
        losses[n] = 0;
        for (int i = 0; i < k; i++) losses[n] += (double)item(shard_losses[i]);
        losses[n] /= CHECKED_BATCH;
    }
    loader_free(loader);
    return network_values(net, dp.devices[k - 1]);
}

static void slow_down(const DataParallel *dp, double times) {
    if (num_gpus() > 0) return;
    for (int i = 0; i < dp->k; i++) device_set_slowdown(dp->devices[i], times);
}

static void check_most(int most, int k, int ahead) {
    int least = ahead < 2 ? ahead : 2; // how far beyond that depends on who else wants the cores
    EXPECT(most <= ahead,
           "before prepare() of step n, wait for step n - 1 - ahead: then `ahead` steps are left",
           "train_ahead(), k = %d, ahead %d: %d steps were under way when another began, expected "
           "%d at most",
           k, ahead, most, ahead);
    EXPECT(most >= least || num_gpus() > 0,
           "before step n wait for step n - 1 - ahead only: item() and synchronize_all() wait for "
           "everything, and so does wait_for() of a later step",
           "train_ahead(), k = %d, ahead %d: %d steps of slow devices were under way at most when "
           "another began, expected %d at least",
           k, ahead, most, least);
}

// What may have gone wrong with the loss of step n.
static const char *hint_for_loss(const double came[], const double expected[], int n) {
    static char text[160];
    if (isnan(came[n]))
        return "nothing was written there: losses[n] is what wait_for() says of step n; steps that "
               "are under way at the end have to be waited for, too";
    for (int other = 0; other < CHECKED_STEPS; other++)
        if (came[n] == expected[other]) {
            snprintf(text, sizeof text,
                     "that is the loss of step %d: was the slot used again before step %d was "
                     "waited for, or the loss written to another place?",
                     other, n);
            return text;
        }
    return "suspects: prepare() before the last step that used this slot was waited for, "
           "keep_losses() left out, train_step() with another lr or other images than the slot's";
}

static void check_losses(const double came[], const double expected[], int k, int ahead) {
    for (int n = 0; n < CHECKED_STEPS; n++)
        EXPECT(came[n] == expected[n], hint_for_loss(came, expected, n),
               "train_ahead(), k = %d, ahead %d: losses[%d] is %g, expected %g", k, ahead, n,
               came[n], expected[n]);
}

static void check_run(Module *net, const Dataset *data, int k, int ahead) {
    double expected_losses[CHECKED_STEPS], losses[CHECKED_STEPS];
    float *expected = train_waiting(net, data, k, expected_losses);
    DataParallel dp = network_on(net, k, BN_AVERAGED, 7);
    Loader *loader = loader_new(data, CHECKED_BATCH, k, ahead + 1);
    for (int n = 0; n < CHECKED_STEPS; n++) losses[n] = NAN;
    slow_down(&dp, 8); // so that a host that can run ahead does
    int most = trace_run(&dp, loader, CHECKED_STEPS, ahead, 0.5f, losses);
    slow_down(&dp, 1);
    float *came = network_values(net, dp.devices[k - 1]);
    check_losses(losses, expected_losses, k, ahead);
    check_most(most, k, ahead);
    EXPECT(memcmp(came, expected, parameter_bytes(net)) == 0,
           "the losses are right, so it is the end: one train_step() for each step, and none after "
           "the last",
           "train_ahead(), k = %d, ahead %d: the parameters at the end differ from those of a host "
           "that waits",
           k, ahead);
    loader_free(loader);
    free(expected);
    free(came);
}

static void check_prediction(void) {
    static const double none[4] = {0}, half[4] = {1, 1, 1, 1}, burst[4] = {0, 0, 4, 0};
    static const struct {
        const char *name;
        const double *host_seconds;
        int ahead;
        double expected;
    } cases[] = {{"0 0 0 0", none, 0, 8}, {"1 1 1 1", half, 0, 12},  {"1 1 1 1", half, 1, 9},
                 {"1 1 1 1", half, 3, 9}, {"0 0 4 0", burst, 0, 12}, {"0 0 4 0", burst, 1, 10},
                 {"0 0 4 0", burst, 3, 8}};
    for (int c = 0; c < 7; c++) {
        double came = predict(4, cases[c].ahead, cases[c].host_seconds, 2);
        EXPECT(
            fabs(came - cases[c].expected) <= 1e-9,
            "the host begins with step n when it has handed over step n - 1 and step n - 1 - ahead "
            "is done; the devices, when they have been handed step n and step n - 1 is done; "
            "what is asked for is when the last step is done",
            "predict(), 4 steps, the host needs %s s for them, the devices 2 s for each, ahead "
            "%d: %g s, expected %g s",
            cases[c].name, cases[c].ahead, came, cases[c].expected);
    }
}

static void check(const Flags *flags) {
    Dataset *data = small_images(flags->data, false, 100);
    Module *net = small_network();
    for (int ahead = 0; ahead <= 2; ahead++) check_run(net, data, 2, ahead);
    check_run(net, data, 1, 1);
    check_run(net, data, 3, CHECKED_STEPS - 1);
    check_prediction();
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
}

const CheckPart check_parts[] = {
    {"never further ahead than said, and the bits of a host that waits", 10, check}, {0}};
