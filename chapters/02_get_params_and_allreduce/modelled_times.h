// modelled_times.h: how long the allreduces would take on machines that are not here. All of it is
// modelled: this chapter's own code runs on devices that compute nothing, and modelled_clock.h says
// how long that takes.
#ifndef MODELLED_TIMES_H
#define MODELLED_TIMES_H

#include "common/model/machine.h"
#include "allreduce.h"

#include <stdio.h>

// Closes all devices. From now on those of try_gpu() are this machine's, and compute nothing.
void begin_on_machine(const Machine *machine);

// Seconds of one allreduce of vectors of n floats on k devices of that machine.
double modelled_allreduce(void (*run)(Tensor *const data[], int k), int k, int n);

// The formula of the ring and of the sharded one: 2 (k-1) (latency + N / (k bandwidth)), for links
// that are all alike, where additions and launches are free. N = 4 n bytes.
double ring_formula(Link link, int k, int n);

// Three machines that differ in the ways between their devices, but not one of the name of `own`,
// of which the rows are there already (NULL: of none): a table, and rows of the CSV for all sizes.
void compare_machines(const Machine *own, int k, FILE *csv);

// From 2 to 1024 devices, one short vector and one long one, on `own` if its hosts have a network,
// else on a cluster.
void compare_numbers_of_devices(const Machine *own, FILE *csv);

#endif
