// test_splitting.c: chapter 1. Each strategy computes what one device computes and moves the bytes
// that its formula says; the formulas know AlexNet and ResNet-18.
#include "test.h"

#include "chapters/01_splitting_strategies/bubble.h"
#include "chapters/01_splitting_strategies/costs.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/tensor/random.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "lenet_float64.h"

// ---- a network, its start and a minibatch ----------------------------------------------------

typedef struct Start {
    const Network *network;
    int n; // rows
    Tensor *params[MAX_PARAMS], *X, *y;
} Start;

static Start start_of(const Network *network, double scale, uint64_t seed, int n) {
    Start s = {network, n, .X = tensor_new(host(), n, 1, 28, 28), .y = tensor_new(host(), n)};
    network_init(network, s.params, scale, seed);
    for (int i = 0; i < n * 784; i++)
        s.X->data[i] = (float)random_uniform(5, STREAM_TEST, (uint64_t)i);
    for (int i = 0; i < n; i++) s.y->data[i] = (float)(i * 7 % 10);
    return s;
}

static void start_free(Start *s) {
    for (int p = 0; p < num_params(s->network); p++) tensor_free(s->params[p]);
    tensor_free(s->X);
    tensor_free(s->y);
}

static Spread *spread_on(const Start *s, const Strategy *strategy, int k, int m) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    return spread_open(s->network, s->params, strategy, devices, k, m);
}

// The start is chapter 4's, and so are the bits of the loss.
static void starts_as_chapter_4(void **state) {
    (void)state;
    Tensor *theirs[LENET_PARAMS];
    Start ours = start_of(&lenet_network, 0.01, 7, 32);
    lenet_init(theirs, 7);
    assert_int_equal(num_params(&lenet_network), LENET_PARAMS);
    for (int p = 0; p < LENET_PARAMS; p++) {
        assert_true(same_shape(ours.params[p], theirs[p]));
        assert_string_equal(ours.params[p]->name, theirs[p]->name);
        assert_memory_equal(ours.params[p]->data, theirs[p]->data, tensor_bytes(theirs[p]));
        tensor_free(theirs[p]);
    }
    Spread *s = spread_on(&ours, &across_data, 1, 1);
    s->strategy->gradients(s, ours.X, ours.y);
    float our_loss = item(s->losses[0]);
    begin_step(s->devices[0]);
    Tensor *X = spread_rows(s, 0, ours.X, (Range){0, 32});
    Tensor *y = spread_rows(s, 0, ours.y, (Range){0, 32});
    float their_loss = item(sum(cross_entropy(lenet(X, s->params[0]), y)));
    assert_memory_equal(&our_loss, &their_loss, sizeof our_loss);
    spread_close(s);
    start_free(&ours);
}

// The first step from the book's start and from others, on real images, against float64.
static void first_step_is_that_of_float64(void **state) {
    (void)state;
    const struct {
        int images;
        double scale;
    } cases[] = {{256, 0.01}, {64, 0.1}, {64, 0.01}};
    const Strategy *const ways[] = {&across_data, &within_layers, &across_layers};
    for (size_t c = 0; c < COUNT(cases); c++) {
        Start start = {.network = &lenet_network};
        real_minibatch(cases[c].images, c, &start.X, &start.y);
        network_init(&lenet_network, start.params, cases[c].scale, c);
        double *expected = in_float64(start.params, start.X, start.y);
        for (int i = 0; i < 9; i++) {
            const Strategy *strategy = ways[i / 3];
            Spread *s = spread_on(&start, strategy, i % 3 + 1, 1);
            s->strategy->gradients(s, start.X, start.y);
            for (int p = 0, at = 0; p < LENET_PARAMS; at += SIZES[p++]) {
                float *got = spread_grad(s, p, start.params[p]);
                check_gradient(got, expected + at, (size_t)SIZES[p],
                               "%s, k = %d: the gradient of %s", strategy->name, s->k,
                               start.params[p]->name);
                free(got);
            }
            spread_close(s);
        }
        free(expected);
        start_free(&start);
    }
}

// ---- every strategy computes what one device computes ----------------------------------------

enum { STEPS = 2 };
static const float LR = 0.2f;

// Losses of some steps, the gradients of the first and the parameters after it. (Later, rounding
// has moved a pixel or two to the other side of zero, and ReLU makes much of that.)
typedef struct Ran {
    char what[100];
    double losses[STEPS];
    float *grads[MAX_PARAMS], *params[MAX_PARAMS];
} Ran;

