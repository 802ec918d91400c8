// test_recompute.c: what recomputation keeps, batch norm's running statistics, and mistakes that
// are made on purpose. (Bits, bytes and peaks in all stages: test_zero.c.)
#include "common/model/modelled_clock.h"
#include "common/tensor/arena.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "chapters/09_what_each_device_keeps/zero.h"
#include "cases.h"
#include "formula.h"

enum { MOST = 4, ROWS = 10 };
static const float lr = 1e-3f;

static Module *narrow_resnet(void) {
    return Sequential(Conv2d(1, 8, .kernel_size = 3, .padding = 1), BatchNorm2d(8), ReLU(),
                      Residual(8, 8), Residual(8, 16, .use_1x1conv = true, .strides = 2),
                      AdaptiveAvgPool2d(1, 1), Flatten(), Linear(16, 10));
}

// Floats of an image in the output of each of its blocks.
static const size_t kept_floats[] = {8 * 28 * 28, 8 * 28 * 28, 8 * 28 * 28, 16, 10};

// ---- a step --------------------------------------------------------------------------------------

typedef struct Step {
    int k;
    Device *devices[MOST];
    Module *net;
    Zero *z;
    Tensor *X[MOST], *y[MOST], *losses[MOST];
} Step;

static Step begin(void **state, Module *net, Stage stage, int k, bool recompute) {
    Step s = {.k = k, .net = net};
    Tensor *X, *y;
    if (state)
        devices_under_test(state, k, s.devices);
    else
        open_devices(s.devices, k);
    fill_network(net);
    s.z = zero_new(net, s.devices, k, stage, (AdamOptions){0});
    s.z->recompute = recompute;
    formula_batch(ROWS, &X, &y);
    keep(X), keep(y);
    for (int i = 0; i < k; i++) begin_step(s.devices[i]);
    split_batch(X, y, s.devices, k, s.X, s.y);
    return s;
}

static void end(Step *s) {
    zero_free(s->z);
    module_free(s->net);
    devices_close();
}

// ---- what is kept --------------------------------------------------------------------------------

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// After the backward pass, nothing is lent any more: not even the output, of the last block.
static void check_given_back(Step *s) {
    for (int i = 0; i < s->k; i++) s->losses[i] = sum(cross_entropy(s->X[i], s->y[i]));
    backward_all(s->losses, s->k);
    for (int i = 0; i < s->k; i++) assert_false(arena_give_back(s->devices[i], s->X[i]->data));
}

// After the forward pass: the minibatch and the output of each block, and nothing else.
static void test_kept(void **state) {
    bool slow = SIMULATED && strcmp(*state, "cpu") != 0;
    for (int k = 1; k <= (slow ? 1 : MOST); k++) {
        Step s = begin(state, narrow_resnet(), ZERO_1, k, true);
        forward_unit(s.z, 0, s.X);
        for (int i = 0; i < k; i++) {
            size_t rows = (size_t)equal_range(ROWS, k, i).count;
            size_t bytes = aligned(4 * rows * 28 * 28) + aligned(4 * rows);
            for (size_t b = 0; b < COUNT(kept_floats); b++)
                bytes += aligned(4 * rows * kept_floats[b]);
            Device *d = s.devices[i]; // what is lent, and where the arena is
            assert_int_equal(arena_position(d).step_bytes + arena_position(d).most_lent, bytes);
            assert_int_equal(tape_length(s.devices[i]), COUNT(kept_floats));
        }
        check_given_back(&s);
        end(&s);
    }
}

