// traffic_tables.h: what the wrappers send, hold and launch.
#ifndef TRAFFIC_TABLES_H
#define TRAFFIC_TABLES_H

// Bytes that device 0 and each other device send and receive in each phase of a step of LeNet, by
// the two wrappers, on k devices, with `rows` rows in the minibatch: counted by the ledger, and
// CHECKed against the formulas.
void print_wrapper_traffic(int k, int rows);

// Memory of device 0 and of the others after a step on 2, 4 and 8 devices, with 10 classes and with
// 10,000, and how many kernels and copies a step has. `rows`: of each device.
void print_wrapper_memory(int rows);

// The four ways beside each other: what device 0 sends in a step of each, kernels, copies,
// exchanges and modelled time, of LeNet with `rows` rows on each of k devices.
void print_four_ways(int k, int rows);

#endif
