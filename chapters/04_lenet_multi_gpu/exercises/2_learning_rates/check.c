// check.c: k devices must reach the accuracy, and the parameters, that one device reaches with
// minibatches of k * b; mean and standard deviation must be right.
#include "common/program/exercise.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// Trains k devices with accuracy_after() and one device, from the same start.
static void check_against(Replicas *one, const Dataset *data, DataIter *test_iter, int k, int b,
                          float lr) {
    Replicas many;
    replicas_open_from(&many, k, one->params[0]);
    float *start = replica_values(one, 0);
    train_one_replica(one, data, k * b, lr, 2, 7);
    double expected = evaluate_accuracy_gpu(lenet, one->params[0], test_iter, one->devices[0]);
    double came = accuracy_after(&many, data, 2, b, lr, 7, test_iter);
    float *end = replica_values(one, 0), *many_end = replica_values(&many, k - 1);
    EXPECT(
        fabs(came - expected) <= 0.02,
        "begin each epoch with data_iter_start(iter, epoch); after the last, evaluate on test_iter",
        "accuracy_after(), %d images, k = %d, b = %d, lr %g, 2 epochs: %.3f, expected %.3f, "
        "which one device with minibatches of %d has",
        data->count, k, b, (double)lr, came, expected, k * b);
    double difference = relative_difference(many_end, end, start, replica_numel());
    // Rounding may put a pixel that is nearly zero on the other side of ReLU, and training carries
    // that on: right solutions came to 0.01, those with other minibatches were 0.13 or more away.
    EXPECT(difference <= 5e-2,
           "is a minibatch k*b images, its order shuffled by the seed, another one in each epoch?",
           "accuracy_after(), %d images, k = %d, b = %d, lr %g, 2 epochs: the parameters are %.2g "
           "of their change away from those of one device, expected at most 0.05",
           data->count, k, b, (double)lr, difference);
    free(start);
    free(end);
    free(many_end);
    replicas_close(&many);
}

// With a number of images that leaves a short minibatch at the end.
static void check_accuracy(const Dataset *data, DataIter *test_iter, int k, int b, float lr) {
    Replicas one;
    replicas_open(&one, 1, 1);
    replicas_scale(&one, 10);
    check_against(&one, data, test_iter, k, b, lr);
    replicas_close(&one);
}

// After right labels wrong ones, each too high by one: accuracy falls from epoch to epoch, and what
// is asked for is that after the last.
static void check_falling(Dataset *data, DataIter *test_iter) {
    Replicas one;
    replicas_open(&one, 1, 1);
    replicas_scale(&one, 10);
    train_one_replica(&one, data, 16, 0.05f, 2, 3);
    for (int i = 0; i < data->count; i++)
        data->labels[i] = (uint8_t)((data->labels[i] + 1) % FASHION_MNIST_CLASSES);
    check_against(&one, data, test_iter, 2, 16, 0.02f);
    replicas_close(&one);
}

static void check_mean(const double values[], int n, double expected_mean, double expected_spread) {
    double mean = NAN, spread = NAN;
    mean_and_spread(values, n, &mean, &spread);
    EXPECT(fabs(mean - expected_mean) <= 1e-12, "the mean is the sum, divided by n",
           "mean_and_spread(), %d values, the first %g: the mean is %g, expected %g", n, values[0],
           mean, expected_mean);
    EXPECT(fabs(spread - expected_spread) <= 1e-12,
           "divide the sum of squares by n - 1, then take the root; a single value has no spread",
           "mean_and_spread(), %d values, the first %g: the standard deviation is %g, expected %g",
           n, values[0], spread, expected_spread);
}

void check(const Flags *flags) {
    Dataset *data = fashion_mnist_open(flags->data, true, 300);
    Dataset *test_data = fashion_mnist_open(flags->data, false, 500);
    DataIter *test_iter = data_iter_new(test_data, 128, false, 0);
    check_mean((double[]){0.7, 0.8, 0.9}, 3, 0.8, 0.1);
    check_mean((double[]){0.5}, 1, 0.5, 0);
    check_accuracy(data, test_iter, 1, 16, 0.02f);
    check_accuracy(data, test_iter, 2, 16, 0.02f);
    check_accuracy(data, test_iter, 4, 8, 0.02f);
    check_accuracy(data, test_iter, 2, 16, 0);
    check_falling(data, test_iter); // changes the labels
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
}
