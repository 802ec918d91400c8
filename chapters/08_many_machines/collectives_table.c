// collectives_table.c: see collectives_table.h.
#include "collectives_table.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/comm/process_group.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "common/tensor/random.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 129068 }; // as many as LeNet has parameters

// What device number g of all has.
static Tensor *vector_of(Device *device, int g) {
    Tensor *t = tensor_new(device, NUMBERS);
    float *values = xmalloc(sizeof *values * NUMBERS);
    fill_normal(values, NUMBERS, 1, 8, (uint32_t)g);
    tensor_write(t, values);
    free(values);
    return t;
}

// The sum of the k vectors, by k devices of this process and chapter 2's algorithm.
static float *sum_in_one_process(const char *algorithm, int k) {
    Tensor *data[MAX_COMPUTING];
    choose_allreduce(algorithm);
    for (int g = 0; g < k; g++) {
        begin_step(try_gpu(g));
        data[g] = vector_of(try_gpu(g), g);
    }
    allreduce(data, k);
    float *sum = tensor_values(data[0]);
    for (int g = 0; g < k; g++) tensor_free(data[g]);
    return sum;
}

typedef struct Row {
    double sent, messages, milliseconds;
    float *sum; // of this rank
} Row;

static Row sum_once(Tensor *mine[]) {
    Row row = {0};
    for (int i = 0; i < dist_local_devices(); i++)
        mine[i] = vector_of(dist_device(i), dist_get_rank() * dist_local_devices() + i);
    dist_reset_traffic();
    dist_all_reduce(NULL, mine);
    DistTraffic t = dist_traffic();
    row.sent = (double)t.bytes;
    row.messages = (double)t.messages;
    row.sum = tensor_values(mine[0]);
    return row;
}

static double median_time(Tensor *mine[]) {
    enum { TIMES = 9 };
    double times[TIMES];
    for (int t = 0; t < TIMES; t++) {
        dist_barrier(NULL);
        double start = seconds_now();
        dist_all_reduce(NULL, mine);
        synchronize_all();
        times[t] = 1e3 * (seconds_now() - start);
    }
    return median(times, TIMES);
}

// Where there are values of one process to compare with: on rank 0.
static const char *compare_bits(const char *name, const float *sum) {
    int k = dist_num_devices();
    if (k > MAX_COMPUTING || dist_get_rank() != 0) return "not compared";
    float *expected = sum_in_one_process(name, k);
    bool same = memcmp(sum, expected, sizeof *sum * NUMBERS) == 0;
    free(expected);
    CHECK(same, "k ranks add up in the order of k devices in one process");
    return "the same";
}

static void add_row(Table *t, const char *name, const Allreduce *algorithm, const Row *row) {
    int size = dist_get_world_size();
    double mine[2] = {row->sent, row->messages}, *all = xmalloc(sizeof mine * (size_t)size);
    double most = 0;
    dist_gather(NULL, mine, 2, all);
    for (int r = 1; r < size; r++) most = fmax(most, all[2 * r]);
    for (int r = 0; r < size && algorithm && dist_local_devices() == 1; r++)
        CHECK(all[2 * r] == (double)allreduce_bytes(algorithm, NUMBERS, size, r).sent,
              "bytes are those of chapter 2's formula");
    const char *bits = algorithm ? compare_bits(name, row->sum) : "any order";
    table_text(t, "%s", name);
    if (algorithm)
        table_numbers(t, all[0], most, all[1], row->milliseconds);
    else // what MPI sends is not counted
        table_numbers(t, NAN, NAN, NAN, row->milliseconds);
    table_text(t, "%s", bits);
    free(all);
}

void compare_collectives(void) {
    Tensor *mine[MAX_LOCAL_DEVICES];
    const char *before = dist_chosen_all_reduce();
    say("\nBytes and messages of rank 0, and the most bytes of another; measured ms; the bits of "
        "as "
        "many devices in one process");
    Table t = TABLE(NULL, WORDS("sum", 8), WHOLE("bytes", .width = 11), WHOLE("most", .width = 11),
                    WHOLE("messages"), FIXED("ms", 2), WORDS("bits", 12));
    for (int a = 0; a <= NUM_ALLREDUCES; a++) {
        const Allreduce *algorithm = a < NUM_ALLREDUCES ? &allreduces[a] : NULL;
        const char *name = algorithm ? algorithm->name : "mpi";
        dist_choose_all_reduce(name);
        dist_note("the table of sums, %s", name);
        Row row = sum_once(mine);
        row.milliseconds = median_time(mine);
        add_row(&t, name, algorithm, &row);
        for (int i = 0; i < dist_local_devices(); i++) tensor_free(mine[i]);
        free(row.sum);
    }
    dist_choose_all_reduce(before);
}
