// test_multi_device.c: k devices compute what one device computes. get_params, split_batch and
// train_batch of the chapters, with each allreduce, on synthetic minibatches.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/device/graph.h"
#include "common/tensor/step_graph.h"
#include "cases.h"

// ---- split_batch and get_params ----------------------------------------------------------------

// The shards, one behind the other, are the minibatch.
CASE(split_batch_keeps_rows) {
    for (int k = 1; k <= 7; k++) {
        Device *devices[MAX_DEVICES];
        open_devices(devices, k);
        Tensor *X = RANDOM(host(), 5, 2, 3), *y = RANDOM(host(), 5), *Xs[7], *ys[7];
        float x_values[30], y_values[5];
        int row = 0;
        for (int i = 0; i < k; i++) begin_step(devices[i]);
        split_batch(X, y, devices, k, Xs, ys);
        for (int i = 0; i < k; row += Xs[i++]->shape[0]) {
            assert_ptr_equal(Xs[i]->device, devices[i]);
            assert_int_equal(Xs[i]->shape[0], ys[i]->shape[0]);
            assert_true(row + Xs[i]->shape[0] <= 5);
            tensor_read(Xs[i], x_values + 6 * row);
            tensor_read(ys[i], y_values + row);
        }
        assert_int_equal(row, 5);
        assert_memory_equal(x_values, X->data, sizeof x_values);
        assert_memory_equal(y_values, y->data, sizeof y_values);
    }
}

DIES("differ in rows", {
    Tensor *Xs[1], *ys[1];
    split_batch(RANDOM(host(), 5, 2), RANDOM(host(), 4), (Device *[]){try_gpu(0)}, 1, Xs, ys);
})

CASE(get_params_copies_and_attaches) {
    Tensor *params[LENET_PARAMS], *copy[LENET_PARAMS];
    lenet_init(params, 3);
    get_params(params, LENET_PARAMS, try_gpu(1), copy);
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *grad = values_of(copy[p]->grad);
        assert_string_equal(copy[p]->name, params[p]->name);
        assert_memory_equal(values_of(copy[p]), params[p]->data, tensor_bytes(params[p]));
        for (size_t i = 0; i < numel(copy[p]); i++) assert_true(grad[i] == 0);
        assert_ptr_not_equal(copy[p]->data, params[p]->data);
    }
    free_params(params, LENET_PARAMS);
    free_params(copy, LENET_PARAMS);
}

// ---- training --------------------------------------------------------------------------------

enum { STEPS = 12, BATCH = 50, VARIED_STEPS = 18, FLOATS = 129068 };

typedef struct Training {
    Device *devices[MAX_DEVICES];
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES], *X, *y;
    int k;
} Training;

// Starts far enough from zero that the parameters move in 12 steps.
static Training training_on(int k, int rows) {
    Training t = {.k = k};
    Tensor *params[LENET_PARAMS];
    open_devices(t.devices, k);
    lenet_init(params, 1);
    for (int p = 0; p < LENET_PARAMS; p++)
        for (size_t i = 0; i < numel(params[p]); i++) params[p]->data[i] *= p == 0 ? 30.0f : 8.0f;
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, t.devices[i], t.device_params[i]);
    free_params(params, LENET_PARAMS);
    t.X = keep(tensor_new(host(), rows, 1, 28, 28));
    t.y = keep(tensor_new(host(), rows));
    return t;
}

// So many rows of minibatch number `step`: bright stripes whose place depends on the class.
static void minibatch(Training *t, int step, int rows) {
    t->X->shape[0] = t->y->shape[0] = rows;
    for (int n = 0; n < rows; n++) {
        int label = (n * 7 + step) % 10;
        t->y->data[n] = (float)label;
        for (int i = 0; i < 784; i++) {
            double noise = random_uniform(9, STREAM_TEST, (uint64_t)((step * BATCH + n) * 784 + i));
            t->X->data[n * 784 + i] = (float)(0.3 * noise + (i / 28 / 2 == label + 2 ? 0.7 : 0.0));
        }
    }
}

// All parameters, one behind the other: the same bits on all devices.
static const float *params_of(const Training *t) {
    const float *values[MAX_DEVICES] = {NULL};
    size_t n;
    for (int i = 0; i < t->k; i++) {
        values[i] = keep_memory(values_of_all(t->device_params[i], LENET_PARAMS, &n));
        assert_int_equal(n, FLOATS);
        assert_memory_equal(values[i], values[0], sizeof(float[FLOATS]));
    }
    return values[0];
}

