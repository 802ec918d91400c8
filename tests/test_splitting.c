// test_splitting.c: chapter 1. Each strategy computes what one device computes and moves the bytes
// that its formula says; the formulas know AlexNet and ResNet-18.
#include "cases.h"

#include "chapters/01_splitting_strategies/behind/behind.h"
#include "chapters/01_splitting_strategies/costs.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/data/fashion_mnist.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"

// ---- a network, its start and a minibatch ----------------------------------------------------

typedef struct Start {
    const Network *network;
    int n; // rows
    Tensor *params[MAX_PARAMS], *X, *y;
} Start;

// (Until free_kept().)
static Start start_of(const Network *network, double scale, uint64_t seed, int n) {
    Start s = {network, n, .X = keep(tensor_new(host(), n, 1, 28, 28))};
    s.y = keep(tensor_new(host(), n));
    network_init(network, s.params, scale, seed);
    for (int p = 0; p < num_params(network); p++) keep(s.params[p]);
    for (int i = 0; i < n * 784; i++)
        s.X->data[i] = (float)random_uniform(5, STREAM_TEST, (uint64_t)i);
    for (int i = 0; i < n; i++) s.y->data[i] = (float)(i * 7 % 10);
    return s;
}

static Spread *spread_on(const Start *s, const Strategy *strategy, int k, int m) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    return spread_open(s->network, s->params, strategy, devices, k, m);
}

// The gradients of all parameters, one behind the other.
static float *all_grads(const Spread *s, const Start *start) {
    float *all = xcalloc((size_t)network_params(start->network), sizeof *all), *at = all;
    for (int p = 0; p < num_params(start->network); at += numel(start->params[p++])) {
        float *values = spread_grad(s, p, start->params[p]);
        memcpy(at, values, tensor_bytes(start->params[p]));
        free(values);
    }
    keep_both(all, NULL);
    return all;
}

// The parameters, put together as their gradients are.
static float *all_params(const Spread *s, const Start *start) {
    Tensor *grads[MAX_COMPUTING][MAX_PARAMS];
    for (int i = 0; i < s->k; i++)
        for (int p = 0; p < num_params(s->network); p++) {
            grads[i][p] = s->params[i][p]->grad;
            s->params[i][p]->grad = s->params[i][p];
        }
    float *all = all_grads(s, start);
    for (int i = 0; i < s->k; i++)
        for (int p = 0; p < num_params(s->network); p++) s->params[i][p]->grad = grads[i][p];
    return all;
}

// a times the start's parameters and b times these gradients; free() it.
static double *combined(const Start *start, double a, double b, const float *grads) {
    double *sums = xcalloc((size_t)network_params(start->network), sizeof *sums), *at = sums;
    for (int p = 0; p < num_params(start->network); p++)
        for (size_t i = 0; i < numel(start->params[p]); i++)
            *at++ = a * (double)start->params[p]->data[i] + (b != 0 ? b * (double)*grads++ : 0);
    return sums;
}

// The largest error of each tensor, as a part of its largest number.
static void check_close(const Start *start, const float *got, const double *expected,
                        double tolerance, const char *what) {
    for (int p = 0; p < num_params(start->network); p++) {
        size_t n = numel(start->params[p]);
        double largest = 0;
        for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(expected[i]));
        assert_true(largest > 0);
        for (size_t i = 0; i < n; i++)
            if (!(fabs((double)got[i] - expected[i]) <= tolerance * largest))
                fail_msg("%s, %s[%zu]: %.9g, expected %.9g (the largest: %.3g)", what,
                         start->params[p]->name, i, (double)got[i], expected[i], largest);
        got += n;
        expected += n;
    }
}

// ---- the first step, against float64 -----------------------------------------------------------
//
// From the book's own start, biases of zero, and with real images. Photographs of clothes are
// mostly blank: most windows of the second convolution see only zeros, and the result is exactly
// the bias, 0: the edge of ReLU's gate. A fast algorithm that leaves its rounding errors there
// opens the gate at random, and all gradients below are then wrong in the third digit.

// lenet_float64.c: of the summed loss of n images, at most 256.
double *gradients_in_float64(const double *params, const float *X, const float *y, int n);

