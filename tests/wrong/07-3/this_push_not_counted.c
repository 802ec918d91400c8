// wrong: the push that arrives is not counted among those of its round; no line between points
// loses: 2 4
// says: taken. are there already, and this one is one more

#include "your_part.h"

bool may_begin(long mine, const long steps[], int n, int staleness) {
    long slowest = mine;
    for (int i = 0; i < n; i++) slowest = steps[i] < slowest ? steps[i] : slowest;
    return mine <= slowest + staleness;
}

PushFate fate_of_push(long step, long updates, int taken, int W, int backup) {
    if (step < updates) return PUSH_DROPPED;
    if (taken == W - backup) return PUSH_COMPLETES;
    return PUSH_TAKEN;
}

double time_to(const PsPoint points[], int n, double goal) {
    for (int p = 0; p < n; p++)
        if (points[p].accuracy >= goal) return points[p].time;
    return INFINITY;
}