// Takes those steps, and checks the bytes that they move, the synchronization points, and that all
// work has a label.
static Ran run(const Start *start, const Strategy *strategy, int k, int m) {
    Ran r;
    Spread *s = spread_on(start, strategy, k, m);
    snprintf(r.what, sizeof r.what, "%s, %s, k = %d, m = %d, %d rows", start->network->name,
             strategy->name, k, m, start->n);
    for (int step = 0; step < STEPS; step++) {
        int count;
        ledger_reset();
        trace_begin();
        strategy->gradients(s, start->X, start->y);
        TraceSpan *spans = trace_end(&count);
        double moved = (double)ledger_bytes_between_devices(),
               formula = strategy->bytes_moved(start->network, k, start->n, m);
        if (moved != formula)
            fail_msg("%s: %.0f bytes moved, the formula says %.0f", r.what, moved, formula);
        assert_int_equal(s->syncs, (int)strategy->syncs(start->network, k, m));
        for (int i = 0; i < count; i++) assert_true(*spans[i].label);
        free(spans);
        r.losses[step] = spread_loss(s);
        for (int p = 0; p < num_params(start->network) && step == 0; p++)
            r.grads[p] = spread_grad(s, p, start->params[p]);
        spread_update(s, LR, start->n);
        for (int p = 0; p < num_params(start->network) && step == 0; p++)
            r.params[p] = spread_param(s, p, start->params[p]);
    }
    spread_close(s);
    return r;
}

static void ran_free(Ran *r, const Start *start) {
    for (int p = 0; p < num_params(start->network); p++) {
        free(r->grads[p]);
        free(r->params[p]);
    }
}

// The gradients are one device's, and the parameters what the update makes of them.
static void check_ran(const Ran *r, const Ran *one, const Start *start, double tolerance) {
    for (int step = 0; step < STEPS; step++)
        if (!(fabs(r->losses[step] / one->losses[step] - 1) <= tolerance))
            fail_msg("%s, step %d: loss %.8f, one device %.8f", r->what, step, r->losses[step],
                     one->losses[step]);
    for (int p = 0; p < num_params(start->network); p++) {
        const Tensor *before = start->params[p];
        double largest = 0, most = 0;
        for (size_t i = 0; i < numel(before); i++) {
            largest = fmax(largest, fabs((double)one->grads[p][i]));
            most = fmax(most, fabs((double)one->params[p][i]));
        }
        assert_true(largest > 0);
        for (size_t i = 0; i < numel(before); i++) {
            double grad = (double)one->grads[p][i],
                   param = (double)before->data[i] - (double)LR / start->n * grad;
            if (!(fabs((double)r->grads[p][i] - grad) <= tolerance * largest) ||
                !(fabs((double)r->params[p][i] - param) <= 1e-5 * most))
                fail_msg("%s, %s[%zu]: %.9g and then %.9g, expected %.9g and %.9g", r->what,
                         before->name, i, (double)r->grads[p][i], (double)r->params[p][i], grad,
                         param);
        }
    }
}

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

// The same k and m, the same bits: nothing depends on who is faster.
static void check_same_bits(const Ran *a, const Ran *b, const Start *start) {
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    for (int p = 0; p < num_params(start->network); p++) {
        assert_memory_equal(a->grads[p], b->grads[p], tensor_bytes(start->params[p]));
        assert_memory_equal(a->params[p], b->params[p], tensor_bytes(start->params[p]));
    }
}