// Chapter 4: convolution, ReLU and pooling in one. On devices that have all parameters.
static void gradients_of_chapter_4(Spread *s, const Start *start) {
    for (int i = 0; i < s->k; i++) begin_step(s->devices[i]);
    for (int i = 0; i < s->k; i++) {
        Range rows = equal_range(start->n, s->k, i);
        Tensor *X = spread_rows(s, i, start->X, rows), *y = spread_rows(s, i, start->y, rows);
        backward(sum(cross_entropy(lenet(X, s->params[i]), y)));
    }
    for (int p = 0; p < LENET_PARAMS; p++) {
        Tensor *grads[MAX_DEVICES];
        for (int i = 0; i < s->k; i++) grads[i] = s->params[i][p]->grad;
        allreduce(grads, s->k);
    }
}

// On a minibatch of real images.
static void check_first_step(int images, double scale, uint64_t seed) {
    const Strategy *const ways[] = {&across_data, &across_data, &within_layers, &across_layers};
    Start start = start_of(&lenet_network, scale, seed, images);
    Tensor *X, *y;
    Dataset *data = fashion_mnist_open(NULL, true, 4096);
    DataIter *iter = data_iter_new(data, images, true, seed);
    data_iter_first(iter, &X, &y);
    memcpy(start.X->data, X->data, tensor_bytes(X));
    memcpy(start.y->data, y->data, tensor_bytes(y));
    data_iter_free(iter);
    dataset_free(data);
    double *params = combined(&start, 1, 0, NULL);
    double *expected = gradients_in_float64(params, start.X->data, start.y->data, images);
    for (int i = 0; i < 12; i++) {
        int k = i % 3 + 1;
        Spread *s = spread_on(&start, ways[i / 3], k, 1);
        i < 3 ? gradients_of_chapter_4(s, &start) : s->strategy->gradients(s, start.X, start.y);
        char *what = xprintf("%s, k = %d", i < 3 ? "lenet()" : s->strategy->name, k);
        // (PyTorch's largest error is 6e-6.)
        check_close(&start, all_grads(s, &start), expected, 2e-5, what);
        spread_close(s);
        free(what);
    }
    free(params);
    free(expected);
}

TEST(first_step_is_that_of_float64) {
    check_first_step(SIMULATED ? 4 : 256, 0.01, 0); // the book's start
    for (int seed = 1; seed <= 2 && !SIMULATED; seed++)
        check_first_step(64, seed == 1 ? 0.1 : 0.01, (uint64_t)seed);
    free_kept();
}

// Chapter 1's start is chapter 4's, and so are the bits of the loss.
TEST(starts_as_chapter_4) {
    Tensor *theirs[LENET_PARAMS];
    Start ours = start_of(&lenet_network, 0.01, 7, 32);
    lenet_init(theirs, 7);
    assert_int_equal(num_params(&lenet_network), LENET_PARAMS);
    for (int p = 0; p < LENET_PARAMS; p++) {
        assert_true(same_shape(ours.params[p], keep(theirs[p])));
        assert_string_equal(ours.params[p]->name, theirs[p]->name);
        assert_memory_equal(ours.params[p]->data, theirs[p]->data, tensor_bytes(theirs[p]));
    }
    Spread *s = spread_on(&ours, &across_data, 1, 1);
    s->strategy->gradients(s, ours.X, ours.y);
    float our_loss = item(s->losses[0]);
    begin_step(s->devices[0]);
    Tensor *X = tensor_to(ours.X, s->devices[0]), *y = tensor_to(ours.y, s->devices[0]);
    float their_loss = item(sum(cross_entropy(lenet(keep(X), s->params[0]), keep(y))));
    assert_memory_equal(&our_loss, &their_loss, sizeof our_loss);
    spread_close(s);
    free_kept();
}

// ---- every strategy computes what one device computes ----------------------------------------

enum { STEPS = 2 };
static const float LR = 0.2f;

// Losses of some steps, the gradients of the first and the parameters after it. (Later, rounding
// has moved a pixel or two to the other side of zero, and ReLU makes much of that.)
typedef struct Ran {
    char what[100];
    double losses[STEPS];
    float *grads, *params;
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
               formula = strategy->bytes_moved(start->network, k, start->n);
        if (moved != formula)
            fail_msg("%s: %.0f bytes moved, the formula says %.0f", r.what, moved, formula);
        assert_int_equal(s->syncs, (int)strategy->syncs(start->network, k, m));
        for (int i = 0; i < count; i++) assert_true(*spans[i].label);
        free(spans);
        r.losses[step] = spread_loss(s);
        if (step == 0) r.grads = all_grads(s, start);
        spread_update(s, LR, start->n);
        if (step == 0) r.params = all_params(s, start);
    }
    spread_close(s);
    return r;
}

