// test_splitting.c: chapter 1. Each strategy computes what one device computes and moves the bytes
// that its formula says; the formulas know AlexNet and ResNet-18; a trace records work in order.
#include "test.h"

#include "chapters/01_splitting_strategies/bubble.h"
#include "chapters/01_splitting_strategies/costs.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/tensor/random.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "lenet_float64.h"

static void make_minibatch(int n, Tensor **X, Tensor **y) {
    *X = tensor_new(host(), n, 1, 28, 28);
    *y = tensor_new(host(), n);
    for (int i = 0; i < n * 784; i++)
        (*X)->data[i] = (float)random_uniform(5, STREAM_TEST, (uint64_t)i);
    for (int i = 0; i < n; i++) (*y)->data[i] = (float)(i * 7 % 10);
}

// ---- the start is chapter 4's ----------------------------------------------------------------

static void starts_as_chapter_4(void **state) {
    (void)state;
    Tensor *ours[LENET_PARAMS], *theirs[LENET_PARAMS], *X, *y;
    Device *device = try_gpu(0);
    make_minibatch(32, &X, &y);
    network_init(&lenet_network, ours, 0.01, 7);
    lenet_init(theirs, 7);
    assert_int_equal(num_params(&lenet_network), LENET_PARAMS);
    for (int p = 0; p < LENET_PARAMS; p++) {
        assert_true(same_shape(ours[p], theirs[p]));
        assert_string_equal(ours[p]->name, theirs[p]->name);
        assert_memory_equal(ours[p]->data, theirs[p]->data, tensor_bytes(ours[p]));
    }
    Spread *s = spread_open(&lenet_network, ours, &across_data, &device, 1, 1);
    s->strategy->gradients(s, X, y);
    float our_loss = item(s->losses[0]);

    Tensor *params[LENET_PARAMS];
    begin_step(device);
    for (int p = 0; p < LENET_PARAMS; p++) params[p] = tensor_to(theirs[p], device);
    Tensor *X_there = tensor_to(X, device), *y_there = tensor_to(y, device);
    float their_loss = item(sum(cross_entropy(lenet(X_there, params), y_there)));
    assert_memory_equal(&our_loss, &their_loss, sizeof our_loss);
    for (int p = 0; p < LENET_PARAMS; p++) {
        tensor_free(params[p]);
        tensor_free(theirs[p]);
        tensor_free(ours[p]);
    }
    spread_close(s);
    tensor_free(X_there);
    tensor_free(y_there);
    tensor_free(X);
    tensor_free(y);
}

// ---- the first step, against float64 ---------------------------------------------------------

static void check_strategy(const Strategy *strategy, int k, Tensor *const params[], const Tensor *X,
                           const Tensor *y, const double *expected) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    Spread *s = spread_open(&lenet_network, params, strategy, devices, k, 1);
    s->strategy->gradients(s, X, y);
    for (int p = 0; p < LENET_PARAMS; expected += SIZES[p++]) {
        float *got = spread_grad(s, p, params[p]);
        check_gradient(got, expected, (size_t)SIZES[p], "%s, k = %d: the gradient of %s",
                       strategy->name, k, params[p]->name);
        free(got);
    }
    spread_close(s);
}

static void first_step_from(int images, double scale, uint64_t seed) {
    Tensor *params[LENET_PARAMS], *X, *y;
    real_minibatch(images, seed, &X, &y);
    network_init(&lenet_network, params, scale, seed);
    double *expected = in_float64(params, X, y);
    for (int k = 1; k <= 3; k++) {
        check_strategy(&across_data, k, params, X, y, expected);
        check_strategy(&within_layers, k, params, X, y, expected);
    }
    free(expected);
    for (int p = 0; p < LENET_PARAMS; p++) tensor_free(params[p]);
    tensor_free(X);
    tensor_free(y);
}

static void first_step_from_the_books_start(void **state) {
    (void)state;
    first_step_from(256, 0.01, 0);
}

static void first_step_from_random_starts(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) first_step_from(64, seed % 2 ? 0.1 : 0.01, seed);
}

// ---- every strategy computes what one device computes ----------------------------------------

enum { STEPS = SIMULATED ? 2 : 3 };

