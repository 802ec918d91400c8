// bytes.c: see bytes.h.
#include "bytes.h"

#include "common/base/error.h"
#include "common/program/say.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"
#include "allreduce.h"
#include "get_params.h"
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>

// ## Bytes
//
// Every copy between devices is entered in a ledger, so that we need not believe a formula. The
// vector has as many elements as LeNet has parameters, and real numbers this time. N is its size in
// bytes.

enum { LENET_FLOATS = 129068 };

typedef struct Counted {
    uint64_t busiest, total; // bytes sent by the device that sends most, and by all
    bool as_formula;         // on each device, sent and received
} Counted;

static Counted count_bytes(const Allreduce *algorithm, Tensor *const data[], int k) {
    Counted counted = {.as_formula = true};
    for (int i = 0; i < k; i++) {
        uint64_t sent = 0, received = 0;
        for (int j = 0; j < k; j++) {
            sent += ledger_bytes(data[i]->device, data[j]->device);
            received += ledger_bytes(data[j]->device, data[i]->device);
        }
        Traffic formula = allreduce_bytes(algorithm, numel(data[i]), k, i);
        counted.as_formula =
            counted.as_formula && sent == formula.sent && received == formula.received;
        counted.total += sent;
        if (sent > counted.busiest) counted.busiest = sent;
    }
    return counted;
}

static size_t busiest_by_formula(const Allreduce *algorithm, size_t n, int k) {
    size_t most = 0;
    for (int i = 0; i < k; i++) {
        size_t sent = allreduce_bytes(algorithm, n, k, i).sent;
        if (sent > most) most = sent;
    }
    return most;
}

static bool compare_bytes_of(const Allreduce *algorithm, int k, uint64_t seed) {
    Tensor *data[MAX_DEVICES];
    vectors_on_devices(data, k, LENET_FLOATS);
    float *values = xmalloc(sizeof(float) * LENET_FLOATS);
    for (int i = 0; i < k; i++) {
        fill_normal(values, LENET_FLOATS, 1, seed, STREAM_TEST + (uint32_t)i);
        tensor_write(data[i], values);
        begin_step(data[i]->device);
    }
    ledger_reset();
    algorithm->run(data, k);
    synchronize_all();

    Counted counted = count_bytes(algorithm, data, k);
    size_t formula = busiest_by_formula(algorithm, LENET_FLOATS, k);
    bool same = all_replicas_equal(data, k);
    printf("  %d  %-9s %2d of %-4s %9llu %9zu %5.2f N  %9llu   %s\n", k, algorithm->name,
           algorithm->steps(k), algorithm->in_parts ? "N/k" : "N",
           (unsigned long long)counted.busiest, formula,
           (double)formula / (LENET_FLOATS * sizeof(float)), (unsigned long long)counted.total,
           !has_values(data[0]->device) ? "none"
           : same                       ? "yes"
                                        : "NO");
    bool right = (same || !has_values(data[0]->device)) && counted.as_formula &&
                 counted.total == 2 * (uint64_t)(k - 1) * LENET_FLOATS * sizeof(float);
    free(values);
    free_params(data, k);
    return right;
}

void compare_bytes(uint64_t seed) {
    printf("\nWhy it is slow: bytes for a vector of N = %zu bytes (LeNet's gradients)\n",
           LENET_FLOATS * sizeof(float));
    printf("                            sent by the busiest device    sent by  replicas\n"
           "  k  algorithm steps       counted   formula                  all  equal\n");
    bool right = true;
    for (int k = 2; k <= 8 && can_have_devices(k); k *= 2)
        for (int a = 0; a < NUM_ALLREDUCES; a++)
            right = compare_bytes_of(&allreduces[a], k, seed) && right;
    say_checked(right, has_values(try_gpu(0)) ? "each device sends and receives the formula's "
                                                "bytes; replicas have the same bits"
                                              : "each device sends and receives the formula's "
                                                "bytes (there are no replicas to compare)");
    say("  All send 2 (k-1) N bytes in total. But the star's device 0 sends (k-1) N of them, more "
        "with each device that is added; sharded or in a ring no device sends more than 2 N, "
        "however many there are. The tree is in between, with the fewest steps.");
}