// A step that the host watches: it waits for the loss of the minibatch, and compares the replicas.
static double watched_step(Training *t, float lr) {
    float losses[MAX_DEVICES];
    double loss = 0;
    train_batch_as_graph(t->X, t->y, t->device_params, t->devices, t->k, lr, t->losses);
    // Whoever makes something in the same step must not get the memory of what is there. (This is
    // more than all that 20 rows need.)
    for (int i = 0; i < t->k && t->X->shape[0] <= 20; i++)
        tensor_fill(arena_tensor(t->devices[i], 1, (int[]){1 << 18}, false), NAN);
    items(t->losses, t->k, losses);
    for (int i = 0; i < t->k; i++) loss += (double)losses[i] / t->X->shape[0];
    params_of(t);
    return loss;
}

typedef struct Trajectory {
    double losses[VARIED_STEPS]; // of watched steps
    const float *params;         // at the end
} Trajectory;

static Trajectory end(Training *t, Trajectory result) {
    result.params = params_of(t);
    for (int i = 0; i < t->k; i++) free_params(t->device_params[i], LENET_PARAMS);
    return result;
}

// Each fourth minibatch is a short one. Unwatched, the host waits only where X is written anew.
static Trajectory train_on(int k, int steps, int rows, int short_rows, bool watched) {
    Training t = training_on(k, rows);
    Trajectory result = {.losses = {0}};
    for (int step = 0; step < steps; step++) {
        synchronize_host_reads();
        minibatch(&t, step, step % 4 == 3 ? short_rows : rows);
        if (watched)
            result.losses[step] = watched_step(&t, 0.2f);
        else
            train_batch(t.X, t.y, t.device_params, t.devices, k, 0.2f, t.losses);
    }
    return end(&t, result);
}

static void assert_same_bits(Trajectory a, Trajectory b) {
    for (int step = 0; step < VARIED_STEPS; step++) assert_true(a.losses[step] == b.losses[step]);
    assert_memory_equal(a.params, b.params, sizeof(float[FLOATS]));
}

static const size_t counts[LENET_PARAMS] = {180, 20, 25000, 50, 102400, 128, 1280, 10};

// Loss within 1e-5 relative, parameters within 1e-4 of the largest: the order of additions, and
// what 12 steps make of it; no more. With 7 devices and 5 rows, two devices get no rows at all.
CASE(k_devices_compute_what_one_computes) {
    const struct {
        const char *allreduce;
        int k;
        bool watched;
    } rows[] = {{"star", 2, true},  {"star", 3, true},     {"star", 7, true}, {"star", 4, false},
                {"tree", 4, false}, {"sharded", 7, false}, {"ring", 3, false}};
    Trajectory one = train_on(1, STEPS, BATCH, 5, true);
    assert_true(one.losses[STEPS - 2] < 0.8 * one.losses[0]); // so equality says something
    for (size_t r = 0; r < COUNT(rows); r++) {
        choose_allreduce(rows[r].allreduce);
        assert_string_equal(chosen_allreduce()->name, rows[r].allreduce);
        Trajectory many = train_on(rows[r].k, STEPS, BATCH, 5, rows[r].watched);
        for (int step = 0; step < STEPS && rows[r].watched; step++)
            if (!(fabs(many.losses[step] - one.losses[step]) <= 1e-5 * one.losses[step]))
                fail_msg("k = %d, step %d: loss %.8f, one device %.8f", rows[r].k, step,
                         many.losses[step], one.losses[step]);
        for (size_t p = 0, first = 0; p < LENET_PARAMS; first += counts[p++]) {
            double apart =
                relative_difference(many.params + first, one.params + first, NULL, counts[p]);
            if (!(apart <= 1e-4))
                fail_msg("%s, k = %d, parameter %zu: %.2g of the largest number from one device's",
                         rows[r].allreduce, rows[r].k, p, apart);
        }
    }
    choose_allreduce("star");
}