// Chapter 4's lenet on one device: losses of some steps, the gradients of the first and the
// parameters after it. Later, rounding has moved a pixel or two to the other side of zero, and ReLU
// makes much of that.
typedef struct Expected {
    double losses[STEPS];
    float *grads[LENET_PARAMS], *params[LENET_PARAMS];
} Expected;

static void read_params(Tensor *const params[], float *values[]) {
    for (int p = 0; p < LENET_PARAMS; p++) values[p] = tensor_values(params[p]);
}

static void read_grads(Tensor *const params[], float *values[]) {
    for (int p = 0; p < LENET_PARAMS; p++) values[p] = tensor_values(params[p]->grad);
}

static Expected on_one_device(Tensor *const start[], const Tensor *X, const Tensor *y) {
    Expected e;
    Device *device = try_gpu(0);
    Tensor *params[LENET_PARAMS], *X_there = tensor_to(X, device), *y_there = tensor_to(y, device);
    for (int p = 0; p < LENET_PARAMS; p++) {
        params[p] = tensor_to(start[p], device);
        attach_grad(params[p]);
    }
    for (int step = 0; step < STEPS; step++) {
        begin_step(device);
        Tensor *loss = sum(cross_entropy(lenet_by_the_book(X_there, params), y_there));
        backward(loss);
        e.losses[step] = (double)item(loss);
        if (step == 0) read_grads(params, e.grads);
        sgd(params, LENET_PARAMS, 0.2f, X->shape[0]);
        if (step == 0) read_params(params, e.params);
    }
    for (int p = 0; p < LENET_PARAMS; p++) tensor_free(params[p]);
    tensor_free(X_there);
    tensor_free(y_there);
    return e;
}

static void assert_close(const float *got, const float *expected, const Tensor *p, double tolerance,
                         const char *what) {
    double largest = 0;
    for (size_t i = 0; i < numel(p); i++) largest = fmax(largest, fabs((double)expected[i]));
    assert_true(largest > 0);
    for (size_t i = 0; i < numel(p); i++)
        if (!(fabs((double)got[i] - (double)expected[i]) <= tolerance * largest))
            fail_msg("%s, %s[%zu]: %.9g, one device has %.9g", what, p->name, i, (double)got[i],
                     (double)expected[i]);
}

static void assert_grads_close(const Spread *s, Tensor *const start[], const Expected *e,
                               const char *what) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *grad = spread_grad(s, p, start[p]);
        assert_close(grad, e->grads[p], start[p], 1e-5, what);
        free(grad);
    }
}

static void assert_params_close(const Spread *s, Tensor *const start[], const Expected *e,
                                const char *what) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *values = spread_param(s, p, start[p]);
        assert_close(values, e->params[p], start[p], 1e-5, what);
        free(values);
    }
}

static void check_spread(const Strategy *strategy, int k, int m, Tensor *const start[],
                         const Tensor *X, const Tensor *y, const Expected *e) {
    Device *devices[MAX_DEVICES];
    char what[80];
    int n = X->shape[0];
    snprintf(what, sizeof what, "%s, k = %d, m = %d, %d rows", strategy->name, k, m, n);
    open_devices(devices, k);
    Spread *s = spread_open(&lenet_network, start, strategy, devices, k, m);
    for (int step = 0; step < STEPS; step++) {
        ledger_reset();
        strategy->gradients(s, X, y);
        synchronize_all();
        double moved = (double)ledger_bytes_between_devices(), loss = spread_loss(s);
        if (moved != strategy->bytes_moved(&lenet_network, k, n, m))
            fail_msg("%s: %.0f bytes moved, the formula says %.0f", what, moved,
                     strategy->bytes_moved(&lenet_network, k, n, m));
        assert_true(s->syncs == (int)strategy->syncs(&lenet_network, k, m));
        if (!(fabs(loss - e->losses[step]) <= 1e-5 * e->losses[step]))
            fail_msg("%s, step %d: loss %.8f, one device %.8f", what, step, loss, e->losses[step]);
        if (step == 0) assert_grads_close(s, start, e, what);
        spread_update(s, 0.2f, n);
        if (step == 0) assert_params_close(s, start, e, what);
    }
    spread_close(s);
}

