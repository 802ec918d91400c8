// test_modelled_clock.c: what the modelled clock says of programs whose time can be told by hand,
// that it says the same whether values are computed or not, and that it changes no values.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/device/graph.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "kernels/cuda/conv2d_plan.h"
#include "cases.h"

// A machine on which everything is free but what a test is about. (So little is lost in the
// rounding of a microsecond's 1e-12.)
#define FREE "1e-12 ns"
#define MACHINE(kernel, launch, latency)                                                           \
    "about for a test\ndevices 8\nmemory 1 GB\nfp32 1 TFLOP/s\nproduct 50 %\nconvolution 25 %\n"   \
    "elements 100 %\nmemory_bandwidth 100 GB/s\nkernel " kernel "\nlaunch " launch                 \
    "\ngraph_launch 3 us\ngraph_kernel 1 us\nframework 100 us\nlink switch 10 GB/s " latency       \
    "\nhost_link 1 GB/s 1 us\ndevices_per_root 8\nroot_bandwidth 1 GB/s\ncards 1\n"                \
    "network 0.5 GB/s 50 us\n"

static Tensor *x[16]; // one on each of the first devices
static double now;    // as takes() knows it

// (Each test begins so, and leaves its tensors to the next one.)
static void start_on(const Machine *machine, BackendChoice backend, int devices, int floats) {
    now = 0;
    free_kept();
    devices_close();
    modelled_clock_start(machine);
    devices_init(backend, 2);
    for (int i = 0; i < devices; i++) x[i] = keep(tensor_new(try_gpu(i), floats));
}

static void start(const char *text, int devices, int floats) {
    start_on(machine_parse("test.machine", text), BACKEND_MODEL, devices, floats);
}

// All work until now has taken so many seconds more.
static void takes(double seconds) {
    synchronize_all();
    now += seconds;
    if (!(fabs(modelled_seconds() - now) <= 1e-9 * now))
        fail_msg("the clock says %.12g, not %.12g seconds", modelled_seconds(), now);
}

static void fill_on(int device, int n, int times) {
    for (int i = 0; i < times; i++)
        launch(x[device]->device, fill, .x = x[device]->data, .value = 1, .n = n);
}

// 600 MB, and so much more.
static void fill_memory(size_t more) {
    start(MACHINE("1 us", "1 us", "1 us"), 0, 0);
    void *params = device_alloc_for(try_gpu(0), 600 * 1000 * 1000, MEMORY_PARAMETERS);
    device_free(try_gpu(0), device_alloc_for(try_gpu(0), more, MEMORY_ACTIVATIONS));
    device_free(try_gpu(0), params);
}

TEST(a_device_has_the_machines_memory_and_no_more) {
    expect_deaths(state);
    fill_memory(400 * 1000 * 1000);
}

DIES(": 400,001,234 bytes for activations, and of its 1,000,000,000 bytes 600,000,000 are in use: "
     "600,000,000 for parameters",
     fill_memory(400001234))
// It has one device, and no network.
DIES("colab-t4", start_on(machine_find("colab-t4"), BACKEND_MODEL, 2, 1))

enum { N = 1 << 20 };
static const double bytes = 4.0 * N, filling = 4.0 * N / 100e9;

// max(FLOP / peak, bytes / bandwidth) and the fixed part, one after the other; the host is ahead.
TEST(kernels_take_what_the_roofline_says) {
    start(MACHINE("5 us", "2 us", "1 us"), 1, N);
    fill_on(0, N, 1);
    double fill = 5e-6 + filling, gemm = 5e-6 + 2.0 * 512 * 512 * 512 / 0.5e12;
    takes(2e-6 + fill); // the launch, and then the kernel
    float *A = x[0]->data;
    launch(x[0]->device, gemm, .A = A, .B = A, .C = A, .M = 512, .N = 512, .K = 512);
    takes(2e-6 + gemm); // the host waited in between
    fill_on(0, N, 10);
    takes(2e-6 + 10 * fill); // the other launches are hidden
}

