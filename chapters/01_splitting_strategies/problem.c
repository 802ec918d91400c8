// problem.c: see problem.h.
#include "problem.h"

Spread *problem_spread(const Problem *problem, const Strategy *strategy, int k) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    return spread_open(problem->network, problem->params, strategy, devices, k,
                       problem->microbatches);
}

void problem_step(const Problem *problem, Spread *s) {
    spread_step(s, problem->X, problem->y, problem->lr);
}

double problem_bytes(const Problem *problem) {
    return (double)(tensor_bytes(problem->X) + tensor_bytes(problem->y));
}
