// test_same_bits.c: where k CPU devices train LeNet to the bits of one: exactly what
// chapters/running_it.md and kernels/cpu/cpu.h promise. The default network from the book's start,
// on real images. (GPUs add up in orders of their own; so these are CPU devices, whatever the
// machine has.) And that chapter 6's exercise 3, solved, has the bits and bytes of chapter 4's
// step: where students have the book, there is no solution to look at.
#include "test.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/tensor/autograd.h"
#include "common/data/fashion_mnist.h"

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

#if __has_include("chapters/06_data_parallel_and_ddp/exercises/3_overlap_in_lenet/solution.c")
#include "chapters/06_data_parallel_and_ddp/exercises/3_overlap_in_lenet/overlap.c"
#include "chapters/06_data_parallel_and_ddp/exercises/3_overlap_in_lenet/solution.c"

static void check_overlap(int k, const char *allreduce) {
    Device *devices[MAX_DEVICES];
    Tensor *X, *y, *losses[MAX_DEVICES];
    size_t n;
    choose_allreduce(allreduce);
    open_devices(devices, k);
    Overlap *book = overlap_open(devices, k, 1), *exercise = overlap_open(devices, k, 1);
    DataIter *iter = data_iter_new(data, 56, true, 7);
    data_iter_start(iter, 0);
    for (int step = 0; step < 3 && data_iter_next(iter, &X, &y); step++) {
        ledger_reset();
        train_batch(X, y, book->params, devices, k, 0.2f, losses);
        synchronize_all();
        uint64_t bytes = ledger_bytes_between_devices();
        overlap_step(exercise, X, y, 0.2f, losses);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), 2 * bytes);
        for (int i = 0; i < k; i++) {
            float *expected = values_of_all(book->params[i], LENET_PARAMS, &n);
            float *came = values_of_all(exercise->params[i], LENET_PARAMS, &n);
            assert_memory_equal(came, expected, n * sizeof *came);
            free(expected);
            free(came);
        }
    }
    data_iter_free(iter);
    overlap_close(book);
    overlap_close(exercise);
}

static void exchange_under_backward(void **state) {
    const int ks[] = {1, 2, 3, 4, 7};
    (void)state;
    devices_close();
    devices_init(BACKEND_CPU, 3);
    for (int j = 0; j < 5; j++) {
        check_overlap(ks[j], "star");
        check_overlap(ks[j], "ring");
    }
}
#else
static void exchange_under_backward(void **state) {
    (void)state;
    skip();
}
#endif

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
        cmocka_unit_test(exchange_under_backward),
    };
    return cmocka_run_group_tests_name("same_bits", tests, open_data, close_all);
}
