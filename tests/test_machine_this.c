// test_machine_this.c: the machine at hand, measured, is a machine like any other. How fast it is
// depends on what else runs here, so nothing is said of that.
#include <dlfcn.h>

#include "dies.h"
#include "common/model/machine.h"

static void assert_good(const double figures[], size_t n) {
    for (size_t i = 0; i < n; i++) assert_true(isfinite(figures[i]) && figures[i] > 0);
}

static void its_figures_are_positive(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 2);
    char *text = machine_this(1, 3); // of the machine, with a thread for each of three devices
    const Machine *m = machine_parse("this", text);
    assert_string_equal(m->name, "this");
    assert_int_equal(m->devices, 3);
    const double figures[] = {m->memory,           m->fp32,         m->tf32,
                              m->memory_bandwidth, m->kernel,       m->launch,
                              m->graph_launch,     m->graph_kernel, m->framework,
                              m->link.bandwidth,   m->link.latency, m->host_link.bandwidth,
                              m->host_link.latency};
    assert_good(figures, COUNT(figures));
    assert_good(m->efficiency, NUM_COST_KINDS);
    for (int form = 0; form < NUM_FORMS; form++) assert_good(m->convolution[form], NUM_PASSES);
    static const char *const measured[] = {"\nconvolution_3x3 ", "\nconvolution_large ",
                                           "\nconvolution_plain ", "\nconvolution_thin "};
    for (size_t i = 0; i < COUNT(measured); i++) assert_non_null(strstr(text, measured[i]));
    free(text);
    devices_init(BACKEND_CPU, 2); // nothing of the measurement is left
    assert_true(ledger_bytes_host() == 0 && ledger_bytes_between_devices() == 0);
    assert_true(device_bytes(try_gpu(0)) == 0 && device_bytes(host()) == 0);
    devices_close();
}

// Before the C library's own: what the system says of a container's limit is in the test's folder.
FILE *fopen(const char *path, const char *mode) {
    static const char SYSTEM[] = "/sys/fs/cgroup/";
    FILE *(*other)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    bool is_there = strncmp(path, SYSTEM, strlen(SYSTEM)) == 0;
    if (strcmp(path, "/proc/self/cgroup") == 0) return other(in_test_folder("groups"), mode);
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
    const char *const around[] = {"a/b/cpu.max", "a/cpu.max", "cpu/a/cpu.cfs_quota_us"};
    container_says("groups", "3:memory:/x\n4:cpu,cpuacct:/a\n0::/a/b\n");
    for (int d = 0; d < 3; d++)
        mkdir(in_test_folder(((const char *[]){"a", "a/b", "cpu/a"})[d]), 0700);
    container_says("cpu/a/cpu.cfs_period_us", "50000\n");
    for (int g = 0; g < 3; g++) {
        container_says(around[g], "50000 100000\n");
        assert_int_equal(num_cores(), 1);
        unlink(in_test_folder(around[g]));
        assert_int_equal(num_cores(), all);
    }
    unlink(in_test_folder("groups"));
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
        cmocka_unit_test_setup_teardown(a_container_may_have_the_time_of_few_cores,
                                        make_test_folder, remove_test_folder),
        cmocka_unit_test(as_many_devices_as_have_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
