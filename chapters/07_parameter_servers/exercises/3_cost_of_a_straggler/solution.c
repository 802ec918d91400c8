// solution.c: exercise 3, solved.
#include "your_part.h"

bool may_begin(long mine, const long steps[], int n, int staleness) {
    for (int i = 0; i < n; i++)
        if (mine - steps[i] > staleness) return false;
    return true;
}

PushFate fate_of_push(long step, long updates, int taken, int W, int backup) {
    if (step < updates) return PUSH_DROPPED;
    return taken + 1 == W - backup ? PUSH_COMPLETES : PUSH_TAKEN;
}

double time_to(const PsPoint points[], int n, double goal) {
    for (int p = 0; p < n; p++) {
        if (!(points[p].accuracy >= goal)) continue;
        if (p == 0) return points[0].time;
        const PsPoint *a = &points[p - 1], *b = &points[p];
        double way = (goal - a->accuracy) / (b->accuracy - a->accuracy);
        return a->time + way * (b->time - a->time);
    }
    return INFINITY;
}
