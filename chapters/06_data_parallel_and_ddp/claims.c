// claims.c: what the text says, and what is true. Each answer rests on figures that are taken here.
#include "claims.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "chapters/03_split_batch/split_batch.h"
#include "step_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_claim(int number, const char *claim) { say("\n%d. \"%s\"", number, claim); }
static void print_answer(const char *answer) { say("   -> %s", answer); }

static Way way_on(WayKind kind, const NetworkKind *network, int classes, int k) {
    return (Way){.kind = kind, .network = network, .classes = classes, .k = k};
}

// ## 1. Parallel only in forward?
//
// The text says that backward and update are done on one GPU. The trace says who was at work on
// backward.

// From when to when a device was at work on what has this label; false if it never was.
static bool interval_of(const StepRecord *r, const Device *device, const char *label, double *start,
                        double *end) {
    *start = INFINITY;
    *end = 0;
    for (int i = 0; i < r->count; i++) {
        const TraceSpan *span = &r->spans[i];
        if (span->device != device || strncmp(span->label, label, strlen(label)) != 0) continue;
        *start = fmin(*start, span->start);
        *end = fmax(*end, span->end);
    }
    return *end > *start;
}

static void print_interval(const StepRecord *r, int i, const char *label) {
    double start, end;
    if (interval_of(r, r->devices[i], label, &start, &end))
        printf("  %6.2f to %6.2f", 1e3 * start, 1e3 * end);
    else
        printf("  %16s", "never");
}

void claim_parallel_only_forward(int k, int rows) {
    print_claim(1, "DataParallel computes in parallel only in forward; gradients are propagated "
                   "back, and parameters updated, on one GPU.");
    if (!modelled_machine()) {
        say("   not asked: the answer is a modelled time, and there is no machine");
        return;
    }
    Way way = way_on(WAY_DP, &networks[1], 10, k);
    StepRecord *r = model_step(&way, k * rows, modelled_machine());
    double last_start = 0, first_end = INFINITY, updates = 0; // updates: not of the first device
    if (label_seconds(r, r->devices[0], "backward") < 0.001 * r->seconds) {
        say("   not asked: on %s hardly anything but copies takes time", modelled_machine()->name);
        step_record_free(r);
        return;
    }
    printf(
        "   device           forward          backward            update   (modelled, ms from the\n"
        "                                                                 begin of DP's step)\n");
    for (int i = 0; i < k; i++) {
        double start, end;
        printf("   %6d", i);
        print_interval(r, i, "forward");
        print_interval(r, i, "backward");
        print_interval(r, i, "update");
        printf("\n");
        CHECK(interval_of(r, r->devices[i], "backward", &start, &end), "all go backward");
        last_start = fmax(last_start, start);
        first_end = fmin(first_end, end);
        if (i > 0) updates += label_seconds(r, r->devices[i], "update");
    }
    CHECK(last_start < first_end && updates == 0 && label_seconds(r, r->devices[0], "update") > 0,
          "all replicas go backward at the same time, and device 0 alone updates");
    print_answer("false: all devices go backward, at the same time, each with its own rows. The "
                 "update is made on device 0 alone");
    step_record_free(r);
}

// ## 2. The same gradient to the next layer?
//
// There are two kinds of gradients. Those by *parameters* are summed over the ranks. Those by
// *activations* are what backward passes from layer to layer. To see those, the images themselves
// are given a gradient: it is what arrives at the end of the chain, after all layers.

typedef struct InputGradients {
    float *values[2];
    size_t n;
    uint64_t bytes, of_parameters; // that crossed in backward, and that the formula says for those
} InputGradients;

static InputGradients gradients_by_images(const Tensor *X, const Tensor *y) {
    InputGradients g = {0};
    Device *devices[2];
    Tensor *X_shards[2], *y_shards[2], *y_hat[2], *losses[2];
    Module *net = lenet_modules(10);
    initialize(net, 1);
    open_devices(devices, 2);
    Ddp *ddp = ddp_new(net, devices, 2, (DdpOptions){.bucket_bytes = 64 << 10});
    for (int i = 0; i < 2; i++) begin_step(devices[i]);
    split_batch(X, y, devices, 2, X_shards, y_shards);
    for (int i = 0; i < 2; i++) {
        Tensor *images = arena_tensor(devices[i], 4, X_shards[i]->shape, true);
        tensor_copy(images, X_shards[i]);
        X_shards[i] = images;
    }
    ddp_forward(ddp, X_shards, y_hat);
    for (int i = 0; i < 2; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
    ledger_reset();
    ddp_backward(ddp, losses);
    synchronize_all();
    g.bytes = ledger_bytes_between_devices();
    for (int i = 0; i < 2; i++) g.of_parameters += ddp_gradient_bytes(ddp, i).sent;
    g.n = numel(X_shards[1]) < numel(X_shards[0]) ? numel(X_shards[1]) : numel(X_shards[0]);
    for (int i = 0; i < 2; i++) g.values[i] = tensor_values(X_shards[i]->grad);
    ddp_free(ddp);
    module_free(net);
    return g;
}

// How many of rank 0's numbers are equal to rank 1's, of those that are not zero on either.
static void compare_gradients(const InputGradients *g, size_t *equal, size_t *all) {
    *equal = *all = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (g->values[0][i] == 0 && g->values[1][i] == 0) continue;
        *all += 1;
        *equal += g->values[0][i] == g->values[1][i];
    }
}

