// test_modelled_clock.c: what the modelled clock says of programs whose time can be told by hand,
// that it says the same whether values are computed or not, and that it changes no values.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/device/graph.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "common/tensor/step_graph.h"
#include "kernels/cuda/conv2d_plan.h"
#include "dies.h"

// A machine on which everything is free but what a test is about.
#define MACHINE(kernel, launch, links, latency)                                                    \
    "about for a test\ndevices 8\nmemory 1 GB\nfp32 1 TFLOP/s\nproduct 50 %\nconvolution 25 %\n"   \
    "elements 100 %\nmemory_bandwidth 100 GB/s\nkernel " kernel "\nlaunch " launch                 \
    "\ngraph_launch 3 us\ngraph_kernel 1 us\nframework 100 us\nlink " links " 10 GB/s " latency    \
    "\nhost_link 1 GB/s 1 us\ndevices_per_root 8\nroot_bandwidth 1 GB/s\ncards 1\n"                \
    "network 2 GB/s 50 us\n"

// Free: so little that it is lost in the rounding of a microsecond's 1e-12.
#define FREE "1e-12 ns"

static const Machine *start(const char *text) {
    devices_close();
    const Machine *machine = machine_parse("test.machine", text);
    modelled_clock_start(machine);
    devices_init(BACKEND_MODEL, 0);
    return machine;
}

static void stop(void) {
    devices_close();
    modelled_clock_start(NULL);
}

static void assert_seconds(double expected) {
    synchronize_all();
    double got = modelled_seconds();
    if (!(fabs(got - expected) <= 1e-9 * expected))
        fail_msg("the clock says %.12g, not %.12g seconds", got, expected);
}

// ---- by hand -----------------------------------------------------------------------------------

enum { N = 1 << 20 };

// max(FLOP / peak, bytes / bandwidth) and the fixed part, one after the other; the host is ahead.
static void kernels_take_what_the_roofline_says(void **state) {
    (void)state;
    start(MACHINE("5 us", "2 us", "switch", "1 us"));
    Device *device = try_gpu(0);
    Tensor *x = tensor_new(device, N), *A = tensor_new(device, 512, 512);
    launch(device, fill, .x = x->data, .value = 1, .n = N);
    double fill = 5e-6 + 4.0 * N / 100e9;
    assert_seconds(2e-6 + fill); // the launch, and then the kernel
    launch(device, gemm, .A = A->data, .B = A->data, .C = A->data, .M = 512, .N = 512, .K = 512);
    double gemm = 5e-6 + 2.0 * 512 * 512 * 512 / 0.5e12;
    assert_seconds(2e-6 + fill + 2e-6 + gemm); // the host waited in between
    for (int i = 0; i < 10; i++) launch(device, fill, .x = x->data, .value = 1, .n = N);
    assert_seconds(2e-6 + fill + 2e-6 + gemm + 2e-6 + 10 * fill); // the other launches are hidden
    for (int i = 0; i < 10; i++) launch(device, fill, .x = x->data, .value = 1, .n = 1);
    assert_true(modelled_busy(device) > 0);
    tensor_free(x);
    tensor_free(A);
    stop();
}

// A slower device: its kernels take so many times as long, its copies do not.
static void a_device_can_be_made_slower(void **state) {
    (void)state;
    start(MACHINE("5 us", FREE, "switch", "1 us"));
    Tensor *x = tensor_new(try_gpu(0), N), *y = tensor_new(try_gpu(1), N);
    device_set_slowdown(y->device, 2.5);
    double fill = 5e-6 + 4.0 * N / 100e9, copy = 1e-6 + 4.0 * N / 10e9;
    launch(x->device, fill, .x = x->data, .value = 1, .n = N);
    assert_seconds(fill);
    launch(y->device, fill, .x = y->data, .value = 1, .n = N);
    assert_seconds(fill + 2.5 * fill);
    tensor_copy(y, x);
    assert_seconds(fill + 2.5 * fill + copy);
    device_set_slowdown(y->device, 1);
    launch(y->device, fill, .x = y->data, .value = 1, .n = N);
    assert_seconds(fill + 2.5 * fill + copy + fill);
    tensor_free(x);
    tensor_free(y);
    stop();
}

