// check.c: k devices must end with the parameters that minibatches of k * b images lead to, and
// return the accuracy of these; mean and standard deviation must be right.
#include "common/program/exercise.h"
#include "chapters/04_lenet_multi_gpu/exercises/by_hand.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// ## Training

enum { EPOCHS = 2 };

// Black images, of which a short minibatch is left at the end: what they lead to is known.
static void check_biases(int k, int b, float lr) {
    Dataset *data = black_images(LENET_SIDE, 300), *test_data = black_images(LENET_SIDE, 10);
    DataIter *test_iter = data_iter_new(test_data, 10, false, 0);
    Training t = {.data = data, .k = k, .b = b, .epochs = EPOCHS, .lr = lr, .seed = 7};
    Replicas many;
    replicas_open(&many, k, 1);
    accuracy_after(&many, data, EPOCHS, b, lr, t.seed, test_iter);
    for (int i = 0; i < k; i++) {
        float came[FASHION_MNIST_CLASSES];
        last_biases(&many, i, came);
        double apart = biases_apart(&t, came);
        EXPECT(apart <= 1e-4, suspect_of(&t, came),
               "accuracy_after(), %d black images, k = %d, b = %d, lr %g, %d epochs: the biases of "
               "the last layer on device %d differ from those of minibatches of %d by %.2g of what "
               "training changes, expected at most 0.0001",
               data->count, k, b, (double)lr, EPOCHS, i, k * b, apart);
    }
    replicas_close(&many);
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
}

// Images of the data set, on k devices and, with minibatches as large, on one.
static void check_as_one(const Flags *flags, int k, int b) {
    Dataset *data = fashion_mnist_open(flags->data, true, 300);
    DataIter *test_iter = data_iter_new(data, 100, false, 0);
    Replicas many, one;
    replicas_open(&many, k, 1);
    replicas_open(&one, 1, 1);
    replicas_scale(&many, 10);
    replicas_scale(&one, 10);
    float *start = replica_values(&one, 0);
    accuracy_after(&many, data, EPOCHS, b, 0.02f, 7, test_iter);
    accuracy_after(&one, data, EPOCHS, k * b, 0.02f, 7, test_iter);
    float *came = replica_values(&many, k - 1), *expected = replica_values(&one, 0);
    double difference = relative_difference(came, expected, start, replica_numel());
    // Rounding may put a pixel that is nearly zero on the other side of ReLU, and training carries
    // that on: right solutions came to 0.01, those with other minibatches were 0.13 or more away.
    EXPECT(difference <= 5e-2,
           "k devices with b images each should do what one does with k*b: give train_batch() "
           "minibatches of k*b, lr as it is and all r->k devices",
           "accuracy_after(), %d images, k = %d, b = %d, lr 0.02, %d epochs: the parameters of "
           "device %d differ from those of your accuracy_after() with k = 1, b = %d by %.2g of "
           "what training changed, expected at most 0.05",
           data->count, k, b, EPOCHS, k - 1, k * b, difference);
    free(start);
    free(came);
    free(expected);
    replicas_close(&many);
    replicas_close(&one);
    data_iter_free(test_iter);
    dataset_free(data);
}

// ## Accuracy
//
// To a black image LeNet gives the class with the largest of the last biases, whatever it shows to
// others. So the accuracy is the part of the test images that have this label. Here 30 of 50 have
// label 1, which is also what LeNet says at first. It is trained with label 0 alone, two updates in
// an epoch, and says 1 after the first epoch, and 0 after the second:
//
//     before        bias 1 is ahead of bias 0 by 2.00    accuracy 0.6
//     2 updates                              by 0.17              0.6
//     4 updates                              by -1.15             0.4

static Dataset *black_images_with(int count, uint8_t label) {
    Dataset *data = black_images(LENET_SIDE, count);
    for (int i = 0; i < count; i++) data->labels[i] = label;
    return data;
}

static void prefer_label_1(Replicas *r) {
    const float biases[FASHION_MNIST_CLASSES] = {0, 2};
    for (int i = 0; i < r->k; i++) tensor_write(r->params[i][LENET_PARAMS - 1], biases);
}

// The accuracy of device 0, be its parameters right or not.
static double accuracy_of_biases(const Replicas *r, const Dataset *test_data) {
    float biases[FASHION_MNIST_CLASSES];
    int largest = 0, right = 0;
    last_biases(r, 0, biases);
    for (int c = 1; c < FASHION_MNIST_CLASSES; c++)
        if (biases[c] > biases[largest]) largest = c;
    for (int i = 0; i < test_data->count; i++) right += test_data->labels[i] == largest;
    return (double)right / test_data->count;
}

static const char *hint_for_accuracy(double came, double before) {
    if (fabs(came - before) <= 1e-6)
        return "that is the accuracy before the training, and after its first epoch: "
               "evaluate_accuracy_gpu() comes once, after the last epoch; the best of all epochs "
               "is another one";
    return "evaluate_accuracy_gpu() with lenet and the parameters of device 0, on test_iter: once, "
           "after the last epoch; a mean over the epochs is another one";
}

static void check_accuracy(int k, int b, float lr) {
    Dataset *data = black_images_with(32, 0), *test_data = black_images_with(50, 0);
    for (int i = 0; i < 50; i++) test_data->labels[i] = i % 5 < 3;
    DataIter *test_iter = data_iter_new(test_data, 20, false, 0);
    Replicas many;
    replicas_open(&many, k, 1);
    prefer_label_1(&many);
    double came = accuracy_after(&many, data, EPOCHS, b, lr, 7, test_iter);
    double expected = accuracy_of_biases(&many, test_data);
    EXPECT(fabs(came - expected) <= 1e-6, hint_for_accuracy(came, 0.6),
           "accuracy_after(), black images, k = %d, b = %d, lr %g, %d epochs: %.3f, expected %.3f, "
           "the accuracy of the parameters at the end",
           k, b, (double)lr, EPOCHS, came, expected);
    replicas_close(&many);
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
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

static void check_one_device(const Flags *flags) {
    (void)flags;
    check_biases(1, 16, 1);
    check_biases(1, 16, 0);
}

static void check_k_devices(const Flags *flags) {
    check_biases(2, 16, 1);
    check_biases(4, 8, 1);
    check_biases(3, 7, 1);
    check_as_one(flags, 2, 16);
}

static void check_returned(const Flags *flags) {
    (void)flags;
    check_accuracy(1, 16, 0.7f);
    check_accuracy(4, 4, 0.7f);
    check_accuracy(2, 8, 0);
}

const CheckPart check_parts[] = {
    {"mean_and_spread(): the mean", 1, check_mean},
    {"mean_and_spread(): the standard deviation, also of a single value", 2, check_spread},
    {"accuracy_after(): one device ends with the right parameters", 2, check_one_device},
    {"accuracy_after(): k devices end with those of one with k*b", 3, check_k_devices},
    {"accuracy_after(): the accuracy is that after the last epoch", 2, check_returned},
    {0}};