void claim_same_gradient_passed_on(const Tensor *X, const Tensor *y) {
    size_t equal, all;
    print_claim(2, "At each layer, each GPU computes its gradient, all GPUs average it once, and "
                   "then all pass the same gradient on to the next layer.");
    if (!has_values(try_gpu(0))) {
        say("   not asked: there are no values (--backend model)");
        return;
    }
    if (X->shape[0] < 2) {
        say("   not asked: one image is no minibatch for two ranks");
        return;
    }
    InputGradients g = gradients_by_images(X, y);
    compare_gradients(&g, &equal, &all);
    say("   The gradient that arrives at the images has %zu numbers on each of 2 ranks that are "
        "not "
        "zero on both; %zu of them are equal on the two. Bytes that crossed in backward: %s, and "
        "the gradients by parameters are %s of them.",
        all, equal, grouped(g.bytes).text, grouped(g.of_parameters).text);
    CHECK(all > 0 && equal < all / 10 && g.bytes == g.of_parameters,
          "gradients by activations stay on their rank");
    print_answer(
        "false: what is passed on is another gradient on each rank, of its own images, and "
        "none of it crosses. Only gradients by parameters are summed; in the timelines "
        "backward goes on without waiting for them");
    for (int i = 0; i < 2; i++) free(g.values[i]);
}

// ## 3. Does rank 0 broadcast?
//
// Who broadcasts sends more than the others: N bytes to each of k-1 ranks. In a ring all send as
// much.

void claim_rank_0_broadcasts(int k, int rows) {
    print_claim(3, "The gradients are averaged, and then the process with rank 0 broadcasts the "
                   "result to all processes.");
    Way way = way_on(WAY_DDP, &networks[0], 10, k);
    const Allreduce *chosen = chosen_allreduce();
    StepRecord *r[2];
    const char *const names[2] = {"ring", "star"};
    for (int a = 0; a < 2; a++) {
        choose_allreduce(names[a]);
        r[a] = model_step(&way, k * rows, modelled_machine());
        printf("   %s: rank 0 sends %s bytes of gradients, rank 1 %s\n", names[a],
               grouped(r[a]->phases[1][0].sent).text, grouped(r[a]->phases[1][1].sent).text);
    }
    choose_this_allreduce(chosen);
    double ring = (double)r[0]->phases[1][0].sent / (double)r[0]->phases[1][1].sent;
    CHECK(fabs(ring - 1) < 0.01 && (k < 3 || r[1]->phases[1][0].sent > r[1]->phases[1][1].sent),
          "in a ring no rank is first");
    print_answer("false: an allreduce gives the sum to all, and in a ring rank 0 sends as much as "
                 "any other. (What the text describes is chapter 2's star.) What rank 0 does "
                 "broadcast, once, are parameters: see the next claim");
    for (int a = 0; a < 2; a++) step_record_free(r[a]);
}

// ## 4. Only gradients?

void claim_only_gradients_cross(int k, int rows) {
    print_claim(4, "Between the processes, only gradients are exchanged.");
    Way way = way_on(WAY_DDP, &networks[1], 10, k);
    StepRecord *r = model_step(&way, k * rows, modelled_machine());
    size_t buffers = r->phases[0][0].sent, gradients = r->phases[1][0].sent;
    say("   ResNet-18, rank 0 of %d: %s bytes of parameters and buffers once, at the start. Then "
        "in "
        "each step %s bytes of gradients and %s bytes of buffers: rank 0's running statistics, "
        "for "
        "all.",
        k, grouped(r->start[0].sent).text, grouped(gradients).text, grouped(buffers).text);
    CHECK(r->start[0].sent > 0 && gradients > 0 && buffers > 0, "three kinds of bytes cross");
    print_answer(
        "half: nearly all bytes of a step are gradients, but without the rest the replicas "
        "would not be equal");
    step_record_free(r);
}

// ## 5. Which device is full first?
//
// Once with ten classes, once with 10,000. Then the step is made in a child process, on devices
// that have more memory than the others need and less than device 0 needs: the error says whose is
// full.

static StepRecord *memory_of_dp(DpGathers gathers, int classes, int k, int rows) {
    Way way = way_on(WAY_DP, &networks[0], classes, k);
    way.gathers = gathers;
    StepRecord *r = model_step(&way, k * rows, modelled_machine());
    double first = (double)r->memory[0] / 1e6, other = (double)most_memory_of_others(r) / 1e6;
    printf("   %6d classes%s: device 0 needs %.1f MB, each other %.1f MB (%.2f times as much)\n",
           classes, gathers == DP_OUTPUTS ? "" : ", loss inside forward", first, other,
           first / other);
    return r;
}

