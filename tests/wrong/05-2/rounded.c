// wrong: rounds each quota to the nearest number of rows, and gives the last device what is left
// loses: 2 3
// says: of the rows that are left over one or none

#include "your_part.h"

#include <math.h>

void shards_for(int n, const double speed[], int k, Range shards[]) {
    double total = 0;
    int first = 0;
    for (int i = 0; i < k; i++) total += speed[i];
    for (int i = 0; i < k; i++) {
        shards[i].first = first;
        shards[i].count = i < k - 1 ? lround(n * speed[i] / total) : n - first;
        first += (int)shards[i].count;
    }
}

double predict_step(const Range shards[], const double speed[], int k, double exchange) {
    double slowest = 0;
    for (int i = 0; i < k; i++)
        if (shards[i].count > 0) slowest = fmax(slowest, shards[i].count / speed[i]);
    return slowest + exchange;
}
