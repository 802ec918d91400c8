// small_mesh.c: see small_mesh.h.
#include "small_mesh.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "common/base/error.h"
#include "common/tensor/random.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

// ---- parameters --------------------------------------------------------------------------------

bool is_split(int p) { return p == UP_WEIGHT || p == UP_BIAS || p == DOWN_WEIGHT; }

// `down` is stored as (hidden,out), so a shard is a range of a parameter's numbers in all cases.
typedef struct Shape {
    int ndim, sizes[2];
} Shape;

static Shape shape_of(const Mesh *m, int p) {
    int in = m->sizes.in, hidden = m->sizes.hidden / m->tp, out = m->sizes.out;
    return (const Shape[]){{1, {in}},     {1, {in}},          {2, {hidden, in}},
                           {1, {hidden}}, {2, {hidden, out}}, {1, {out}}}[p];
}

static size_t numbers_of(const Mesh *m, int p) {
    Shape shape = shape_of(m, p);
    int n = shape.sizes[0] * (shape.ndim == 2 ? shape.sizes[1] : 1);
    return (size_t)(is_split(p) ? n * m->tp : n);
}

size_t small_mesh_numbers(const Mesh *m) {
    size_t n = 0;
    for (int p = 0; p < NUM_PARAMS; p++) n += numbers_of(m, p);
    return n;
}

static size_t first_of(const Mesh *m, int p, int t) {
    return is_split(p) ? numbers_of(m, p) / (size_t)m->tp * (size_t)t : 0;
}

float *small_mesh_join(const Mesh *m, Tensor *const of[NUM_PARAMS][MOST_DEVICES]) {
    float *whole = xmalloc(small_mesh_numbers(m) * sizeof *whole), *to = whole;
    for (int p = 0; p < NUM_PARAMS; to += numbers_of(m, p++))
        for (int t = 0; t < m->tp; t++)
            tensor_read(of[p][m->tensor_groups[0][t]], to + first_of(m, p, t));
    return whole;
}

void small_mesh_cut(const Mesh *m, Tensor *const of[NUM_PARAMS][MOST_DEVICES], const float *whole) {
    for (int p = 0; p < NUM_PARAMS; whole += numbers_of(m, p++))
        for (int d = 0; d < m->dp; d++)
            for (int t = 0; t < m->tp; t++)
                tensor_write(of[p][m->tensor_groups[d][t]], whole + first_of(m, p, t));
}

static void write_start(Mesh *m, uint64_t seed) {
    float *start = xmalloc(small_mesh_numbers(m) * sizeof *start), *next = start;
    for (int p = 0; p < NUM_PARAMS; p++) {
        size_t n = numbers_of(m, p);
        int inputs = p == UP_WEIGHT ? m->sizes.in : m->sizes.hidden;
        double deviation = p == UP_WEIGHT || p == DOWN_WEIGHT ? 1 / sqrt(inputs) : 0.1;
        fill_normal(next, n, deviation, seed, (uint32_t)(STREAM_PARAMS + p));
        for (size_t j = 0; j < n && p == NORM_WEIGHT; j++) next[j] += 1;
        next += n;
    }
    small_mesh_cut(m, m->params, start);
    free(start);
}

// ---- the mesh ----------------------------------------------------------------------------------

static void check_groups(const Mesh *m) {
    bool found[2][MOST_DEVICES] = {{false}};
    for (int d = 0; d < m->dp; d++)
        for (int t = 0; t < m->tp; t++) {
            int in[] = {m->tensor_groups[d][t], m->data_groups[t][d]};
            for (int g = 0; g < 2; g++) {
                if (in[g] < 0 || in[g] >= m->dp * m->tp || found[g][in[g]])
                    die("each device is in one tensor group, and in one data group",
                        "groups_of(): device %d is no device, or in two groups", in[g]);
                found[g][in[g]] = true;
            }
        }
}

