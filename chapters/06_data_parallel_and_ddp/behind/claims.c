// claims.c: six claims about DP and DDP. The figures decide, so each verdict is computed.
#include "behind.h"

#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"

// One row: "true" if both halves of the claim hold, "half" if one does.
static void print_claim(Table *t, const char *claim, bool first, bool second, char *figure) {
    table_text(t, "%s", claim);
    table_text(t, "%s", first && second ? "true" : first || second ? "half" : "false");
    table_text(t, "%s", figure);
    free(figure);
}

static void leave_open(Table *t, const char *claim) {
    table_text(t, "%s", claim);
    table_text(t, "%s", "open");
    table_text(t, "%s", "there are no values, or no modelled time, to decide it");
}

static StepRecord *record(bool is_ddp, int network, int classes, DpGathers gathers, int k,
                          int rows) {
    Setup setup = {.is_ddp = is_ddp,
                   .network = &networks[network],
                   .classes = classes,
                   .k = k,
                   .rows = rows,
                   .gathers = gathers};
    return record_one_step(&setup, modelled_machine());
}

// ## 1. DP computes in parallel only in forward; backward and update are on one GPU

// The seconds in which all devices are between the first and the last piece of their backward pass.
static double backward_together(const StepRecord *r) {
    double begin = 0, end = INFINITY;
    for (int i = 0; i < r->setup.k; i++) {
        double first = INFINITY, last = 0;
        for (int s = 0; s < r->count; s++) {
            const TraceSpan *span = &r->spans[s];
            if (span->device != r->devices[i] || strcmp(span->label, "backward") != 0) continue;
            first = fmin(first, span->start);
            last = fmax(last, span->end);
        }
        begin = fmax(begin, first);
        end = fmin(end, last);
    }
    return fmax(0, end - begin);
}

static void claim_1(Table *t, int k, int rows) {
    const char *claim = "1 DP: parallel only in forward";
    if (!modelled_machine()) {
        leave_open(t, claim);
        return;
    }
    StepRecord *r = record(false, 1, 10, DP_OUTPUTS, k, rows);
    double together = backward_together(r);
    bool one_goes_back = !(together > 0);
    print_claim(t, claim, one_goes_back, one_goes_back,
                xprintf("all %d go backward together for %.1f ms", k, 1e3 * together));
    step_record_free(r);
}

// ## 2. DDP averages at each layer, and all ranks pass the same gradient to the next layer
//
// Gradients by *parameters* are summed over the ranks. Gradients by *activations* are what backward
// passes from layer to layer. To see the latter, the images themselves are given a gradient: it is
// what comes out at the end of the chain, after all layers.

