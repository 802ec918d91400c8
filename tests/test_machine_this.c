// test_machine_this.c: the machine at hand, measured, is a machine like any other. How fast it is
// depends on what else runs here, so nothing is said of that.
#include <dlfcn.h>

#include "dies.h"
#include "common/model/machine.h"
#include "common/model/machine_this.h"

enum { DEVICES = 3 };

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

static void its_figures_are_positive(void **state) {
    (void)state;
    const Machine *m = machine_parse("this", text);
    assert_string_equal(m->name, "this");
    assert_int_equal(m->devices, DEVICES);
    const double figures[] = {m->memory,           m->fp32,         m->tf32,
                              m->memory_bandwidth, m->kernel,       m->launch,
                              m->graph_launch,     m->graph_kernel, m->framework,
                              m->link.bandwidth,   m->link.latency, m->host_link.bandwidth,
                              m->host_link.latency};
    for (size_t i = 0; i < COUNT(figures); i++) assert_good(figures[i]);
    static const char *const measured[] = {"\nconvolution_3x3 ", "\nconvolution_large ",
                                           "\nconvolution_plain ", "\nconvolution_thin "};
    for (size_t i = 0; i < COUNT(measured); i++) assert_non_null(strstr(text, measured[i]));
    for (int kind = 0; kind < NUM_COST_KINDS; kind++) assert_good(m->efficiency[kind]);
    for (int form = 0; form < NUM_FORMS; form++)
        for (int pass = 0; pass < NUM_PASSES; pass++) assert_good(m->convolution[form][pass]);
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
    static const char *const cgroups[][3] = {
        {"cpu.max", "max 100000\n", "50000 100000\n"},
        {"cpu/cpu.cfs_quota_us", "-1\n", "50000\n"}, // cgroup v1
    };
    int all = num_cores();
    assert_int_equal(mkdir(in_test_folder("cpu"), 0700), 0);
    container_says("cpu/cpu.cfs_period_us", "50000\n");
    for (int v = 0; v < 2; v++) {
        container_says(cgroups[v][0], cgroups[v][1]);
        assert_int_equal(num_cores(), all);
        container_says(cgroups[v][0], cgroups[v][2]);
        assert_int_equal(num_cores(), 1);
        unlink(in_test_folder(cgroups[v][0]));
    }
}

static void as_many_devices_as_have_cores(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 8);
    const int fit[] = {0, 8, 4, 2, 2, 1, 1, 1, 1, 1};
    for (int threads = 1; threads <= 9; threads++)
        assert_int_equal(devices_that_fit(threads), fit[threads]);
    devices_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_figures_are_positive),
        cmocka_unit_test(nothing_of_the_measurement_is_left),
        cmocka_unit_test_setup_teardown(a_container_may_have_the_time_of_few_cores,
                                        make_test_folder, remove_test_folder),
        cmocka_unit_test(as_many_devices_as_have_cores),
    };
    return cmocka_run_group_tests(tests, measure, forget);
}
