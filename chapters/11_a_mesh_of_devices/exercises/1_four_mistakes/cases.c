// cases.c: on each mesh, three steps, and each function with given gradients.
#include "common/program/facts.h"
#include "your_part.h"

#include <stdlib.h>

enum { BYTES = 1, VALUES, NORM, UPDATE };
const Part parts[] = {
    {"bytes: what tensor groups exchange in each layer stays inside hosts", 3},
    {"losses and parameters are those of one device, copies equal, bytes as few as necessary", 3},
    {"the norm of the gradient is that of one device, on all devices", 2},
    {"Adam's moving averages are those of one device", 2},
    {0}};

enum { MESHES = 6, STEPS = 3, MOST_ROWS = 32, MOST_NUMBERS = 256 };
static const int meshes[MESHES][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 4}, {4, 2}};
static const double NEAR = 1e-4; // of Adam's steps, where a gradient is next to nothing
static const float NEVER = 1e6f; // max_norm

static Mesh *begin(const char *what, int c) {
    int in = (int)draw(3, 6), hidden = 4 * (int)draw(1, 2), out = (int)draw(3, 6);
    begin_case("%s on %d x %d devices, layers of %d, %d and %d numbers", what, meshes[c][0],
               meshes[c][1], in, hidden, out);
    Mesh *m = small_mesh_new(meshes[c][0], meshes[c][1], (Sizes){in, hidden, out},
                             (uint64_t)draw(1, 1000000));
    for (int r = 0; r < m->dp * m->tp; r++) {
        begin_step(m->devices[r]);
        tensor_fill(m->squares[r], 5000);
    }
    synchronize_all();
    ledger_reset();
    return m;
}

static void draw_into(float *values, size_t n, int most, float unit) {
    for (size_t j = 0; j < n; j++) values[j] = (float)draw(-most, most) * unit;
}

static void record_joined(int part, const Mesh *m, Tensor *const of[NUM_PARAMS][MOST_DEVICES],
                          double tolerance, const char *name) {
    float *whole = small_mesh_join(m, of);
    record_floats(part, whole, small_mesh_numbers(m), tolerance, "%s", name);
    free(whole);
}

// ---- three steps -------------------------------------------------------------------------------

static void draw_minibatch(Tensor *X, Tensor *y, int out) {
    float values[MOST_ROWS * 8];
    draw_into(values, numel(X), 2000, 1e-3f);
    tensor_write(X, values);
    for (int row = 0; row < y->shape[0]; row++) values[row] = (float)draw(0, out - 1);
    tensor_write(y, values);
}

static void record_gradient_bytes(const Mesh *m) {
    HostBytes bytes = small_mesh_bytes(m);
    record_int(PART_IF(VALUES, BYTES), bytes.across, "bytes across hosts for gradients");
    record_at_most(PART_IF(VALUES, BYTES), (double)bytes.inside,
                   "bytes inside hosts for gradients");
}

static void train(int c) {
    Mesh *m = begin("three steps", c);
    int n = m->dp * m->tp, rows = n * (int)draw(2, MOST_ROWS / n < 6 ? MOST_ROWS / n : 6);
    Tensor *X = tensor_new(host(), rows, m->sizes.in), *y = tensor_new(host(), rows);
    float losses[STEPS], norms[STEPS];
    for (int s = 0; s < STEPS; s++) {
        draw_minibatch(X, y, m->sizes.out);
        ledger_reset();
        losses[s] = compute_gradients(m, X, y);
        HostBytes bytes = small_mesh_bytes(m);
        ledger_reset();
        reduce_gradients(m);
        if (s == 0) {
            record_int(BYTES, bytes.inside, "bytes inside hosts for tokens");
            record_int(BYTES, bytes.across, "bytes across hosts for tokens");
            record_gradient_bytes(m);
        }
        norms[s] = step(m, (float)draw(1, 4) / 100, NEVER);
        synchronize_all();
        record_int(VALUES, small_mesh_copies_apart(m), "copies that differ after step %d", s + 1);
    }
    record_floats(VALUES, losses, STEPS, NEAR, "losses of the steps");
    record_joined(VALUES, m, m->params, NEAR, "parameters");
    record_floats(PART_IF(NORM, VALUES), norms, STEPS, NEAR, "norms of the steps");
    record_joined(PART_IF(UPDATE, VALUES), m, m->averages, NEAR, "moving averages");
    tensor_free(X);
    tensor_free(y);
    small_mesh_free(m);
}

// ---- given gradients: whole numbers, so that sums and squares are exact ------------------------

static void reduce(int c) {
    Mesh *m = begin("the sum of given gradients", c);
    float values[MOST_NUMBERS];
    for (int p = 0; p < NUM_PARAMS; p++)
        for (int d = 0; d < m->dp; d++)
            for (int t = 0; t < m->tp; t++) {
                Tensor *grad = m->grads[p][m->tensor_groups[d][t]];
                draw_into(values, numel(grad), 9, 1);
                tensor_write(grad, values);
            }
    reduce_gradients(m);
    record_joined(VALUES, m, m->grads, 0, "gradients");
    small_mesh_free(m);
}

static void write_gradients(Mesh *m) {
    float values[MOST_NUMBERS];
    draw_into(values, small_mesh_numbers(m), 9, 1);
    small_mesh_cut(m, m->grads, values);
    m->rows = m->tp * (int)draw(2, 6);
    synchronize_all();
    ledger_reset();
}

static void record_bytes(int part, const Mesh *m) {
    HostBytes bytes = small_mesh_bytes(m);
    record_int(PART_IF(part, BYTES), bytes.inside, "bytes inside hosts");
    record_int(PART_IF(part, BYTES), bytes.across, "bytes across hosts");
}

static void norm(int c) {
    Mesh *m = begin("the norm of given gradients", c);
    float norms[MOST_DEVICES];
    write_gradients(m);
    global_norm(m, norms);
    synchronize_all();
    record_floats(NORM, norms, (size_t)(m->dp * m->tp), 1e-5, "norms");
    record_bytes(NORM, m);
    small_mesh_free(m);
}

static void one_step(int c, bool is_long) {
    Mesh *m = begin(is_long ? "a step with long gradients" : "a step with short gradients", c);
    int part = is_long ? PART_IF(UPDATE, NORM) : UPDATE;
    write_gradients(m);
    step(m, (float)draw(1, 4) / 100, is_long ? (float)draw(5, 20) / 100 : NEVER);
    synchronize_all();
    record_joined(part, m, m->averages, 1e-5, "moving averages");
    record_joined(part, m, m->params, NEAR, "parameters");
    record_int(part, small_mesh_copies_apart(m), "copies that differ");
    record_bytes(PART_IF(UPDATE, NORM), m);
    small_mesh_free(m);
}

static void trainings(void) {
    for (int c = 0; c < MESHES; c++) train(c);
}
static void sums(void) {
    for (int c = 0; c < MESHES; c++) reduce(c);
}
static void norms_of_all(void) {
    for (int c = 0; c < MESHES; c++) norm(c);
}
static void steps(void) {
    for (int c = 0; c < MESHES; c++) one_step(c, false);
    for (int c = 0; c < MESHES; c++) one_step(c, true);
}

const Group groups[] = {{"three steps", trainings, 0},
                        {"sums", sums, 0},
                        {"norms", norms_of_all, 0},
                        {"steps", steps, 0},
                        {0}};
