// bytes.c: how many bytes each device sends, counted and by the formula.
#include "bytes.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"
#include "allreduce.h"
#include "get_params.h"
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>

// The book's LeNet has so many parameters; N is their size in bytes.
enum { LENET_FLOATS = 129068 };
static const double N = LENET_FLOATS * sizeof(float);

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

// A row of the table. Returns the bytes of the busiest device, as counted.
static uint64_t compare_bytes_of(Table *t, const Allreduce *algorithm, int k, uint64_t seed,
                                 bool *right) {
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
    table_numbers(t, k);
    table_text(t, "%s", algorithm->name);
    table_text(t, "%d of %s", algorithm->steps(k), algorithm->in_parts ? "N/k" : "N");
    table_numbers(t, (double)counted.busiest, (double)formula, (double)formula / N,
                  (double)counted.total);
    table_text(t, !has_values(data[0]->device) ? "none" : same ? "yes" : "NO");
    *right = *right && (same || !has_values(data[0]->device)) && counted.as_formula &&
             counted.total == 2 * (uint64_t)(k - 1) * LENET_FLOATS * sizeof(float);
    free(values);
    free_params(data, k);
    return counted.busiest;
}

double compare_bytes(int most_devices, uint64_t seed) {
    printf("\nWhy the star is slow: bytes for a vector of N = %s bytes (LeNet's gradients)\n",
           grouped(LENET_FLOATS * sizeof(float)).text);
    Table t = TABLE(NULL, WHOLE("k", .width = 1), WORDS("algorithm", 9), WORDS("steps", 9),
                    WHOLE("busiest sends", .width = 9), WHOLE("formula", .width = 9),
                    FIXED("in N", 2), WHOLE("all send", .width = 10), WORDS("replicas equal", 4));
    bool right = true;
    uint64_t of_ring = 0;
    for (int k = 2; k <= most_devices && can_have_devices(k); k *= 2)
        for (int a = 0; a < NUM_ALLREDUCES; a++) {
            uint64_t busiest = compare_bytes_of(&t, &allreduces[a], k, seed, &right);
            if (allreduces[a].run == allreduce_ring) of_ring = busiest;
        }
    say_checked(right, has_values(try_gpu(0)) ? "each device sends and receives the formula's "
                                                "bytes; replicas have the same bits"
                                              : "each device sends and receives the formula's "
                                                "bytes (there are no replicas to compare)");
    say("  All send 2 (k-1) N bytes in total. But the star's device 0 sends (k-1) N of them, more "
        "with each device that is added; sharded or in a ring no device sends more than 2 N, "
        "however many there are. The tree is in between, with the fewest steps.");
    return (double)of_ring / N;
}
