// compare.c: see compare.h.
#include "compare.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void print_run(const Training *t, int images, int batch_size) {
    int rows = batch_size < images ? batch_size : images;
    long steps = training_steps(t->flags, data_iter_batches(t->iter));
    printf("training on %s: batch size %d, lr %g, %ld minibatch%s\n",
           device_names(t->devices, t->k), rows, (double)t->lr, steps, steps == 1 ? "" : "es");
    if (t->k > rows)
        say("  A minibatch has %d images, so only %d of the %d devices have any.", rows, rows,
            t->k);
}

// ---- bytes -----------------------------------------------------------------------------------

// What the chosen allreduce moves in one step, by its formula.
static uint64_t bytes_per_step(const Result *r) {
    uint64_t sent = 0;
    for (int i = 0; i < r->t.k; i++)
        sent += allreduce_bytes(chosen_allreduce(), r->num_params, r->t.k, i).sent;
    return sent;
}

Result result_of(const Training *t, Tensor *const params[], int num_params) {
    Result result = {.t = *t, .bytes_between = ledger_bytes_between_devices()};
    result.params = values_of_all(params, num_params, &result.num_params);
    CHECK(result.bytes_between == bytes_per_step(&result) * (uint64_t)t->steps,
          "a step moved other bytes between the devices than the formula says: a bug in allreduce "
          "or in the ledger");
    return result;
}

static void print_bytes(const Result *r) {
    printf("  Bytes: each step moved %s bytes between the devices, as the formula says.\n",
           grouped(r->bytes_between / (uint64_t)r->t.steps).text);
}

// ---- values ----------------------------------------------------------------------------------

bool equal_to_the_bit(const Result *one, const Result *two) {
    return memcmp(one->params, two->params, one->num_params * sizeof(float)) == 0;
}

static double largest_difference(const Result *one, const Result *two) {
    double largest = 0;
    for (size_t i = 0; i < one->num_params; i++) {
        double difference = fabs((double)one->params[i] - (double)two->params[i]);
        if (!(difference <= largest)) largest = difference; // a NaN stays
    }
    return largest;
}

static void print_parameters(const Result *one, const Result *two) {
    printf("  Parameters: %s numbers, ", grouped(one->num_params).text);
    if (equal_to_the_bit(one, two))
        puts("equal to the bit.");
    else
        printf("which differ by up to %.2g.\n", largest_difference(one, two));
}

void print_comparison(const Result *one, const Result *two) {
    if (!one->t.no_values) print_parameters(one, two);
    print_bytes(two);
    if (!one->t.no_values) compare_epochs(&one->t, &two->t);
}
