// test_cuda_resnet18.c: ResNet-18 on 1 and 3 simulated GPUs against a CPU device. (One step on a
// simulated GPU against PyTorch is in tests/test_resnet18.c.)
#include "tests/test.h"

#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/tensor/random.h"
#include "cudasim.h"

enum { IMAGES = 8, SIDE = 8 };

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
    open_devices(devices, k);
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
    devices_close();
    return trained;
}

static void assert_close(const float *got, const float *expected, size_t n, float tolerance,
                         const char *who) {
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - expected[i]) <= tolerance))
            fail_msg("number %zu is %.8f, %s %.8f", i, (double)got[i], who, (double)expected[i]);
}

static float *train_on_cpu(int steps, size_t *n) {
    devices_init(BACKEND_CPU, 2);
    return train_resnet_on(1, steps, n);
}

static float *train_on_gpus(int gpus, int steps, size_t *n) {
    cudasim_machine(gpus, (unsigned)gpus, CUDASIM_PEERS);
    devices_init(BACKEND_CUDA, 1);
    float *trained = train_resnet_on(gpus, steps, n);
    assert_int_equal(cudasim_live(), 0);
    return trained;
}

// One step. On the CPU as a whole: its convolutions are Winograd's, and what they round
// differently, ReLU and batch norm of so few pixels make larger for some parameters.
static void resnet18_is_that_of_the_cpu_and_of_more_gpus(void **state) {
    (void)state;
    size_t n;
    float *start = train_on_cpu(0, &n), *on_cpu = train_on_cpu(1, &n);
    float *on_gpu = train_on_gpus(1, 1, &n);
    double distance = relative_difference(on_gpu, on_cpu, start, n);
    printf("one step on a GPU and on the CPU: %.1e apart\n", distance);
    assert_true(distance <= 5e-3);
    float *on_three = train_on_gpus(3, 1, &n);
    assert_close(on_three, on_gpu, n, 3e-5f, "on one GPU");
    free(start);
    free(on_cpu);
    free(on_gpu);
    free(on_three);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet18_is_that_of_the_cpu_and_of_more_gpus),
    };
    return cmocka_run_group_tests_name("resnet18", tests, NULL, NULL);
}
