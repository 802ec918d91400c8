// cases.c: two updates from the parts of a minibatch: what they make of the parameters, what
// devices send each other, and the losses that are returned.
#include "common/program/facts.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "your_part.h"

#include <stdio.h>
#include <stdlib.h>

enum { EQUAL = 1, UNEQUAL, RANKS, BYTES, LOSS };
const Part parts[] = {
    {"one rank: m parts of equal length make the update of the mean over all tokens", 2},
    {"one rank: so do parts of unequal length", 2},
    {"so do those of 2 and 3 ranks", 3},
    {"each update sends the bytes of one exchange", 2},
    {"the mean loss over all tokens is returned", 1},
    {0}};

enum { STEPS = 2, PARAMS = 4, TOLD = 8, MOST_TOKENS = 512 };

static void draw_text(Tensor *text, Tensor *to) {
    static float values[MOST_TOKENS * TOKEN];
    int n = to->shape[0];
    for (int x = 0; x < n * TOKEN; x++) values[x] = (float)draw(-128, 127) / 8;
    tensor_write(text, values);
    for (int row = 0; row < n; row++) values[row] = (float)draw(0, CLASSES - 1);
    tensor_write(to, values);
}

// Of each weight and bias some numbers, spread over all.
static void read_some(const Ddp *ddp, int i, float some[PARAMS * TOLD]) {
    for (int p = 0; p < PARAMS; p++) {
        const Tensor *t = parameter_data(ddp->params[p], ddp->devices[i]);
        float *values = tensor_values(t);
        for (size_t j = 0; j < TOLD; j++) some[p * TOLD + (int)j] = values[j * numel(t) / TOLD];
        free(values);
    }
}

static void record_bytes(const Ddp *ddp) {
    for (int i = 0; i < ddp->k; i++)
        for (int j = 0; j < ddp->k; j++)
            if (i != j || ddp->k == 1)
                record_int(BYTES, (long)ledger_bytes(ddp->devices[i], ddp->devices[j]),
                           "bytes from device %d to device %d", i, j);
}

static void run(int part, Plan *plan, int n) {
    Module *net = token_network();
    Device *devices[MOST_RANKS];
    Tensor *text = tensor_new(host(), n, TOKEN), *to = tensor_new(host(), n);
    float lr = (float)draw(10, 40) / 1000, before[PARAMS * TOLD], after[PARAMS * TOLD];
    draw_text(text, to);
    plan->text = text;
    plan->to = to;
    initialize(net, (uint64_t)draw(1, 1000000));
    open_devices(devices, plan->k);
    Ddp *ddp = ddp_new(net, devices, plan->k, (DdpOptions){0});
    synchronize_all();
    read_some(ddp, 0, before);
    ledger_reset();
    for (int step = 0; step < STEPS; step++) {
        double loss = step_in_parts(ddp, plan, lr);
        if (step == 0) record_real(LOSS, loss, 1e-4, "returned by the first step");
        synchronize_all();
    }
    for (int i = 0; i < plan->k; i++) {
        read_some(ddp, i, after);
        for (int j = 0; j < PARAMS * TOLD; j++) after[j] -= before[j];
        record_floats(part, after, PARAMS * TOLD, 1e-3, "change of parameters of device %d", i);
    }
    record_bytes(ddp);
    ddp_free(ddp);
    module_free(net);
    tensor_free(text);
    tensor_free(to);
}

// A part has `most` tokens, or fewer if they are unequal. Padding is between parts and at the end.
static void drawn_parts(int part, int k, int m, bool equal) {
    Plan plan = {.k = k, .m = m};
    char sizes[160] = "";
    int n = 0, length = 0, most = (int)draw(2, 9);
    for (int i = 0; i < k; i++)
        for (int j = 0; j < m; j++) {
            int count = equal ? most : (int)draw(1, most) + 9 * ((i + j) % 2);
            plan.tokens[i][j] = (Range){n + (int)draw(0, 3), count};
            n = (int)plan.tokens[i][j].first + count;
            length += snprintf(sizes + length, sizeof sizes - (size_t)length, "%s%d",
                               j > 0   ? " + "
                               : i > 0 ? ", "
                                       : "",
                               count);
        }
    begin_case("two updates, k = %d, m = %d, parts of %s tokens", k, m, sizes);
    run(part, &plan, n + (int)draw(1, 4));
}

static void equal_parts(void) {
    for (int m = 1; m <= 5; m++) drawn_parts(EQUAL, 1, m, true);
}
static void unequal_parts(void) {
    for (int m = 2; m <= 5; m++) drawn_parts(UNEQUAL, 1, m, false);
}
static void ranks(void) {
    for (int c = 0; c < 8; c++) drawn_parts(RANKS, 2 + c % 2, 1 + c / 2, false);
}

const Group groups[] = {
    {"equal parts", equal_parts, 5}, {"unequal parts", unequal_parts, 5}, {"ranks", ranks, 5}, {0}};
