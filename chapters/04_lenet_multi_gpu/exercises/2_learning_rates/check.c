// check.c: k devices must reach the accuracy, and the parameters, that one device reaches with
// minibatches of k * b; mean and standard deviation must be right.
#include "common/program/exercise.h"
#include "chapters/04_lenet_multi_gpu/exercises/suspects.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// Rounding may put a pixel that is nearly zero on the other side of ReLU, and training carries that
// on: right solutions came to 0.01, those with other minibatches were 0.13 or more away.
static void check_parameters(const Training *t, const Replicas *many, const Replicas *one) {
    float *start = replica_values(t->start, 0), *expected = replica_values(one, 0);
    float *came = replica_values(many, many->k - 1);
    double difference = relative_difference(came, expected, start, replica_numel());
    EXPECT(difference <= 5e-2, suspect_of(t, came),
           "accuracy_after(), %d images, k = %d, b = %d, lr %g, %d epochs: the parameters differ "
           "from those of one device with minibatches of %d, by %.2g of what training changed, "
           "expected at most 0.05",
           t->data->count, t->k, t->b, (double)t->lr, t->epochs, t->k * t->b, difference);
    free(start);
    free(expected);
    free(came);
}

// Trains k devices with accuracy_after() and one device, from the same start.
static void check_against(const Training *t, DataIter *test_iter) {
    Replicas one, many;
    replicas_open_from(&one, 1, t->start->params[0]);
    replicas_open_from(&many, t->k, t->start->params[0]);
    train_one_replica(&one, t->data, t->k * t->b, t->lr, t->epochs, t->seed);
    double expected = evaluate_accuracy_gpu(lenet, one.params[0], test_iter, one.devices[0]);
    double came = accuracy_after(&many, t->data, t->epochs, t->b, t->lr, t->seed, test_iter);
    check_parameters(t, &many, &one);
    EXPECT(fabs(came - expected) <= 0.02,
           "the parameters are right, so it is the evaluation: evaluate_accuracy_gpu() with lenet "
           "and the parameters of device 0, on test_iter, after the last epoch",
           "accuracy_after(), %d images, k = %d, b = %d, lr %g, %d epochs: %.3f, expected %.3f, "
           "the accuracy of one device with minibatches of %d",
           t->data->count, t->k, t->b, (double)t->lr, t->epochs, came, expected, t->k * t->b);
    replicas_close(&one);
    replicas_close(&many);
}

// With a number of images that leaves a short minibatch at the end.
static void check_accuracy(const Dataset *data, DataIter *test_iter, int k, int b, float lr) {
    Replicas start;
    replicas_open(&start, 1, 1);
    replicas_scale(&start, 10);
    Training t = {.start = &start, .data = data, .k = k, .b = b, .epochs = 2, .lr = lr, .seed = 7};
    check_against(&t, test_iter);
    replicas_close(&start);
}

// After right labels wrong ones, each too high by one: accuracy falls from epoch to epoch, and what
// is asked for is that after the last.
static void check_falling(Dataset *data, DataIter *test_iter) {
    Replicas start;
    replicas_open(&start, 1, 1);
    replicas_scale(&start, 10);
    train_one_replica(&start, data, 16, 0.05f, 2, 3);
    for (int i = 0; i < data->count; i++)
        data->labels[i] = (uint8_t)((data->labels[i] + 1) % FASHION_MNIST_CLASSES);
    Training t = {
        .start = &start, .data = data, .k = 2, .b = 16, .epochs = 2, .lr = 0.02f, .seed = 7};
    check_against(&t, test_iter);
    replicas_close(&start);
}

// `text` is the values, for messages.
static void check_mean(const char *text, const double values[], int n, double expected_mean,
                       double expected_spread) {
    double mean = NAN, spread = NAN;
    mean_and_spread(values, n, &mean, &spread);
    EXPECT(fabs(mean - expected_mean) <= 1e-12, "the mean is the sum, divided by n",
           "mean_and_spread(), %s: the mean is %g, expected %g", text, mean, expected_mean);
    EXPECT(fabs(spread - expected_spread) <= 1e-12,
           "the root of the sum of squares (of the distances from the mean) divided by n - 1; of a "
           "single value 0",
           "mean_and_spread(), %s: the standard deviation is %g, expected %g", text, spread,
           expected_spread);
}

static void check(const Flags *flags) {
    Dataset *data = fashion_mnist_open(flags->data, true, 300);
    Dataset *test_data = fashion_mnist_open(flags->data, false, 500);
    DataIter *test_iter = data_iter_new(test_data, 128, false, 0);
    check_mean("values 0.7, 0.8, 0.9", (double[]){0.7, 0.8, 0.9}, 3, 0.8, 0.1);
    check_mean("the single value 0.5", (double[]){0.5}, 1, 0.5, 0);
    check_accuracy(data, test_iter, 1, 16, 0.02f);
    check_accuracy(data, test_iter, 2, 16, 0.02f);
    check_accuracy(data, test_iter, 4, 8, 0.02f);
    check_accuracy(data, test_iter, 2, 16, 0);
    check_falling(data, test_iter); // changes the labels
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
}

const CheckPart check_parts[] = {
    {"accuracy after training on k devices; mean and standard deviation", 10, check}, {0}};
