// test_machine_this.c: the machine at hand, measured, is a machine like any other. How fast it is
// depends on what else runs here, so nothing is said of that.
#include <dlfcn.h>

#include "dies.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/base/error.h"
#include "common/model/machine_this.h"
#include "common/model/modelled_clock.h"

enum { DEVICES = 3, STEPS = 2, BATCH = 32 };

static char *text; // of the machine, with a thread for each device

static int measure(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 2);
    text = machine_this(1, DEVICES);
    return 0;
}

static int forget(void **state) {
    (void)state;
    free(text);
    return 0;
}

static void assert_good(double figure) { assert_true(isfinite(figure) && figure > 0); }

static void assert_good_link(Link link) {
    assert_good(link.bandwidth);
    assert_good(link.latency);
}

static void its_figures_are_positive(void **state) {
    (void)state;
    const Machine *m = machine_parse("this", text);
    assert_string_equal(m->name, "this");
    assert_int_equal(m->devices, DEVICES);
    const double figures[] = {m->memory,           m->fp32,         m->tf32,
                              m->memory_bandwidth, m->kernel,       m->launch,
                              m->graph_launch,     m->graph_kernel, m->framework};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) assert_good(figures[i]);
    for (int kind = 0; kind < NUM_COST_KINDS; kind++) assert_good(m->efficiency[kind]);
    for (int form = 0; form < NUM_FORMS; form++)
        for (int pass = 0; pass < NUM_PASSES; pass++) assert_good(m->convolution[form][pass]);
    assert_good_link(m->link);
    assert_good_link(m->host_link);
}

static void every_convolution_is_measured(void **state) {
    (void)state;
    assert_non_null(strstr(text, "\nconvolution_3x3 "));
    assert_non_null(strstr(text, "\nconvolution_large "));
    assert_non_null(strstr(text, "\nconvolution_plain "));
    assert_non_null(strstr(text, "\nconvolution_thin "));
}

// Saved and given as a file, it is the same machine. (All figures are compared as bytes, up to the
// first pointer.)
static void it_can_be_read_again(void **state) {
    (void)state;
    const Machine *once = machine_parse("this", text), *again = machine_parse("saved", text);
    size_t begin = offsetof(Machine, devices), end = offsetof(Machine, mesh);
    assert_memory_equal((const char *)once + begin, (const char *)again + begin, end - begin);
    assert_string_equal(once->about, again->about);
}

static void nothing_of_the_measurement_is_left(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 2);
    assert_true(ledger_bytes_host() == 0 && ledger_bytes_between_devices() == 0);
    assert_true(device_bytes(try_gpu(0)) == 0 && device_bytes(host()) == 0);
    devices_close();
}

// Before the C library's own: what the system says of a container's limit is in the test's folder.
FILE *fopen(const char *path, const char *mode) {
    static const char SYSTEM[] = "/sys/fs/cgroup/";
    FILE *(*other)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    bool is_there = strncmp(path, SYSTEM, strlen(SYSTEM)) == 0;
    return other(is_there ? in_test_folder(path + strlen(SYSTEM)) : path, mode);
}

static void container_says(const char *file, const char *words) {
    write_bytes(in_test_folder(file), words, strlen(words));
}

static void a_container_may_have_the_time_of_few_cores(void **state) {
    (void)state;
    int all = num_cores();
    container_says("cpu.max", "max 100000\n");
    assert_int_equal(num_cores(), all);
    container_says("cpu.max", "50000 100000\n");
    assert_int_equal(num_cores(), 1);
    unlink(in_test_folder("cpu.max"));
    assert_int_equal(mkdir(in_test_folder("cpu"), 0700), 0); // cgroup v1
    container_says("cpu/cpu.cfs_quota_us", "-1\n");
    container_says("cpu/cpu.cfs_period_us", "50000\n");
    assert_int_equal(num_cores(), all);
    container_says("cpu/cpu.cfs_quota_us", "50000\n");
    assert_int_equal(num_cores(), 1);
}

static void as_many_devices_as_have_cores(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 8);
    assert_int_equal(devices_that_fit(1), 8);
    assert_int_equal(devices_that_fit(3), 2);
    assert_int_equal(devices_that_fit(8), 1);
    assert_int_equal(devices_that_fit(9), 1);
    devices_close();
}

// ---- values ----------------------------------------------------------------------------------

static void train(const Machine *machine, float *first_weights, size_t n) {
    devices_init(BACKEND_CPU, 2);
    modelled_clock_start(machine);
    Device *devices[2];
    open_devices(devices, 2);
    Tensor *params[LENET_PARAMS], *device_params[2][LENET_PARAMS], *losses[2];
    lenet_init(params, 1);
    for (int i = 0; i < 2; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    Tensor *X = tensor_new(host(), BATCH, 1, 28, 28), *y = tensor_new(host(), BATCH);
    for (int i = 0; i < BATCH * 28 * 28; i++) X->data[i] = (float)(i % 29) / 29;
    for (int i = 0; i < BATCH; i++) y->data[i] = (float)(i % 10);
    for (int step = 0; step < STEPS; step++) {
        train_batch(X, y, device_params, devices, 2, 0.1f, losses);
        synchronize_all();
    }
    float *weights = tensor_values(device_params[1][0]);
    memcpy(first_weights, weights, n * sizeof *weights);
    free(weights);
    for (int i = 0; i < 2; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    tensor_free(X);
    tensor_free(y);
    devices_close();
    modelled_clock_start(NULL);
}

static void its_clock_changes_no_values(void **state) {
    (void)state;
    float without[20 * 9], with[20 * 9]; // W1
    train(NULL, without, 20 * 9);
    train(machine_parse("this", text), with, 20 * 9);
    assert_memory_equal(without, with, sizeof with);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_figures_are_positive),
        cmocka_unit_test(every_convolution_is_measured),
        cmocka_unit_test(it_can_be_read_again),
        cmocka_unit_test(nothing_of_the_measurement_is_left),
        cmocka_unit_test_setup_teardown(a_container_may_have_the_time_of_few_cores,
                                        make_test_folder, remove_test_folder),
        cmocka_unit_test(as_many_devices_as_have_cores),
        cmocka_unit_test(its_clock_changes_no_values),
    };
    return cmocka_run_group_tests(tests, measure, forget);
}
