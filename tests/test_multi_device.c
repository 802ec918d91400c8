// test_multi_device.c: k devices compute what one device computes. get_params, allreduce,
// split_batch and train_batch of the chapters, on synthetic minibatches.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/device/graph.h"
#include "common/tensor/random.h"
#include "common/tensor/step_graph.h"
#include "dies.h"

// ---- split_batch -----------------------------------------------------------------------------

static void split_batch_keeps_rows(void **state) {
    (void)state;
    for (int k = 1; k <= 7; k++) {
        Device *devices[MAX_DEVICES];
        open_devices(devices, k);
        Tensor *X = tensor_new(host(), 5, 2, 3), *y = tensor_new(host(), 5), *Xs[7], *ys[7];
        for (int i = 0; i < 30; i++) X->data[i] = (float)i;
        for (int i = 0; i < 5; i++) y->data[i] = (float)(100 + i);
        for (int i = 0; i < k; i++) begin_step(devices[i]);
        split_batch(X, y, devices, k, Xs, ys);
        int row = 0;
        for (int i = 0; i < k; i++) {
            float *x_values = tensor_values(Xs[i]), *y_values = tensor_values(ys[i]);
            assert_ptr_equal(Xs[i]->device, devices[i]);
            assert_int_equal(Xs[i]->shape[0], ys[i]->shape[0]);
            for (int j = 0; j < Xs[i]->shape[0]; j++, row++) {
                assert_true(y_values[j] == (float)(100 + row));
                for (int c = 0; c < 6; c++)
                    assert_true(x_values[6 * j + c] == (float)(6 * row + c));
            }
            free(x_values);
            free(y_values);
        }
        assert_int_equal(row, 5);
        tensor_free(X);
        tensor_free(y);
    }
}

static void split_mismatch(void *unused) {
    (void)unused;
    devices_init(BACKEND_CPU, 1); // a GPU cannot be used on both sides of a fork
    Device *devices[1] = {try_gpu(0)};
    Tensor *X = tensor_new(host(), 5, 2), *y = tensor_new(host(), 4), *Xs[1], *ys[1];
    split_batch(X, y, devices, 1, Xs, ys);
}

static void split_batch_refuses_a_mismatch(void **state) {
    (void)state;
    expect_death(1, "differ in rows", split_mismatch, NULL);
}

// ---- allreduce -------------------------------------------------------------------------------

static void allreduce_sums_exactly(void **state) {
    (void)state;
    const int ks[] = {1, 2, 3, 4, 7}, sizes[] = {0, 1, 2, 1000};
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 4; b++) {
            int k = ks[a], n = sizes[b];
            Device *devices[MAX_DEVICES];
            open_devices(devices, k);
            Tensor *data[MAX_DEVICES];
            for (int i = 0; i < k; i++) {
                data[i] = tensor_new(devices[i], n);
                tensor_fill(data[i], (float)(i + 1));
                begin_step(devices[i]);
            }
            ledger_reset();
            allreduce(data, k);
            assert_int_equal(ledger_bytes_between_devices(),
                             2u * (unsigned)(k - 1) * (unsigned)n * 4u);
            for (int i = 0; i < k; i++) {
                float *values = tensor_values(data[i]);
                for (int j = 0; j < n; j++) assert_true(values[j] == (float)(k * (k + 1) / 2));
                free(values);
                tensor_free(data[i]);
            }
        }
}

static void get_params_copies_and_attaches(void **state) {
    (void)state;
    Tensor *params[LENET_PARAMS], *copy[LENET_PARAMS];
    lenet_init(params, 3);
    get_params(params, LENET_PARAMS, try_gpu(1), copy);
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *values = tensor_values(copy[p]), *grad = tensor_values(copy[p]->grad);
        assert_string_equal(copy[p]->name, params[p]->name);
        assert_memory_equal(values, params[p]->data, tensor_bytes(params[p]));
        for (size_t i = 0; i < numel(copy[p]); i++) assert_true(grad[i] == 0);
        assert_ptr_not_equal(copy[p]->data, params[p]->data);
        free(values);
        free(grad);
    }
    free_params(params, LENET_PARAMS);
    free_params(copy, LENET_PARAMS);
}