static void strategies_compute_what_one_device_computes(void **state) {
    (void)state;
    const struct {
        const Network *network;
        double scale;
        int rows, ks[5], most_m; // in a pipeline, all m up to this
        int ways;                // across layers, within them, across data
        double tolerance;
    } cases[] = {{&lenet_network, 0.1, 1, {1, 2, 3, 4}, 4, 3, 1e-5},
                 {&lenet_network, 0.1, 7, {1, 2, 3, 4, 12}, 4, 3, 1e-5}, // 12 devices, ten scores
                 {&lenet_network, 0.1, 33, {1, 2, 3, 4}, 4, 3, 1e-5},
                 {&equal_network, 0.06, 12, {8}, 5, 2, 1e-5},
                 {&small_resnet, 0.3, 9, {1, 2, 3, 4}, 1, 2, 1e-4}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        if (SIMULATED && cases[c].rows == 33) continue;
        Start start = start_of(cases[c].network, cases[c].scale, 3, cases[c].rows);
        Ran one = run(&start, &across_data, 1, 1);
        for (int i = 0; i < cases[c].ways * 5; i++) {
            const Strategy *strategy = strategies[i / 5];
            int k = cases[c].ks[i % 5], most_m = strategy == &across_layers ? cases[c].most_m : 1;
            if (k == 0 || k > strategy->most_devices(start.network)) continue;
            for (int m = 1; m <= most_m; m++) {
                Ran r = run(&start, strategy, k, m);
                check_ran(&r, &one, &start, cases[c].tolerance);
                if (k == 4 && m == most_m) {
                    Ran again = run(&start, strategy, k, m);
                    check_same_bits(&again, &r, &start);
                    ran_free(&again, &start);
                }
                ran_free(&r, &start);
            }
        }
        ran_free(&one, &start);
        start_free(&start);
    }
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
static void memory_is_what_the_formula_says(void **state) {
    (void)state;
    const struct {
        const Strategy *strategy;
        int m;
        double more[4]; // with 1 to 4 devices
    } cases[] = {{&across_layers, 1, {1.03, 1.1, 1.1, 1.1}},
                 {&across_layers, 4, {1.03, 1.1, 1.1, 1.1}},
                 {&within_layers, 1, {1.07, 1.22, 1.33, 1.43}},
                 {&across_data, 1, {1.03, 1.08, 1.2, 1.4}}};
    Start start = start_of(&lenet_network, 0.1, 3, 64);
    for (size_t c = 0; c < COUNT(cases); c++)
        for (int k = 1, m = cases[c].m; k <= 4; k++) {
            Spread *s = spread_on(&start, cases[c].strategy, k, m);
            spread_step(s, start.X, start.y, LR);
            Memory formula = memory_of(cases[c].strategy, &lenet_network, k, start.n, m);
            double params = 0, activations = 0;
            for (int i = 0; i < k; i++) {
                params = fmax(params, (double)spread_param_bytes(s, i));
                activations = fmax(activations, (double)arena_used_bytes(s->devices[i]));
            }
            double ratio = activations / formula.activations;
            if (params != formula.params || !(ratio >= 1 && ratio < cases[c].more[k - 1]))
                fail_msg("%s, k = %d, m = %d: parameters %.0f, formula %.0f; activations %.0f, "
                         "formula %.0f",
                         cases[c].strategy->name, k, m, params, formula.params, activations,
                         formula.activations);
            spread_close(s);
        }
    start_free(&start);
}

// ---- modelled time ---------------------------------------------------------------------------

// A machine on which nothing takes any time but the arithmetic of products and convolutions.
static const char *const FREE_LAUNCHES =
    "about for a test\ndevices 8\nmemory 100 GB\nfp32 1e9 TFLOP/s\nproduct 1e-7 %\n"
    "convolution 1e-7 %\nelements 100 %\nmemory_bandwidth 1e15 GB/s\nkernel 1e-12 ns\n"
    "launch 1e-12 ns\ngraph_launch 1e-12 ns\ngraph_kernel 1e-12 ns\nframework 1e-12 ns\n"
    "link switch 1e15 GB/s 1e-12 ns\nhost_link 1e15 GB/s 1e-12 ns\ndevices_per_root 8\n"
    "root_bandwidth 1e15 GB/s\ncards 1\nnetwork 1e15 GB/s 1e-12 ns\n";

// With equal stages it is the formula; with others, what these stages make of it, and not less.
static void modelled_bubble_is_the_formula(void **state) {
    (void)state;
    const Network *const networks[] = {&wide_network, &alexnet_network, &resnet18_network};
    modelled_clock_start(machine_parse("free.machine", FREE_LAUNCHES));
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < 12; i++) {
            int k = 2 << i / 4, m = 1 << i % 4;
            Problem problem = problem_to_model(networks[a], 64, m);
            Recorded r = record_modelled(&problem, &across_layers, k);
            double bubble = idle_share(&r), stages = stage_bubble(&r, m),
                   equal = equal_bubble(k, m);
            if (!(fabs(bubble - stages) <= 1e-9) || !(bubble >= equal - 1e-9) ||
                (a == 0 && !(bubble <= equal + 1e-9)))
                fail_msg("%s, k = %d, m = %d: idle %.12g, these stages %.12g, (k-1)/(m+k-1) %.12g",
                         networks[a]->name, k, m, bubble, stages, equal);
            recorded_free(&r);
            problem_free(&problem);
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

// Two devices, two microbatches, each forward one second and each backward two, as in the formula:
// (k-1)/(m+k-1) = 1/3 is idle.
static void idle_share_is_the_bubble(void **state) {
    (void)state;
    const struct {
        int device;
        const char *label;
        double start, end;
    } rows[] = {
        {0, "forward 1", 0, 1},  {0, "forward 2", 1, 2},  {0, "backward 2", 5, 7},
        {0, "backward 1", 7, 9}, {0, "update", 9, 20},    {1, "forward 1", 1, 2},
        {1, "forward 2", 2, 3},  {1, "backward 2", 3, 5}, {1, "backward 1", 5, 7},
        {1, "exchange", 7, 8},
    };
    TraceSpan spans[COUNT(rows)];
    Recorded r = {
        .spans = spans, .count = COUNT(rows), .k = 2, .devices = {try_gpu(0), try_gpu(1)}};
    for (size_t i = 0; i < COUNT(rows); i++)
        spans[i] = (TraceSpan){.device = r.devices[rows[i].device],
                               .work = "a",
                               .label = rows[i].label,
                               .start = rows[i].start,
                               .end = rows[i].end};
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
        UNLESS_SIMULATED(first_step_is_that_of_float64),
        cmocka_unit_test(strategies_compute_what_one_device_computes),
        cmocka_unit_test(networks_have_the_known_sizes),
        cmocka_unit_test(layers_fit_together),
        cmocka_unit_test(stages_are_the_best_there_are),
        UNLESS_SIMULATED(memory_is_what_the_formula_says),
        cmocka_unit_test(modelled_bubble_is_the_formula),
        cmocka_unit_test(modelled_steps_do_what_the_formulas_say),
        cmocka_unit_test(idle_share_is_the_bubble),
    };
    return cmocka_run_group_tests_name("splitting", tests, NULL, close_all);
}
