// sampling.c: see sampling.h.
#include "sampling.h"

#include "common/base/error.h"
#include "common/base/range.h"
#include "common/program/interrupt.h"
#include "common/program/say.h"
#include "ddp.h"
#include "loader.h"
#include "networks.h"
#include "sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ## Who gets which

static const char *const mode_names[] = {"padded", "dropped", "exact"};

void show_samplers(void) {
    enum { IMAGES = 10, RANKS = 4 };
    printf("\n  %d images on %d ranks, not shuffled\n", IMAGES, RANKS);
    for (SamplerMode mode = SAMPLER_PAD; mode <= SAMPLER_EXACT; mode++) {
        printf("  %-8s", mode_names[mode]);
        for (int rank = 0; rank < RANKS; rank++) {
            DistributedSampler s = {.num_images = IMAGES, .k = RANKS, .rank = rank, .mode = mode};
            int indices[IMAGES];
            sampler_indices(&s, indices);
            printf("  rank %d:", rank);
            for (int i = 0; i < 3; i++)
                if (i < sampler_count(&s))
                    printf(" %d", indices[i]);
                else
                    printf("  ");
        }
        printf("\n");
    }
}

// ## Loaders: one for each rank

// The rows of each rank in a step in which all have `batch_size` together.
static int rows_of_rank(int batch_size, int k, int rank) {
    return (int)equal_range(batch_size, k, rank).count;
}

static void open_loaders(Loader loaders[], const Dataset *data, const Lesson *l, SamplerMode mode,
                         bool shuffle) {
    for (int i = 0; i < l->k; i++)
        loaders[i] =
            loader_new(data,
                       (DistributedSampler){
                           .k = l->k, .rank = i, .mode = mode, .shuffle = shuffle, .seed = l->seed},
                       l->batch_size);
}

static void start_loaders(Loader loaders[], int k, int epoch) {
    for (int i = 0; i < k; i++) loader_start(&loaders[i], epoch);
}

static void free_loaders(Loader loaders[], int k) {
    for (int i = 0; i < k; i++) loader_free(&loaders[i]);
}

// Their next rows; returns how many there are together.
static int load_all(Loader loaders[], const Ddp *ddp, int batch_size, Tensor *X[], Tensor *y[]) {
    int rows = 0;
    for (int i = 0; i < ddp->k; i++) {
        begin_step(ddp->devices[i]);
        loader_next(&loaders[i], rows_of_rank(batch_size, ddp->k, i), ddp->devices[i], &X[i],
                    &y[i]);
        rows += X[i]->shape[0];
    }
    return rows;
}

// ## Training

static double train_epoch(Ddp *ddp, Loader loaders[], const Lesson *l, int epoch) {
    Tensor *X[MAX_DEVICES], *y[MAX_DEVICES], *losses[MAX_DEVICES];
    float values[MAX_DEVICES];
    double loss = 0;
    int images = 0, rows;
    start_loaders(loaders, l->k, epoch);
    while (!interrupted() && (rows = load_all(loaders, ddp, l->batch_size, X, y)) > 0) {
        ddp_step(ddp, X, y, l->lr, rows, losses);
        items(losses, l->k, values); // waits for all ranks
        for (int i = 0; i < l->k; i++) loss += (double)values[i];
        images += rows;
    }
    if (!interrupted() && !isfinite(loss))
        die("start again with a smaller --lr", "the loss of epoch %d is not a number", epoch + 1);
    return loss / images;
}

// ## An exact accuracy
//
// Each rank counts for its own images, and the counts are added: right for any number of ranks, if
// each image is looked at once.

typedef struct Count {
    double correct, images;
} Count;

static Count count_all(Ddp *ddp, Loader loaders[], const Lesson *l) {
    Tensor *X[MAX_DEVICES], *y[MAX_DEVICES], *y_hat[MAX_DEVICES], *correct[MAX_DEVICES];
    float values[MAX_DEVICES];
    Count count = {0};
    int rows;
    set_training(ddp->net, false);
    set_grad_enabled(false);
    for (int i = 0; i < l->k; i++) {
        correct[i] = tensor_new(ddp->devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    start_loaders(loaders, l->k, 0);
    while (!interrupted() && (rows = load_all(loaders, ddp, l->batch_size, X, y)) > 0) {
        forward_all(ddp->net, X, l->k, y_hat);
        for (int i = 0; i < l->k; i++) count_correct(correct[i], y_hat[i], y[i]);
        count.images += rows;
        synchronize_all(); // the loaders' memory is used anew
    }
    items(correct, l->k, values);
    for (int i = 0; i < l->k; i++) {
        count.correct += (double)values[i];
        tensor_free(correct[i]);
    }
    set_grad_enabled(true);
    set_training(ddp->net, true);
    return count;
}

static Count count_with(Ddp *ddp, const Lesson *l, SamplerMode mode) {
    Loader loaders[MAX_COMPUTING];
    open_loaders(loaders, l->test_data, l, mode, false);
    Count count = count_all(ddp, loaders, l);
    free_loaders(loaders, l->k);
    return count;
}

static void print_accuracies(Ddp *ddp, const Lesson *l) {
    for (SamplerMode mode = SAMPLER_PAD; mode <= SAMPLER_EXACT && !interrupted(); mode++) {
        Count count = count_with(ddp, l, mode);
        printf("  %-8s %8.0f images on %d ranks, test accuracy %.6f\n", mode_names[mode],
               count.images, l->k, count.correct / count.images);
    }
}

// ## All of it

double train_with_samplers(const Lesson *l) {
    Device *devices[MAX_DEVICES];
    Loader loaders[MAX_COMPUTING];
    double accuracy = NAN;
    Module *net = lenet_modules(FASHION_MNIST_CLASSES);
    initialize(net, l->seed);
    open_devices(devices, l->k);
    Ddp *ddp = ddp_new(net, devices, l->k, (DdpOptions){.bucket_bytes = 64 << 10});
    open_loaders(loaders, l->train_data, l, SAMPLER_EXACT, true);
    for (int epoch = 0; epoch < l->epochs && !interrupted(); epoch++) {
        double loss = train_epoch(ddp, loaders, l, epoch);
        if (interrupted()) break;
        Count count = count_with(ddp, l, SAMPLER_EXACT);
        accuracy = count.correct / count.images;
        printf("  epoch %d: train loss %.3f, test acc %.4f on %s\n", epoch + 1, loss, accuracy,
               device_names(devices, l->k));
    }
    if (l->k > 1) print_accuracies(ddp, l);
    free_loaders(loaders, l->k);
    ddp_free(ddp);
    module_free(net);
    return accuracy;
}
