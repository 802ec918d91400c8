// main.c: the story of chapter 3. README.md says how to run it and what to read.
#include "common/base/child.h"
#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/program/book.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "gradient_table.h"
#include "minibatch_picture.h"
#include "one_layer.h"
#include "shards.h"
#include "split_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## Two devices, a matrix
//
// To train on several devices, each minibatch has to be spread evenly over them: on two devices,
// each gets half of the rows. The part of a device is called its *shard*. The book tries it on a
// 4 x 5 matrix, where a row stands for one observation.
//
// `split_batch()` splits a matrix X and its labels y, one per row, in the same way.
//
// split_batch.c:split_batch
//
// Here the numbers of the rows serve as labels.

static void split_a_matrix(void) {
    Device *devices[2];
    Tensor *data = arange(4, 5), *numbers = arange(4, 0), *split[2], *split_numbers[2];
    open_step(devices, 2);
    split_batch(data, numbers, devices, 2, split, split_numbers);

    tensor_print("input", data);
    printf("load into %s\n", device_names(devices, 2));
    if (has_values(devices[0])) {
        tensor_print("output", split[0]);
        tensor_print("      ", split[1]);
    } else {
        say("They have no values (--backend model), so there is no output to print; shapes and "
            "numbers of rows are what they would be.");
    }
    check_shards(data, split, 2);
    check_shards(numbers, split_numbers, 2);
    printf("Device 0 has the first two rows, device 1 the others.\n\n");
    tensor_free(data);
    tensor_free(numbers);
}

// ## When k does not divide the number of rows
//
// Write $n = q k + r$, where r is what is left over. Each device gets q rows, and the first r
// devices get one more. (PyTorch's `scatter` rounds up instead: 8 rows over 5 devices are 2, 2, 2,
// 2 there, and the fifth device has nothing to do.)
//
// With fewer rows than devices the last devices get none. That is no error: the sum over no rows is
// zero, and so is its gradient. Such a device still costs something: it holds the parameters, its
// kernels are launched, and it takes part in each exchange.

static void print_sizes(int n, int k) {
    Tensor *X = arange(n, 3), *y = arange(n, 0), *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    Device *devices[MAX_DEVICES];
    open_step(devices, k);
    split_batch(X, y, devices, k, X_shards, y_shards);

    printf("  %3d rows, %d devices: ", n, k);
    for (int i = 0; i < k; i++) {
        bool extra = i < n % k;
        CHECK(X_shards[i]->shape[0] == n / k + extra, "the first shards have the extra rows");
        printf("%s%d", i ? ", " : "", X_shards[i]->shape[0]);
    }
    int rows = check_shards(X, X_shards, k);
    int labels = check_shards(y, y_shards, k);
    CHECK(labels == rows, "X and y are split alike");
    printf("  (sum %d)\n", rows);
    tensor_free(X);
    tensor_free(y);
}

static void split_unevenly(void) {
    printf("Rows on each device; checked: in order, none twice, none missing\n");
    print_sizes(256, 2);
    print_sizes(256, 4);
    print_sizes(96, 7);
    print_sizes(8, 5);
    print_sizes(3, 4);
    printf("\n");
}

// ## What is refused
//
// Let X have 4 rows and y 3. Some image would be trained with the label of another one, or with
// none, and nothing later would notice. So `split_batch()` has to; in the book it has an `assert`
// for this. Ours ends the program, which is why a *child process*, a copy of the program, tries it.

typedef struct Mismatch {
    Tensor *X, *y;
    Device *devices[2];
} Mismatch;

static void split_a_mismatch(void *with) {
    Mismatch *m = with;
    Tensor *X_shards[2], *y_shards[2];
    split_batch(m->X, m->y, m->devices, 2, X_shards, y_shards);
}

static void refuse_a_mismatch(void) {
    Mismatch m = {.X = arange(4, 5), .y = arange(3, 0)};
    open_step(m.devices, 2);
    printf("A child process calls split_batch() with 4 images and 3 labels.\n");
    int status = try_in_child(split_a_mismatch, &m);
    CHECK(status == EXIT_FAILURE, "split_batch() refuses X and y with different rows");
    printf("It ended with status %d, as it should: an error now, no wrong training later.\n\n",
           status);
    tensor_free(m.X);
    tensor_free(m.y);
}

// ## A minibatch of images
//
// Now what it is for. A minibatch has 256 of the 60000 training images, and the last one of an
// epoch has what is left: $60000 = 234 \times 256 + 96$.
//
// ![A minibatch of 96 images, as it was read back from 7 devices. The color of a frame says on
// which device an image is; the last two devices have one image less.](plots/03_split_batch.png "96
// small images of clothes in six rows, each framed in the color of one of seven devices and
// numbered in the order of the minibatch. The colors come one after the other: 14 images each for
// devices 0 to 4, 13 each for devices 5 and 6.")

enum { ROWS = 96 };

static void split_a_minibatch(const Tensor *X, const Tensor *y, int k) {
    Device *devices[MAX_DEVICES];
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    open_step(devices, k);
    split_batch(X, y, devices, k, X_shards, y_shards);
    check_shards(X, X_shards, k);
    check_shards(y, y_shards, k);

    if (!has_values(devices[0])) return; // nothing to draw
    const char *path = book_output(".png");
    draw_minibatch(path, X_shards, k);
    printf("A minibatch of %d images over %d device%s: %s\n\n", ROWS, k, k > 1 ? "s" : "", path);
}