static void strategies_compute_what_one_device_computes(void **state) {
    (void)state;
    const int rows[] = {1, 7, 10, 33};
    Tensor *start[LENET_PARAMS];
    network_init(&lenet_network, start, 0.1, 3);
    for (int r = 0; r < (SIMULATED ? 2 : 4); r++) {
        Tensor *X, *y;
        make_minibatch(rows[r], &X, &y);
        Expected e = on_one_device(start, X, y);
        for (int k = 1; k <= 4; k++) {
            for (int m = 1; m <= 4; m++) check_spread(&across_layers, k, m, start, X, y, &e);
            check_spread(&within_layers, k, 1, start, X, y, &e);
            check_spread(&across_data, k, 1, start, X, y, &e);
        }
        check_spread(&within_layers, 12, 1, start, X, y, &e); // ten scores on twelve devices
        check_spread(&across_data, 12, 1, start, X, y, &e);
        for (int p = 0; p < LENET_PARAMS; p++) {
            free(e.grads[p]);
            free(e.params[p]);
        }
        tensor_free(X);
        tensor_free(y);
    }
    for (int p = 0; p < LENET_PARAMS; p++) tensor_free(start[p]);
}

// The network of equal layers, in as many stages as it has layers.
static void equal_layers_on_eight_devices(void **state) {
    (void)state;
    Tensor *start[MAX_PARAMS], *X, *y;
    Device *devices[MAX_DEVICES];
    double losses[3];
    network_init(&equal_network, start, 0.06, 3);
    make_minibatch(12, &X, &y);
    for (int a = 0; a < 3; a++) {
        int k = a == 0 ? 1 : 8;
        const Strategy *strategy = a == 2 ? &within_layers : &across_layers;
        open_devices(devices, k);
        Spread *s = spread_open(&equal_network, start, strategy, devices, k, 5);
        for (int step = 0; step < 2; step++) {
            ledger_reset();
            spread_step(s, X, y, 0.1f);
            synchronize_all();
            assert_true((double)ledger_bytes_between_devices() ==
                        strategy->bytes_moved(&equal_network, k, 12, 5));
        }
        losses[a] = spread_loss(s);
        assert_true(fabs(losses[a] / losses[0] - 1) < 1e-5);
        spread_close(s);
    }
    for (int p = 0; p < num_params(&equal_network); p++) tensor_free(start[p]);
    tensor_free(X);
    tensor_free(y);
}

// The same k and m, the same bits: nothing depends on who is faster.
static void same_bits_run_after_run(void **state) {
    (void)state;
    Tensor *start[LENET_PARAMS], *X, *y;
    Device *devices[MAX_DEVICES];
    network_init(&lenet_network, start, 0.1, 3);
    make_minibatch(SIMULATED ? 9 : 33, &X, &y);
    open_devices(devices, 4);
    for (int a = 0; a < 3; a++) {
        float *first[LENET_PARAMS];
        for (int run = 0; run < 3; run++) {
            Spread *s = spread_open(&lenet_network, start, strategies[a], devices, 4, 3);
            for (int step = 0; step < STEPS; step++) spread_step(s, X, y, 0.2f);
            for (int p = 0; p < LENET_PARAMS; p++) {
                float *values = spread_param(s, p, start[p]);
                if (run == 0)
                    first[p] = values;
                else
                    assert_memory_equal(values, first[p], tensor_bytes(start[p]));
                if (run > 0) free(values);
            }
            spread_close(s);
        }
        for (int p = 0; p < LENET_PARAMS; p++) free(first[p]);
    }
    for (int p = 0; p < LENET_PARAMS; p++) tensor_free(start[p]);
    tensor_free(X);
    tensor_free(y);
}

// ---- formulas --------------------------------------------------------------------------------

static void networks_have_the_known_sizes(void **state) {
    (void)state;
    assert_true(network_params(&lenet_network) == 516272 / 4);
    assert_true(network_params(&alexnet_network) == 61100840); // torchvision's
    assert_true(network_params(&resnet18_network) == 11689512);
    assert_true(fabs(network_macs(&alexnet_network) - 0.714e9) < 0.001e9);
    assert_true(fabs(network_macs(&resnet18_network) - 1.814e9) < 0.001e9);
    assert_int_equal(network_pieces(&alexnet_network), 8);
    assert_int_equal(network_pieces(&resnet18_network), 10);
}