// Launches take longer than what they launch: then they are the time.
static void small_kernels_are_launch_bound(void **state) {
    (void)state;
    start(MACHINE("1 us", "4 us", "switch", "1 us"));
    Tensor *x = tensor_new(try_gpu(0), 1);
    for (int i = 0; i < 100; i++) launch(x->device, fill, .x = x->data, .value = 1, .n = 1);
    assert_seconds(100 * 4e-6 + 1e-6 + 4 / 100e9);
    double before = modelled_seconds();
    modelled_clock_use_framework(true);
    for (int i = 0; i < 100; i++) launch(x->device, fill, .x = x->data, .value = 1, .n = 1);
    assert_seconds(before + 100 * 100e-6 + 1e-6 + 4 / 100e9);
    tensor_free(x);
    stop();
}

// A GPU's kernels are ours, and may be several launches; a framework's are one each.
static void kernels_may_be_several_launches(void **state) {
    (void)state;
    if (CONV_WORKSPACE < 256 << 20) { skip("chunks are small where GPUs are simulated"); }
    static const char gpu[] =
        MACHINE("5 us", "2 us", "switch", "1 us") "multiprocessors 64\nevent 3 us\n";
    enum { ROWS = 64, SIDE = 64 }; // W (64,64) times 64 pixels of 64 images: 64 tiles
    struct conv2d_shape s = {ROWS, SIDE, 8, 8, SIDE, 1, 1, 1, 1, 0, 0, 8, 8};
    const double matrix = 4.0 * ROWS * SIDE * 64, weights = 4.0 * SIDE * SIDE, rate = 100e9;
    for (int framework = 0; framework < 2; framework++) {
        start(gpu);
        modelled_clock_use_framework(framework);
        double launch_seconds = framework ? 100e-6 : 2e-6;
        Tensor *x = tensor_new(try_gpu(0), ROWS * SIDE * 64);
        launch(x->device, batch_norm_stats, .X = x->data, .stats = x->data, .N = 16, .C = 64,
               .S = 256);
        double stats = 4 * (16 * 64 * 256 + 129) / rate;
        double now = launch_seconds + (framework ? 5e-6 : 10e-6) + stats;
        assert_seconds(now);
        launch(x->device, conv2d_forward, .X = x->data, .W = x->data, .Y = x->data, .s = s);
        double once = 2 * matrix + weights, flop = 2.0 * ROWS * 64 * SIDE * SIDE;
        double ours =
            15e-6 + 4 * matrix / rate + fmax(2 * flop / 0.5e12, once / rate); // waves of 2
        double theirs = 5e-6 + fmax(flop / 0.25e12, once / rate);
        now += launch_seconds + (framework ? theirs : ours);
        assert_seconds(now);
        launch(x->device, batch_norm_stats, .X = x->data, .stats = x->data, .N = 0, .C = 1);
        launch(x->device, batch_norm_stats, .X = x->data, .stats = x->data, .N = 0, .C = 1);
        // The second one begins behind all launches of the first, and goes on for 5 or 10 us.
        now += framework ? 2 * 100e-6 + 5e-6 : 2e-6 + 10e-6 + 10e-6;
        assert_seconds(now + (framework ? 1 : 2) * 12 / rate);
        tensor_free(x);
        stop();
    }
}

// Only where a queue waits for another one; there is one price for the event and the wait.
static void waits_for_events_take_the_host_time(void **state) {
    (void)state;
    start(MACHINE(FREE, FREE, "switch", "1 us") "event 3 us\n");
    Tensor *x = tensor_new(try_gpu(0), N);
    launch(x->device, fill, .x = x->data, .value = 1, .n = N);
    assert_seconds(4.0 * N / 100e9);
    double now = modelled_seconds();
    for (int i = 0; i < 10; i++) queue_wait(comm_queue(x->device), device_record(x->device));
    assert_seconds(now + 10 * 3e-6);
    for (int i = 0; i < 10; i++) device_wait(x->device, device_record(x->device)); // its own
    assert_seconds(now + 10 * 3e-6);
    tensor_free(x);
    stop();
}

// One host launches for eight devices; two hosts launch side by side.
static void each_host_launches_for_its_own_devices(void **state) {
    (void)state;
    for (int k = 1; k <= 16; k++) {
        start(MACHINE(FREE, "4 us", "switch", "1 us"));
        Tensor *x[16];
        for (int i = 0; i < k; i++) x[i] = tensor_new(try_gpu(i), 1);
        for (int i = 0; i < k; i++) launch(x[i]->device, fill, .x = x[i]->data, .n = 0);
        assert_seconds((k < 8 ? k : 8) * 4e-6);
        for (int i = 0; i < k; i++) tensor_free(x[i]);
        stop();
    }
}