// A slower device: its kernels take so many times as long, its copies do not.
TEST(a_device_can_be_made_slower) {
    start(MACHINE("5 us", FREE, "1 us"), 2, N);
    device_set_slowdown(x[1]->device, 2.5);
    fill_on(0, N, 1);
    takes(5e-6 + filling);
    fill_on(1, N, 1);
    takes(2.5 * (5e-6 + filling));
    tensor_copy(x[1], x[0]);
    takes(1e-6 + bytes / 10e9);
    device_set_slowdown(x[1]->device, 1);
    fill_on(1, N, 1);
    takes(5e-6 + filling);
}

// A GPU's kernels are ours, and may be several launches; a framework's are one each.
TEST(kernels_may_be_several_launches) {
    if (CONV_WORKSPACE < 256 << 20) { skip("chunks are small where GPUs are simulated"); }
    enum { ROWS = 64, SIDE = 64 }; // W (64,64) times 64 pixels of 64 images: 64 tiles
    struct conv2d_shape s = {ROWS, SIDE, 8, 8, SIDE, 1, 1, 1, 1, 0, 0, 8, 8};
    const double matrix = 4.0 * ROWS * SIDE * 64, once = 2 * matrix + 4.0 * SIDE * SIDE;
    const double rate = 100e9, flop = 2.0 * ROWS * 64 * SIDE * SIDE;
    for (int framework = 0; framework < 2; framework++) {
        start(MACHINE("5 us", "2 us", "1 us") "multiprocessors 64\nevent 3 us\n", 1,
              ROWS * SIDE * 64);
        modelled_clock_use_framework(framework);
        Device *device = x[0]->device;
        float *data = x[0]->data;
        double launches = framework ? 100e-6 : 2e-6, kernels = framework ? 5e-6 : 10e-6;
        launch(device, batch_norm_stats, .X = data, .stats = data, .N = 16, .C = 64, .S = 256);
        takes(launches + kernels + 4 * (16 * 64 * 256 + 129) / rate);
        launch(device, conv2d_forward, .X = data, .W = data, .Y = data, .s = s);
        takes(launches + (framework ? 5e-6 + fmax(flop / 0.25e12, once / rate)
                                    : 15e-6 + 4 * matrix / rate + // waves of 2
                                          fmax(2 * flop / 0.5e12, once / rate)));
        for (int i = 0; i < 2; i++)
            launch(device, batch_norm_stats, .X = data, .stats = data, .N = 0, .C = 1);
        // The second one begins behind all launches of the first, and goes on for 5 or 10 us.
        takes(framework ? 2 * launches + kernels + 12 / rate
                        : launches + 2 * kernels + 2 * 12 / rate);
    }
}

// Only where a queue waits for another one; there is one price for the event and the wait.
TEST(waits_for_events_take_the_host_time) {
    start(MACHINE(FREE, FREE, "1 us") "event 3 us\n", 1, N);
    Device *device = x[0]->device;
    fill_on(0, N, 1);
    takes(filling);
    for (int i = 0; i < 10; i++) queue_wait(comm_queue(device), device_record(device));
    takes(10 * 3e-6);
    for (int i = 0; i < 10; i++) device_wait(device, device_record(device)); // its own
    takes(0);
}

// One host launches for eight devices; two hosts launch side by side.
TEST(each_host_launches_for_its_own_devices) {
    for (int k = 1; k <= 16; k += k < 9 ? 1 : 7) {
        start(MACHINE(FREE, "4 us", "1 us"), k, 1);
        for (int i = 0; i < k; i++) fill_on(i, 0, 1);
        takes((k < 8 ? k : 8) * 4e-6);
    }
}

