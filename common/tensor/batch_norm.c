// batch_norm.c: forward computes the statistics, then normalises; backward computes two sums, then
// the gradient of X. In between, k devices exchange what kernels.h describes.
#include "batch_norm.h"
#include "common/base/error.h"

#include <stdlib.h>

// ---- shapes ------------------------------------------------------------------------------------

typedef struct Shape {
    int N, C, S;
} Shape;

static Shape shape_of(const Tensor *X) {
    int S = 1;
    for (int i = 2; i < X->ndim; i++) S *= X->shape[i];
    return (Shape){X->shape[0], X->shape[1], S};
}

static void check(const Tensor *X, BatchNormTensors layer, bool training) {
    CHECK(X->ndim >= 2, "batch_norm: X is (N,C,H,W) or (N,C)");
    const Tensor *tensors[] = {layer.weight, layer.bias, layer.running_mean, layer.running_var};
    for (int i = 0; i < 4; i++) {
        const Tensor *t = tensors[i];
        if (!t && training) continue;
        if (t->device != X->device)
            die("copy one of them with tensor_to() first", "batch_norm: X is on %s, %s is on %s",
                device_name(X->device), t->name ? t->name : "the layer", device_name(t->device));
        if (t->ndim != 1 || t->shape[0] != X->shape[1])
            die("weight, bias and running statistics have one value per channel of X",
                "batch_norm: %s has shape %s, X has shape %s", t->name ? t->name : "the layer",
                shape_text(t), shape_text(X));
    }
    CHECK(layer.weight->requires_grad == layer.bias->requires_grad,
          "weight and bias are trained together or not at all");
}

static void check_rows(Tensor *const X[], int k) {
    double values = 0;
    for (int i = 0; i < k; i++) values += (double)X[i]->shape[0] * shape_of(X[i]).S;
    CHECK(values != 1,
          "batch_norm: the variance of a single value is not known; evaluate, or train with more "
          "rows");
}

// A vector in the arena.
static Tensor *vector(Device *device, int n) { return arena_tensor(device, 1, &n, false); }

// ---- statistics: mean (C), var (C) and count (1), one after the other ---------------------------

static float *mean_of(const Tensor *statistics) { return statistics->data; }
static float *var_of(const Tensor *statistics, int C) { return statistics->data + C; }
static float *count_of(const Tensor *statistics, int C) { return statistics->data + 2 * C; }

static Tensor *stats_of_rows(const Tensor *X) {
    Shape s = shape_of(X);
    Tensor *stats = vector(X->device, 2 * s.C + 1);
    launch(X->device, batch_norm_stats, .X = X->data, .stats = stats->data, .N = s.N, .C = s.C,
           .S = s.S);
    return stats;
}

// Merges the statistics of k devices, which lie one after the other on this device.
static Tensor *merge(const Tensor *stats, int k, BatchNormTensors layer, float momentum) {
    int C = layer.weight->shape[0];
    Tensor *merged = vector(stats->device, 2 * C + 1);
    launch(stats->device, batch_norm_merge, .stats = stats->data, .mean = mean_of(merged),
           .var = var_of(merged, C), .count = count_of(merged, C),
           .running_mean = layer.running_mean ? layer.running_mean->data : NULL,
           .running_var = layer.running_var ? layer.running_var->data : NULL, .momentum = momentum,
           .k = k, .C = C);
    return merged;
}

// What else backward() has to know.
typedef struct Remembered {
    float eps;
    bool frozen; // mean and variance were the running ones, which are constants
} Remembered;

static float eps_of(const Node *node) { return ((const Remembered *)node->context)->eps; }

// ---- forward, backward on one device ------------------------------------------------------------

static Tensor *normalise(Tensor *X, BatchNormTensors layer, Tensor *statistics,
                         Remembered remembered, Node node) {
    Shape s = shape_of(X);
    Tensor *Y = arena_tensor(X->device, X->ndim, X->shape, false);
    launch(X->device, batch_norm_forward, .X = X->data, .mean = mean_of(statistics),
           .var = var_of(statistics, s.C), .weight = layer.weight->data, .bias = layer.bias->data,
           .Y = Y->data, .eps = remembered.eps, .N = s.N, .C = s.C, .S = s.S);
    node.out = Y;
    node.in[0] = X;
    node.in[1] = layer.weight;
    node.in[2] = layer.bias;
    node.saved = statistics;
    node.reads_in = true;
    node.context = arena_note(X->device, &remembered, sizeof remembered);
    tape_push(node);
    return Y;
}

static void add_to_gradient(Tensor *param, const float *gradient) {
    if (param->requires_grad)
        launch(param->device, add_backward, .dY = gradient, .dX = param->grad->data,
               .beta = grad_beta(param), .n = numel(param));
}