static void copies_take_latency_and_bandwidth_and_turns(void **state) {
    (void)state;
    start(MACHINE(FREE, FREE, "switch", "7 us"));
    Tensor *x[10];
    double bytes = 4.0 * N;
    for (int i = 0; i < 10; i++) x[i] = tensor_new(try_gpu(i), N);
    tensor_copy(x[1], x[0]);
    double now = 7e-6 + bytes / 10e9;
    assert_seconds(now);
    tensor_copy(x[1], x[0]); // out of 0 both: one after the other, but the latencies overlap
    tensor_copy(x[2], x[0]);
    now += 7e-6 + bytes / 10e9; // (0 waits for the first: device_copy() orders both sides)
    now += 7e-6 + bytes / 10e9;
    assert_seconds(now);
    tensor_copy(x[3], x[2]); // no port in common
    tensor_copy(x[5], x[4]);
    now += 7e-6 + bytes / 10e9;
    assert_seconds(now);
    tensor_copy(x[8], x[0]);    // to another host
    now += 50e-6 + bytes / 1e9; // by PCIe to the card: the slowest part counts
    assert_seconds(now);
    Tensor *here = tensor_new(host(), N);
    tensor_copy(x[3], here);
    now += 1e-6 + bytes / 1e9;
    assert_seconds(now);
    for (int i = 0; i < 10; i++) tensor_free(x[i]);
    tensor_free(here);
    stop();
}

// 2 (k - 1) (latency + N / (k bandwidth)), where all else is free; and the additions' kernels.
static void a_ring_takes_what_the_formula_says(void **state) {
    (void)state;
    for (int k = 2; k <= 8; k++) {
        start(MACHINE(FREE, FREE, "switch", "7 us"));
        Tensor *data[MAX_DEVICES];
        for (int i = 0; i < k; i++) data[i] = tensor_new(try_gpu(i), 840 * 1000);
        choose_allreduce("ring");
        chosen_allreduce()->run(data, k);
        double part = 4 * 840e3 / k, add = 3 * part / 100e9;
        assert_seconds(2 * (k - 1) * (7e-6 + part / 10e9) + (k - 1) * add);
        for (int i = 0; i < k; i++) tensor_free(data[i]);
        stop();
    }
}

// A second queue works beside the first; waits order them.
static void queues_of_a_device_overlap(void **state) {
    (void)state;
    start(MACHINE(FREE, FREE, "switch", "1 us"));
    Device *from = try_gpu(0), *to = try_gpu(1);
    Tensor *x = tensor_new(from, N), *y = tensor_new(to, N), *z = tensor_new(to, N);
    double copy = 1e-6 + 4.0 * N / 10e9, fill = 4.0 * N / 100e9;
    launch(to, fill, .x = z->data, .n = N);
    queue_copy(comm_queue(to), to, y->data, from, x->data, 4 * N);
    assert_seconds(fmax(copy, fill));
    double now = fmax(copy, fill);
    launch(to, fill, .x = y->data, .n = N);
    queue_wait(comm_queue(to), device_record(to));
    queue_copy(comm_queue(to), to, y->data, from, x->data, 4 * N);
    assert_seconds(now + fill + copy);
    tensor_free(x);
    tensor_free(y);
    tensor_free(z);
    stop();
}

// ---- without values ----------------------------------------------------------------------------

static void what_is_copied_from_a_model_device_is_nan(void **state) {
    (void)state;
    start(MACHINE("1 us", "1 us", "switch", "1 us"));
    Tensor *x = tensor_new(try_gpu(0), 3);
    tensor_fill(x, 1);
    assert_false(has_values(x->device));
    float *values = tensor_values(x);
    for (int i = 0; i < 3; i++) assert_true(isnan(values[i]));
    free(values);
    tensor_free(x);
    stop();
}

static void ask_for_too_much(void *bytes) {
    start(MACHINE("1 us", "1 us", "switch", "1 us"));
    device_alloc_for(try_gpu(0), 600 * 1000 * 1000, "parameters");
    device_alloc_for(try_gpu(0), *(size_t *)bytes, "activations");
}

static void a_device_has_the_machines_memory_and_no_more(void **state) {
    (void)state;
    size_t bytes = 400 * 1000 * 1000;
    char text[4096];
    assert_int_equal(run_and_listen(ask_for_too_much, &bytes, text, sizeof text), 0);
    bytes += 1234;
    expect_death(1,
                 ": 400,001,234 bytes for activations, and of its 1,000,000,000 bytes "
                 "600,000,000 are in use: 600,000,000 for parameters",
                 ask_for_too_much, &bytes);
}