TEST(copies_take_latency_and_bandwidth_and_turns) {
    start(MACHINE(FREE, FREE, "7 us"), 10, N);
    double copy = 7e-6 + bytes / 10e9;
    tensor_copy(x[1], x[0]);
    takes(copy);
    tensor_copy(x[1], x[0]); // out of 0 both: one after the other, but the latencies overlap
    tensor_copy(x[2], x[0]); // (0 waits for the first: device_copy() orders both sides)
    takes(2 * copy);
    tensor_copy(x[3], x[2]); // no port in common
    tensor_copy(x[5], x[4]);
    takes(copy);
    tensor_copy(x[8], x[0]); // to another host
    takes(50e-6 + bytes / 0.5e9);
    Tensor *here = keep(tensor_new(host(), N));
    tensor_copy(x[3], here);
    takes(1e-6 + bytes / 1e9);
    device_copy(x[0]->device, x[0]->data, x[0]->device, x[0]->data + N / 2, 2 * N);
    takes(bytes / 100e9); // half of it is read and written, in the device's own memory
}

static void copy_to_host(void) {
    static float memory[N];
    Device *device = x[0]->device;
    queue_copy(compute_queue(device), host(), memory, device, x[0]->data, 4 * N);
}

// (In the receiver's second queue.)
static void copy_by_network(int from, int to) {
    Device *receiver = x[to]->device;
    queue_copy(comm_queue(receiver), receiver, x[to]->data, x[from]->device, x[from]->data, 4 * N);
}

static void assert_ends(Queue *queue, double expected) {
    event_synchronize(queue_record(queue));
    assert_true(fabs(modelled_seconds() - expected) <= 1e-9 * expected);
}

// However many copies to the host go beside it, one by the network takes as long as alone; they
// wait only for its share of PCIe. (The other direction waits for nothing.)
TEST(a_slow_network_leaves_pcie_to_others) {
    const double pcie = bytes / 1e9, network = bytes / 0.5e9;
    for (int copies = -1; copies <= 4; copies++) { // -1: one that comes first
        start(MACHINE(FREE, FREE, "7 us"), 9, N);
        if (copies < 0) copy_to_host();
        copy_by_network(0, 8);
        copy_by_network(8, 0);
        for (int i = 0; i < copies; i++) copy_to_host();
        double to_host = copies < 0 ? 1e-6 + pcie : pcie + copies * (1e-6 + pcie);
        if (copies != 0 && copies < 2) assert_ends(compute_queue(x[0]->device), to_host);
        assert_ends(comm_queue(x[0]->device), 50e-6 + network);
        assert_ends(comm_queue(x[8]->device), 50e-6 + (copies < 0 ? pcie : 0) + network);
        if (copies >= 2) assert_ends(compute_queue(x[0]->device), to_host);
    }
}

// A second queue works beside the first; waits order them.
TEST(queues_of_a_device_overlap) {
    start(MACHINE(FREE, FREE, "1 us"), 2, 2 * N);
    Device *from = x[0]->device, *to = x[1]->device;
    double copy = 1e-6 + bytes / 10e9;
    launch(to, fill, .x = x[1]->data + N, .n = N);
    queue_copy(comm_queue(to), to, x[1]->data, from, x[0]->data, 4 * N);
    takes(fmax(copy, filling));
    fill_on(1, N, 1);
    queue_wait(comm_queue(to), device_record(to));
    queue_copy(comm_queue(to), to, x[1]->data, from, x[0]->data, 4 * N);
    takes(filling + copy);
}

// In a graph, too, an event of a queue that has done nothing yet is past.
TEST(a_graph_may_wait_for_nothing) {
    start(MACHINE(FREE, FREE, "7 us"), 2, N);
    Device *devices[2] = {x[0]->device, x[1]->device};
    Queue *unused = comm_queue(devices[0]);
    graph_begin(devices, 2);
    device_copy(devices[0], x[0]->data, devices[1], x[1]->data, 4 * N);
    device_wait(devices[0], queue_record(unused));
    device_copy(devices[1], x[1]->data, devices[0], x[0]->data, 4 * N);
    fill_on(1, N, 1); // each kernel of a graph takes 1 us
    Graph *graph = graph_end();
    for (int times = 0; times < 2; times++) {
        graph_launch(graph);
        takes(3e-6 + 2 * (7e-6 + bytes / 10e9) + 1e-6 + filling);
    }
    graph_free(graph);
}

