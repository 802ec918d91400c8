// wrong: fills the buckets from the first parameter on; backward begins with the last
// loses: 1 2
// says: backward begins with the last layer, so the last gradient goes first

#include "your_part.h"

#include <math.h>

int fill_buckets(const size_t sizes[], int num_params, size_t first_bytes, size_t bytes,
                 int bucket_of[]) {
    size_t filled = 0, cap = first_bytes;
    int b = 0;
    for (int p = 0; p < num_params; p++) {
        if (filled >= cap) {
            filled = 0;
            cap = bytes;
            b++;
        }
        bucket_of[p] = b;
        filled += 4 * sizes[p];
    }
    return b + 1;
}

double predict(const Backward *b, const int bucket_of[], int num_buckets,
               ExchangeTime *seconds_of) {
    double end = 0;
    for (int bucket = 0; bucket < num_buckets; bucket++) {
        double ready = 0;
        size_t bytes = 0;
        for (int p = 0; p < b->num_params; p++)
            if (bucket_of[p] == bucket) {
                ready = fmax(ready, b->final[p]);
                bytes += 4 * b->sizes[p];
            }
        end = fmax(ready, end) + seconds_of(bytes);
    }
    return fmax(end, b->seconds);
}
