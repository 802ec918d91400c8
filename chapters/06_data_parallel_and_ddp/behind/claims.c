// claims.c: six claims about DP and DDP. The figures decide, so each verdict is computed.
#include "behind.h"

#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"

// "true" if both halves of the claim hold, "half" if one does. Frees the figure.
static void print_claim(Table *t, const char *claim, bool first, bool second, bool is_known,
                        char *figure) {
    const char *verdict = first && second ? "true" : first || second ? "half" : "false";
    table_text(t, "%s", claim);
    table_text(t, "%s", is_known ? verdict : "open");
    table_text(t, "%s", is_known ? figure : "undecided without values or modelled time");
    free(figure);
}

static StepRecord *record(bool is_ddp, int network, int classes, DpGathers gathers, int k,
                          int rows) {
    return record_one_step(&(Setup){is_ddp, &networks[network], classes, k, rows, gathers, {0}},
                           modelled_machine());
}

// From when to when all devices are between begin and end of their backward pass.
static void claim_1(Table *t, int k, int rows) {
    StepRecord *r = record(false, 1, 10, DP_OUTPUTS, k, rows);
    double begin = 0, end = INFINITY;
    for (int i = 0; i < k; i++) {
        double first = INFINITY, last = 0;
        for (const TraceSpan *s = r->spans; s < r->spans + r->count; s++) {
            if (s->device != r->devices[i] || strcmp(s->label, "backward") != 0) continue;
            first = fmin(first, s->start);
            last = fmax(last, s->end);
        }
        begin = fmax(begin, first);
        end = fmin(end, last);
    }
    bool alone = end <= begin;
    print_claim(t, "1 DP: parallel only in forward", alone, alone, r->count > 0,
                xprintf("all %d compute gradients at once for %.1f ms", k, 1e3 * (end - begin)));
    step_record_free(r);
}

// To see gradients by activations, the images themselves are given a gradient, which comes out at
// the end of the backward pass, after all layers.
static void gradients_by_images(const Tensor *X, const Tensor *y, float *values[2]) {
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
    for (int i = 0; i < 2; i++) values[i] = tensor_values(X_shards[i]->grad);
    ddp_free(ddp);
    module_free(net);
}

static void claim_2(Table *t, const Tensor *X, const Tensor *y, bool has_values) {
    float *values[2] = {NULL, NULL};
    size_t equal = 0, all = 0, n = numel(X) / (size_t)X->shape[0] * (size_t)(X->shape[0] / 2);
    if (has_values) gradients_by_images(X, y, values);
    for (size_t i = 0; i < n && has_values; i++) {
        if (values[0][i] == 0 && values[1][i] == 0) continue;
        all++;
        equal += values[0][i] == values[1][i];
    }
    for (int i = 0; i < 2; i++) free(values[i]);
    bool same = equal > all / 2;
    print_claim(
        t, "2 DDP: one gradient for all layers", same, same, has_values,
        xprintf("%s of %s pixels' gradients are equal", grouped(equal).text, grouped(all).text));
}

// ResNet-18 has buffers, which are its running statistics, and LeNet has none.
static void claims_3_and_4(Table *t, int k, int rows) {
    StepRecord *lenet = record(true, 0, 10, DP_OUTPUTS, k, rows);
    StepRecord *resnet = record(true, 1, 10, DP_OUTPUTS, k, rows);
    double first = (double)lenet->total[0].sent, second = (double)lenet->total[1].sent;
    double all = (double)resnet->total[0].sent, buffers = all - (double)resnet->total[1].sent;
    bool more = first > 1.01 * second;
    print_claim(t, "3 DDP: rank 0 broadcasts the mean", more, more, true,
                xprintf("rank 0 sends %.0f KB, rank 1 %.0f KB", first / 1e3, second / 1e3));
    print_claim(t, "4 DDP: only gradients cross", all > 2 * buffers, buffers == 0, true,
                xprintf("rank 0 sends %.2f MB, %.2f MB of it buffers", all / 1e6, buffers / 1e6));
    step_record_free(lenet);
    step_record_free(resnet);
}

// Claims 5 and 6. By what factor device 0 needs more memory than device 1, with 10,000 classes.
static double memory_ratio(DpGathers gathers, int k, int rows) {
    StepRecord *r = record(false, 0, 10000, gathers, k, rows);
    double ratio = (double)r->memory[0] / (double)r->memory[1];
    step_record_free(r);
    return ratio;
}

// How wrong DP's update by a mean of means is if device 0 has two rows and device 1 has one.
static double error_of_means(const Tensor *X, const Tensor *y) {
    const Tensor three_X = rows_of(X, (Range){0, 3}), three_y = rows_of(y, (Range){0, 3});
    float *before = NULL, *after[2];
    size_t n = 0;
    for (int means = 0; means < 2; means++) {
        Device *devices[2];
        Module *net = lenet_modules(10);
        initialize(net, 1);
        open_devices(devices, 2);
        Dp *dp = dp_new(net, devices, 2, means ? DP_MEAN_LOSSES : DP_OUTPUTS);
        const Tensor *params = flat_parameters(net, devices[0]).data;
        if (!means) before = tensor_values(params);
        dp_step(dp, &three_X, &three_y, 1);
        after[means] = tensor_values(params);
        n = numel(params);
        dp_free(dp);
        module_free(net);
    }
    double error = relative_difference(after[1], after[0], before, n);
    free(before);
    for (int means = 0; means < 2; means++) free(after[means]);
    return error;
}

void print_claims(int k, int rows, const Tensor *X, const Tensor *y) {
    bool has = has_values(try_gpu(0)) && X->shape[0] >= 3;
    double outputs = memory_ratio(DP_OUTPUTS, k, rows);
    double losses = memory_ratio(DP_MEAN_LOSSES, k, rows), error = has ? error_of_means(X, y) : 0;
    printf("\n");
    Table t = TABLE(NULL, WORDS("claim", 34), WORDS("verdict", 7), WORDS("what decides", 48));
    claim_1(&t, k, rows);
    claim_2(&t, X, y, has);
    claims_3_and_4(&t, k, rows);
    print_claim(&t, "5 DP: device 0 is full first", outputs > 1, outputs > 1, true,
                xprintf("it needs %.2f times as much memory as device 1", outputs));
    print_claim(&t, "6 DP: a loss in forward fixes that", losses < outputs, error < 1e-4, has,
                xprintf("%.2f times, but the update is wrong by %.0f %%", losses, 100 * error));
}