// On devices without values, with 64 images each: a step with it takes less memory, in all stages.
CASE(test_less_memory) {
    for (int run = 0; run < NUM_STAGES * MOST; run++) {
        int k = run / NUM_STAGES + 1;
        size_t reserved[2];
        for (int again = 0; again < 2; again++) {
            Device *devices[MOST];
            Tensor *Xs[MOST], *ys[MOST], *losses[MOST];
            const Tensor X = {.ndim = 4, .shape = {k * 64, 1, 28, 28}, .device = host()};
            const Tensor y = {.ndim = 1, .shape = {k * 64}, .device = host()};
            Module *net = resnet18(10, 1);
            devices_init(BACKEND_CPU, 1);
            for (int i = 0; i < k; i++) devices[i] = model_device(i);
            initialize_without_values(net);
            Zero *z = zero_new(net, devices, k, (Stage)(run % NUM_STAGES), (AdamOptions){0});
            z->recompute = again;
            for (int step = 0; step < 3; step++) {
                size_t before = step ? arena_reserved_bytes(devices[0]) : 0;
                for (int i = 0; i < k; i++) begin_step(devices[i]);
                split_batch(&X, &y, devices, k, Xs, ys);
                zero_step(z, Xs, ys, lr, k * 64, losses);
                reserved[again] = arena_reserved_bytes(devices[0]);
                if (step) assert_int_equal(reserved[again], before); // nothing is allocated
            }
            zero_free(z);
            module_free(net);
            devices_close();
        }
        assert_true(reserved[1] < reserved[0]);
    }
}

// ---- the same bits -------------------------------------------------------------------------------

static float *params_after_step(Step *s) {
    float *params = keep_memory(xmalloc(parameter_bytes(s->net)));
    zero_step(s->z, s->X, s->y, lr, ROWS, s->losses);
    zero_read(s->z, params);
    return params;
}

// The first block has no parameters, and the images need no gradient.
static void test_first_block_without_parameters(void **state) {
    float *params[2];
    size_t bytes = 0;
    for (int again = 0; again < 2; again++) {
        Module *net = Sequential(AvgPool2d(2), Flatten(), Linear(196, 20), ReLU(), Linear(20, 10));
        Step s = begin(state, net, ZERO_2, 2, again);
        params[again] = params_after_step(&s);
        bytes = parameter_bytes(net);
        end(&s);
    }
    assert_memory_equal(params[0], params[1], bytes);
}

// ---- running statistics --------------------------------------------------------------------------

static float *statistic(const Step *s, int i, const char *name) {
    return values_of(parameter_data(find_parameter(s->net, name), s->devices[i]));
}

static long minibatches(const Step *s) {
    Counts counts = counts_of(s->net, false);
    long n = (long)counts.list[0].value;
    for (int c = 1; c < counts.n; c++) assert_int_equal(counts.list[c].value, n);
    free_counts(&counts);
    return n;
}

// running = 0.9 running + 0.1 mean, once. A second update with the same mean can be seen: it is
// what the statistics are if each pass of a block that was computed twice counts.
static void test_statistics_once(void **state) {
    static const char name[] = "3.bn1.running_mean";
    for (int run = 0; run < NUM_STAGES * MOST; run++) {
        int k = run / NUM_STAGES + 1;
        Stage stage = (Stage)(run % NUM_STAGES);
        float *once[2][MOST];
        for (int again = 0; again < 2; again++) {
            Step s = begin(state, narrow_resnet(), stage, k, again);
            const Parameter *mean = find_parameter(s.net, name);
            zero_step(s.z, s.X, s.y, lr, ROWS, s.losses);
            assert_int_equal(minibatches(&s), 1);
            for (int i = 0; i < k; i++) {
                once[again][i] = statistic(&s, i, name);
                assert_memory_equal(once[again][i], once[0][i], tensor_bytes(mean->start));
            }
            end(&s);
        }
        // The mistake: before the step, the block runs once more on the same images.
        Step s = begin(state, narrow_resnet(), stage, k, false);
        if (stage < ZERO_3) {
            const Tensor *mean = find_parameter(s.net, name)->start;
            Tensor *Y[MOST];
            set_grad_enabled(false);
            for (int i = 0; i < k; i++) Y[i] = s.X[i];
            for (int u = 0; u < s.z->num_units; u++) forward_unit(s.z, u, Y);
            set_grad_enabled(true);
            zero_step(s.z, s.X, s.y, lr, ROWS, s.losses);
            assert_int_equal(minibatches(&s), 2);
            for (int i = 0; i < k; i++) {
                float *twice = statistic(&s, i, name);
                for (size_t c = 0; c < numel(mean); c++) {
                    double start = (double)mean->data[c],
                           m = ((double)once[1][i][c] - 0.9 * start) / 0.1;
                    double expected = 0.81 * start + 0.19 * m;
                    assert_true(fabs((double)twice[c] - expected) <=
                                1e-5 * fmax(1, fabs(expected)));
                    assert_true(twice[c] != once[1][i][c]);
                }
            }
        }
        end(&s);
        free_kept();
    }
}

