// test_computer.c: how many cores the program may use: fewer than are in sight, in a container.
#include <dlfcn.h>

#include "cases.h"
#include "common/base/platform.h"

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

TEST_IN_A_FOLDER(a_container_may_have_the_time_of_few_cores) {
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

int main(void) { return run_all("computer", NULL, NULL); }
