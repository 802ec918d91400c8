// buckets.c: which gradients are exchanged together.
#include "buckets.h"

#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

static Buckets no_buckets(const int order[], int num_params) {
    Buckets b = {.num_params = num_params};
    b.order = xmalloc(sizeof *order * (size_t)num_params);
    memcpy(b.order, order, sizeof *order * (size_t)num_params);
    b.first = xcalloc((size_t)num_params + 1, sizeof *b.first);
    b.floats = xcalloc((size_t)num_params, sizeof *b.floats);
    return b;
}

Buckets buckets_of(const size_t sizes[], const int order[], int num_params, size_t first_bytes,
                   size_t bytes) {
    Buckets b = no_buckets(order, num_params);
    size_t limit = first_bytes;
    for (int i = 0; i < num_params; i++) {
        b.floats[b.n] += sizes[order[i]];
        bool is_full = b.floats[b.n] * sizeof(float) >= limit;
        if (!is_full && i < num_params - 1) continue;
        b.first[++b.n] = i + 1;
        limit = bytes;
    }
    return b;
}

void buckets_free(Buckets *b) {
    free(b->order);
    free(b->first);
    free(b->floats);
    *b = (Buckets){0};
}

int bucket_with(const Buckets *buckets, int p) {
    for (int b = 0; b < buckets->n; b++)
        for (int i = buckets->first[b]; i < buckets->first[b + 1]; i++)
            if (buckets->order[i] == p) return b;
    CHECK(false, "each parameter is in a bucket");
    return -1;
}
