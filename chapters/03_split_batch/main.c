// # Multiple GPUs: distributing data
//
// Book: "Training on Multiple GPUs" (multiple-gpus), section "Distributing Data".
// Difficulty: ★☆☆☆
//
// What you will learn
//   - how a minibatch is split over k devices: rows in order, each row on exactly one device, also
//     when k does not divide their number;
//   - what is refused, and why it should be;
//   - why gradients of unequal shards are summed and divided once, by the full minibatch, and why
//     an average of averages is a different number.
//
// How to run
//   make run-03                         the book's demonstration, then ours
//   build/03_split_batch --devices 4    the picture and the gradients on 4 devices instead of 7
//   build/03_split_batch --help         all flags
//
// What you will see: the book's 4 x 5 matrix on two devices, tables of shards and of gradients, and
// in plots/03_split_batch.png a minibatch of Fashion-MNIST, each image framed in the color of the
// device that it was sent to. Each demonstration checks itself; the program ends with an error if
// one is wrong.
//
// Read in this order: split_batch.c (30 lines), then this file from top to bottom.
#include "common/base/child.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/data/fashion_mnist.h"
#include "common/program/book.h"
#include "common/program/say.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "minibatch_picture.h"
#include "shards.h"
#include "split_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## Two devices, a matrix
//
// split_batch() splits a matrix with one row per observation, and with it the labels, one per row.
// The book first splits a matrix alone; here each row's number serves as its label.

// 0, 1, 2, ... in the given shape, on the host: the book's arange(n).reshape(rows, cols). With
// cols 0 it is a vector.
static Tensor *arange(int rows, int cols) {
    Tensor *t = cols ? tensor_new(host(), rows, cols) : tensor_new(host(), rows);
    for (size_t i = 0; i < numel(t); i++) t->data[i] = (float)i;
    return t;
}

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
// n = q k + r rows: each device gets q, and the first r devices one more. (PyTorch's scatter rounds
// up instead: 8 rows over 5 devices are 2, 2, 2, 2 there, and the fifth device has nothing to do.)
// With fewer rows than devices the last ones get none. That is no error: the sum over no rows is
// zero, and so is its gradient.

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
    print_sizes(2, 4);
    printf("\n");
}

// ## What is refused
//
// X with 4 rows and y with 3: some image would be trained with the label of another one, or with
// none. Nothing later would notice, so split_batch() does. As that ends the program, a child
// process tries it.

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
    printf("split_batch() of 4 images with 3 labels, tried in a child process:\n");
    int status = try_in_child(split_a_mismatch, &m);
    CHECK(status == EXIT_FAILURE, "split_batch() refuses X and y with different rows");
    printf("It ended with status %d, as it should.\n\n", status);
    tensor_free(m.X);
    tensor_free(m.y);
}

// ## A minibatch of images
//
// The same with what it is for: 96 images. What is drawn (minibatch_picture.c) was read back from
// the devices.

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
// The loss of a minibatch is the mean over its n rows: (l_1 + ... + l_n) / n. Device i computes the
// sum over its n_i rows, and g_i, the gradient of that sum. Sums add up, whatever the n_i are, so
//     (g_1 + ... + g_k) / n
// is the gradient that one device would have. It is tempting to let each device take the mean of
// its shard, and then to average the devices:
//     (g_1 / n_1 + ... + g_k / n_k) / k
// That is the same only if all shards are equal. Else an image counts 1 / (k n_i): more if it
// happens to be in a smaller shard. And a shard without rows makes it 0 / 0.
//
// A network small enough to look at shows it: one layer, from 784 pixels to 10 classes.

enum { PIXELS = 28 * 28, CLASSES = FASHION_MNIST_CLASSES, NUM_GRADS = (PIXELS + 1) * CLASSES };

static double *doubles(void) { return xmalloc(sizeof(double) * NUM_GRADS); }

// g[] = the gradient of the summed loss of these rows, computed on their device.
static void gradient_of(Tensor *X, Tensor *y, Tensor *const params[2], double g[]) {
    Tensor *here[2];
    float *values = xmalloc(sizeof(float) * NUM_GRADS);
    get_params(params, 2, X->device, here);
    Tensor *scores = add_bias(mm(reshape(X, X->shape[0], PIXELS), here[0]), here[1]);
    backward(sum(cross_entropy(scores, y)));
    tensor_read(here[0]->grad, values);
    tensor_read(here[1]->grad, values + PIXELS * CLASSES);
    for (int j = 0; j < NUM_GRADS; j++) g[j] = (double)values[j];
    free_params(here, 2);
    free(values);
}

