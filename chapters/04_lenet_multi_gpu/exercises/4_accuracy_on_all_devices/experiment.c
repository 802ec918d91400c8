// experiment.c: the time of the test accuracy on one device, the others idle, and on all k.
#include "common/base/statistics.h"
#include "common/device/timer.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "your_part.h"

enum { NUM_K = 3, ROUNDS = 7 };
static const int ks[NUM_K] = {1, 2, 4};

typedef struct Measured {
    int k;
    double one[ROUNDS], all[ROUNDS]; // seconds on device 0 of k; on all k
    double accuracy_of_one, accuracy_of_all;
} Measured;

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
static void measure_all(const Flags *flags, DataIter *test_iter, FILE *csv) {
    Replicas one;
    replicas_open(&one, 1, flags->seed);
    replicas_scale(&one, 10);
    learn_a_little(flags, &one);
    Table t = TABLE(csv, {"devices", .csv = "devices"},
                    FIXED("on device 0", 3, .unit = "s", .csv = "one"), {.csv = "one_median"},
                    FIXED("on all devices", 3, .unit = "s", .csv = "all"), {.csv = "all_median"},
                    FIXED("accuracy on one", 4), FIXED("on all", 4, .csv = "accuracy"));
    for (int i = 0; i < NUM_K; i++) {
        Measured m = measure(ks[i], one.params[0], test_iter);
        table_numbers(&t, m.k, minimum(m.one, ROUNDS), median(m.one, ROUNDS),
                      minimum(m.all, ROUNDS), median(m.all, ROUNDS), m.accuracy_of_one,
                      m.accuracy_of_all);
    }
    replicas_close(&one);
}

static void experiment(const Flags *flags, FILE *csv) {
    Dataset *test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    DataIter *test_iter = data_iter_new(test_data, 256, false, 0);
    say("Question: how much faster is the test accuracy on all devices?");
    say("%d test images, minibatches of 256, fastest of %d rounds\n", test_data->count, ROUNDS);
    measure_all(flags, test_iter, csv);
    data_iter_free(test_iter);
    dataset_free(test_data);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.train_size = 256;
    defaults.lr = 0.05f;
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 4: test accuracy on all devices.",
                                     .flags = "lr seed train-size test-size -machine",
                                     .defaults = defaults,
                                     .experiment = experiment,
                                     .plot = "exercise_accuracy.gp"});
}
