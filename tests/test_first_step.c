// test_first_step.c: the first step of chapter 4's LeNet from the book's own start, on real images,
// against float64. (test_splitting.c has the same of chapter 1.)
#include "cases.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "lenet_float64.h"

// Chapter 4: convolution, ReLU and pooling in one.
static void check_lenet(int k, Tensor *const params[], const Tensor *X, const Tensor *y,
                        const double *expected) {
    Device *devices[MAX_DEVICES] = {NULL};
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS], *X_shards[MAX_DEVICES],
        *y_shards[MAX_DEVICES];
    open_devices(devices, k);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(X, y, devices, k, X_shards, y_shards);
    for (int i = 0; i < k; i++)
        backward(sum(cross_entropy(lenet(X_shards[i], device_params[i]), y_shards[i])));
    for (int p = 0; p < LENET_PARAMS; expected += SIZES[p++]) {
        Tensor *grads[MAX_DEVICES];
        for (int i = 0; i < k; i++) grads[i] = device_params[i][p]->grad;
        allreduce(grads, k);
        check_gradient(values_of(grads[k - 1]), expected, (size_t)SIZES[p],
                       "lenet(), k = %d: the gradient of %s", k, params[p]->name);
    }
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
}

static void check_start(int images, double scale, uint64_t seed) {
    Tensor *params[LENET_PARAMS], *X, *y;
    real_minibatch(images, seed, &X, &y);
    keep(X), keep(y);
    lenet_init(params, seed);
    for (int p = 0; p < LENET_PARAMS; p++) // lenet_init()'s scale is the book's, 0.01
        for (size_t i = 0; i < numel(params[p]); i++) params[p]->data[i] *= (float)(scale / 0.01);
    double *expected = in_float64(params, X, y);
    for (int k = 1; k <= 3; k++) check_lenet(k, params, X, y, expected);
    free(expected);
    free_params(params, LENET_PARAMS);
}

static void test_first_step(void **state) {
    (void)state;
    check_start(SIMULATED ? 4 : 256, 0.01, 0); // the book's start
    for (uint64_t seed = 1; seed <= 4 && !SIMULATED; seed++)
        check_start(64, seed % 2 ? 0.1 : 0.01, seed);
}

int main(void) {
    devices_init(BACKEND_AUTO, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_step)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_kept();
    devices_close();
    return failed;
}