// Each layer's input is what the layer before it sends; the shortcut's is what its block gets.
static void layers_fit_together(void **state) {
    (void)state;
    const Network *const networks[] = {&lenet_network, &alexnet_network, &resnet18_network};
    for (int a = 0; a < 3; a++)
        for (int l = 1; l < networks[a]->num_layers; l++) {
            const Layer *layer = &networks[a]->layers[l], *before = layer - 1;
            if (before->shortcut || layer->shortcut) before--;
            int sent =
                before->out * (layer->kind == LINEAR ? before->sent_side * before->sent_side : 1);
            assert_int_equal(layer->in, sent);
            assert_true(layer->side <= before->sent_side);
        }
}

static double work_of(const Network *net, int first, int end) {
    double macs = 0;
    for (int l = first; l < end; l++) macs += layer_macs(&net->layers[l]);
    return macs;
}

// The largest stage of the best way to cut layers from..end in k, tried out one by one.
static double best_by_trying(const Network *net, int from, int k) {
    int n = net->num_layers;
    if (k == 1) return work_of(net, from, n);
    double best = INFINITY;
    for (int cut = from + 1; cut < n; cut++)
        if (!net->layers[cut - 1].joined)
            best = fmin(best, fmax(work_of(net, from, cut), best_by_trying(net, cut, k - 1)));
    return best;
}

static void stages_are_the_best_there_are(void **state) {
    (void)state;
    const Network *const networks[] = {&lenet_network, &alexnet_network, &resnet18_network};
    for (int a = 0; a < 3; a++)
        for (int k = 1; k <= network_pieces(networks[a]); k++) {
            int first[MAX_LAYERS + 1];
            double largest = 0;
            stages_of(networks[a], k, first);
            assert_int_equal(first[0], 0);
            assert_int_equal(first[k], networks[a]->num_layers);
            for (int i = 0; i < k; i++) {
                assert_true(first[i] < first[i + 1]);
                assert_true(i == 0 || !networks[a]->layers[first[i] - 1].joined);
                largest = fmax(largest, work_of(networks[a], first[i], first[i + 1]));
            }
            assert_true(fabs(largest / best_by_trying(networks[a], 0, k) - 1) < 1e-12);
        }
}

// The formula for memory, against what the devices hold: parameters to the byte. Of activations the
// devices have what the formula says and a little more: labels, losses, the arena's padding, and,
// which the formula leaves out, room for what is received.
static void check_memory(const Strategy *strategy, int k, int m, double more, Tensor *const start[],
                         const Tensor *X, const Tensor *y) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    Spread *s = spread_open(&lenet_network, start, strategy, devices, k, m);
    spread_step(s, X, y, 0.2f);
    Memory formula = memory_of(strategy, &lenet_network, k, X->shape[0], m);
    double params = 0, activations = 0;
    for (int i = 0; i < k; i++) {
        params = fmax(params, (double)spread_param_bytes(s, i));
        activations = fmax(activations, (double)arena_used_bytes(devices[i]));
    }
    double ratio = activations / formula.activations;
    if (params != formula.params || !(ratio >= 1 && ratio < more))
        fail_msg(
            "%s, k = %d, m = %d: parameters %.0f, formula %.0f; activations %.0f, formula %.0f",
            strategy->name, k, m, params, formula.params, activations, formula.activations);
    spread_close(s);
}

static void memory_is_what_the_formula_says(void **state) {
    (void)state;
    Tensor *start[LENET_PARAMS], *X, *y;
    const double more[3][5] = {
        {0, 1.03, 1.1, 1.1, 1.1}, {0, 1.07, 1.22, 1.33, 1.43}, {0, 1.03, 1.08, 1.2, 1.4}};
    network_init(&lenet_network, start, 0.1, 3);
    make_minibatch(64, &X, &y);
    for (int k = 1; k <= 4; k++) {
        for (int a = 0; a < 3; a++) check_memory(strategies[a], k, 1, more[a][k], start, X, y);
        check_memory(&across_layers, k, 4, more[0][k], start, X, y);
    }
    for (int p = 0; p < LENET_PARAMS; p++) tensor_free(start[p]);
    tensor_free(X);
    tensor_free(y);
}

