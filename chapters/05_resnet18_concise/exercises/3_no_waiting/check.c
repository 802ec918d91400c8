// check.c: the host must be as far ahead as it is said to be, and no further; and losses and
// parameters must have the bits of steps that are made one by one.
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

// One step of chapter 5's program, on the first minibatch that is left. Returns its mean loss.
static double step_alone(DataParallel *dp, const Dataset *left) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    float sums[MAX_DEVICES];
    double loss = 0;
    DataIter *iter = data_iter_new(left, CHECKED_BATCH, false, 0);
    data_iter_first(iter, &X, &y);
    train_step(dp, X, y, 0.5f, losses);
    items(losses, dp->k, sums); // waits
    data_iter_free(iter);
    for (int i = 0; i < dp->k; i++) loss += (double)sums[i];
    return loss / CHECKED_BATCH;
}

// Each step for itself, without a loader: what is right. Returns the parameters; free() them.
static float *train_apart(Module *net, const Dataset *data, int k, double losses[]) {
    DataParallel dp = network_on(net, k, BN_AVERAGED, 7);
    Dataset left = *data;
    for (int n = 0; n < CHECKED_STEPS; n++) {
        losses[n] = step_alone(&dp, &left);
        left.images += CHECKED_BATCH * left.rows * left.cols;
        left.labels += CHECKED_BATCH;
        left.count -= CHECKED_BATCH;
    }
    return network_values(net, dp.devices[k - 1]);
}

static void slow_down(const DataParallel *dp, double times) {
    if (num_gpus() > 0) return;
    for (int i = 0; i < dp->k; i++) device_set_slowdown(dp->devices[i], times);
}

// One call of your part: what it is called with, and what came. `loader` and `came` are freed by
// run_close().
typedef struct Run {
    int k, ahead, most; // `most` steps were under way at most when another began
    Loader *loader;
    double losses[CHECKED_STEPS];
    float *came;
} Run;

static Run run_open(Module *net, const Dataset *data, int k, int ahead) {
    Run r = {.k = k, .ahead = ahead, .loader = loader_new(data, CHECKED_BATCH, k, ahead + 1)};
    DataParallel dp = network_on(net, k, BN_AVERAGED, 7);
    for (int n = 0; n < CHECKED_STEPS; n++) r.losses[n] = NAN;
    slow_down(&dp, 8); // so that a host that can run ahead does
    r.most = trace_run(&dp, r.loader, CHECKED_STEPS, ahead, 0.5f, r.losses);
    slow_down(&dp, 1);
    r.came = network_values(net, dp.devices[k - 1]);
    return r;
}

static void run_close(Run *r) {
    loader_free(r->loader);
    free(r->came);
}

// ## Losses and parameters

// What may have gone wrong with the loss of step n.
static const char *hint_for_loss(const Run *r, const double expected[], int n) {
    static char text[160];
    if (isnan(r->losses[n]))
        return "nothing was written there: losses[n] is what wait_for() says of step n; steps that "
               "are under way at the end have to be waited for, too";
    if (r->most > r->ahead)
        return "the host was too far ahead, so prepare() wrote over the slot of a step that was "
               "under way: before it, wait for step n - 1 - ahead";
    for (int other = 0; other < CHECKED_STEPS; other++)
        if (r->losses[n] == expected[other]) {
            snprintf(text, sizeof text,
                     "that is the loss of step %d: was the slot used again before step %d was "
                     "waited for, or the loss written to another place?",
                     other, n);
            return text;
        }
    return "suspects: prepare() before the last step that used this slot was waited for, "
           "keep_losses() left out, train_step() with another lr or other images than the slot's";
}

static void check_losses(const Run *r, const double expected[]) {
    for (int n = 0; n < CHECKED_STEPS; n++)
        EXPECT(r->losses[n] == expected[n], hint_for_loss(r, expected, n),
               "train_ahead(), k = %d, ahead %d: losses[%d] is %g, expected %g", r->k, r->ahead, n,
               r->losses[n], expected[n]);
}

static void check_bits(const Run *r, Module *net, const Dataset *data) {
    double losses[CHECKED_STEPS];
    float *expected = train_apart(net, data, r->k, losses);
    check_losses(r, losses);
    EXPECT(memcmp(r->came, expected, parameter_bytes(net)) == 0,
           "the losses are right, so it is the end: one train_step() for each step, and none after "
           "the last",
           "train_ahead(), k = %d, ahead %d: the parameters at the end differ from those of steps "
           "that are made one by one, expected the same bits",
           r->k, r->ahead);
    free(expected);
}

// ## How far ahead

// A host that did not begin with a step was not ahead of anything.
static void check_all_began(const Run *r) {
    int began = 0;
    for (int n = 0; n < CHECKED_STEPS; n++) began += r->loader->prepared[n] > 0;
    EXPECT(began == CHECKED_STEPS, "prepare(loader, n) for each step n, from 0 to steps - 1",
           "train_ahead(), k = %d, ahead %d: %d steps were prepared, expected %d", r->k, r->ahead,
           began, CHECKED_STEPS);
}

