// agreement.c: see agreement.h.
#include "agreement.h"

#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// In single precision, sums of a few hundred numbers in another order differ by less.
#define ROUNDING 1e-5

static const struct {
    const char *name;
    Way way;
} ways[] = {
    {"DP", {.kind = WAY_DP}},
    {"DP, sums of losses gathered", {.kind = WAY_DP, .gathers = DP_SUMMED_LOSSES}},
    {"DDP, one bucket", {.kind = WAY_DDP, .ddp = {.bucket_bytes = ONE_BUCKET}}},
    {"DDP, buckets of 64 KiB", {.kind = WAY_DDP, .ddp = {.bucket_bytes = 64 << 10}}},
    {"DDP, with copies", {.kind = WAY_DDP, .ddp = {.bucket_bytes = 64 << 10, .copies = true}}},
    {"DDP, no_sync in 1 of 2 parts", {.kind = WAY_DDP, .micro_steps = 2}},
    {"DDP, no_sync in 3 of 4 parts", {.kind = WAY_DDP, .micro_steps = 4}},
};
enum { NUM_ROWS = sizeof ways / sizeof ways[0] };

// A step of `t`, and the same step of one device from the same parameters.
static double compare_step(Trained *t, Trained *one, const Tensor *X, const Tensor *y, float lr) {
    size_t n;
    float *before = trained_params(t, 0, &n);
    tensor_write(flat_parameters(one->net, one->devices[0]).data, before);
    trained_step(one, X, y, lr);
    float *expected = trained_params(one, 0, &n);
    trained_step(t, X, y, lr);
    float *got = trained_params(t, 0, &n);
    double difference = relative_difference(got, expected, before, n);
    free(before);
    free(expected);
    free(got);
    return difference;
}

static double compare_way(const Way *way, DataIter *iter, int steps, float lr) {
    const Way alone = {.kind = WAY_DDP, .network = way->network, .classes = 10, .k = 1};
    Device *devices[MAX_DEVICES];
    Tensor *X, *y;
    double most = 0;
    open_devices(devices, way->k);
    Trained *one = trained_new(&alone, devices, 1), *t = trained_new(way, devices, 1);
    data_iter_start(iter, 0);
    for (int step = 0; step < steps && data_iter_next(iter, &X, &y); step++) {
        double difference = compare_step(t, one, X, y, lr);
        if (!(difference <= most)) most = difference; // a NaN stays
    }
    trained_free(t);
    trained_free(one);
    return most;
}

void compare_with_one_device(DataIter *iter, int steps, float lr) {
    enum { MOST = 3 };
    static const int ks[MOST] = {1, 2, 3};
    printf("\n");
    Table t = TABLE(NULL, WORDS("the largest difference", 29),
                    {"k = %d", .width = 8, .count = MOST, .of = ks});
    for (int w = 0; w < NUM_ROWS; w++) {
        table_text(&t, "%s", ways[w].name);
        for (int k = 1; k <= MOST; k++) {
            Way way = ways[w].way;
            way.network = &networks[0];
            way.classes = 10;
            way.k = k;
            double difference = compare_way(&way, iter, steps, lr);
            CHECK(difference <= ROUNDING, "k devices compute what one computes, up to rounding");
            if (difference == 0)
                table_text(&t, "0 (bits)");
            else
                table_text(&t, "%.1e", difference);
        }
    }
}