// ## One division, by the full minibatch
//
// The loss of a minibatch is the mean over its n rows, so the gradient is a mean, too. How do k
// devices with $n_1$ to $n_k$ rows compute it? Device i computes $g_i$, the gradient of the *sum*
// of the losses of its rows. Sums add up, whatever the $n_i$ are, so
//
// $$(g_1 + \dots + g_k) / n$$
//
// is the gradient that one device would have. It is tempting to let each device take the mean of
// its own shard, and then to take the mean of the devices:
//
// $$(g_1 / n_1 + \dots + g_k / n_k) / k$$
//
// That is the same number if all shards are equal. If they are not, it is another one.
//
// A small network shows it: one layer, from the 784 pixels of an image to 10 classes. It has 7850
// parameters. For one of them, the bias b[0], the table has the gradient itself. The *error* is the
// largest difference from one device among all 7850 numbers, as a part of the largest number of the
// gradient. An error of 1e-7 is rounding, as floats have about 7 digits.

static void combine(const ShardGradient shards[], int n, int k, double sum_over_n[],
                    double average_of_averages[]) {
    for (int j = 0; j < NUM_GRADS; j++) {
        sum_over_n[j] = average_of_averages[j] = 0;
        for (int i = 0; i < k; i++) {
            sum_over_n[j] += shards[i].g[j] / n;
            average_of_averages[j] += shards[i].g[j] / shards[i].rows / k;
        }
    }
}

static double compare_gradients(const Tensor *X, const Tensor *y, int n, int k,
                                Tensor *const params[2], bool equal) {
    // A row of the table, for the first n images over k devices. Returns the error of its average
    // of averages.
    static double one[NUM_GRADS], unused[NUM_GRADS], whole[NUM_GRADS], averages[NUM_GRADS];
    ShardGradient *on_one = gradients_of_shards(X, y, n, 1, params);
    ShardGradient *on_k = gradients_of_shards(X, y, n, k, params);
    combine(on_one, n, 1, one, unused);
    combine(on_k, n, k, whole, averages);
    free(on_one);
    free(on_k);
    return print_gradient_row(n, k, one, whole, averages, equal);
}

static void divide_once(const Tensor *X, const Tensor *y, int k) {
    Tensor *params[2];
    one_layer_new(params, flags.seed);
    Prediction usable =
        predict_yes_no("3 rows are split over 4 devices. Each device takes the mean gradient of "
                       "its own rows, then the mean of the 4 devices is taken. Is the result a "
                       "gradient to train with?");
    print_gradient_head();
    compare_gradients(X, y, ROWS, k, params, ROWS % k == 0);
    compare_gradients(X, y, ROWS, 4, params, true);
    compare_gradients(X, y, 5, 4, params, false);
    double error = compare_gradients(X, y, 3, 4, params, false);
    predict_compare_yes_no(usable, !isnan(error));
    book_result("sums of gradients, divided once, are those of one device; averages are not");
    explain_averages(ROWS, k);
    free_params(params, 2);
}

// Without values the devices do the same work (for `--timeline`), and there is nothing to compare.
static void divide_without_values(const Tensor *X, const Tensor *y, int k) {
    Tensor *params[2];
    one_layer_new(params, flags.seed);
    free(gradients_of_shards(X, y, ROWS, k, params));
    say("Gradients are values, so what comes of dividing them is not shown.");
    free_params(params, 2);
}

// ## Summary
//
// - `split_batch()` gives each device a run of rows of X and the same run of y. Rows stay in order,
//   each is on exactly one device, and shards differ by one row at most.
// - Images without labels, or labels without images, are refused: nothing later would notice.
// - Shards may be unequal, or empty. Sums of gradients add up all the same; averages do not.
//
// ## Questions
//
// 1. Row r could go to device r mod k instead. Would training change? Would `split_batch()` become
//    slower?
// 2. A minibatch of 256 over 3 devices has shards of 86, 85 and 85 rows. If the time of a device
//    grows with its rows and nothing else counts, how many times as fast as one device can 3
//    devices be? And 16? And 100?
// 3. Let each device divide by its own $n_i$. How must the results of the devices be added up to
//    give the right gradient? What about a device without rows?
// 4. Someone takes the average of averages, tries it on 1, 2, 4 and 8 devices with minibatches of
//    256 images, and all is well. On which of 2 to 8 devices does the mistake show in these
//    minibatches, and on which in the last one of the epoch, of 96 images?

// ## The program

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 7;
    defaults.next = "make run-04";
    flags = book_begin(argc, argv, "Splits minibatches over devices: rows in order, none lost.",
                       "devices seed no-shuffle data", defaults);
    book_needs_devices(flags.devices > 7 ? flags.devices : 7);
    book_output(".png");
    book_check_outputs();
    split_a_matrix();
    split_unevenly();
    refuse_a_mismatch();

    Dataset *data = fashion_mnist_open(flags.data, true, ROWS);
    DataIter *iter = data_iter_new(data, ROWS, flags.shuffle, flags.seed);
    Tensor *X, *y;
    data_iter_first(iter, &X, &y);
    split_a_minibatch(X, y, flags.devices);
    if (flags.backend == BACKEND_MODEL)
        divide_without_values(X, y, flags.devices);
    else
        divide_once(X, y, flags.devices);

    data_iter_free(iter);
    dataset_free(data);
    return book_end();
}