static double memory_ratio(const StepRecord *r) {
    return (double)r->memory[0] / (double)most_memory_of_others(r);
}

typedef struct Trial {
    Way way;
    int rows;
    Machine machine;
} Trial;

static void step_on_small_devices(void *trial) {
    Trial *t = trial;
    devices_after_fork();
    step_record_free(model_step(&t->way, t->rows, &t->machine));
}

// (Memory is reserved in large pieces, so the limit lies between what is reserved.)
static void fill_device_0(const StepRecord *r) {
    Trial t = {.way = r->way, .rows = r->rows};
    size_t most = 0;
    for (int i = 1; i < r->way.k; i++)
        if (r->reserved[i] > most) most = r->reserved[i];
    if (!modelled_machine() || most >= r->reserved[0]) return;
    t.machine = *modelled_machine();
    t.machine.memory = (double)(most + r->reserved[0]) / 2;
    say("   The same on devices with %.1f MB:", t.machine.memory / 1e6);
    int status = try_in_child(step_on_small_devices, &t);
    CHECK(status == EXIT_FAILURE, "device 0 has too little memory");
}

double claim_device_0_is_full_first(int k, int rows) {
    print_claim(5, "With DataParallel, the memory of the main GPU runs out first.");
    StepRecord *few = memory_of_dp(DP_OUTPUTS, 10, k, rows);
    StepRecord *many = memory_of_dp(DP_OUTPUTS, 10000, k, rows);
    double ratio = memory_ratio(many);
    fill_device_0(many);
    CHECK(memory_ratio(few) > 1 && ratio > memory_ratio(few), "what is gathered is on device 0");
    print_answer("true: all outputs with their gradients are there, the whole minibatch, and the "
                 "gradients that come in. With few classes it is little");
    step_record_free(few);
    step_record_free(many);
    return ratio;
}

// ## 6. Does a loss inside forward fix that?
//
// Each replica returns the mean loss of its rows, and device 0 takes the mean of these. With equal
// shards that is the mean over all rows. With unequal ones it is not.

static double wrong_update(const Tensor *X, const Tensor *y, const Range shards[2]) {
    Device *devices[2];
    float *update[2];
    size_t n = 0;
    open_devices(devices, 2);
    for (int g = 0; g < 2; g++) {
        Way way = way_on(WAY_DP, &networks[0], 10, 2);
        way.gathers = g == 0 ? DP_OUTPUTS : DP_MEAN_LOSSES;
        Trained *t = trained_new(&way, devices, 1);
        float *before = trained_params(t, 0, &n);
        dp_step(t->dp, X, y, shards, 1);
        update[g] = trained_params(t, 0, &n);
        for (size_t i = 0; i < n; i++) update[g][i] -= before[i];
        free(before);
        trained_free(t);
    }
    double wrong = relative_difference(update[1], update[0], NULL, n);
    for (int g = 0; g < 2; g++) free(update[g]);
    return wrong;
}

static void show_unequal_shards(const Tensor *X, const Tensor *y) {
    long n = X->shape[0];
    double wrong[3];
    for (int s = 0; s < 3; s++) {
        long first = s == 0 ? n / 2 : s == 1 ? n - n / 4 : n - n / 16;
        const Range shards[2] = {{0, first}, {first, n - first}};
        wrong[s] = wrong_update(X, y, shards);
        printf(
            "   shards of %3ld and %3ld rows: the update is wrong by %.2g of its largest number\n",
            first, n - first, wrong[s]);
    }
    CHECK(wrong[0] < 1e-4 && wrong[1] > 1e-2 && wrong[2] > wrong[0],
          "a mean of means is the mean if all have as many");
}

void claim_loss_inside_forward_fixes_it(int k, int rows, const Tensor *X, const Tensor *y) {
    print_claim(6, "If the loss is computed inside forward, only losses are gathered, and the main "
                   "GPU needs far less memory.");
    StepRecord *outputs = memory_of_dp(DP_OUTPUTS, 10000, k, rows);
    StepRecord *losses = memory_of_dp(DP_MEAN_LOSSES, 10000, k, rows);
    CHECK(losses->memory[0] < outputs->memory[0] && memory_ratio(losses) > 1,
          "the outputs are gone, and device 0 still has more to hold");
    step_record_free(outputs);
    step_record_free(losses);
    if (!has_values(try_gpu(0)) || X->shape[0] < 32 || X->shape[0] % 2 != 0) {
        print_answer(
            "half: it does need less, and still most. (Whether the gradients are right is "
            "not asked here: there are no values, or no 32 images or an odd number of them)");
        return;
    }
    show_unequal_shards(X, y);
    print_answer(
        "half: the outputs are gone from device 0, but the whole minibatch is still there, and "
        "all gradients come in. And the mean of mean losses is right for equal shards only");
}
