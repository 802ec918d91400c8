// cases.c: two updates from the parts of a minibatch: what they make of the parameters, what
// devices send each other, and what they hold at the end.
#include "common/program/facts.h"
#include "common/tensor/arena.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <stdio.h>
#include <stdlib.h>

enum { ONE_RANK = 1, RANKS, BYTES, UNEQUAL };
const Part parts[] = {
    {"m parts on one rank make the update of the whole minibatch, in the memory of one", 3},
    {"m parts on 2 and 3 ranks make the update of the whole minibatch, in the memory of one", 2},
    {"each update sends the bytes of one exchange", 3},
    {"parts and shards of unequal size make the update of the whole minibatch", 2},
    {0}};

// ---- a case ------------------------------------------------------------------------------------

enum {
    MOST_ROWS = 64,
    PIXELS = 28 * 28,
    STEPS = 2,
    PARAMS = 8,
    TOLD = 8,
    LAST = (PARAMS - 1) * TOLD
};

// Grey noise. Labels count up from any class, so that no part has only one.
static void draw_minibatch(Tensor *X, Tensor *y) {
    static float values[MOST_ROWS * PIXELS];
    int n = X->shape[0], first = (int)draw(0, 9);
    for (int i = 0; i < n * PIXELS; i++) values[i] = (float)draw(0, 255) / 255;
    tensor_write(X, values);
    for (int i = 0; i < n; i++) values[i] = (float)((first + i) % 10);
    tensor_write(y, values);
}

// Of each weight and bias some numbers, spread over all. But for the last layer's they can differ
// by more than rounding: a last digit decides on which side of zero one of LeNet's ReLUs is.
static const double NEAR = 0.02;
static void read_some(const Ddp *ddp, int i, float some[PARAMS * TOLD]) {
    for (int p = 0; p < PARAMS; p++) {
        const Tensor *t = parameter_data(ddp->params[p], ddp->devices[i]);
        float *values = tensor_values(t);
        for (size_t j = 0; j < TOLD; j++) some[p * TOLD + (int)j] = values[j * numel(t) / TOLD];
        free(values);
    }
}

// Bytes, and the sums of what was sent: they tell whose gradients those were.
static void record_traffic(const Ddp *ddp, int part) {
    float sums[MOST_RANKS * MOST_RANKS];
    size_t n = 0;
    for (int i = 0; i < ddp->k; i++)
        for (int j = 0; j < ddp->k; j++) {
            const Device *from = ddp->devices[i], *to = ddp->devices[j];
            if (i == j && ddp->k > 1) continue;
            sums[n++] = (float)ledger_cargo(from, to);
            record_int(BYTES, (long)ledger_bytes(from, to), "bytes from device %d to device %d", i,
                       j);
        }
    if (ddp->k > 1)
        record_floats(part, sums, n, NEAR, "sums of all numbers that went between two devices");
}

static void run(int part, const Plan *plan, int n) {
    Module *net = lenet_modules(10);
    Device *devices[MOST_RANKS];
    Tensor *X = tensor_new(host(), n, 1, 28, 28), *y = tensor_new(host(), n);
    float lr = (float)draw(10, 40) / 100, before[PARAMS * TOLD], after[PARAMS * TOLD];
    draw_minibatch(X, y);
    initialize(net, (uint64_t)draw(1, 1000000));
    open_devices(devices, plan->k);
    Ddp *ddp = ddp_new(net, devices, plan->k, (DdpOptions){.bucket_bytes = 64 << 10});
    synchronize_all();
    read_some(ddp, 0, before);
    ledger_reset();
    ledger_watch_cargo();
    for (int step = 0; step < STEPS; step++) {
        step_in_parts(ddp, plan, X, y, lr);
        synchronize_all();
    }
    for (int i = 0; i < plan->k; i++) {
        read_some(ddp, i, after);
        for (int j = 0; j < PARAMS * TOLD; j++) after[j] -= before[j];
        record_floats(part, after + LAST, TOLD, 1e-3, "change of the last biases of device %d", i);
        record_floats(part, after, LAST, NEAR, "change of other parameters of device %d", i);
        record_at_most(part, (double)arena_used_bytes(devices[i]),
                       "bytes of activations that device %d holds", i);
    }
    record_traffic(ddp, part);
    ddp_free(ddp);
    module_free(net);
    tensor_free(X);
    tensor_free(y);
}

// ---- which cases -------------------------------------------------------------------------------

// The sizes of parts as "4 + 2 + 5", ranks separated by ", ".
static const char *sizes_text(const Plan *plan) {
    static char text[256];
    int length = 0;
    for (int i = 0; i < plan->k; i++)
        for (int j = 0; j < plan->m; j++) {
            const char *between = j > 0 ? " + " : i > 0 ? ", " : "";
            length += snprintf(text + length, sizeof text - (size_t)length, "%s%ld", between,
                               plan->rows[i][j].count);
        }
    return text;
}

static void equal_parts(int part, int k, int m) {
    int rows = (int)draw(1, 3), n = k * m * rows;
    Plan plan = draw(0, 1) ? parts_in_shards(n, k, m) : shards_in_parts(n, k, m);
    begin_case("two updates, k = %d, m = %d, %d row%s in each part", k, m, rows,
               rows == 1 ? "" : "s");
    run(part, &plan, n);
}

static void one_rank(void) {
    const int ms[] = {1, 2, 3, 8};
    for (int c = 0; c < 4; c++) equal_parts(ONE_RANK, 1, ms[c]);
}

static void ranks(void) {
    const int ms[] = {1, 2, 3, 4};
    for (int c = 0; c < 8; c++) equal_parts(RANKS, 2 + c % 2, ms[c / 2]);
}

// The last part of a rank is the largest: what is held at the end is never more.
static void unequal_parts(void) {
    for (int c = 0; c < 5; c++) {
        Plan plan = {.k = 1 + c % 3, .m = (int)draw(2, 4)};
        int n = 0;
        for (int i = 0; i < plan.k; i++)
            for (int j = 0; j < plan.m; j++) {
                int count = (int)(j < plan.m - 1 ? draw(1, 4) : draw(5, 6));
                plan.rows[i][j] = (Range){n, count};
                n += count;
            }
        begin_case("two updates, k = %d, m = %d, parts of %s rows", plan.k, plan.m,
                   sizes_text(&plan));
        run(UNEQUAL, &plan, n);
    }
}

const Group groups[] = {
    {"one rank", one_rank, 5}, {"ranks", ranks, 5}, {"unequal parts", unequal_parts, 5}, {0}};