// ---- residual blocks -------------------------------------------------------------------------

// A network with all that ResNet-18 has: normalization, a block with what goes past it and one with
// a 1x1 layer on its shortcut. Within layers, and across them in one microbatch, each channel is
// normalized with all rows, so k devices compute what one does.
static const Network small_resnet = {
    "a small ResNet",
    1,
    28,
    7,
    .layers = {{"conv1", CONV, 1, 6, 3, 14, 7, .stride = 2, .padding = 1, .ops = 3, .norm = true},
               {"1a", CONV, 6, 6, 3, 7, 7, .padding = 1, .ops = 3, .norm = true, .joined = true},
               {"1b", CONV, 6, 6, 3, 7, 7, .padding = 1, .ops = 4, .norm = true},
               {"2a", CONV, 6, 8, 3, 4, 4, .stride = 2, .padding = 1, .ops = 3, .norm = true,
                .joined = true},
               {"2s", CONV, 6, 8, 1, 4, 4, .stride = 2, .ops = 2, .norm = true, .shortcut = true,
                .joined = true},
               {"2b", CONV, 8, 8, 3, 4, 1, .padding = 1, .ops = 4, .norm = true},
               {"linear", LINEAR, 8, 10, 1, 1, 1, .ops = 2}},
};

static void residual_blocks_compute_what_one_device_computes(void **state) {
    (void)state;
    Tensor *start[MAX_PARAMS], *X, *y;
    Device *devices[MAX_DEVICES];
    float *expected[MAX_PARAMS];
    network_init(&small_resnet, start, 0.3, 3);
    make_minibatch(9, &X, &y);
    assert_int_equal(num_params(&small_resnet), 2 * 7 + 6);
    for (int k = 1; k <= 4; k++)
        for (int a = 0; a < (k < 4 ? 2 : 1); a++) { // it has four pieces, two of them blocks
            const Strategy *strategy = a == 0 ? &within_layers : &across_layers;
            open_devices(devices, k);
            Spread *s = spread_open(&small_resnet, start, strategy, devices, k, 1);
            ledger_reset();
            strategy->gradients(s, X, y);
            synchronize_all();
            assert_true((double)ledger_bytes_between_devices() ==
                        strategy->bytes_moved(&small_resnet, k, 9, 1));
            assert_int_equal(s->syncs, (int)strategy->syncs(&small_resnet, k, 1));
            for (int p = 0; p < num_params(&small_resnet); p++) {
                float *grad = spread_grad(s, p, start[p]);
                bool is_first = k == 1 && a == 0;
                if (is_first)
                    expected[p] = grad;
                else
                    assert_close(grad, expected[p], start[p], 1e-4, strategy->name);
                if (!is_first) free(grad);
            }
            spread_close(s);
        }
    for (int p = 0; p < num_params(&small_resnet); p++) {
        free(expected[p]);
        tensor_free(start[p]);
    }
    tensor_free(X);
    tensor_free(y);
}

// ---- modelled time ---------------------------------------------------------------------------

// A machine on which nothing takes any time but the arithmetic of products and convolutions.
static const char *const FREE_LAUNCHES =
    "about for a test\ndevices 8\nmemory 100 GB\nfp32 1e9 TFLOP/s\nproduct 1e-7 %\n"
    "convolution 1e-7 %\nelements 100 %\nmemory_bandwidth 1e15 GB/s\nkernel 1e-12 ns\n"
    "launch 1e-12 ns\ngraph_launch 1e-12 ns\ngraph_kernel 1e-12 ns\nframework 1e-12 ns\n"
    "link switch 1e15 GB/s 1e-12 ns\nhost_link 1e15 GB/s 1e-12 ns\ndevices_per_root 8\n"
    "root_bandwidth 1e15 GB/s\ncards 1\nnetwork 1e15 GB/s 1e-12 ns\n";

