// cores.c: see cores.h.
#include "cores.h"
#include "platform.h"

static int chosen; // 0: not known yet

// 0 if it is not there.
static long number_in(const char *file_name, const char *format) {
    long number = 0;
    FILE *file = fopen(file_name, "r");
    if (file && fscanf(file, format, &number) != 1) number = 0;
    if (file) fclose(file);
    return number;
}

// docker --cpus=2 leaves all cores in sight, and says in these files how much of their time there
// is: cgroup v2 in one, "200000 100000" or "max 100000"; v1 in two, "200000" or "-1" in the first.
static int limit_of_container(int cores) {
    long quota = number_in("/sys/fs/cgroup/cpu.max", "%ld");
    long period = number_in("/sys/fs/cgroup/cpu.max", "%*ld %ld");
    if (quota == 0) {
        quota = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "%ld");
        period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "%ld");
    }
    bool limited = quota > 0 && period > 0 && quota / period < cores;
    return limited ? (int)((quota + period - 1) / period) : cores;
}

int num_cores(void) { return limit_of_container(cores_in_sight()); }

void set_num_threads(int threads) { chosen = threads; }

int num_threads(void) {
    if (chosen <= 0) chosen = num_cores();
    return chosen;
}