// The gradient of the first n rows over k devices: as sum over n, and as average of averages.
static void two_gradients(const Tensor *X, const Tensor *y, int n, int k, Tensor *const params[2],
                          double sum_over_n[], double average_of_averages[]) {
    Tensor first_X = *X, first_y = *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    Device *devices[MAX_DEVICES];
    first_X.shape[0] = first_y.shape[0] = n;
    open_step(devices, k);
    split_batch(&first_X, &first_y, devices, k, X_shards, y_shards);
    for (int j = 0; j < NUM_GRADS; j++) sum_over_n[j] = average_of_averages[j] = 0;
    for (int i = 0; i < k; i++) {
        double *g = doubles(), rows = X_shards[i]->shape[0];
        gradient_of(X_shards[i], y_shards[i], params, g);
        for (int j = 0; j < NUM_GRADS; j++) {
            sum_over_n[j] += g[j] / n;
            average_of_averages[j] += g[j] / rows / k; // 0 / 0 for a shard without rows
        }
        free(g);
    }
}

// The largest difference, as a part of the largest element; NAN if there is a NAN.
static double difference(const double a[], const double b[]) {
    double largest = 0, size = 0;
    for (int j = 0; j < NUM_GRADS; j++) {
        if (isnan(a[j]) || isnan(b[j])) return NAN;
        largest = fmax(largest, fabs(a[j] - b[j]));
        size = fmax(size, fabs(a[j]));
    }
    return largest / size;
}

// A line of the table. `equal`: whether the average of averages is expected to be right.
static void compare_gradients(const Tensor *X, const Tensor *y, int n, int k,
                              Tensor *const params[2], bool equal) {
    double *one = doubles(), *unused = doubles(), *whole = doubles(), *averages = doubles();
    two_gradients(X, y, n, 1, params, one, unused);
    two_gradients(X, y, n, k, params, whole, averages);
    double error = difference(one, whole), error_of_averages = difference(one, averages);
    // db[0] is the mean of (probability of class 0) - (1 if it is class 0).
    int b0 = PIXELS * CLASSES;
    printf("  %3d over %2d  %12.8f  %12.8f %9.1e", n, k, one[b0], whole[b0], error);
    if (isnan(averages[b0]))
        printf("  %12s %9s\n", "nan", "nan");
    else
        printf("  %12.8f %9.1e\n", averages[b0], error_of_averages);
    CHECK(error <= 1e-5, "the sum over the shards, divided by n, is the gradient");
    if (equal)
        CHECK(error_of_averages <= 1e-5, "with equal shards both are the same");
    else
        CHECK(!(error_of_averages <= 1e-4), "with unequal shards an average of averages is wrong");
    free(one);
    free(unused);
    free(whole);
    free(averages);
}

static void divide_once(const Tensor *X, const Tensor *y, int k) {
    Tensor *params[2] = {tensor_new(host(), PIXELS, CLASSES), tensor_new(host(), CLASSES)};
    fill_normal(params[0]->data, numel(params[0]), 0.1, flags.seed, STREAM_PARAMS);
    tensor_fill(params[1], 0);

    say("The gradient of one layer for n images over k devices: that of b[0], and the largest "
        "error among all %d, as a part of the largest of them",
        NUM_GRADS);
    printf("               one device    (g_1+...+g_k) / n         average of averages\n"
           "   n over  k         b[0]          b[0]     error          b[0]     error\n");
    compare_gradients(X, y, ROWS, k, params, ROWS % k == 0);
    compare_gradients(X, y, ROWS, 4, params, true);
    compare_gradients(X, y, 5, 4, params, false);
    compare_gradients(X, y, 3, 4, params, false);
    long large = equal_range(ROWS, k, 0).count, small = equal_range(ROWS, k, k - 1).count;
    if (large != small)
        say("In the average of averages, an image in a shard of %ld counts 1/%ld and one in a "
            "shard of %ld 1/%ld; each should count 1/%d. Equal shards hide the mistake, and a "
            "shard without rows makes it 0/0.",
            large, k * large, small, k * small, ROWS);
    say("So devices sum, and sgd() divides once, by the full size of the minibatch.");
    free_params(params, 2);
}

// ## The program

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 7;
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
        say("Gradients are values, so what comes of dividing them is not shown.");
    else
        divide_once(X, y, flags.devices);

    data_iter_free(iter);
    dataset_free(data);
    return book_end();
}

// ## Summary
//
// - split_batch() gives each device a run of rows of X and the same run of y. Rows stay in order,
//   each is on exactly one device, and shards differ by one row at most.
// - Images without labels, or labels without images, are refused: nothing later would notice.
// - Shards may be unequal, or empty. Sums of gradients add up all the same; averages do not.
//
// ## Exercises
//
// 1. Row r could go to device r mod k instead. Would training change? Would split_batch() be
//    slower? (The sums are the same but for rounding; but a shard would no longer be one run of
//    bytes, so it takes one copy per row instead of one per device.)
// 2. A minibatch of 256 over 3 devices has shards of 86, 85 and 85 rows. How much faster than one
//    device can k devices be at most, for k = 1 to 16? (The largest shard is the last to be done:
//    256 / ceil(256 / k).)
// 3. Let each device divide by its n_i, and repair the average over the devices. (Device i counts
//    n_i / n instead of 1 / k; a device without rows must be left out.)