enum { BATCH = 48, STEPS = 2 };

// Seconds on the modelled clock, and the last device's parameters.
static double train(BackendChoice backend, const char *machine, int k, const char *allreduce,
                    float **values, size_t *n) {
    Device *devices[MAX_DEVICES];
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    start_on(machine ? machine_find(machine) : NULL, backend, 0, 0);
    next_seed = 0;
    choose_allreduce(allreduce);
    open_devices(devices, k);
    lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    Tensor *X = RANDOM(host(), BATCH, 1, 28, 28), *y = RANDOM(host(), BATCH);
    for (int i = 0; i < BATCH; i++) y->data[i] = (float)(i % 10);
    for (int step = 0; step < STEPS; step++) {
        train_batch(X, y, device_params, devices, k, 0.1f, losses);
        synchronize_all();
    }
    double seconds = modelled_seconds();
    *values = values_of_all(device_params[k - 1], LENET_PARAMS, n);
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    return seconds;
}

// It says the same with values and without, and changes none.
TEST(values_and_time_leave_each_other_alone) {
    static const char *const algorithms[] = {"star", "sharded", "ring", "tree"};
    for (int k = 1; k <= 4; k++)
        for (int a = 0; a < (k == 1 ? 1 : 4); a++) {
            size_t n;
            float *with, *without, *none;
            double seconds = train(BACKEND_CPU, "rtx4090-pcie", k, algorithms[a], &with, &n);
            assert_true(seconds > 0);
            assert_true(train(BACKEND_MODEL, "rtx4090-pcie", k, algorithms[a], &none, &n) ==
                        seconds);
            assert_true(isnan(train(BACKEND_CPU, NULL, k, algorithms[a], &without, &n)));
            assert_memory_equal(without, with, n * sizeof(float));
            for (size_t i = 0; i < n; i++) assert_true(isnan(none[i]) && isfinite(with[i]));
            free(with);
            free(without);
            free(none);
        }
}

// The trace has the same work in the same order, measured and modelled; the modelled times are the
// clock's, and the copies' bytes the ledger's.
TEST(traces_have_both_times) {
    start_on(machine_find("rtx4090-pcie"), BACKEND_CPU, 2, 1000);
    for (int i = 0; i < 2; i++) tensor_fill(x[i], 1);
    synchronize_all();
    ledger_reset();
    double before = modelled_seconds();
    trace_begin();
    trace_label("sum");
    allreduce_ring(x, 2);
    int count, modelled_count;
    TraceSpan *spans = trace_end(&count), *modelled = trace_modelled(&modelled_count);
    double took = modelled_seconds() - before, last = 0;
    uint64_t copied = 0;
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
        if (m->from != m->to) copied += m->bytes;
    }
    assert_true(fabs(last - took) <= 1e-12);
    assert_int_equal(copied, ledger_bytes_between_devices());
    free(spans);
    free(modelled);
    assert_null(trace_modelled(&modelled_count)); // it was given away
}

// A trace of model devices has their work alone, and the trace around it has none of that; a
// machine with fewer devices than were opened for another one goes on without them.
TEST(model_devices_are_traced_by_themselves) {
    start_on(machine_find("dgx-a100"), BACKEND_CPU, 1, 100);
    Tensor *here = x[0], *there = keep(tensor_new(model_device(9), 100));
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
}

static int stop(void **state) {
    start_on(NULL, BACKEND_CPU, 0, 0);
    return devices_end(state);
}

int main(void) { return run_all("modelled_clock", NULL, stop); }