static void gradients_by_images(const Tensor *X, const Tensor *y, float *values[2], size_t *n) {
    Device *devices[2];
    Tensor *X_shards[2], *y_shards[2], *y_hat[2], *losses[2];
    Module *net = lenet_modules(10);
    initialize(net, 1);
    open_devices(devices, 2);
    Ddp *ddp = ddp_new(net, devices, 2, (DdpOptions){0});
    for (int i = 0; i < 2; i++) begin_step(devices[i]);
    split_batch(X, y, devices, 2, X_shards, y_shards);
    for (int i = 0; i < 2; i++) {
        Tensor *images = arena_tensor(devices[i], 4, X_shards[i]->shape, true);
        tensor_copy(images, X_shards[i]);
        X_shards[i] = images;
    }
    ddp_forward(ddp, X_shards, y_hat);
    for (int i = 0; i < 2; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
    ddp_backward(ddp, losses);
    *n = numel(X_shards[1]);
    for (int i = 0; i < 2; i++) values[i] = tensor_values(X_shards[i]->grad);
    ddp_free(ddp);
    module_free(net);
}

static void claim_2(Table *t, const Tensor *X, const Tensor *y) {
    const char *claim = "2 DDP: one gradient for all layers";
    if (!has_values(try_gpu(0)) || X->shape[0] < 2) {
        leave_open(t, claim);
        return;
    }
    float *values[2];
    size_t n, equal = 0, all = 0;
    gradients_by_images(X, y, values, &n);
    for (size_t i = 0; i < n; i++) {
        if (values[0][i] == 0 && values[1][i] == 0) continue;
        all++;
        equal += values[0][i] == values[1][i];
    }
    for (int i = 0; i < 2; i++) free(values[i]);
    bool same = equal > all / 2;
    print_claim(
        t, claim, same, same,
        xprintf("%s of %s numbers are equal on two ranks", grouped(equal).text, grouped(all).text));
}

// ## 3. Rank 0 broadcasts the mean; 4. only gradients cross

static void claims_3_and_4(Table *t, int k, int rows) {
    StepRecord *r = record(true, 1, 10, DP_OUTPUTS, k, rows);
    size_t first = r->phases[DDP_GRADIENTS][0].sent, second = r->phases[DDP_GRADIENTS][1].sent;
    size_t buffers = r->phases[DDP_BUFFERS][0].sent;
    bool rank_0_sends_more = (double)first > 1.01 * (double)second;
    print_claim(t, "3 DDP: rank 0 broadcasts the mean", rank_0_sends_more, rank_0_sends_more,
                xprintf("rank 0 sends %.1f MB of gradients, rank 1 %.1f", (double)first / 1e6,
                        (double)second / 1e6));
    print_claim(t, "4 DDP: only gradients cross", first > buffers, buffers == 0,
                xprintf("rank 0 sends %.2f MB of buffers, too", (double)buffers / 1e6));
    step_record_free(r);
}

// ## 5. Device 0 of DP is full first; 6. the loss inside forward fixes that
//
// With 10,000 classes. Each replica returns the mean loss of its rows, and device 0 takes the mean
// of these: the mean over all rows if all shards are equal.

static double memory_ratio(DpGathers gathers, int k, int rows) {
    StepRecord *r = record(false, 0, 10000, gathers, k, rows);
    double ratio = (double)r->memory[0] / (double)most_memory_of_others(r);
    step_record_free(r);
    return ratio;
}

// How wrong DP's update by a mean of means is if device 0 has three quarters of the rows.
static double wrong_update(const Tensor *X, const Tensor *y) {
    long rows = X->shape[0], fewer = rows / 4;
    const Range shards[2] = {{0, rows - fewer}, {rows - fewer, fewer}};
    Device *devices[2];
    float *update[2];
    size_t n = 0;
    open_devices(devices, 2);
    for (int means = 0; means < 2; means++) {
        Module *net = lenet_modules(10);
        initialize(net, 1);
        Dp *dp = dp_new(net, devices, 2, means ? DP_MEAN_LOSSES : DP_OUTPUTS);
        float *before = tensor_values(flat_parameters(net, devices[0]).data);
        dp_step(dp, X, y, shards, 1);
        update[means] = tensor_values(flat_parameters(net, devices[0]).data);
        n = numel(flat_parameters(net, devices[0]).data);
        for (size_t i = 0; i < n; i++) update[means][i] -= before[i];
        free(before);
        dp_free(dp);
        module_free(net);
    }
    double wrong = relative_difference(update[1], update[0], NULL, n);
    for (int means = 0; means < 2; means++) free(update[means]);
    return wrong;
}

static void claims_5_and_6(Table *t, int k, int rows, const Tensor *X, const Tensor *y) {
    double outputs = memory_ratio(DP_OUTPUTS, k, rows),
           losses = memory_ratio(DP_MEAN_LOSSES, k, rows);
    print_claim(t, "5 DP: device 0 is full first", outputs > 1, outputs > 1,
                xprintf("it needs %.2f times as much memory as another", outputs));
    const char *claim = "6 DP: a loss in forward fixes that";
    if (!has_values(try_gpu(0)) || X->shape[0] < 8) {
        leave_open(t, claim);
        return;
    }
    double wrong = wrong_update(X, y);
    print_claim(t, claim, losses < outputs, wrong < 1e-4,
                xprintf("%.2f times; but the update is wrong by %.0f %%", losses, 100 * wrong));
}

void print_claims(int k, int rows, const Tensor *X, const Tensor *y) {
    printf("\n");
    Table t = TABLE(NULL, WORDS("claim", 34), WORDS("verdict", 7), WORDS("what decides", 54));
    claim_1(&t, k, rows);
    claim_2(&t, X, y);
    claims_3_and_4(&t, k, rows);
    claims_5_and_6(&t, k, rows, X, y);
}
