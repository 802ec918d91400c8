// step_tables.h: the costs of all strategies side by side, and what follows from them.
#ifndef STEP_TABLES_H
#define STEP_TABLES_H

#include "step_costs.h"

// What a device holds, and what all hold together; what activations are made of on one device.
void print_memory(const StepTable *table, const Problem *problem);
// Bytes and synchronization points, for each k but 1; nothing without.
void print_traffic(const StepTable *table, const Problem *problem);
// Seconds of a step, measured and modelled.
void print_seconds(const StepTable *table);

#endif
