// test_same_bits.c: where k CPU devices train LeNet to the bits of one: exactly what
// chapters/running_it.md and kernels/cpu/cpu.h promise. The default network from the book's start,
// on real images. (GPUs add up in orders of their own; so these are CPU devices, whatever the
// machine has.) And that chapter 6's exercise 3, solved, has the bits and bytes of chapter 4's
// step: where students have the book, there is no solution to look at.
#include "cases.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/tensor/autograd.h"
#include "common/data/fashion_mnist.h"

static Dataset *data;

// An epoch with minibatches of `batch` of `images` images.
typedef struct Run {
    int k, batch, images;
    const char *allreduce;
} Run;

// Where it ends: all parameters of device k-1.
static float *train(Run run, int threads, size_t *num) {
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *X, *y;
    Tensor *losses[MAX_DEVICES];
    Device *devices[MAX_DEVICES];
    Dataset some = *data;
    some.count = run.images;
    devices_close();
    devices_init(BACKEND_CPU, threads);
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

// One device with one core, k devices with three. All that is promised is a size of minibatches: a
// multiple of 16 k, at most 512, the last as well.
TEST(test_as_one_device) {
    static const Run table[] = {
        {2, 32, 96, "all"},           {2, 160, 320 + 64, "all"}, // five groups each
        {2, 256, 512 + 96, "star"},                              // 60000 images leave 96 too
        {2, 480, 480 + 352, "star"},  {2, 512, 512 + 32, "star"},
        {4, 192, 192 + 64, "tree"}, // three groups each, then one
        {4, 448, 448 + 320, "tree"},  {8, 128, 256, "tree"},
        {8, 384, 384 + 128, "tree"},  {16, 256, 512, "tree"},
        {16, 512, 512 + 256, "tree"}, {32, 512, 1024, "tree"}};
    for (const Run *row = table; row < table + COUNT(table); row++) {
        size_t num, same, runs = 0;
        float *one = train((Run){1, row->batch, row->images, "star"}, 1, &num);
        for (int a = 0; a < NUM_ALLREDUCES; a++) {
            Run run = *row;
            run.allreduce = allreduces[a].name;
            if (strcmp(row->allreduce, "all") && strcmp(row->allreduce, run.allreduce)) continue;
            float *many = train(run, 3, &same);
            if (num != same || memcmp(one, many, num * sizeof *one) != 0)
                fail_msg("k = %d, --allreduce %s, %d images in minibatches of %d: not the bits of "
                         "one device",
                         run.k, run.allreduce, run.images, run.batch);
            free(many);
            runs++;
        }
        assert_true(runs > 0);
        free(one);
    }
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

TEST(test_exchange_under_backward) {
    devices_close();
    devices_init(BACKEND_CPU, 3);
    static const int ks[] = {1, 2, 3, 4, 7};
    for (int i = 0; i < 2 * 5; i++) check_overlap(ks[i / 2], i % 2 ? "star" : "ring");
}
#else
TEST(test_exchange_under_backward) { skip("no solution here"); }
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

int main(void) { return run_all("same_bits", open_data, close_all); }