// The gradients are one device's, and the parameters what the update makes of them.
static void check_ran(const Ran *r, const Ran *one, const Start *start, double tolerance) {
    double *grads = combined(start, 0, 1, one->grads);
    double *params = combined(start, 1, -(double)LR / start->n, one->grads);
    for (int step = 0; step < STEPS; step++)
        if (!(fabs(r->losses[step] / one->losses[step] - 1) <= tolerance))
            fail_msg("%s, step %d: loss %.8f, one device %.8f", r->what, step, r->losses[step],
                     one->losses[step]);
    check_close(start, r->grads, grads, tolerance, r->what);
    check_close(start, r->params, params, 1e-5, r->what);
    free(grads);
    free(params);
}

// A network with all that ResNet-18 has: normalization, a block with what goes past it and one with
// a 1x1 layer on its shortcut. Within layers, and across them in one microbatch, each channel is
// normalized with all rows, so k devices compute what one does.
static const Network small_resnet = {
    "a small ResNet", 1, 28, 7,
    .layers = {{"conv1", CONV, 1, 6, 3, 14, 7, .stride = 2, .padding = 1, .ops = 3, .norm = true},
               {"1a", CONV, 6, 6, 3, 7, 7, .padding = 1, .ops = 3, .norm = true, .joined = true},
               {"1b", CONV, 6, 6, 3, 7, 7, .padding = 1, .ops = 4, .norm = true},
               {"2a", CONV, 6, 8, 3, 4, 4, .stride = 2, .padding = 1, .ops = 3, .norm = true,
                .joined = true},
               {"2s", CONV, 6, 8, 1, 4, 4, .stride = 2, .ops = 2, .norm = true, .shortcut = true,
                .joined = true},
               {"2b", CONV, 8, 8, 3, 4, 1, .padding = 1, .ops = 4, .norm = true},
               {"linear", LINEAR, 8, 10, 1, 1, 1, .ops = 2}}};

TEST(strategies_compute_what_one_device_computes) {
    const struct {
        const Network *network;
        double scale;
        int rows, ks[5], most_m; // in a pipeline, all m up to this
        int first_way;           // across data, across layers, within them
        double tolerance;
    } cases[] = {{&lenet_network, 0.1, 1, {1, 2, 3, 4}, 4, 0, 1e-5},
                 {&lenet_network, 0.1, 7, {1, 2, 3, 4, 12}, 4, 0, 1e-5}, // 12 devices, ten scores
                 {&lenet_network, 0.1, 33, {1, 2, 3, 4}, 4, 0, 1e-5},
                 {&equal_network, 0.06, 12, {8}, 5, 1, 1e-5},
                 {&small_resnet, 0.3, 9, {1, 2, 3, 4}, 1, 1, 1e-4}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        if (SIMULATED && cases[c].rows == 33) continue;
        Start start = start_of(cases[c].network, cases[c].scale, 3, cases[c].rows);
        Ran one = run(&start, &across_data, 1, 1);
        size_t bytes = (size_t)network_params(start.network) * sizeof(float);
        for (int i = 5 * cases[c].first_way; i < 5 * NUM_STRATEGIES; i++) {
            const Strategy *strategy = strategies[i / 5];
            int k = cases[c].ks[i % 5], most_m = strategy == &across_layers ? cases[c].most_m : 1;
            if (k == 0 || k > most_devices(strategy, start.network)) continue;
            for (int m = 1; m <= most_m; m++) {
                Ran r = run(&start, strategy, k, m);
                check_ran(&r, &one, &start, cases[c].tolerance);
                if (k != 4 || m != most_m) continue;
                // the same k and m, the same bits: nothing depends on who is faster
                Ran again = run(&start, strategy, k, m);
                assert_memory_equal(again.losses, r.losses, sizeof r.losses);
                assert_memory_equal(again.grads, r.grads, bytes);
                assert_memory_equal(again.params, r.params, bytes);
            }
        }
        free_kept();
    }
}

