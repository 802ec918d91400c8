// computer.c: the part of platform.h that is the same everywhere: the clock, and how many cores the
// program may use, also in a container.
#include "platform.h"

#include <string.h>
#include <time.h>

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A number in a file of a cgroup. Returns 0 if there is no such file.
static long number_in(const char *below, const char *group, const char *name, const char *format) {
    char path[700];
    long number = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/%s", below, group, name);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, format, &number) != 1) number = 0;
    if (file) fclose(file);
    return number;
}

// docker --cpus=2 leaves all cores in sight but limits the time on them. The limit is in files of
// the process's group, or of one around it. With cgroup v2 the file holds "200000 100000" or "max
// 100000". With v1 the first of two files holds "200000" or "-1".
static int cores_of(const char *group, int cores) {
    long quota = number_in("", group, "cpu.max", "%ld");
    long period = number_in("", group, "cpu.max", "%*ld %ld");
    if (quota == 0) {
        quota = number_in("/cpu", group, "cpu.cfs_quota_us", "%ld");
        period = number_in("/cpu", group, "cpu.cfs_period_us", "%ld");
    }
    bool limited = quota > 0 && period > 0 && quota / period < cores;
    return limited ? (int)((quota + period - 1) / period) : cores;
}

int num_cores(void) {
    char line[600]; // "0::/docker/1f/inner" or "4:cpu,cpuacct:/docker/1f/inner"
    int cores = cores_of("", cores_in_sight());
    FILE *groups = fopen("/proc/self/cgroup", "r");
    while (groups && fgets(line, sizeof line, groups)) {
        char *group = strchr(line, '/'), *slash;
        if (!group || (!strstr(line, "::") && !strstr(line, "cpu"))) continue;
        group[strcspn(group, "\n")] = '\0';
        for (; (slash = strrchr(group, '/')); *slash = '\0') cores = cores_of(group, cores);
    }
    if (groups) fclose(groups);
    return cores;
}

static int chosen; // 0: all

void set_num_threads(int threads) { chosen = threads; }

int num_threads(void) {
    if (chosen <= 0) chosen = num_cores();
    return chosen;
}
