// accumulate_shown.c: one device with four parts against four devices, number by number.
#include "accumulate.h"

#include "common/base/error.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_PARTS = 4, SHOWN_STEPS = 8 };

typedef struct Shown {
    const Dataset *train;
    int batch_size;
    float lr;
    uint64_t seed;
    Module *net;
    Device *devices[SHOWN_PARTS];
    size_t n; // parameters
} Shown;

static float *values_after(Shown *s) {
    Tensor *params = flat_parameters(s->net, s->devices[0]).data;
    s->n = numel(params);
    return tensor_values(params);
}

static float *with_parts(Shown *s, AccumulateOrder order) {
    Tensor *X, *y;
    DataIter *iter = data_iter_new(s->train, s->batch_size, true, s->seed);
    initialize(s->net, s->seed);
    Accumulator a = accumulator_new(s->net, s->devices[0], order);
    data_iter_start(iter, 0);
    for (int step = 0; step < SHOWN_STEPS && data_iter_next(iter, &X, &y); step++) {
        accumulate_batch(&a, X, y, SHOWN_PARTS);
        sgd_step(s->net, s->devices[0], s->lr, accumulate_end(&a, NULL));
    }
    float *values = values_after(s);
    accumulator_free(&a);
    data_iter_free(iter);
    return values;
}

static float *with_devices(Shown *s, const Allreduce *algorithm) {
    Tensor *X, *y, *losses[SHOWN_PARTS];
    const Allreduce *chosen = chosen_allreduce();
    DataIter *iter = data_iter_new(s->train, s->batch_size, true, s->seed);
    choose_this_allreduce(algorithm);
    initialize(s->net, s->seed);
    DataParallel dp = data_parallel(s->net, s->devices, SHOWN_PARTS, BN_LOCAL);
    data_iter_start(iter, 0);
    for (int step = 0; step < SHOWN_STEPS && data_iter_next(iter, &X, &y); step++)
        train_step(&dp, X, y, s->lr, losses);
    float *values = values_after(s);
    synchronize_all();
    choose_this_allreduce(chosen);
    data_iter_free(iter);
    return values;
}

// Numbers that differ in a bit, and the largest difference, as a part of the largest number.
typedef struct Apart {
    size_t numbers;
    double most;
} Apart;

static Apart apart(const float *a, const float *b, size_t n) {
    Apart d = {.most = relative_difference(a, b, NULL, n)};
    for (size_t i = 0; i < n; i++) d.numbers += memcmp(&a[i], &b[i], sizeof *a) != 0;
    return d;
}

static Apart compare_with(Shown *s, const Allreduce *algorithm, const float *parts) {
    float *ranks = with_devices(s, algorithm);
    Apart d = apart(parts, ranks, s->n);
    printf("  %-24s %10zu %14.1g\n", algorithm->name, d.numbers, d.most);
    free(ranks);
    return d;
}

static void explain_orders(const Apart of[NUM_ALLREDUCES], const Apart *in_place) {
    size_t first = 0, others = 0;
    for (int i = 0; i < NUM_ALLREDUCES; i++) {
        bool in_order =
            allreduces[i].run == allreduce_star || allreduces[i].run == allreduce_sharded;
        *(in_order ? &first : &others) += of[i].numbers;
    }
    say("  Star and sharded add ((0 + 1) + 2) + 3, as the parts are added: %s. Tree and ring add "
        "in other orders: %s.",
        first == 0 ? "equal to the bit" : "and still they differ, which should not be",
        others > 0 ? "a last bit here and there" : "here that shows nowhere");
    say("  In place, where backward adds to what the parts before have left, %s.",
        in_place->numbers == 0
            ? "it is equal to the bit as well: these kernels sum over a part first, then add once"
            : "it is not the same: these kernels add in another order");
}

void show_accumulation(const Dataset *train, int batch_size, float lr, uint64_t seed) {
    Shown s = {.train = train, .batch_size = batch_size, .lr = lr, .seed = seed};
    Apart of[NUM_ALLREDUCES];
    open_devices(s.devices, SHOWN_PARTS);
    s.net = lenet_modules(FASHION_MNIST_CLASSES);
    float *parts = with_parts(&s, PARTS_APART), *in_place = with_parts(&s, PARTS_IN_PLACE);
    say("\nGradient accumulation: LeNet, %d steps of %d images, one device in %d parts against %d "
        "devices",
        SHOWN_STEPS, batch_size, SHOWN_PARTS, SHOWN_PARTS);
    printf("\n  %-24s %10s %14s\n  %-24s %10s %14s\n", "allreduce of the devices", "parameters",
           "largest, of", "", "differ", "the largest");
    for (int i = 0; i < NUM_ALLREDUCES; i++) of[i] = compare_with(&s, &allreduces[i], parts);
    Apart d = apart(in_place, parts, s.n);
    printf("  (of %zu parameters; the parts added in place: %zu differ)\n", s.n, d.numbers);
    explain_orders(of, &d);
    free(parts);
    free(in_place);
    module_free(s.net);
}