// ---- formulas --------------------------------------------------------------------------------

static const Network *const nets[] = {&lenet_network, &alexnet_network, &resnet18_network};

// Parameters as torchvision has them. Each layer's input is what the layer before it sends; the
// shortcut's is what its block gets.
TEST(networks_are_the_known_ones) {
    const double params[] = {516272.0 / 4, 61100840, 11689512}, macs[] = {0, 0.714e9, 1.814e9};
    const int pieces[] = {4, 8, 10};
    for (int a = 0; a < 3; a++) {
        assert_true(network_params(nets[a]) == params[a]);
        assert_true(a == 0 || fabs(network_macs(nets[a]) - macs[a]) < 0.001e9);
        assert_int_equal(network_pieces(nets[a]), pieces[a]);
        for (int l = 1; l < nets[a]->num_layers; l++) {
            const Layer *layer = &nets[a]->layers[l], *before = layer - 1;
            if (before->shortcut || layer->shortcut) before--;
            int places = layer->kind == LINEAR ? before->sent_side * before->sent_side : 1;
            assert_int_equal(layer->in, before->out * places);
            assert_true(layer->side <= before->sent_side);
        }
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

TEST(stages_are_the_best_there_are) {
    for (int a = 0; a < 3; a++)
        for (int k = 1; k <= network_pieces(nets[a]); k++) {
            int first[MAX_LAYERS + 1];
            double largest = 0;
            stages_of(nets[a], k, first);
            assert_int_equal(first[0], 0);
            assert_int_equal(first[k], nets[a]->num_layers);
            for (int i = 0; i < k; i++) {
                assert_true(first[i] < first[i + 1]);
                assert_true(i == 0 || !nets[a]->layers[first[i] - 1].joined);
                largest = fmax(largest, work_of(nets[a], first[i], first[i + 1]));
            }
            assert_true(fabs(largest / best_by_trying(nets[a], 0, k) - 1) < 1e-12);
        }
}

// The formula for memory, against what the devices hold: parameters to the byte. Of activations the
// devices have what the formula says and a little more: labels, losses, the arena's padding, and,
// which the formula leaves out, room for what is received.
TEST_UNLESS_SIMULATED(memory_is_what_the_formula_says) {
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
}

// ---- modelled time ---------------------------------------------------------------------------

// A machine on which nothing takes any time but the arithmetic of products and convolutions.
static const char *const FREE_LAUNCHES =
    "about for a test\ndevices 8\nmemory 100 GB\nfp32 1e9 TFLOP/s\nproduct 1e-7 %\n"
    "convolution 1e-7 %\nelements 100 %\nmemory_bandwidth 1e15 GB/s\nkernel 1e-12 ns\n"
    "launch 1e-12 ns\ngraph_launch 1e-12 ns\ngraph_kernel 1e-12 ns\nframework 1e-12 ns\n"
    "link switch 1e15 GB/s 1e-12 ns\nhost_link 1e15 GB/s 1e-12 ns\ndevices_per_root 8\n"
    "root_bandwidth 1e15 GB/s\ncards 1\nnetwork 1e15 GB/s 1e-12 ns\n";

// The bubble if stages take as long as they did in this step: the line moves at the pace of the
// slowest.
static double stage_bubble(const Recorded *r, int m) {
    double work = 0, time = 0;
    for (int way = 0; way < 2; way++) {
        double all = 0, slowest = 0; // seconds per microbatch
        for (int i = 0; i < r->k; i++) {
            double stage = busy_seconds(r, r->devices[i], way ? "backward" : "forward") / m;
            all += stage;
            slowest = fmax(slowest, stage);
        }
        work += m * all;
        time += all + (m - 1) * slowest;
    }
    return 1 - work / (r->k * time);
}

// With equal stages it is the formula; with others, what these stages make of it, and not less.
static void check_bubble(const Network *network, int k, int m) {
    Problem problem = problem_to_model(network, 64, m);
    Recorded r = record_step(&problem, &across_layers, k);
    double bubble = idle_share(&r), stages = stage_bubble(&r, m), equal = equal_bubble(k, m);
    if (!(fabs(bubble - stages) <= 1e-9) || !(bubble >= equal - 1e-9) ||
        (network == &wide_network && !(bubble <= equal + 1e-9)))
        fail_msg("%s, k = %d, m = %d: idle %.12g, these stages %.12g, (k-1)/(m+k-1) %.12g",
                 network->name, k, m, bubble, stages, equal);
    recorded_free(&r);
    problem_free(&problem);
}

// The strategies run the larger networks and move the bytes that the formulas say; where nothing
// but arithmetic takes time, k devices are no faster than their busiest one allows, and as fast.
static void check_modelled_step(const Network *network, const Strategy *strategy, int k) {
    Problem problem = problem_to_model(network, 64, 4);
    double one = modelled_step(&problem, &across_data, 1), least = one / k;
    ledger_reset();
    double seconds = modelled_step(&problem, strategy, k);
    assert_true((double)ledger_bytes_between_devices() == strategy->bytes_moved(network, k, 64));
    if (strategy != &across_layers) least = one * busiest_share(strategy, network, k, 64);
    if (!(one > 0) || !(seconds >= 0.97 * least) ||
        (strategy == &across_data && !(fabs(seconds / least - 1) < 0.005)))
        fail_msg("%s %s on %d: %.12g s, expected %.12g", network->name, strategy->name, k, seconds,
                 least);
    problem_free(&problem);
}

// In the ring every device sends 2(k-1)/k of the gradients. Where links are what takes time, that
// is a k-th of the star's time, and a little more for the computation.
TEST(a_ring_shares_out_what_the_star_sends) {
    modelled_clock_start(machine_find("laptops-1gbe"));
    for (int k = 2; k <= 8; k *= 2) {
        Problem problem = problem_to_model(&alexnet_network, 16, 1);
        double star = modelled_step(&problem, &across_data, k);
        ledger_reset();
        double ring = modelled_step(&problem, across_data_in_a_ring(), k);
        double each = 2.0 * (k - 1) / k * network_params(&alexnet_network) * sizeof(float);
        for (int i = 0; i < k; i++) {
            double sent = (double)ledger_bytes(model_device(i), model_device((i + 1) % k));
            assert_true(fabs(sent / each - 1) < 1e-6);
        }
        if (!(ring > star / k && ring < 1.2 * star / (k - 1)))
            fail_msg("k = %d: star %.6g s, ring %.6g s", k, star, ring);
        problem_free(&problem);
    }
    modelled_clock_start(NULL);
}

TEST(modelled_steps_do_what_the_formulas_say) {
    modelled_clock_start(machine_parse("free.machine", FREE_LAUNCHES));
    for (int a = 0; a < 3; a++)
        for (int k = 2; k <= 8; k *= 2) {
            const Network *network = a ? nets[a] : &wide_network;
            for (int m = 1; m <= 8; m *= 2) check_bubble(network, k, m);
            for (int i = 0; i < NUM_STRATEGIES && a; i++)
                check_modelled_step(network, strategies[i], k);
        }
    modelled_clock_start(NULL);
}

// Two devices, two microbatches, each forward one second and each backward two, as in the formula:
// (k-1)/(m+k-1) = 1/3 is idle.
TEST(idle_share_is_the_bubble) {
    Device *a = try_gpu(0), *b = try_gpu(1);
#define SPAN(device, label, start, end)                                                            \
    {device, false, "a", label, start, end, NULL, NULL, 0, 0, 0, 0}
    TraceSpan spans[] = {SPAN(a, "forward 1", 0, 1),  SPAN(a, "forward 2", 1, 2),
                         SPAN(a, "backward 2", 5, 7), SPAN(a, "backward 1", 7, 9),
                         SPAN(a, "update", 9, 20),    SPAN(b, "forward 1", 1, 2),
                         SPAN(b, "forward 2", 2, 3),  SPAN(b, "backward 2", 3, 5),
                         SPAN(b, "backward 1", 5, 7), SPAN(b, "exchange", 7, 8)};
    Recorded r = {.spans = spans, .count = COUNT(spans), .k = 2, .devices = {a, b}};
    assert_true(fabs(idle_share(&r) - 1.0 / 3) < 1e-12);
    assert_true(fabs(equal_bubble(2, 2) - 1.0 / 3) < 1e-12);
    assert_true(fabs(stage_bubble(&r, 2) - 1.0 / 3) < 1e-12);
    assert_true(fabs(equal_bubble(1, 5)) < 1e-12);
}

int main(void) { return run_all("splitting", NULL, close_kept); }
