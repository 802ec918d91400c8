// compare.c: what a training prints before it begins, and what two are compared by: accuracy,
// parameters and bytes.
#include "behind.h"

#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "../lenet.h"

void print_run(Device *const devices[], int k, int batch_size, int images, float lr, long steps) {
    int rows = batch_size < images ? batch_size : images;
    printf("training on %s: batch size %d, lr %g, %ld minibatch%s\n", device_names(devices, k),
           rows, (double)lr, steps, steps == 1 ? "" : "es");
    if (k > rows)
        say("  A minibatch has %d images, so only %d of the %d devices have any. The others "
            "compute nothing, but take part in each exchange of gradients.",
            rows, rows, k);
}

static uint64_t formula(size_t n, int k) {
    uint64_t sent = 0;
    for (int i = 0; i < k; i++) sent += allreduce_bytes(chosen_allreduce(), n, k, i).sent;
    return sent;
}

void complete_result(Result *r, Tensor *const device_params[], Tensor *const trained[]) {
    for (int i = 0; i < LENET_PARAMS; i++) tensor_copy(trained[i], device_params[i]);
    r->params = values_of_all(trained, LENET_PARAMS, &r->num_params);
    r->bytes_per_step = formula(r->num_params, r->k);
    CHECK(ledger_bytes_between_devices() == r->bytes_per_step * (uint64_t)r->steps,
          "a step moved other bytes between the devices than the formula says: a bug in allreduce "
          "or in the ledger");
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
    bool learned = one->acc >= 0.2 || two->acc >= 0.2, equal = equal_to_the_bit(one, two);
    const char *diverged = *one->diverged ? one->diverged : two->diverged;
    printf("Accuracy: %.4f on 1 device, %.4f on %d%s\n", one->acc, two->acc, two->k,
           learned     ? ""
           : *diverged ? diverged
                       : ": nothing is learned yet (0.1 is guessing)");
    printf("Parameters: %s numbers, ", grouped(one->num_params).text);
    if (equal)
        puts("equal to the bit");
    else
        printf("they differ by up to %.2g\n", largest_difference(one, two));
    book_result("test acc %.2f on 1 device and %.2f on 2; parameters %s", one->acc, two->acc,
                equal ? "equal to the bit" : "not equal");
}