static void check_bubble(const Network *network, int k, int m, bool equal) {
    Problem problem = problem_to_model(network, 64, m);
    Recorded r = record_modelled(&problem, &across_layers, k);
    double bubble = idle_share(&r), stages = stage_bubble(&r, m);
    if (!(fabs(bubble - stages) <= 1e-9))
        fail_msg("%s, k = %d, m = %d: idle %.12g, these stages %.12g", network->name, k, m, bubble,
                 stages);
    if (equal && !(fabs(bubble - equal_bubble(k, m)) <= 1e-9))
        fail_msg("%s, k = %d, m = %d: idle %.12g, (k-1)/(m+k-1) is %.12g", network->name, k, m,
                 bubble, equal_bubble(k, m));
    if (!equal) assert_true(bubble >= equal_bubble(k, m) - 1e-9);
    recorded_free(&r);
    problem_free(&problem);
}

// With equal stages it is the formula; with others, what these stages make of it.
static void modelled_bubble_is_the_formula(void **state) {
    (void)state;
    modelled_clock_start(machine_parse("free.machine", FREE_LAUNCHES));
    for (int k = 2; k <= 8; k *= 2)
        for (int m = 1; m <= 8; m *= 2) {
            check_bubble(&wide_network, k, m, true);
            check_bubble(&alexnet_network, k, m, false);
            check_bubble(&resnet18_network, k, m, false);
        }
    modelled_clock_start(NULL);
}

// The strategies run the larger networks and move the bytes that the formulas say; where nothing
// but arithmetic takes time, k devices are no faster than their busiest one allows, and as fast.
static void modelled_steps_do_what_the_formulas_say(void **state) {
    (void)state;
    const Network *const networks[] = {&alexnet_network, &resnet18_network};
    modelled_clock_start(machine_parse("free.machine", FREE_LAUNCHES));
    for (int a = 0; a < 2; a++) {
        Problem problem = problem_to_model(networks[a], 64, 4);
        double one = modelled_step(&problem, &across_data, 1);
        assert_true(one > 0);
        for (int i = 0; i < NUM_STRATEGIES; i++)
            for (int k = 2; k <= 8; k *= 2) {
                ledger_reset();
                double seconds = modelled_step(&problem, strategies[i], k);
                assert_true((double)ledger_bytes_between_devices() ==
                            strategies[i]->bytes_moved(networks[a], k, 64, 4));
                double least = one * busiest_share(strategies[i], networks[a], k, 64);
                if (strategies[i] == &across_layers) least = one / k;
                if (!(seconds >= 0.97 * least))
                    fail_msg("%s %s on %d: %g s, not below %g", networks[a]->name,
                             strategies[i]->name, k, seconds, least);
                if (strategies[i] == &across_data && !(fabs(seconds / least - 1) < 0.005))
                    fail_msg("%s on %d: %.12g s, not %.12g", networks[a]->name, k, seconds, least);
            }
        problem_free(&problem);
    }
    modelled_clock_start(NULL);
}

// ---- trace -----------------------------------------------------------------------------------

static void trace_records_work_in_order(void **state) {
    (void)state;
    Tensor *start[LENET_PARAMS], *X, *y;
    Device *devices[MAX_DEVICES];
    network_init(&lenet_network, start, 0.1, 3);
    make_minibatch(32, &X, &y);
    open_devices(devices, 3);
    Spread *s = spread_open(&lenet_network, start, &within_layers, devices, 3, 1);
    int count, seen[3] = {0};
    trace_begin();
    spread_step(s, X, y, 0.2f);
    TraceSpan *spans = trace_end(&count);
    assert_true(count > 100);
    for (int i = 0; i < count; i++) {
        const TraceSpan *a = &spans[i], *b = &spans[i + 1];
        assert_true(a->start >= 0 && a->end >= a->start);
        for (int d = 0; d < 3; d++) seen[d] += a->device == devices[d];
        assert_true(strlen(a->work) > 0 && strlen(a->label) > 0);
        if (i + 1 == count || b->device != a->device) continue;
        // One queue does one thing after the other. (CUDA gives times as floats.)
        assert_true(b->start >= a->end - 1e-6 * (1 + a->end));
    }
    assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0 && seen[0] + seen[1] + seen[2] == count);
    free(spans);
    spread_close(s);
    for (int p = 0; p < LENET_PARAMS; p++) tensor_free(start[p]);
    tensor_free(X);
    tensor_free(y);
}

