// test_range.c: the one rule by which things are divided. What chapters 1, 2 and 3 divide, layers,
// vectors and minibatches, is included here side by side: they mean the same by a range.
#include "test.h"

#include "chapters/01_splitting_strategies/spread.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"

static void ranges_are_in_order_and_cover(void **state) {
    (void)state;
    for (int k = 1; k <= MAX_COMPUTING; k++)
        for (long n = 0; n <= 200; n++) {
            long next = 0, all = n < 200 ? n : (1L << 40) + 7; // more than an int holds
            for (int i = 0; i < k; i++) {
                Range range = equal_range(all, k, i);
                assert_int_equal(range.first, next);
                assert_int_equal(range.count, all / k + (i < all % k));
                next += range.count;
            }
            assert_int_equal(next, all);
        }
}

// Seven rows, channels or numbers over three devices: 3, 2, 2 for each chapter.
static void all_chapters_divide_alike(void **state) {
    (void)state;
    Device *devices[3];
    Tensor *X = tensor_new(host(), 7, 2), *y = tensor_new(host(), 7), *X_shards[3], *y_shards[3];
    tensor_fill(X, 1);
    tensor_fill(y, 1);
    open_devices(devices, 3);
    for (int i = 0; i < 3; i++) begin_step(devices[i]);
    split_batch(X, y, devices, 3, X_shards, y_shards);

    for (int i = 0; i < 3; i++) {
        Range range = equal_range(7, 3, i);
        Tensor *part = param_part(X, (Range){0, 1}, devices[i]); // chapter 1: a column of (7,2)
        assert_int_equal(part->shape[0], 7);
        assert_int_equal(part->shape[1], 1);
        assert_ptr_equal(part_data(y, range), y->data + range.first); // chapter 2
        assert_int_equal(X_shards[i]->shape[0], range.count);         // chapter 3
        assert_int_equal(y_shards[i]->shape[0], range.count);
        tensor_free(part);
    }
    synchronize_all();
    tensor_free(X);
    tensor_free(y);
    devices_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_in_order_and_cover),
        cmocka_unit_test(all_chapters_divide_alike),
    };
    return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
