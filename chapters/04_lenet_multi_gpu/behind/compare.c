// compare.c: what a training prints before it begins, and what two are compared by: accuracy,
// parameters and bytes.
#include "behind.h"

#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "../lenet.h"

void print_run(const Training *t, int images) {
    long steps = training_steps(t->flags, data_iter_batches(t->iter));
    int rows = t->flags->batch_size < images ? t->flags->batch_size : images;
    printf("training on %s: batch size %d, lr %g, %ld minibatch%s\n",
           device_names(t->devices, t->k), rows, (double)t->lr, steps, steps == 1 ? "" : "es");
    if (t->k > rows)
        say("  A minibatch has %d images, so only %d of the %d devices have any. The others "
            "compute nothing, but take part in each exchange of gradients.",
            rows, rows, t->k);
}

static uint64_t formula(const Training *t, size_t n) {
    uint64_t sent = 0;
    for (int i = 0; i < t->k; i++) sent += allreduce_bytes(chosen_allreduce(), n, t->k, i).sent;
    return sent;
}

Result result_of(const Training *t, Tensor *const device_params[], Tensor *const trained[]) {
    Result result = {.t = *t};
    for (int i = 0; i < LENET_PARAMS; i++) tensor_copy(trained[i], device_params[i]);
    result.params = values_of_all(trained, LENET_PARAMS, &result.num_params);
    result.bytes_per_step = formula(t, result.num_params);
    CHECK(ledger_bytes_between_devices() == result.bytes_per_step * (uint64_t)t->steps,
          "a step moved other bytes between the devices than the formula says: a bug in allreduce "
          "or in the ledger");
    return result;
}

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

void print_bytes(const Result *r) {
    printf("Bytes: each step moved %s bytes between the devices, as the formula says\n",
           grouped(r->bytes_per_step).text);
}

void print_comparison(const Result *one, const Result *two) {
    double acc_of_one = one->t.test_acc, acc_of_two = two->t.test_acc;
    bool learned = acc_of_one >= 0.2 || acc_of_two >= 0.2, equal = equal_to_the_bit(one, two);
    const char *diverged = divergence(fmax(one->t.train_loss, two->t.train_loss));
    printf("\nAccuracy: %.4f on 1 device, %.4f on %d%s\n", acc_of_one, acc_of_two, two->t.k,
           learned     ? ""
           : *diverged ? diverged
                       : ": nothing is learned yet (0.1 is guessing)");
    printf("Parameters: %s numbers, ", grouped(one->num_params).text);
    if (equal)
        puts("equal to the bit");
    else
        printf("they differ by up to %.2g\n", largest_difference(one, two));
    print_bytes(two);
    book_result("test acc %.2f on 1 device and %.2f on 2; parameters %s", acc_of_one, acc_of_two,
                equal ? "equal to the bit" : "not equal");
}
