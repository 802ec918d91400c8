// wrong: the bound itself holds a worker up already: < where <= belongs
// loses: 1
// says: < or <=

#include "your_part.h"

bool may_begin(long mine, const long steps[], int n, int staleness) {
    long slowest = steps[0];
    for (int i = 1; i < n; i++)
        if (steps[i] < slowest) slowest = steps[i];
    return mine - slowest < staleness;
}

PushFate fate_of_push(long step, long updates, int taken, int W, int backup) {
    if (step < updates) return PUSH_DROPPED;
    return taken + 1 == W - backup ? PUSH_COMPLETES : PUSH_TAKEN;
}

double time_to(const PsPoint points[], int n, double goal) {
    for (int p = 0; p < n; p++) {
        if (points[p].accuracy < goal) continue;
        if (p == 0) return points[0].time;
        double t0 = points[p - 1].time, a0 = points[p - 1].accuracy;
        double t1 = points[p].time, a1 = points[p].accuracy;
        return t0 + (t1 - t0) * (goal - a0) / (a1 - a0);
    }
    return INFINITY;
}
