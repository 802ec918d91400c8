// cores.h: how many cores this program may use.
#ifndef CORES_H
#define CORES_H

// The number of cores that this process may use.
int num_cores(void);

// The number of cores that the CPU devices share, and that the host's own work may use. It is what
// set_num_threads() said, at first all that this process may use: a container may see every core of
// the machine, but have the time of only a few of them.
int num_threads(void);
// 0: all that this process may use.
void set_num_threads(int threads);

#endif