// ---- training --------------------------------------------------------------------------------

enum { STEPS = 20, BATCH = 50 };

// Rows of most minibatches, and of each fourth, which is a short one.
typedef struct Sizes {
    int batch, last_batch;
} Sizes;
static const Sizes uneven = {BATCH, 5};

typedef struct Trajectory {
    double losses[STEPS];
    float *params[LENET_PARAMS]; // of device 0
} Trajectory;

// Starts far enough from zero that the parameters move in 20 steps.
static void start(Tensor *params[LENET_PARAMS]) {
    lenet_init(params, 1);
    for (int p = 0; p < LENET_PARAMS; p++)
        for (size_t i = 0; i < numel(params[p]); i++) params[p]->data[i] *= p == 0 ? 30.0f : 8.0f;
}

// Minibatch number `step`: bright stripes whose place depends on the class.
static void minibatch(int step, Sizes sizes, Tensor *X, Tensor *y) {
    X->shape[0] = y->shape[0] = step % 4 == 3 ? sizes.last_batch : sizes.batch;
    for (int n = 0; n < X->shape[0]; n++) {
        int label = (n * 7 + step) % 10;
        y->data[n] = (float)label;
        for (int i = 0; i < 784; i++) {
            double noise =
                random_uniform(9, STREAM_TEST, (uint64_t)((step * sizes.batch + n) * 784 + i));
            X->data[n * 784 + i] = (float)(0.3 * noise + (i / 28 / 2 == label + 2 ? 0.7 : 0.0));
        }
    }
}

static void assert_replicas_equal(Tensor *device_params[][LENET_PARAMS], int k) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *first = tensor_values(device_params[0][p]);
        for (int i = 1; i < k; i++) {
            float *other = tensor_values(device_params[i][p]);
            assert_memory_equal(first, other, tensor_bytes(device_params[0][p]));
            free(other);
        }
        free(first);
    }
}

// What train_batch_as_graph() takes.
typedef struct Training {
    Device *devices[MAX_DEVICES];
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES], *X, *y;
    int k;
} Training;

static Training training_on(int k, int rows) {
    Training t = {.k = k};
    Tensor *params[LENET_PARAMS];
    open_devices(t.devices, k);
    start(params);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, t.devices[i], t.device_params[i]);
    free_params(params, LENET_PARAMS);
    t.X = tensor_new(host(), rows, 1, 28, 28);
    t.y = tensor_new(host(), rows);
    return t;
}

// The loss of the minibatch.
static double train_step_on(Training *t, float lr) {
    double loss = 0;
    train_batch_as_graph(t->X, t->y, t->device_params, t->devices, t->k, lr, t->losses);
    // Whoever makes something in the same step must not get the memory of what is there. (This is
    // more than all that 20 rows need.)
    if (t->X->shape[0] <= 20)
        for (int i = 0; i < t->k; i++)
            tensor_fill(arena_tensor(t->devices[i], 1, (int[]){1 << 18}, false), NAN);
    for (int i = 0; i < t->k; i++) loss += (double)item(t->losses[i]) / t->X->shape[0];
    assert_replicas_equal(t->device_params, t->k);
    return loss;
}

static void end(Training *t, float *params[LENET_PARAMS]) {
    for (int p = 0; p < LENET_PARAMS; p++) params[p] = tensor_values(t->device_params[0][p]);
    for (int i = 0; i < t->k; i++) free_params(t->device_params[i], LENET_PARAMS);
    tensor_free(t->X);
    tensor_free(t->y);
}

static Trajectory train_on(int k, Sizes sizes) {
    Training training = training_on(k, sizes.batch);
    Trajectory t = {.losses = {0}};
    for (int step = 0; step < STEPS; step++) {
        minibatch(step, sizes, training.X, training.y);
        t.losses[step] = train_step_on(&training, 0.2f);
    }
    end(&training, t.params);
    return t;
}

static void forget(Trajectory *t) {
    for (int p = 0; p < LENET_PARAMS; p++) free(t->params[p]);
}

