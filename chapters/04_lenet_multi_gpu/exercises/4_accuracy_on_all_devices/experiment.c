// experiment.c: the time of the test accuracy on one device, the others idle, and on all k.
#include "common/base/statistics.h"
#include "common/device/timer.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

#include <math.h>

enum { NUM_K = 3, ROUNDS = 7 };
static const int ks[NUM_K] = {1, 2, 4};

typedef struct Measured {
    int k;
    double one[ROUNDS], all[ROUNDS]; // seconds on device 0 of k; on all k
    double accuracy_of_one, accuracy_of_all;
} Measured;

static bool is_noise(const Measured *m) {
    return too_noisy_to_compare(quartiles(m->one, ROUNDS), quartiles(m->all, ROUNDS));
}

static void time_round(Replicas *r, DataIter *test_iter, Measured *m, int round) {
    Timer timer = {0};
    timer_start(&timer);
    m->accuracy_of_one = evaluate_accuracy_gpu(lenet, r->params[0], test_iter, r->devices[0]);
    m->one[round] = timer_stop(&timer);
    timer_start(&timer);
    m->accuracy_of_all = evaluate_accuracy_on_all(lenet, r->params, test_iter, r->devices, r->k);
    m->all[round] = timer_stop(&timer);
}

static Measured measure(int k, Tensor *const trained[], DataIter *test_iter) {
    Measured m = {.k = k};
    Replicas r;
    replicas_open_from(&r, k, trained);
    time_round(&r, test_iter, &m, 0); // without counting: memory used the first time is slow
    for (int round = 0; round < ROUNDS; round++) time_round(&r, test_iter, &m, round);
    replicas_close(&r);
    EXPECT(fabs(m.accuracy_of_one - m.accuracy_of_all) < 1e-6,
           "the check has found nothing; does the number of images matter?",
           "evaluate_accuracy_on_all(), all test images, k = %d: %.6f, expected %.6f", k,
           m.accuracy_of_all, m.accuracy_of_one);
    return m;
}

// From one large minibatch, again and again.
static void learn_a_little(const Flags *flags, Replicas *one) {
    enum { UPDATES = 40 };
    Dataset *data = fashion_mnist_open(flags->data, true, flags->train_size);
    DataIter *iter = data_iter_new(data, data->count, false, 0);
    Tensor *X, *y, *losses[MAX_DEVICES];
    data_iter_first(iter, &X, &y);
    for (int n = 0; n < UPDATES; n++)
        train_batch(X, y, one->params, one->devices, 1, flags->lr, losses);
    synchronize_all();
    data_iter_free(iter);
    dataset_free(data);
}

// With parameters that are trained a little, so that there is something to count.
static void measure_all(const Flags *flags, DataIter *test_iter, Measured m[NUM_K], FILE *csv) {
    Replicas one;
    replicas_open(&one, 1, flags->seed);
    replicas_scale(&one, 10);
    learn_a_little(flags, &one);
    Table t = TABLE(csv, {"devices", .csv = "devices"},
                    FIXED("on device 0", 3, .unit = "s", .csv = "one"), {.csv = "one_median"},
                    FIXED("on all devices", 3, .unit = "s", .csv = "all"), {.csv = "all_median"},
                    FIXED("accuracy on one", 4), FIXED("on all", 4, .csv = "accuracy"));
    for (int i = 0; i < NUM_K; i++) {
        m[i] = measure(ks[i], one.params[0], test_iter);
        table_numbers(&t, m[i].k, minimum(m[i].one, ROUNDS), median(m[i].one, ROUNDS),
                      minimum(m[i].all, ROUNDS), median(m[i].all, ROUNDS), m[i].accuracy_of_one,
                      m[i].accuracy_of_all);
    }
    replicas_close(&one);
}

static void experiment(const Flags *flags, FILE *csv) {
    Dataset *test_data = fashion_mnist_open(flags->data, false, 0);
    DataIter *test_iter = data_iter_new(test_data, 256, false, 0);
    Measured m[NUM_K];
    say("Question: how much faster is the test accuracy on all devices?");
    say("%d test images, minibatches of 256, fastest of %d rounds\n", test_data->count, ROUNDS);
    Prediction faster = predict_first(
        "The accuracy on all test images is computed on one of 4 devices while the others are "
        "idle, and then on all 4. How many times as fast will the 4 be as the one?");
    measure_all(flags, test_iter, m, csv);
    const Measured *four = &m[NUM_K - 1];
    if (!is_noise(four))
        predict_compare(faster, minimum(four->one, ROUNDS) / minimum(four->all, ROUNDS), "times");
    data_iter_free(test_iter);
    dataset_free(test_data);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.train_size = 256;
    defaults.lr = 0.05f;
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 4: test accuracy on all devices.",
                    .flags = "lr seed train-size -machine",
                    .defaults = defaults,
                    .parts = check_parts,
                    .passed = "the accuracy of one device, to the last image, for 1, 2, 3, 4 and "
                              "7 devices",
                    .experiment = experiment,
                    .plot = "exercise_accuracy.gp"});
}
