// sums.c: see sums.h.
#include "sums.h"

#include "common/base/error.h"
#include "common/tensor/autograd.h"
#include "get_params.h"
#include "replicas.h"

#include <stdlib.h>
#include <string.h>

// Different on each device and in each place, and small enough that all sums stay below 2^24.
static float whole_number(int i, int j) {
    return (float)((i + 1) * ((j * 37 + i * 11) % 201 - 100));
}

static bool sums_exactly(const Allreduce *algorithm, int k, int n) {
    Tensor *data[MAX_DEVICES];
    vectors_on_devices(data, k, n);
    float *values = xcalloc((size_t)n + 1, sizeof(float));
    float *sums = xcalloc((size_t)n + 1, sizeof(float));
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < n; j++) {
            values[j] = whole_number(i, j);
            sums[j] += values[j];
        }
        tensor_write(data[i], values);
        begin_step(data[i]->device);
    }
    algorithm->run(data, k);
    bool exact = true;
    for (int i = 0; i < k; i++) {
        tensor_read(data[i], values);
        exact = exact && memcmp(values, sums, sizeof(float) * (size_t)n) == 0;
    }
    free_params(data, k);
    free(values);
    free(sums);
    return exact;
}

void check_sums_of(const Allreduce *algorithm) {
    static const int ks[] = {1, 2, 3, 5, 8}, sizes[] = {0, 1, 7, 1000, 12345};
    bool exact = true;
    char *tried = xstrdup("1");
    for (int b = 0; b < 5 && can_have_devices(ks[b]); b++) {
        for (int c = 0; c < 5; c++) exact = sums_exactly(algorithm, ks[b], sizes[c]) && exact;
        char *longer = b == 0 ? xstrdup(tried) : xprintf("%s,%d", tried, ks[b]);
        free(tried);
        tried = longer;
    }
    char *what = xprintf("%s sums exactly: k = %s devices, n = 0,1,7,1000,12345 numbers",
                         algorithm->name, tried);
    say_checked_on(try_gpu(0), exact, what);
    free(tried);
    free(what);
}
