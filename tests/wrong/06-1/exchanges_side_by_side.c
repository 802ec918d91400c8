// wrong: lets each exchange begin when its gradients are final, although another one still goes on
// loses: 4 5
// says: exchanges that overlap each other.*waits for the end of the one before

#include "your_part.h"

#include <math.h>

int fill_buckets(const size_t sizes[], int num_params, size_t first_bytes, size_t bytes,
                 int bucket_of[]) {
    size_t filled = 0, cap = first_bytes;
    int b = 0;
    for (int p = num_params - 1; p >= 0; p--) {
        if (filled >= cap) {
            filled = 0;
            cap = bytes;
            b++;
        }
        bucket_of[p] = b;
        filled += sizes[p] * sizeof(float);
    }
    return b + 1;
}

double predict(const Backward *b, const int bucket_of[], int num_buckets,
               ExchangeTime *seconds_of) {
    double end = b->seconds;
    for (int bucket = 0; bucket < num_buckets; bucket++) {
        double ready = 0;
        size_t bytes = 0;
        for (int p = 0; p < b->num_params; p++)
            if (bucket_of[p] == bucket) {
                ready = fmax(ready, b->final[p]);
                bytes += b->sizes[p] * sizeof(float);
            }
        end = fmax(end, ready + seconds_of(bytes));
    }
    return end;
}