// Training again gives the same bits; on CPU devices also with any number of threads, and on two
// devices the bits of one. (Sums over a minibatch are trees of groups of 16 rows, see
// kernels/cpu/cpu.h; of 64 or 32 rows, two devices compute the two halves of the tree. cuBLAS adds
// in another order.)
CASE(same_bits) {
    enum { FEW = 8 };
    assert_same_bits(train_on(3, FEW, BATCH, 5, true), train_on(3, FEW, BATCH, 5, true));
    Trajectory first = {.params = NULL};
    for (int threads = 1; threads <= 7; threads += 3) {
        devices_close();
        devices_init(BACKEND_CPU, threads);
        Trajectory other = train_on(2, FEW, BATCH, 5, true);
        if (threads > 1) assert_same_bits(first, other);
        first = other;
    }
    assert_same_bits(train_on(1, FEW, 64, 32, false), train_on(2, FEW, 64, 32, false));
    devices_close();
}

// ---- the same, as graphs ---------------------------------------------------------------------

// A step is run, then recorded, then replayed, unless it differs from all that were recorded: in
// rows, learning rate or allreduce. (Star and ring add up three devices in different orders. The
// table of graphs has room for four.)
static const int varied_rows[VARIED_STEPS] = {9, 9, 9, 5, 9, 5, 5, 20, 9,
                                              9, 9, 9, 9, 9, 9, 9, 9,  9};

// Operations outside of the steps: LeNet without gradients, and a convolution that needs more
// scratch memory than all of LeNet's. Returns whether scratch memory has moved.
static bool evaluate(Training *t) {
    MemoryStamp before = memory_stamp();
    set_grad_enabled(false);
    for (int i = 0; i < t->k; i++) {
        begin_step(t->devices[i]);
        Tensor *X = arena_tensor(t->devices[i], 4, (int[]){30, 1, 28, 28}, false);
        tensor_fill(X, 1);
        lenet(X, t->device_params[i]);
        Tensor *large = arena_tensor(t->devices[i], 4, (int[]){1, 8, 64, 64}, false),
               *W = arena_tensor(t->devices[i], 4, (int[]){32, 8, 5, 5}, false);
        tensor_fill(large, 1);
        tensor_fill(W, 1);
        conv2d(large, W, NULL);
    }
    set_grad_enabled(true);
    return !memory_still_there(before);
}

static Trajectory train_varied(int k, const char *graph) {
    devices_close(); // scratch memory is small again
    choose_graph(graph);
    Training t = training_on(k, 20);
    Trajectory result = {.losses = {0}};
    bool scratch_moved = false;
    for (int step = 0; step < VARIED_STEPS; step++) {
        if (step == 9 || step == 15) scratch_moved |= evaluate(&t);
        minibatch(&t, step, varied_rows[step]);
        choose_allreduce(step == 12 || step >= 14 ? "ring" : "star");
        result.losses[step] = watched_step(&t, step == 11 ? 0.05f : 0.2f);
    }
    assert_true(scratch_moved);
    choose_allreduce("star");
    choose_graph("on");
    return end(&t, result);
}

CASE(graphs_do_not_change_bits) {
    if (!has_graphs(try_gpu(0))) skip("no GPU");
    for (int k = 1; k <= 3; k += 2) assert_same_bits(train_varied(k, "on"), train_varied(k, "off"));
}

// One step moves the shards from the host, and 2 (k-1) times the gradients between the devices.
CASE(a_step_moves_what_the_formula_says) {
    const size_t gradients = FLOATS * sizeof(float);
    for (int k = 1; k <= 5; k++) {
        Training t = training_on(k, BATCH);
        minibatch(&t, 0, BATCH);
        ledger_reset();
        train_batch(t.X, t.y, t.device_params, t.devices, k, 0.1f, t.losses);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), 2 * (size_t)(k - 1) * gradients);
        assert_int_equal(ledger_bytes_host(), BATCH * (784 + 1) * sizeof(float));
        for (int i = 0; i < k; i++) {
            size_t rows = equal_range(BATCH, k, i).count;
            assert_int_equal(ledger_bytes(host(), t.devices[i]), rows * 785 * sizeof(float));
            if (i > 0) assert_int_equal(ledger_bytes(t.devices[i], t.devices[0]), gradients);
        }
        end(&t, (Trajectory){.losses = {0}});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expect_deaths),
        cmocka_unit_test(split_batch_keeps_rows),
        cmocka_unit_test(get_params_copies_and_attaches),
        UNLESS_SIMULATED(k_devices_compute_what_one_computes),
        UNLESS_SIMULATED(same_bits),
        cmocka_unit_test(graphs_do_not_change_bits),
        cmocka_unit_test(a_step_moves_what_the_formula_says),
    };
    return cmocka_run_group_tests_name("multi_device", tests, NULL, close_kept);
}
