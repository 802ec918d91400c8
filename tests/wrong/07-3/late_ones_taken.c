// wrong: a push that is late by one round is taken; who never gets there is there at the end
// loses: 3 5
// says: the present one is number .updates., and one before it is late

#include "your_part.h"

bool may_begin(long mine, const long steps[], int n, int staleness) {
    for (int i = 0; i < n; i++)
        if (mine > steps[i] + staleness) return false;
    return true;
}

PushFate fate_of_push(long step, long updates, int taken, int W, int backup) {
    if (step < updates - 1) return PUSH_DROPPED;
    return taken + 1 < W - backup ? PUSH_TAKEN : PUSH_COMPLETES;
}

double time_to(const PsPoint points[], int n, double goal) {
    if (n == 0) return INFINITY;
    if (points[0].accuracy >= goal) return points[0].time;
    for (int p = 1; p < n; p++) {
        const PsPoint *a = &points[p - 1], *b = &points[p];
        if (b->accuracy < goal) continue;
        double way = (goal - a->accuracy) / (b->accuracy - a->accuracy);
        return a->time + way * (b->time - a->time);
    }
    return points[n - 1].time;
}
