// cores.c: see cores.h.
#include "cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static int chosen; // 0: not known yet

// docker --cpus=2 leaves all cores in sight, and says in this file how much of their time there is.
static int limit_of_container(int cores) {
    long quota, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r"); // "200000 100000" or "max 100000"
    if (!file) return cores;
    bool limited = fscanf(file, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0;
    fclose(file);
    return limited && quota / period < cores ? (int)((quota + period - 1) / period) : cores;
}

int num_cores(void) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : limit_of_container(cores);
}

void set_num_threads(int threads) { chosen = threads; }

int num_threads(void) {
    if (chosen <= 0) chosen = num_cores();
    return chosen;
}