static const size_t counts[LENET_PARAMS] = {180, 20, 25000, 50, 102400, 128, 1280, 10};

// Loss within 1e-5 relative, parameters within 1e-4 of the largest: the order of additions, and
// what 20 steps make of it; no more. With 7 devices and 5 rows, two devices get no rows at all.
static void k_devices_compute_what_one_computes(void **state) {
    (void)state;
    Trajectory one = train_on(1, uneven);
    assert_true(one.losses[STEPS - 2] <
                0.8 * one.losses[0]); // it learns, so equality says something
    const int ks[] = {2, 3, 4, 7};
    for (int a = 0; a < 4; a++) {
        Trajectory many = train_on(ks[a], uneven);
        for (int step = 0; step < STEPS; step++) {
            double difference = fabs(many.losses[step] - one.losses[step]);
            if (!(difference <= 1e-5 * one.losses[step]))
                fail_msg("k = %d, step %d: loss %.8f, one device %.8f", ks[a], step,
                         many.losses[step], one.losses[step]);
        }
        for (int p = 0; p < LENET_PARAMS; p++) {
            double apart = relative_difference(many.params[p], one.params[p], NULL, counts[p]);
            if (!(apart <= 1e-4))
                fail_msg("k = %d, parameter %d: %.2g of the largest number from one device's",
                         ks[a], p, apart);
        }
        forget(&many);
    }
    forget(&one);
}

static void same_seed_same_bits(void **state) {
    (void)state;
    const int ks[] = {1, 2, 3};
    for (int a = 0; a < 3; a++) {
        Trajectory first = train_on(ks[a], uneven), second = train_on(ks[a], uneven);
        assert_memory_equal(first.losses, second.losses, sizeof first.losses);
        for (int p = 0; p < LENET_PARAMS; p++)
            assert_memory_equal(first.params[p], second.params[p], counts[p] * sizeof(float));
        forget(&first);
        forget(&second);
    }
}

// Sums over a minibatch are trees of groups of 16 rows (see kernels/cpu/cpu.h), and two devices
// with 32 or 16 rows each compute its two halves. cuBLAS has an order of its own.
static void two_cpu_devices_give_the_bits_of_one(void **state) {
    (void)state;
    if (num_gpus() > 0) skip("cuBLAS has an order of its own");
    const Sizes even = {64, 32};
    Trajectory one = train_on(1, even), two = train_on(2, even);
    for (int p = 0; p < LENET_PARAMS; p++)
        assert_memory_equal(one.params[p], two.params[p], counts[p] * sizeof(float));
    forget(&one);
    forget(&two);
}

// ---- the same, as graphs ---------------------------------------------------------------------

// A step, and which change comes before it.
typedef struct VariedStep {
    int rows;
    float lr;
    const char *allreduce;
    bool evaluate;
} VariedStep;

// A step is run, then recorded, then replayed, unless it differs from all that were recorded. (Star
// and ring add up three devices in different orders. The table of graphs has room for four.)
static const VariedStep varied[] = {
    {9, 0.2f, "star", false}, {9, 0.2f, "star", false},  {9, 0.2f, "star", false},
    {5, 0.2f, "star", false}, {9, 0.2f, "star", false},  {5, 0.2f, "star", false},
    {5, 0.2f, "star", false}, {20, 0.2f, "star", false}, {9, 0.2f, "star", false},
    {9, 0.2f, "star", true},  {9, 0.2f, "star", false},  {9, 0.05f, "star", false},
    {9, 0.2f, "ring", false}, {9, 0.2f, "star", false},  {9, 0.2f, "ring", false},
    {9, 0.2f, "ring", true},  {9, 0.2f, "ring", false},  {9, 0.2f, "ring", false},
};
enum { VARIED_STEPS = sizeof varied / sizeof varied[0] };

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
    Training training = training_on(k, 20);
    Trajectory t = {.losses = {0}};
    bool scratch_moved = false;
    for (int step = 0; step < VARIED_STEPS; step++) {
        const VariedStep *s = &varied[step];
        if (s->evaluate) scratch_moved |= evaluate(&training);
        minibatch(step, (Sizes){s->rows, s->rows}, training.X, training.y);
        choose_allreduce(s->allreduce);
        t.losses[step] = train_step_on(&training, s->lr);
    }
    assert_true(scratch_moved);
    end(&training, t.params);
    choose_allreduce("star");
    choose_graph("on");
    return t;
}

