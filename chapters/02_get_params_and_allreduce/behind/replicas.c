// replicas.c: vectors on k devices, and whether they are equal to the bit.
#include "behind.h"

#include "common/book.h"

void vectors_on_devices(Tensor *data[], int k, int n) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    for (int i = 0; i < k; i++) data[i] = tensor_new(devices[i], n);
}

bool same_bits(const Tensor *a, const Tensor *b) {
    float *x = tensor_values(a), *y = tensor_values(b);
    bool same = same_shape(a, b) && memcmp(x, y, tensor_bytes(a)) == 0;
    free(x);
    free(y);
    return same;
}

bool all_replicas_equal(Tensor *const data[], int k) {
    for (int i = 1; i < k; i++)
        if (!same_bits(data[0], data[i])) return false;
    return true;
}
