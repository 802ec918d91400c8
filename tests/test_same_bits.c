// test_same_bits.c: where k CPU devices train LeNet to the bits of one: exactly what
// chapters/running_it.md and kernels/cpu/cpu.h promise. The default network from the book's start,
// on real images. (GPUs add up in orders of their own; so these are CPU devices, whatever the
// machine has.)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/tensor/autograd.h"
#include "common/data/fashion_mnist.h"

#include <stdlib.h>
#include <string.h>

static Dataset *data;

// Where an epoch with minibatches of `batch` of `images` images ends: all parameters of device k-1.
typedef struct Run {
    int k, threads, batch, images;
    const char *allreduce;
} Run;

static float *train(Run run, size_t *num) {
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *X, *y;
    Tensor *losses[MAX_DEVICES];
    Device *devices[MAX_DEVICES];
    Dataset some = *data;
    some.count = run.images;
    devices_close();
    devices_init(BACKEND_CPU, run.threads);
    choose_allreduce(run.allreduce);
    for (int i = 0; i < run.k; i++) devices[i] = cpu_device(i);
    share_cores(devices, run.k);
    lenet_init(params, 0);
    for (int i = 0; i < run.k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    DataIter *iter = data_iter_new(&some, run.batch, true, 0);
    for (data_iter_start(iter, 0); data_iter_next(iter, &X, &y);) {
        train_batch(X, y, device_params, devices, run.k, 0.2f, losses);
        synchronize_all();
    }
    float *all = values_of_all(device_params[run.k - 1], LENET_PARAMS, num);
    for (int i = 0; i < run.k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    data_iter_free(iter);
    return all;
}

// One device with one core, k devices with three.
static void check_same_bits(int k, const char *allreduce, int batch, int images) {
    size_t num, same;
    float *one = train((Run){1, 1, batch, images, allreduce}, &num);
    float *many = train((Run){k, 3, batch, images, allreduce}, &same);
    assert_int_equal(num, same);
    size_t differ = 0;
    for (size_t i = 0; i < num; i++) differ += memcmp(&one[i], &many[i], sizeof one[i]) != 0;
    if (differ > 0)
        fail_msg("k = %d, --allreduce %s, minibatches of %d, the last of %d: %zu of %zu parameters "
                 "differ from those of one device",
                 k, allreduce, batch, images % batch ? images % batch : batch, differ, num);
    free(one);
    free(many);
}

// All that is promised is a size of minibatches: a multiple of 16 k, at most 512, the last as well.
static void two_devices(void **state) {
    (void)state;
    for (int i = 0; i < NUM_ALLREDUCES; i++) {
        check_same_bits(2, allreduces[i].name, 32, 96);
        check_same_bits(2, allreduces[i].name, 160, 320 + 64); // five groups each
    }
    check_same_bits(2, "star", 256, 512 + 96); // 60000 images leave 96 too
    check_same_bits(2, "star", 480, 480 + 352);
    check_same_bits(2, "star", 512, 512 + 32);
}

static void powers_of_two_with_the_tree(void **state) {
    (void)state;
    check_same_bits(4, "tree", 192, 192 + 64); // three groups each, then one
    check_same_bits(4, "tree", 448, 448 + 320);
    check_same_bits(8, "tree", 128, 256);
    check_same_bits(8, "tree", 384, 384 + 128);
    check_same_bits(16, "tree", 256, 512);
    check_same_bits(16, "tree", 512, 512 + 256);
    check_same_bits(32, "tree", 512, 1024);
}

static int open_data(void **state) {
    (void)state;
    data = fashion_mnist_open(NULL, true, 1024);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    dataset_free(data);
    devices_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_devices),
        cmocka_unit_test(powers_of_two_with_the_tree),
    };
    return cmocka_run_group_tests_name("same_bits", tests, open_data, close_all);
}