static void graphs_do_not_change_bits(void **state) {
    (void)state;
    if (!has_graphs(try_gpu(0))) skip("no GPU");
    for (int k = 1; k <= 3; k += 2) {
        Trajectory graphs = train_varied(k, "on"), steps = train_varied(k, "off");
        for (int step = 0; step < VARIED_STEPS; step++)
            if (graphs.losses[step] != steps.losses[step])
                fail_msg("k = %d, step %d: loss %.9f as a graph, %.9f without", k, step,
                         graphs.losses[step], steps.losses[step]);
        for (int p = 0; p < LENET_PARAMS; p++)
            assert_memory_equal(graphs.params[p], steps.params[p], counts[p] * sizeof(float));
        forget(&graphs);
        forget(&steps);
    }
}

// On CPU devices the bits do not depend on the number of threads either.
static void threads_do_not_change_bits(void **state) {
    (void)state;
    devices_close();
    devices_init(BACKEND_CPU, 1);
    Trajectory first = train_on(2, uneven);
    for (int threads = 2; threads <= 7; threads += 5) {
        devices_close();
        devices_init(BACKEND_CPU, threads);
        Trajectory other = train_on(2, uneven);
        for (int p = 0; p < LENET_PARAMS; p++)
            assert_memory_equal(first.params[p], other.params[p], counts[p] * sizeof(float));
        forget(&other);
    }
    forget(&first);
    devices_close();
    devices_init(BACKEND_AUTO, 0);
}

// One step moves the shards from the host, and 2 (k-1) times the gradients between the devices.
static void a_step_moves_what_the_formula_says(void **state) {
    (void)state;
    size_t gradients = 0;
    for (int p = 0; p < LENET_PARAMS; p++) gradients += counts[p] * sizeof(float);
    for (int k = 1; k <= 5; k++) {
        Device *devices[MAX_DEVICES];
        Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS],
            *losses[MAX_DEVICES];
        open_devices(devices, k);
        start(params);
        for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
        Tensor *X = tensor_new(host(), BATCH, 1, 28, 28), *y = tensor_new(host(), BATCH);
        minibatch(0, uneven, X, y);
        ledger_reset();
        train_batch(X, y, device_params, devices, k, 0.1f, losses);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), 2 * (size_t)(k - 1) * gradients);
        assert_int_equal(ledger_bytes_host(), BATCH * (784 + 1) * sizeof(float));
        for (int i = 0; i < k; i++) {
            Range shard = equal_range(BATCH, k, i);
            assert_int_equal(ledger_bytes(host(), devices[i]),
                             (size_t)shard.count * 785 * sizeof(float));
            if (i > 0) assert_int_equal(ledger_bytes(devices[i], devices[0]), gradients);
        }
        for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
        free_params(params, LENET_PARAMS);
        tensor_free(X);
        tensor_free(y);
    }
}

static int close_all(void **state) {
    (void)state;
    devices_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_batch_refuses_a_mismatch), // forks: before there are other threads
        cmocka_unit_test(split_batch_keeps_rows),
        cmocka_unit_test(allreduce_sums_exactly),
        cmocka_unit_test(get_params_copies_and_attaches),
        UNLESS_SIMULATED(k_devices_compute_what_one_computes),
        UNLESS_SIMULATED(same_seed_same_bits),
        UNLESS_SIMULATED(two_cpu_devices_give_the_bits_of_one),
        UNLESS_SIMULATED(threads_do_not_change_bits),
        cmocka_unit_test(graphs_do_not_change_bits),
        cmocka_unit_test(a_step_moves_what_the_formula_says),
    };
    return cmocka_run_group_tests_name("multi_device", tests, NULL, close_all);
}