// Training that does not track, of batch norm alone: the same output, and nothing else changes.
static void test_not_tracking(void **state) {
    Device *device = device_under_test(state);
    Module *net = Sequential(BatchNorm2d(3));
    fill_network(net);
    Tensor *X = RANDOM(device, 4, 3, 5, 5);
    begin_step(device);
    set_track_running_stats(net, false);
    Tensor *Y = forward(net, X);
    float *before = values_of(find_parameter(net, "0.running_var")->start);
    float *after = values_of(parameter_data(find_parameter(net, "0.running_var"), device));
    assert_memory_equal(before, after, 3 * sizeof(float));
    set_track_running_stats(net, true);
    Tensor *Z = forward(net, X);
    assert_memory_equal(values_of(Y), values_of(Z), tensor_bytes(Y));
    after = values_of(parameter_data(find_parameter(net, "0.running_var"), device));
    for (int c = 0; c < 3; c++) assert_true(before[c] != after[c]);
    Counts counts = counts_of(net, false);
    assert_int_equal(counts.list[0].value, 1);
    free_counts(&counts);
    module_free(net);
    free_kept();
    devices_close();
}

// ---- mistakes ------------------------------------------------------------------------------------

// A block's input is given up after forward. Something else gets its memory, so what is computed
// again is something else.
static void test_input_not_kept(void **state) {
    float *params[2];
    for (int mistake = 0; mistake < 2; mistake++) {
        Step s = begin(state, narrow_resnet(), ZERO_2, 2, true);
        Tensor *Y[MOST] = {s.X[0], s.X[1]}, *inputs[MOST];
        for (int u = 0; u < s.z->num_units; u++) {
            for (int i = 0; i < 2; i++) inputs[i] = Y[i];
            forward_unit(s.z, u, Y);
            if (u == 2 && mistake)
                for (int i = 0; i < 2; i++)
                    assert_true(arena_give_back(s.devices[i], inputs[i]->data));
        }
        for (int i = 0; i < 2; i++) s.losses[i] = sum(cross_entropy(Y[i], s.y[i]));
        for (int u = 0; u < s.z->num_units; u++) allocate_gradients(s.z, u);
        backward_all(s.losses, 2);
        for (int u = 0; u < s.z->num_units; u++) reduce_gradients(s.z, u);
        for (int u = 0; u < s.z->num_units; u++) finish_reducing(s.z, u);
        update_own(s.z, lr, ROWS);
        params[mistake] = keep_memory(xmalloc(parameter_bytes(s.net)));
        zero_read(s.z, params[mistake]);
        if (mistake) assert_memory_not_equal(params[0], params[1], parameter_bytes(s.net));
        end(&s);
    }
}

DIES("needs backward_all()", {
    Step s = begin(NULL, narrow_resnet(), ZERO_1, 1, true);
    forward_unit(s.z, 0, s.X);
    backward(sum(cross_entropy(s.X[0], s.y[0])));
})
// A block that overwrites its input, which is needed again.
DIES("cannot be overwritten, its values are needed for gradients", {
    Step s = begin(NULL, narrow_resnet(), ZERO_1, 1, true);
    Tensor *Y[1] = {s.X[0]};
    forward_unit(s.z, 0, Y);
    relu_(s.X[0]);
})

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        UNLESS_SIMULATED(expect_deaths),
        UNLESS_SIMULATED(test_less_memory),
        ON_BOTH(test_kept),
        ON_BOTH(test_first_block_without_parameters),
        ON_BOTH_UNLESS_SIMULATED(test_statistics_once),
        ON_BOTH_UNLESS_SIMULATED(test_not_tracking),
        ON_BOTH_UNLESS_SIMULATED(test_input_not_kept),
    };
    choose_allreduce("sharded");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_kept();
    devices_close();
    return failed;
}