static void open_a_second(void *unused) {
    (void)unused;
    modelled_clock_start(machine_find("colab-t4"));
    devices_init(BACKEND_MODEL, 0);
    try_gpu(0);
    try_gpu(1);
}

static void a_machine_without_network_has_its_devices_only(void **state) {
    (void)state;
    expect_death(1, "colab-t4", open_a_second, NULL);
}

// ---- a training --------------------------------------------------------------------------------

enum { BATCH = 48, STEPS = 3 };

typedef struct Trained {
    double seconds; // on the modelled clock
    size_t n;
    float *params; // (n)
} Trained;

static Trained train(BackendChoice backend, const char *machine, int k, const char *allreduce) {
    Device *devices[MAX_DEVICES];
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    devices_close();
    modelled_clock_start(machine ? machine_find(machine) : NULL);
    devices_init(backend, 2);
    choose_allreduce(allreduce);
    open_devices(devices, k);
    lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    Tensor *X = tensor_new(host(), BATCH, 1, 28, 28), *y = tensor_new(host(), BATCH);
    for (size_t i = 0; i < numel(X); i++) X->data[i] = (float)(i % 13) / 13;
    for (int i = 0; i < BATCH; i++) y->data[i] = (float)(i % 10);
    for (int step = 0; step < STEPS; step++) {
        train_batch_as_graph(X, y, device_params, devices, k, 0.1f, losses);
        synchronize_all();
    }
    Trained result = {.seconds = modelled_seconds()};
    result.params = values_of_all(device_params[k - 1], LENET_PARAMS, &result.n);
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    tensor_free(X);
    tensor_free(y);
    stop();
    return result;
}

static const char *const algorithms[] = {"star", "sharded", "ring", "tree"};

static void it_says_the_same_with_values_and_without(void **state) {
    (void)state;
    choose_graph("off"); // CPU devices have none
    for (int k = 1; k <= 4; k++)
        for (int a = 0; a < 4; a++) {
            Trained here = train(BACKEND_CPU, "rtx4090-pcie", k, algorithms[a]);
            Trained again = train(BACKEND_CPU, "rtx4090-pcie", k, algorithms[a]);
            Trained model = train(BACKEND_MODEL, "rtx4090-pcie", k, algorithms[a]);
            assert_true(here.seconds > 0);
            assert_true(here.seconds == again.seconds);
            assert_true(here.seconds == model.seconds);
            assert_true(isnan(model.params[0]));
            free(here.params);
            free(again.params);
            free(model.params);
        }
    choose_graph("on");
}

static void it_changes_no_values(void **state) {
    (void)state;
    for (int k = 1; k <= 4; k += 3) {
        Trained without = train(BACKEND_CPU, NULL, k, "star");
        Trained with = train(BACKEND_CPU, "dgx-h100", k, "star");
        assert_true(isnan(without.seconds));
        assert_memory_equal(without.params, with.params, with.n * sizeof(float));
        free(without.params);
        free(with.params);
    }
}

// A step that is one launch takes the host less; the same work is done.
static void graphs_save_launches(void **state) {
    (void)state;
    choose_graph("off");
    Trained launches = train(BACKEND_MODEL, "dgx-a100", 1, "star");
    choose_graph("on");
    Trained graph = train(BACKEND_MODEL, "dgx-a100", 1, "star");
    assert_true(graph.seconds < launches.seconds);
    free(launches.params);
    free(graph.params);
}

// In a graph, too, an event of a queue that has done nothing yet is past.
static void a_graph_may_wait_for_nothing(void **state) {
    (void)state;
    start(MACHINE(FREE, FREE, "switch", "7 us"));
    Device *devices[2] = {try_gpu(0), try_gpu(1)};
    Tensor *x = tensor_new(devices[0], N), *y = tensor_new(devices[1], N);
    Queue *unused = comm_queue(devices[0]);
    graph_begin(devices, 2);
    device_copy(devices[0], x->data, devices[1], y->data, 4 * N);
    device_wait(devices[0], queue_record(unused));
    device_copy(devices[1], y->data, devices[0], x->data, 4 * N);
    Graph *graph = graph_end();
    graph_launch(graph);
    double once = 3e-6 + 2 * (7e-6 + 4.0 * N / 10e9);
    assert_seconds(once);
    graph_launch(graph);
    assert_seconds(2 * once);
    graph_free(graph);
    tensor_free(x);
    tensor_free(y);
    stop();
}