Mesh *small_mesh_new(int dp, int tp, Sizes sizes, uint64_t seed) {
    Mesh *m = xcalloc(1, sizeof *m);
    Tensor *all[NUM_PARAMS * MOST_DEVICES];
    int n = dp * tp;
    *m = (Mesh){.dp = dp, .tp = tp, .sizes = sizes};
    CHECK(n <= MOST_DEVICES && sizes.hidden % tp == 0, "a small mesh, and equal shards");
    groups_of(m);
    check_groups(m);
    open_devices(m->devices, n);
    for (int r = 0; r < n; r++) {
        m->squares[r] = tensor_new(m->devices[r], 1);
        for (int p = 0; p < NUM_PARAMS; p++) {
            Shape shape = shape_of(m, p);
            m->params[p][r] = tensor_of_shape(m->devices[r], shape.ndim, shape.sizes);
            attach_grad(m->params[p][r]);
            m->grads[p][r] = m->params[p][r]->grad;
            all[p * n + r] = m->params[p][r];
        }
    }
    write_start(m, seed);
    // The usual eps, 1e-8, would make a step depend a little on how long the gradient is.
    m->adam = adam_new(all, NUM_PARAMS * n, (AdamOptions){.eps = 1e-30f});
    for (int r = 0; r < n; r++)
        for (int p = 0; p < NUM_PARAMS; p++)
            m->averages[p][r] = adam_state(m->adam, p * n + r).exp_avg;
    return m;
}

void small_mesh_free(Mesh *m) {
    synchronize_all();
    adam_free(m->adam);
    for (int r = 0; r < m->dp * m->tp; r++) {
        tensor_free(m->squares[r]);
        for (int p = 0; p < NUM_PARAMS; p++) tensor_free(m->params[p][r]);
    }
    free(m);
}

int small_mesh_copies_apart(const Mesh *m) {
    int apart = 0;
    for (int p = 0; p < NUM_PARAMS; p++)
        for (int d = 0; d < m->dp; d++)
            for (int t = 0; t < m->tp; t++) {
                const Tensor *copy = m->params[p][m->tensor_groups[d][t]];
                float *values = tensor_values(copy);
                float *first =
                    tensor_values(m->params[p][m->tensor_groups[0][is_split(p) ? t : 0]]);
                apart += memcmp(values, first, tensor_bytes(copy)) != 0;
                free(values);
                free(first);
            }
    return apart;
}

HostBytes small_mesh_bytes(const Mesh *m) {
    HostBytes bytes = {0};
    for (int r = 0; r < m->dp * m->tp; r++)
        for (int s = 0; s < m->dp * m->tp; s++) {
            long n = r == s ? 0 : (long)ledger_bytes(m->devices[r], m->devices[s]);
            *(r / m->tp == s / m->tp ? &bytes.inside : &bytes.across) += n;
        }
    return bytes;
}

// ---- what a step is made of --------------------------------------------------------------------

void sum_over(Tensor *const of[], const int group[], int n) {
    Tensor *members[MOST_DEVICES];
    for (int i = 0; i < n; i++) members[i] = of[group[i]];
    allreduce(members, n);
}

void add_squares(Tensor *total, const Tensor *t) {
    launch(t->device, gemm, .A = t->data, .B = t->data, .C = total->data, .beta = 1, .M = 1, .N = 1,
           .K = (int)numel(t));
}

void multiply(Tensor *t, float factor) {
    launch(t->device, scale, .x = t->data, .factor = factor, .n = numel(t));
}

// ---- forward and backward, in a tensor group ---------------------------------------------------

// sums[i] becomes part i of the sum of all from[].
static void add_parts(Tensor *const sums[], Tensor *const from[], int k) {
    Tensor *received[MOST_DEVICES];
    for (int i = 0; i < k; i++) {
        int shape[] = {k - 1, (int)numel(sums[i])};
        received[i] = arena_tensor(sums[i]->device, 2, shape, false);
    }
    reduce_scatter(sums, from, received, k);
}

