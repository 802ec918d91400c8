// test_cuda_resnet18.c: ResNet-18 on 1, 2 and 4 simulated GPUs against a CPU device. (One step on a
// simulated GPU against PyTorch is in tests/test_resnet18.c.)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../chapters/05_resnet18_concise/data_parallel.h"
#include "../../chapters/05_resnet18_concise/resnet18.h"
#include "../../common/random.h"
#include "cudasim.h"

#include <math.h>
#include <stdlib.h>

enum { IMAGES = 8, SIDE = 8, STEPS = 2 };

// With the start of the book, numbers are so small that batch norm divides them by little more than
// rounding errors.
static void start_larger(const Parameters *all) {
    for (int p = 0; p < all->n; p++) {
        Tensor *t = all->list[p]->start;
        float fan_in = (float)numel(t) / (float)t->shape[0];
        for (size_t i = 0; t->ndim > 1 && i < numel(t); i++)
            t->data[i] *= sqrtf(2 / fan_in) / 0.01f;
    }
}

// Parameters and running statistics after some steps on k devices. Small images: the network takes
// any size.
static float *train_resnet_on(int k, int steps, size_t *n) {
    Device *devices[MAX_DEVICES];
    Tensor *losses[MAX_DEVICES];
    for (int i = 0; i < k; i++) devices[i] = try_gpu(i);
    Module *net = resnet18(10, 1);
    initialize(net, 1);
    Parameters all = parameters_of(net);
    start_larger(&all);
    DataParallel dp = data_parallel(net, devices, k, BN_SYNC);
    Tensor *X = tensor_new(host(), IMAGES, 1, SIDE, SIDE), *y = tensor_new(host(), IMAGES);
    for (int i = 0; i < IMAGES; i++) y->data[i] = (float)(3 * i % 10);
    for (size_t i = 0; i < numel(X); i++) X->data[i] = (float)random_uniform(3, STREAM_TEST, i);
    for (int step = 0; step < steps; step++) train_step(&dp, X, y, 0.02f, losses);

    *n = 0;
    for (int p = 0; p < all.n; p++) *n += numel(all.list[p]->start);
    float *trained = malloc(*n * sizeof(float)), *next = trained;
    assert_non_null(trained);
    for (int p = 0; p < all.n; next += numel(all.list[p++]->start))
        tensor_read(parameter_data(all.list[p], devices[k - 1]), next);
    module_free(net);
    tensor_free(X);
    tensor_free(y);
    autograd_close();
    devices_close();
    return trained;
}

static void resnet18_is_that_of_the_cpu(void **state) {
    (void)state;
    size_t n;
    devices_init(BACKEND_CPU, 2);
    float *on_cpu = train_resnet_on(1, STEPS, &n);
    for (int gpus = 1; gpus <= 4; gpus *= 2) {
        cudasim_machine(gpus, (unsigned)gpus, CUDASIM_PEERS);
        devices_init(BACKEND_CUDA, 1);
        float *trained = train_resnet_on(gpus, STEPS, &n);
        assert_int_equal(cudasim_live(), 0);
        for (size_t i = 0; i < n; i++)
            if (!(fabsf(trained[i] - on_cpu[i]) <= 5e-4f)) // the CPU's rounding: winograd.h
                fail_msg("%d GPUs: number %zu is %.8f, on the CPU %.8f", gpus, i,
                         (double)trained[i], (double)on_cpu[i]);
        free(trained);
    }
    free(on_cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(resnet18_is_that_of_the_cpu)};
    return cmocka_run_group_tests_name("resnet18", tests, NULL, NULL);
}
