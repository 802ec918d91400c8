// solution.c: rows by speed, and how long the slowest device takes.
#include "your_part.h"

#include <math.h>

void shards_for(int n, const double speed[], int k, Range shards[]) {
    double total = 0, remainder[MAX_DEVICES];
    int left = n, first = 0;
    for (int i = 0; i < k; i++) total += speed[i];
    for (int i = 0; i < k; i++) {
        double quota = n * speed[i] / total;
        shards[i].count = (int)quota;
        remainder[i] = quota - shards[i].count;
        left -= shards[i].count;
    }
    for (; left > 0; left--) {
        int largest = 0;
        for (int i = 1; i < k; i++)
            if (remainder[i] > remainder[largest]) largest = i;
        shards[largest].count++;
        remainder[largest] = -1;
    }
    for (int i = 0; i < k; i++) {
        shards[i].first = first;
        first += shards[i].count;
    }
}

double predict_step(const Range shards[], const double speed[], int k, double exchange) {
    double slowest = 0;
    for (int i = 0; i < k; i++)
        if (shards[i].count > 0) slowest = fmax(slowest, shards[i].count / speed[i]);
    return slowest + exchange;
}
