// main.c: the story of chapter 3. README.md says how to run it and what to read.
#include "common/data/fashion_mnist.h"
#include "common/program/book.h"
#include "common/program/predict.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "behind/checks.h"
#include "behind/minibatch_picture.h"
#include "one_layer.h"
#include "split_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;
enum { ROWS = 96 };
static Tensor *X, *y;     // 96 images and their labels
static Tensor *params[2]; // of a network of one layer

// ## Split the rows
//
// A minibatch is a tensor X with one row for each image, and a vector y with their labels. Each
// device gets a run of consecutive rows of X and the same run of y. This part is its *shard*.
//
// split_batch.c:split_batch
//
// X and y must have the same number of rows. Otherwise some image would be trained with the label
// of another one, and nothing later would notice. So `split_batch()` refuses to split them.
//
// `equal_range()` says which rows device i gets:
//
// common/base/range.h:equal_range
//
// The book tries it on a 4 x 5 matrix and two devices. Our labels are the numbers of the rows.

static void split_a_matrix(void) {
    Device *devices[2];
    Tensor *data = arange(4, 5), *labels = arange(4, 0), *split[2], *split_labels[2];
    open_step(devices, 2);
    split_batch(data, labels, devices, 2, split, split_labels);

    tensor_print("input", data);
    printf("load into %s\n", device_names(devices, 2));
    tensor_print("output", split[0]);
    tensor_print("      ", split[1]);
    check_shards(data, labels, split, split_labels, 2);
    tensor_free(data);
    tensor_free(labels);
}

// Often k does not divide the number of rows. A minibatch of 256 is easy to split, but the last
// one of an epoch has what is left: $60000 = 234 \times 256 + 96$. Then some shards are one row
// longer than others, or even empty:

static void split_unevenly(void) {
    Table t = TABLE(NULL, WHOLE("rows"), WHOLE("devices"), WORDS("shards", 20));
    printf("\nRows on each device\n");
    print_sizes(&t, 256, 2);
    print_sizes(&t, 96, 7);
    print_sizes(&t, 3, 4);
}

// An empty shard does no harm. The sum over no rows is zero, and so is its gradient.
//
// ![96 images on 7 devices. The color of a frame is its device; the last two devices have one image
// less.](plots/03_split_batch.png "96 small images of clothes in six rows, each framed in the color
// of one of seven devices and numbered. The colors follow one another: 14 images each for devices 0
// to 4, 13 each for devices 5 and 6.")

// ## Divide once
//
// The loss of a minibatch is the *mean* over its n rows, so its gradient is a mean, too. But device
// i sees only its own $n_i$ rows. What should it compute, so that k devices together get the same
// gradient as one? Let it compute $g_i$, the gradient of the *sum* of its losses, here for a
// network of one layer:
//
// one_layer.c:gradient_of_sum
//
// Sums add up, however the rows were split. So sum over the devices, then divide once:
//
// $$(g_1 + \dots + g_k) / n$$

static void sum_then_divide(const ShardGradient shards[], int k, int n, float gradient[]) {
    for (int j = 0; j < NUM_GRADS; j++) {
        gradient[j] = 0;
        for (int i = 0; i < k; i++) gradient[j] += shards[i].g[j];
        gradient[j] /= (float)n;
    }
}

// It is tempting to let each device compute a mean, as one device would, and then to average the
// means:
//
// $$(g_1 / n_1 + \dots + g_k / n_k) / k$$

static void average_the_averages(const ShardGradient shards[], int k, float gradient[]) {
    for (int j = 0; j < NUM_GRADS; j++) {
        gradient[j] = 0;
        for (int i = 0; i < k; i++) gradient[j] += shards[i].g[j] / (float)shards[i].rows;
        gradient[j] /= (float)k;
    }
}

// With equal shards, both are the same. With unequal shards, they are not.
//
// **Predict first.** Split 3 rows over 4 devices. What is the average of the averages?
//
// The table has the *error* of both: the largest difference from one device's gradient, relative to
// the largest number in that gradient. 1e-7 is rounding.

static double compare(Table *t, int n, int k) {
    static float expected[NUM_GRADS], summed[NUM_GRADS], averaged[NUM_GRADS];
    ShardGradient *one = gradients_of_shards(X, y, n, 1, params);
    ShardGradient *shards = gradients_of_shards(X, y, n, k, params);
    sum_then_divide(one, 1, n, expected);
    sum_then_divide(shards, k, n, summed);
    average_the_averages(shards, k, averaged);
    free(one);
    free(shards);
    return print_errors(t, n, k, expected, summed, averaged);
}

// 96 rows on 7 devices: in the average of averages, an image in a shard of 14 counts 1/14 · 1/7 =
// 1/98, but an image in a shard of 13 counts 1/91. Each should count 1/96. And a device without
// rows computes 0/0, which is not a number (nan).
//
// So each device sums, and `sgd()` divides, once, by the size of the whole minibatch. If you
// average averages instead, you may not notice for a long time: minibatches of 256 on 2, 4 or 8
// devices have equal shards, and a slightly wrong gradient still trains.
//
// PyTorch's DDP does average averages. It may: its sampler pads the data until all shards are equal
// (chapter 6).

// ## Summary
//
// - Each device gets a run of consecutive rows of X, and the same rows of y.
// - Shards may be unequal, or empty. So let devices *sum* their gradients, and divide *once*, by
//   the number of rows of the whole minibatch.
//
// ## Questions
//
// 1. A minibatch of 256 over 3 devices has shards of 86, 85 and 85 rows. If a device's time is
//    proportional to its rows, how much faster than one device are 3? And 100?
// 2. Suppose each device must average over its own rows. How do you combine the averages correctly?
//    And what about a device without rows?
// 3. Someone's average of averages passes all tests: 60000 images in minibatches of 256, on 2, 4
//    and 8 devices. Change one of these numbers so that a test catches it.
// 4. Row r could go to device r mod k instead. Would training change? Would `split_batch()` become
//    slower?

// ## The program

static void compare_gradients(void) {
    Table t = TABLE(NULL, WHOLE("n"), WHOLE("over k"), WORDS("sum / n", 9),
                    WORDS("average of averages", 19));
    Prediction usable =
        predict_yes_no("3 rows are split over 4 devices. Each device takes the mean gradient of "
                       "its own rows, then the mean of the 4 devices is taken. Is the result a "
                       "gradient to train with?");
    compare(&t, ROWS, flags.devices);
    compare(&t, ROWS, 4);
    double error = compare(&t, 3, 4);
    predict_compare_yes_no(usable, !isnan(error));
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 7;
    defaults.next = "make run-04";
    flags = book_begin(argc, argv, "Splits minibatches over devices: rows in order, none lost.",
                       "devices seed no-shuffle data", defaults);
    book_needs_devices(flags.devices > 7 ? flags.devices : 7);
    if (flags.backend == BACKEND_MODEL) predict_enable(false); // there will be no values
    const char *picture = book_output(".png");
    book_check_outputs();
    Dataset *data = fashion_mnist_open(flags.data, true, ROWS);
    DataIter *iter = data_iter_new(data, ROWS, flags.shuffle, flags.seed);
    data_iter_first(iter, &X, &y);
    one_layer_new(params, flags.seed);

    split_a_matrix();
    split_unevenly();
    draw_minibatch(picture, X, y, flags.devices);
    compare_gradients();

    free_params(params, 2);
    data_iter_free(iter);
    dataset_free(data);
    return book_end();
}