static void check_at_most(const Run *r, Module *net, const Dataset *data) {
    (void)net, (void)data;
    check_all_began(r);
    EXPECT(r->most <= r->ahead,
           "before prepare() of step n, wait for step n - 1 - ahead: then `ahead` steps are left",
           "train_ahead(), k = %d, ahead %d: %d steps were under way when another began, expected "
           "%d at most",
           r->k, r->ahead, r->most, r->ahead);
}

static void check_at_least(const Run *r, Module *net, const Dataset *data) {
    int least = r->ahead < 2 ? r->ahead : 2; // beyond that it depends on who else wants the cores
    (void)net, (void)data;
    check_all_began(r);
    EXPECT(r->most >= least || num_gpus() > 0,
           "before step n wait for step n - 1 - ahead only: item() and synchronize_all() wait for "
           "everything, and so does wait_for() of a later step",
           "train_ahead(), k = %d, ahead %d: %d steps of slow devices were under way at most when "
           "another began, expected %d at least",
           r->k, r->ahead, r->most, least);
}

// ## The seconds

// The third case, for example: step 0 is handed over at 1 and done at 3, step 1 handed over at 2
// and done at 5. The host begins with step 2 when step 0 is done, hands it over at 4, and it is
// done at 7; step 3 waits for step 1, is handed over at 6 and done at 9.
enum { PREDICTED_STEPS = 4 };
static const double device_seconds = 2;

typedef struct Case {
    const char *name;
    double host_seconds[PREDICTED_STEPS];
    int ahead;
    double expected, side_by_side, never_waiting; // what mistakes in the steps or the host lead to
} Case;

static const char *hint_for_seconds(const Case *c, double came) {
    if (came == c->side_by_side)
        return "so long it takes if steps overlap on the devices, too: these do one after the "
               "other, and begin with step n when step n - 1 is done";
    if (came == c->never_waiting)
        return "so long it takes if the host never waits: it begins with step n when step n - 1 - "
               "ahead is done";
    if (came == c->expected - device_seconds)
        return "that is when the last step begins on the devices: what is asked for is when it is "
               "done";
    return "the host begins with step n when it has handed over step n - 1 and step n - 1 - ahead "
           "is done; the devices, when they have been handed step n and step n - 1 is done; what "
           "is asked for is when the last step is done";
}

static void check_seconds(const Flags *flags) {
    static const Case cases[] = {
        {"0 0 0 0", {0, 0, 0, 0}, 0, 8, NAN, NAN}, {"1 1 1 1", {1, 1, 1, 1}, 0, 12, NAN, 9},
        {"1 1 1 1", {1, 1, 1, 1}, 1, 9, 7, NAN},   {"1 1 1 1", {1, 1, 1, 1}, 3, 9, 6, NAN},
        {"0 0 4 0", {0, 0, 4, 0}, 0, 12, NAN, 8},  {"0 0 4 0", {0, 0, 4, 0}, 1, 10, NAN, 8},
        {"0 0 4 0", {0, 0, 4, 0}, 3, 8, 6, NAN}};
    (void)flags;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const Case *c = &cases[n];
        double came = predict(PREDICTED_STEPS, c->ahead, c->host_seconds, device_seconds);
        EXPECT(fabs(came - c->expected) <= 1e-9, hint_for_seconds(c, came),
               "predict(), %d steps, the host needs %s s for them, the devices %g s for each, "
               "ahead %d: %g s, expected %g s",
               PREDICTED_STEPS, c->name, device_seconds, c->ahead, came, c->expected);
    }
}

// ## The parts

typedef void Look(const Run *r, Module *net, const Dataset *data);

// Calls your part with k devices, `from` to `to` steps ahead, and looks at what came.
static void check_runs(const Flags *flags, int k, int from, int to, Look *look) {
    Dataset *data = small_images(flags->data, false, CHECKED_STEPS * CHECKED_BATCH);
    Module *net = small_network();
    for (int ahead = from; ahead <= to; ahead++) {
        Run r = run_open(net, data, k, ahead);
        look(&r, net, data);
        run_close(&r);
    }
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
}

static void check_all_runs_ahead(const Flags *flags, Look *look) {
    check_runs(flags, 2, 1, 2, look);
    check_runs(flags, 1, 1, 1, look);
    check_runs(flags, 3, CHECKED_STEPS - 1, CHECKED_STEPS - 1, look);
}

static void check_waiting(const Flags *flags) { check_runs(flags, 2, 0, 0, check_bits); }
static void check_ahead(const Flags *flags) { check_all_runs_ahead(flags, check_bits); }
static void check_no_further(const Flags *flags) {
    check_runs(flags, 2, 0, 0, check_at_most);
    check_all_runs_ahead(flags, check_at_most);
}
static void check_as_far(const Flags *flags) { check_all_runs_ahead(flags, check_at_least); }

const CheckPart check_parts[] = {
    {"train_ahead(): 0 steps ahead, the bits of a host that waits", 2, check_waiting},
    {"train_ahead(): further ahead, still the same bits", 2, check_ahead},
    {"train_ahead(): never further ahead than said", 2, check_no_further},
    {"train_ahead(): as far ahead as said", 2, check_as_far},
    {"predict(): the seconds of steps that overlap", 2, check_seconds},
    {0}};