// The sums of dY and of dY xhat over this device's rows. They are its part of bias's and weight's
// gradients.
static Tensor *backward_sums(Node *node) {
    Tensor *X = node->in[0], *Y = node->out;
    Shape s = shape_of(X);
    Tensor *sums = vector(X->device, 2 * s.C);
    launch(X->device, batch_norm_backward_sums, .dY = Y->grad->data, .X = X->data,
           .mean = mean_of(node->saved), .var = var_of(node->saved, s.C), .sums = sums->data,
           .eps = eps_of(node), .N = s.N, .C = s.C, .S = s.S);
    add_to_gradient(node->in[2], sums->data);
    add_to_gradient(node->in[1], sums->data + s.C);
    return sums;
}

// `sums` are over all rows that mean and variance were computed from; NULL if these are constants.
static void backward_input(Node *node, const Tensor *sums) {
    Tensor *X = node->in[0], *Y = node->out;
    Shape s = shape_of(X);
    if (X->requires_grad)
        launch(X->device, batch_norm_backward_input, .dY = Y->grad->data, .X = X->data,
               .mean = mean_of(node->saved), .var = var_of(node->saved, s.C),
               .weight = node->in[1]->data, .sums = sums ? sums->data : NULL,
               .count = count_of(node->saved, s.C), .dX = X->grad->data, .eps = eps_of(node),
               .beta = grad_beta(X), .N = s.N, .C = s.C, .S = s.S);
}

static void batch_norm_backward(Node *node) {
    Tensor *sums = backward_sums(node);
    bool frozen = ((const Remembered *)node->context)->frozen;
    backward_input(node, frozen ? NULL : sums);
}

Tensor *batch_norm(Tensor *X, BatchNormTensors layer, BatchNormOptions options) {
    check(X, layer, options.training);
    Tensor *statistics;
    if (options.training) {
        check_rows(&X, 1);
        statistics = merge(stats_of_rows(X), 1, layer, options.momentum);
    } else { // a copy, because training may change the running ones before backward() reads them
        int C = X->shape[1];
        statistics = vector(X->device, 2 * C + 1);
        device_copy(X->device, mean_of(statistics), X->device, layer.running_mean->data,
                    tensor_bytes(layer.running_mean));
        device_copy(X->device, var_of(statistics, C), X->device, layer.running_var->data,
                    tensor_bytes(layer.running_var));
    }
    return normalise(X, layer, statistics,
                     (Remembered){.eps = options.eps, .frozen = !options.training},
                     (Node){.backward = batch_norm_backward});
}

// ---- on k devices together ----------------------------------------------------------------------

// An all-gather: all[i] (k,n), on device i, gets the n floats of parts[j] in row j. The copies of a
// part wait for what its device has enqueued now, and the device waits for them before it goes on.
static void all_gather(Tensor *const parts[], int k, Tensor *all[]) {
    int n = parts[0]->shape[0];
    Event complete[MAX_DEVICES];
    for (int i = 0; i < k; i++) {
        all[i] = arena_tensor(parts[i]->device, 2, (const int[]){k, n}, false);
        complete[i] = device_record(parts[i]->device);
    }
    Event *copied = xmalloc(sizeof *copied * (size_t)k * (size_t)k); // [to][from]
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++) {
            float *row = all[i]->data + (size_t)j * (size_t)n;
            size_t bytes = tensor_bytes(parts[j]);
            if (i == j)
                device_copy(all[i]->device, row, parts[i]->device, parts[i]->data, bytes);
            else
                copied[i * k + j] =
                    device_copy_after(complete[j], all[i]->device, row, parts[j]->data, bytes);
        }
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++)
            if (i != j) device_wait(parts[j]->device, copied[i * k + j]);
    free(copied);
}

static void sync_batch_norm_backward(Node *const nodes[], int k) {
    Tensor *sums[MAX_DEVICES] = {NULL}, *all[MAX_DEVICES];
    for (int i = 0; i < k; i++) sums[i] = backward_sums(nodes[i]);
    all_gather(sums, k, all);
    for (int i = 0; i < k; i++) {
        Tensor *total = vector(all[i]->device, all[i]->shape[1]);
        launch(total->device, add_bias_backward, .dY = all[i]->data, .db = total->data, .beta = 0,
               .rows = k, .cols = all[i]->shape[1]);
        backward_input(nodes[i], total);
    }
}

void sync_batch_norm(Tensor *const X[], const BatchNormTensors layers[], int k,
                     BatchNormOptions options, Tensor *Y[]) {
    if (k == 1 || !options.training) { // nothing to exchange
        for (int i = 0; i < k; i++) Y[i] = batch_norm(X[i], layers[i], options);
        return;
    }
    Tensor *stats[MAX_DEVICES] = {NULL}, *all[MAX_DEVICES];
    for (int i = 0; i < k; i++) check(X[i], layers[i], true);
    check_rows(X, k);
    for (int i = 0; i < k; i++) stats[i] = stats_of_rows(X[i]);
    all_gather(stats, k, all);
    for (int i = 0; i < k; i++)
        Y[i] = normalise(X[i], layers[i], merge(all[i], k, layers[i], options.momentum),
                         (Remembered){.eps = options.eps, .frozen = false},
                         (Node){.backward_together = sync_batch_norm_backward});
}