static void trace_has_names_and_labels(void **state) {
    (void)state;
    Device *device = try_gpu(0);
    Tensor *t = tensor_new(device, 1000), *u = tensor_new(device, 1000);
    char label[] = "first";
    trace_label("nobody listens");
    tensor_fill(t, 1);
    int count;
    trace_begin();
    tensor_fill(t, 2);
    trace_label(label);
    tensor_copy(u, t);
    strcpy(label, "other"); // the text was copied
    trace_label("second");
    launch(device, add, .y = u->data, .x = t->data, .n = 1000);
    TraceSpan *spans = trace_end(&count);
    tensor_fill(t, 3); // and this is not recorded
    assert_int_equal(count, 3);
    assert_string_equal(spans[0].work, "fill");
    assert_string_equal(spans[0].label, "");
    assert_string_equal(spans[1].work, "copy");
    assert_string_equal(spans[1].label, "first");
    assert_string_equal(spans[2].work, "add");
    assert_string_equal(spans[2].label, "second");
    for (int i = 0; i < 3; i++) assert_ptr_equal(spans[i].device, device);
    free(spans);
    trace_begin(); // nothing enqueued, nothing recorded
    free(trace_end(&count));
    assert_int_equal(count, 0);
    tensor_free(t);
    tensor_free(u);
}

// ---- the bubble ------------------------------------------------------------------------------

static TraceSpan span_of(const Device *device, const char *label, double start, double end) {
    return (TraceSpan){.device = device, .work = "a", .label = label, .start = start, .end = end};
}

// Two devices, two microbatches, each forward one second and each backward two, as in the formula:
// (k-1)/(m+k-1) = 1/3 is idle.
static void idle_share_is_the_bubble(void **state) {
    (void)state;
    Device *devices[2] = {try_gpu(0), try_gpu(1)};
    TraceSpan spans[] = {
        span_of(devices[0], "forward 1", 0, 1),  span_of(devices[0], "forward 2", 1, 2),
        span_of(devices[0], "backward 2", 5, 7), span_of(devices[0], "backward 1", 7, 9),
        span_of(devices[0], "update", 9, 20),    span_of(devices[1], "forward 1", 1, 2),
        span_of(devices[1], "forward 2", 2, 3),  span_of(devices[1], "backward 2", 3, 5),
        span_of(devices[1], "backward 1", 5, 7), span_of(devices[1], "exchange", 7, 8),
    };
    Recorded r = {.spans = spans, .count = 10, .k = 2, .devices = {devices[0], devices[1]}};
    assert_true(fabs(idle_share(&r) - 1.0 / 3) < 1e-12);
    assert_true(fabs(equal_bubble(2, 2) - 1.0 / 3) < 1e-12);
    assert_true(fabs(stage_bubble(&r, 2) - 1.0 / 3) < 1e-12);
    assert_true(fabs(equal_bubble(1, 5)) < 1e-12);
}

static int close_all(void **state) {
    (void)state;
    devices_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_as_chapter_4),
        UNLESS_SIMULATED(first_step_from_the_books_start),
        UNLESS_SIMULATED(first_step_from_random_starts),
        cmocka_unit_test(strategies_compute_what_one_device_computes),
        cmocka_unit_test(equal_layers_on_eight_devices),
        cmocka_unit_test(same_bits_run_after_run),
        cmocka_unit_test(networks_have_the_known_sizes),
        cmocka_unit_test(layers_fit_together),
        cmocka_unit_test(stages_are_the_best_there_are),
        UNLESS_SIMULATED(memory_is_what_the_formula_says),
        cmocka_unit_test(residual_blocks_compute_what_one_device_computes),
        cmocka_unit_test(modelled_bubble_is_the_formula),
        cmocka_unit_test(modelled_steps_do_what_the_formulas_say),
        cmocka_unit_test(trace_records_work_in_order),
        cmocka_unit_test(trace_has_names_and_labels),
        cmocka_unit_test(idle_share_is_the_bubble),
    };
    return cmocka_run_group_tests_name("splitting", tests, NULL, close_all);
}
