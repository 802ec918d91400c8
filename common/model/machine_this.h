// machine_this.h: the machine at hand, as a machine file.
#ifndef MACHINE_THIS_H
#define MACHINE_THIS_H

// Measures, in about two seconds, what machine.h says of a machine, and writes it down as the text
// of such a file, each figure with how it was found; to be given to machine_parse() and to free().
// Its devices are of the kind that devices_init() chose. A CPU device has that many threads, at
// least 1 (a GPU does not care); the machine has as many devices as have cores of their own then,
// but at least `devices`: as if those had cores, too. As cores share caches and memory, `devices`
// of those that have cores compute at the same time while they are measured, all of them if it is
// 0. Other programs that run at the same time make it slower than it is.
//
// To be called before the first device is opened; ends with devices_close().
char *machine_this(int threads, int devices);

// How many devices of so many threads have cores of their own, or a GPU; at least 1.
int devices_that_fit(int threads);

#endif
