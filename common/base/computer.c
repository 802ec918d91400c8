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

// Returns 0 if there is no such file.
static long number_in(const char *file_name, const char *format) {
    long number = 0;
    FILE *file = fopen(file_name, "r");
    if (file && fscanf(file, format, &number) != 1) number = 0;
    if (file) fclose(file);
    return number;
}

// docker --cpus=2 leaves all cores in sight but limits the time on them. The limit is in files of
// the process's group, or of a group around it. With cgroup v2 the file of a group holds "200000
// 100000" or "max 100000". With v1 the first of two files holds "200000" or "-1".
static int fewer_in_group(int cores, const char *group) {
    char quota_file[600], period_file[600];
    long quota, period;
    for (int v2 = 0; v2 < 2; v2++) {
        snprintf(quota_file, sizeof quota_file, "/sys/fs/cgroup%s%s/cpu.%s", v2 ? "" : "/cpu",
                 group, v2 ? "max" : "cfs_quota_us");
        snprintf(period_file, sizeof period_file, "/sys/fs/cgroup%s%s/cpu.%s", v2 ? "" : "/cpu",
                 group, v2 ? "max" : "cfs_period_us");
        quota = number_in(quota_file, "%ld");
        period = number_in(period_file, v2 ? "%*ld %ld" : "%ld");
        if (quota > 0 && period > 0 && quota / period < cores)
            cores = (int)((quota + period - 1) / period);
    }
    return cores;
}

int num_cores(void) {
    char line[600];
    int cores = cores_in_sight();
    // Lines such as "0::/docker/1f/inner" or "4:cpu,cpuacct:/docker/1f/inner".
    FILE *groups = fopen("/proc/self/cgroup", "r");
    while (groups && fgets(line, sizeof line, groups)) {
        char *group = strchr(line, '/'), *slash;
        if (!group || (!strstr(line, "::") && !strstr(line, "cpu"))) continue;
        group[strcspn(group, "\n")] = '\0';
        for (; (slash = strrchr(group, '/')); *slash = '\0') cores = fewer_in_group(cores, group);
    }
    if (groups) fclose(groups);
    return fewer_in_group(cores, "");
}

static int chosen; // 0: all

void set_num_threads(int threads) { chosen = threads; }

int num_threads(void) {
    if (chosen <= 0) chosen = num_cores();
    return chosen;
}