static void gradients(Node *const nodes[], int k, Tensor *of_in[], Tensor *of_out[]) {
    for (int i = 0; i < k; i++) {
        CHECK(grad_beta(nodes[i]->in[0]) == 0, "nothing else reads it");
        of_in[i] = nodes[i]->in[0]->grad;
        of_out[i] = nodes[i]->out->grad;
    }
}
static void gather_rows_backward(Node *const nodes[], int k) {
    Tensor *of_in[MOST_DEVICES], *of_out[MOST_DEVICES];
    gradients(nodes, k, of_in, of_out);
    add_parts(of_in, of_out, k);
}
static void add_rows_backward(Node *const nodes[], int k) {
    Tensor *of_in[MOST_DEVICES], *of_out[MOST_DEVICES];
    gradients(nodes, k, of_in, of_out);
    all_gather(of_in, of_out, k);
}

static void record(Tensor *X[], Tensor *const Y[], int k, void (*back)(Node *const[], int)) {
    for (int i = 0; i < k; i++) {
        tape_push((Node){.backward_together = back, .out = Y[i], .in = {X[i]}});
        X[i] = Y[i];
    }
}

static Tensor *rows_like(const Tensor *X, int rows) {
    return arena_tensor(X->device, 2, (int[]){rows, X->shape[1]}, false);
}

// Each X[i] becomes the rows of all.
static void gather_rows(Tensor *X[], int k) {
    Tensor *Y[MOST_DEVICES];
    if (k == 1) return;
    for (int i = 0; i < k; i++) Y[i] = rows_like(X[i], X[i]->shape[0] * k);
    all_gather(Y, X, k);
    record(X, Y, k, gather_rows_backward);
}
// X[i] becomes part i of the rows of the sum.
static void add_and_cut_rows(Tensor *X[], int k) {
    Tensor *Y[MOST_DEVICES];
    if (k == 1) return;
    for (int i = 0; i < k; i++) Y[i] = rows_like(X[i], X[i]->shape[0] / k);
    add_parts(Y, X, k);
    record(X, Y, k, add_rows_backward);
}

static void forward_group(const Mesh *m, int d, Tensor *X[], Tensor *const y[], Tensor *losses[]) {
    const int *group = m->tensor_groups[d];
    Tensor *w[NUM_PARAMS][MOST_DEVICES];
    for (int p = 0; p < NUM_PARAMS; p++)
        for (int t = 0; t < m->tp; t++) w[p][t] = m->params[p][group[t]];
    for (int t = 0; t < m->tp; t++) X[t] = layer_norm(X[t], w[NORM_WEIGHT][t], w[NORM_BIAS][t]);
    gather_rows(X, m->tp);
    for (int t = 0; t < m->tp; t++)
        X[t] = mm(gelu(linear(X[t], w[UP_WEIGHT][t], w[UP_BIAS][t])), w[DOWN_WEIGHT][t]);
    add_and_cut_rows(X, m->tp);
    for (int t = 0; t < m->tp; t++)
        losses[t] = sum(cross_entropy(add_bias(X[t], w[DOWN_BIAS][t]), y[t]));
}

float compute_gradients(Mesh *m, const Tensor *X, const Tensor *y) {
    int n = m->dp * m->tp;
    Device *devices[MOST_DEVICES] = {NULL}; // in the order of rows
    Tensor *X_parts[MOST_DEVICES], *y_parts[MOST_DEVICES], *losses[MOST_DEVICES];
    float values[MOST_DEVICES], total = 0;
    CHECK(X->shape[0] % n == 0, "each device has equally many rows");
    m->rows = X->shape[0] / m->dp;
    for (int i = 0; i < n; i++) {
        devices[i] = m->devices[m->tensor_groups[i / m->tp][i % m->tp]];
        begin_step(devices[i]);
    }
    split_batch(X, y, devices, n, X_parts, y_parts);
    for (int at = 0; at < n; at += m->tp)
        forward_group(m, at / m->tp, X_parts + at, y_parts + at, losses + at);
    items(losses, n, values);
    for (int at = 0; at < n; at += m->tp) backward_all(losses + at, m->tp);
    synchronize_all();
    for (int i = 0; i < n; i++) total += values[i];
    return total / (float)X->shape[0];
}
