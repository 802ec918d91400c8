// computer.c: the part of platform.h that is the same everywhere: the clock, and how many cores the
// program may use, also in a container.
#include "platform.h"

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

// docker --cpus=2 leaves all cores in sight but limits the time on them. The limit is in these
// files. With cgroup v2 the file holds "200000 100000" or "max 100000". With v1 the first of two
// files holds "200000" or "-1".
int num_cores(void) {
    int cores = cores_in_sight();
    long quota = number_in("/sys/fs/cgroup/cpu.max", "%ld");
    long period = number_in("/sys/fs/cgroup/cpu.max", "%*ld %ld");
    if (quota == 0) {
        quota = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "%ld");
        period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "%ld");
    }
    bool limited = quota > 0 && period > 0 && quota / period < cores;
    return limited ? (int)((quota + period - 1) / period) : cores;
}

static int chosen; // 0: all

void set_num_threads(int threads) { chosen = threads; }

int num_threads(void) {
    if (chosen <= 0) chosen = num_cores();
    return chosen;
}