// ---- traces ------------------------------------------------------------------------------------

// The trace has the same work in the same order, measured and modelled; the modelled times are the
// clock's, and the copies' bytes the ledger's.
static void traces_have_both_times(void **state) {
    (void)state;
    devices_close();
    modelled_clock_start(machine_find("rtx4090-pcie"));
    devices_init(BACKEND_CPU, 2);
    Tensor *data[2];
    for (int i = 0; i < 2; i++) {
        data[i] = tensor_new(try_gpu(i), 1000);
        tensor_fill(data[i], 1);
    }
    synchronize_all();
    ledger_reset();
    double before = modelled_seconds();
    trace_begin();
    trace_label("sum");
    allreduce_ring(data, 2);
    int count, modelled_count;
    TraceSpan *spans = trace_end(&count), *modelled = trace_modelled(&modelled_count);
    double took = modelled_seconds() - before, last = 0;
    uint64_t bytes = 0;
    assert_int_equal(count, modelled_count);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        const TraceSpan *m = &modelled[i];
        assert_ptr_equal(m->device, spans[i].device);
        assert_string_equal(m->work, spans[i].work);
        assert_string_equal(m->label, "sum");
        assert_int_equal(m->bytes, spans[i].bytes);
        assert_true(m->start >= 0 && m->end > m->start);
        if (i > 0 && m[-1].device == m->device) assert_true(m->start >= m[-1].end - 1e-15);
        last = fmax(last, m->end);
        if (m->from != m->to) bytes += m->bytes;
    }
    assert_true(fabs(last - took) <= 1e-12);
    assert_int_equal(bytes, ledger_bytes_between_devices());
    free(spans);
    free(modelled);
    assert_null(trace_modelled(&modelled_count)); // it was given away
    for (int i = 0; i < 2; i++) tensor_free(data[i]);
    stop();
}

// A trace of model devices has their work alone, and the trace around it has none of that; a
// machine with fewer devices than were opened for another one goes on without them.
static void model_devices_are_traced_by_themselves(void **state) {
    (void)state;
    devices_close();
    modelled_clock_start(machine_find("dgx-a100"));
    devices_init(BACKEND_CPU, 2);
    Tensor *here = tensor_new(try_gpu(0), 100), *there = tensor_new(model_device(9), 100);
    int count;
    trace_begin();
    tensor_fill(here, 1);
    trace_begin_models();
    tensor_fill(here, 2);
    tensor_fill(there, 2);
    free(trace_end(&count));
    TraceSpan *inner = trace_modelled(&count);
    assert_int_equal(count, 1);
    assert_ptr_equal(inner[0].device, there->device);
    free(inner);
    tensor_fill(there, 3);
    free(trace_end(&count));
    TraceSpan *outer = trace_modelled(&count);
    assert_int_equal(count, 1);
    assert_ptr_equal(outer[0].device, here->device);
    free(outer);
    modelled_clock_start(machine_find("colab-t4"));
    tensor_fill(there, 4);
    synchronize_all();
    assert_true(modelled_seconds() == 0);
    tensor_free(here);
    tensor_free(there);
    stop();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        // These fork: before there are CPU devices, which are threads.
        cmocka_unit_test(a_device_has_the_machines_memory_and_no_more),
        cmocka_unit_test(a_machine_without_network_has_its_devices_only),
        cmocka_unit_test(kernels_take_what_the_roofline_says),
        cmocka_unit_test(a_device_can_be_made_slower),
        cmocka_unit_test(small_kernels_are_launch_bound),
        cmocka_unit_test(kernels_may_be_several_launches),
        cmocka_unit_test(waits_for_events_take_the_host_time),
        cmocka_unit_test(each_host_launches_for_its_own_devices),
        cmocka_unit_test(copies_take_latency_and_bandwidth_and_turns),
        cmocka_unit_test(a_ring_takes_what_the_formula_says),
        cmocka_unit_test(queues_of_a_device_overlap),
        cmocka_unit_test(what_is_copied_from_a_model_device_is_nan),
        cmocka_unit_test(it_says_the_same_with_values_and_without),
        cmocka_unit_test(it_changes_no_values),
        cmocka_unit_test(graphs_save_launches),
        cmocka_unit_test(a_graph_may_wait_for_nothing),
        cmocka_unit_test(traces_have_both_times),
        cmocka_unit_test(model_devices_are_traced_by_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
