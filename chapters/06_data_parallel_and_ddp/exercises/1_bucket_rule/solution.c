// solution.c: how long backward takes with the exchange under it, and the buckets that make it
// shortest.
#include "your_part.h"

#include <math.h>

double predict(const Backward *b, const int bucket_of[], int num_buckets,
               ExchangeTime *seconds_of) {
    double end = 0;
    for (int bucket = 0; bucket < num_buckets; bucket++) {
        double begin = end;
        size_t bytes = 0;
        for (int p = 0; p < b->num_params; p++) {
            if (bucket_of[p] != bucket) continue;
            begin = fmax(begin, b->final[p]);
            bytes += b->sizes[p] * sizeof(float);
        }
        end = begin + seconds_of(bytes);
    }
    return fmax(end, b->seconds);
}

// What comes before gradient p only has to know when the exchange of p, p + 1, .. can end: the
// earliest is end[p], and the last of their buckets is then p to stop[p] - 1.
int best_caps(const Backward *b, ExchangeTime *seconds_of, int bucket_of[]) {
    double end[MOST_PARAMS + 1] = {0};
    int n = b->num_params, stop[MOST_PARAMS], number = 0;
    for (int p = n - 1; p >= 0; p--) {
        double begin = 0;
        size_t bytes = 0;
        end[p] = INFINITY;
        for (int q = p; q < n; q++) {
            begin = fmax(begin, b->final[q]);
            bytes += b->sizes[q] * sizeof(float);
            double ends = fmax(begin, end[q + 1]) + seconds_of(bytes);
            if (ends >= end[p]) continue;
            end[p] = ends;
            stop[p] = q + 1;
        }
    }
    for (int p = 0; p < n; p = stop[p]) number++;
    for (int p = 0, bucket = number; p < n;)
        for (int behind = stop[p], own = --bucket; p < behind; p++) bucket_of[p] = own;
    return number;
}
