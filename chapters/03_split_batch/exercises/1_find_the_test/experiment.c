// experiment.c: for each number of devices your part names a minibatch. How wrong is its gradient
// if devices sum, and how wrong if they average?
#include "common/program/program.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/one_layer.h"
#include "your_part.h"

#include <stdlib.h>

enum { NUM_K = 13 };
static const int ks[NUM_K] = {2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64};

// The devices have sums over their rows. Together these become the mean over all n rows, or the
// average of k averages.
static void combine(const ShardGradient shards[], int k, int n, bool averages, float gradient[]) {
    for (int j = 0; j < NUM_GRADS; j++) gradient[j] = 0;
    for (int i = 0; i < k; i++) {
        float divisor = (float)(averages ? k * shards[i].rows : n);
        for (int j = 0; j < NUM_GRADS; j++) gradient[j] += shards[i].g[j] / divisor;
    }
}

static void add_row(Table *t, const Flags *flags, DataIter *iter, Tensor *const params[2], int k) {
    static float one[NUM_GRADS], of_k[NUM_GRADS];
    Tensor *X, *y;
    int named = first_wrong_minibatch(flags->train_size, flags->batch_size, k);
    data_iter_first(iter, &X, &y);
    for (int number = 0; number < named && data_iter_next(iter, &X, &y); number++) continue;
    int n = X->shape[0];
    ShardGradient *alone = gradients_of_shards(X, y, n, 1, params);
    ShardGradient *shards = gradients_of_shards(X, y, n, k, params);
    combine(alone, 1, n, false, one);
    table_numbers(t, k);
    table_text(t, named < 0 ? "none" : "%d", named);
    table_numbers(t, n);
    for (int averages = 0; averages < 2; averages++) {
        combine(shards, k, n, averages, of_k);
        table_text(t, "%.1e", relative_difference(of_k, one, NULL, NUM_GRADS));
    }
    free(alone);
    free(shards);
}

static void experiment(const Flags *flags, FILE *csv) {
    Tensor *params[2];
    Dataset *data = fashion_mnist_open(flags->data, true, flags->train_size);
    DataIter *iter = data_iter_new(data, flags->batch_size, true, flags->seed);
    one_layer_new(params, flags->seed);
    say("%d images in minibatches of %d; your part: the mistake shows on %d devices, not on fewer",
        flags->train_size, flags->batch_size, fewest_devices(flags->train_size, flags->batch_size));
    say("Errors of the gradient of the first wrong minibatch, or of minibatch 0 if your part says "
        "that none is wrong\n");
    Table t =
        TABLE(csv, WHOLE("devices", .csv = "devices"), WORDS("minibatch", 9, .csv = "minibatch"),
              WHOLE("rows", .csv = "rows"), WORDS("sum / n", 9, .csv = "error_of_sum"),
              WORDS("average of averages", 19, .csv = "error_of_averages"));
    for (int i = 0; i < NUM_K && book_can_use_devices(ks[i]); i++)
        add_row(&t, flags, iter, params, ks[i]);
    free_params(params, 2);
    data_iter_free(iter);
    dataset_free(data);
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 1: the gradient that averages of averages "
                             "give, on 2 to 64 devices.",
                    .flags = "batch-size train-size=60000 seed machine=none -machine",
                    .experiment = experiment,
                    .plot = "exercise_averages.gp"});
}
