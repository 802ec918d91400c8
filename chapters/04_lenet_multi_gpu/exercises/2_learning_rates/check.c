// check.c: k devices must end with the parameters with which one device ends that has minibatches
// of k * b, and return the accuracy of these; mean and standard deviation must be right.
#include "common/program/exercise.h"
#include "chapters/04_lenet_multi_gpu/exercises/suspects.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// ## Training

// Rounding may put a pixel that is nearly zero on the other side of ReLU, and training carries that
// on: right solutions came to 0.01, those with other minibatches were 0.13 or more away.
static void check_parameters(const Training *t, const Replicas *many) {
    Replicas one;
    replicas_open_from(&one, 1, t->start->params[0]);
    train_one_replica(&one, t->data, t->k * t->b, t->lr, t->epochs, t->seed);
    float *start = replica_values(t->start, 0), *expected = replica_values(&one, 0);
    float *came = replica_values(many, many->k - 1);
    double difference = relative_difference(came, expected, start, replica_numel());
    EXPECT(difference <= 5e-2, suspect_of(t, came),
           "accuracy_after(), %d images, k = %d, b = %d, lr %g, %d epochs: the parameters differ "
           "from those of one device with minibatches of %d, by %.2g of what training changed, "
           "expected at most 0.05",
           t->data->count, t->k, t->b, (double)t->lr, t->epochs, t->k * t->b, difference);
    replicas_close(&one);
    free(start);
    free(expected);
    free(came);
}

// What was returned, against the accuracy of the parameters that your part ended with, be they
// right or not.
static void check_accuracy(const Training *t, const Replicas *many, DataIter *test_iter,
                           double came) {
    double expected = evaluate_accuracy_gpu(lenet, many->params[0], test_iter, many->devices[0]);
    double before = evaluate_accuracy_gpu(lenet, t->start->params[0], test_iter, many->devices[0]);
    EXPECT(fabs(came - expected) <= 0.01,
           fabs(came - before) <= 1e-9
               ? "that is the accuracy before the training: evaluate_accuracy_gpu() comes after it"
               : "evaluate_accuracy_gpu() with lenet and the parameters of device 0, on test_iter: "
                 "once, after the last epoch; a mean over the epochs, or the best, is another one",
           "accuracy_after(), %d images, k = %d, b = %d, lr %g, %d epochs: %.3f, expected %.3f, "
           "the accuracy of the parameters at the end",
           t->data->count, t->k, t->b, (double)t->lr, t->epochs, came, expected);
}

typedef enum { PARAMETERS, ACCURACY } Looked;

// Trains k devices with accuracy_after(), and looks at what it returns or at the parameters.
static void check_training(const Training *t, DataIter *test_iter, Looked at) {
    Replicas many;
    replicas_open_from(&many, t->k, t->start->params[0]);
    double came = accuracy_after(&many, t->data, t->epochs, t->b, t->lr, t->seed, test_iter);
    if (at == PARAMETERS)
        check_parameters(t, &many);
    else
        check_accuracy(t, &many, test_iter, came);
    replicas_close(&many);
}

static void check_run(const Dataset *data, DataIter *test_iter, int k, int b, float lr, Looked at) {
    Replicas start;
    replicas_open(&start, 1, 1);
    replicas_scale(&start, 10);
    Training t = {.start = &start, .data = data, .k = k, .b = b, .epochs = 2, .lr = lr, .seed = 7};
    check_training(&t, test_iter, at);
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
    check_training(&t, test_iter, ACCURACY);
    replicas_close(&start);
}

// ## The parts

// Three values, and the single one of which they are the mean.
static const struct {
    const char *text;
    int n;
    double values[3], mean, spread;
} known[] = {{"values 0.7, 0.8, 0.9", 3, {0.7, 0.8, 0.9}, 0.8, 0.1},
             {"the single value 0.5", 1, {0.5}, 0.5, 0}};

static void check_mean(const Flags *flags) {
    (void)flags;
    for (int c = 0; c < 2; c++) {
        double mean = NAN, spread = NAN;
        mean_and_spread(known[c].values, known[c].n, &mean, &spread);
        EXPECT(fabs(mean - known[c].mean) <= 1e-12, "the mean is the sum, divided by n",
               "mean_and_spread(), %s: the mean is %g, expected %g", known[c].text, mean,
               known[c].mean);
    }
}

static const char *hint_for_spread(double came, int n, double expected) {
    if (n > 1 && fabs(came - expected * sqrt((n - 1.0) / n)) <= 1e-12)
        return "that is the root of a sum divided by n: divide it by n - 1";
    if (n > 1 && fabs(came - expected * expected) <= 1e-12)
        return "that is the variance: the standard deviation is its root";
    return n > 1
               ? "the root of the sum of squares (of the distances from the mean) divided by n - 1"
               : "n - 1 is 0 for a single value, which has the standard deviation 0: ask for n";
}

static void check_spread(const Flags *flags) {
    (void)flags;
    for (int c = 0; c < 2; c++) {
        double mean = NAN, spread = NAN;
        mean_and_spread(known[c].values, known[c].n, &mean, &spread);
        EXPECT(fabs(spread - known[c].spread) <= 1e-12,
               hint_for_spread(spread, known[c].n, known[c].spread),
               "mean_and_spread(), %s: the standard deviation is %g, expected %g", known[c].text,
               spread, known[c].spread);
    }
}

// Images of which a short minibatch is left at the end, and those to test with.
typedef struct Images {
    Dataset *data, *test_data;
    DataIter *test_iter;
} Images;

static Images images_open(const Flags *flags) {
    Images images = {.data = fashion_mnist_open(flags->data, true, 300),
                     .test_data = fashion_mnist_open(flags->data, false, 500)};
    images.test_iter = data_iter_new(images.test_data, 128, false, 0);
    return images;
}

static void images_close(Images *images) {
    data_iter_free(images->test_iter);
    dataset_free(images->data);
    dataset_free(images->test_data);
}

static void check_one_device(const Flags *flags) {
    Images images = images_open(flags);
    check_run(images.data, images.test_iter, 1, 16, 0.02f, PARAMETERS);
    check_run(images.data, images.test_iter, 1, 16, 0, PARAMETERS);
    images_close(&images);
}

static void check_k_devices(const Flags *flags) {
    Images images = images_open(flags);
    check_run(images.data, images.test_iter, 2, 16, 0.02f, PARAMETERS);
    check_run(images.data, images.test_iter, 4, 8, 0.02f, PARAMETERS);
    images_close(&images);
}

static void check_returned(const Flags *flags) {
    Images images = images_open(flags);
    check_run(images.data, images.test_iter, 1, 16, 0.02f, ACCURACY);
    check_run(images.data, images.test_iter, 4, 8, 0.02f, ACCURACY);
    check_run(images.data, images.test_iter, 2, 16, 0, ACCURACY);
    check_falling(images.data, images.test_iter); // changes the labels
    images_close(&images);
}

const CheckPart check_parts[] = {
    {"mean_and_spread(): the mean", 1, check_mean},
    {"mean_and_spread(): the standard deviation, also of a single value", 2, check_spread},
    {"accuracy_after(): one device ends with the right parameters", 2, check_one_device},
    {"accuracy_after(): k devices end with those of one with k*b", 3, check_k_devices},
    {"accuracy_after(): the accuracy is that after the last epoch", 2, check_returned},
    {0}};
