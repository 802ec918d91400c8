// cases.c: two steps with given gradients, on networks of two small layers: the parameters that
// come out, and what devices sent each other.
#include "common/program/facts.h"
#include "your_part.h"

#include <stdlib.h>

enum { ONE = 1, SHORT, LONG, BYTES };
const Part parts[] = {
    {"one device: a long gradient is clipped, a short one is not", 2},
    {"2 to 4 devices, short gradients: all devices have the parameters that one would have", 3},
    {"2 to 4 devices, long gradients: all are clipped by the norm of the whole gradient", 3},
    {"2 to 4 devices: only the necessary bytes move", 2},
    {0}};

enum { MOST_FLOATS = 64 };

// Adds whole numbers to the gradients, so that sums and squares are exact, and what the last step
// has left there shows.
static void draw_gradients(Sharded *s) {
    for (int p = 0; p < s->n; p++)
        for (int i = 0; i < s->k; i++) {
            float *values = tensor_values(s->grads[p][i]);
            for (size_t j = 0; j < numel(s->grads[p][i]); j++) values[j] += (float)draw(-9, 9);
            tensor_write(s->grads[p][i], values);
            free(values);
        }
}

static void record_params(const Sharded *s, int part) {
    for (int i = 0; i < s->k; i++) {
        float values[4 * MOST_FLOATS], *to = values;
        for (int p = 0; p < s->n; to += numel(s->params[p++][i])) tensor_read(s->params[p][i], to);
        record_floats(part, values, (size_t)(to - values), 1e-5, "parameters of device %d", i);
    }
}

static void record_traffic(const Sharded *s) {
    float sums[MOST_SHARDS * MOST_SHARDS];
    size_t n = 0;
    for (int i = 0; i < s->k; i++)
        for (int j = 0; j < s->k; j++) {
            const Device *from = s->devices[i], *to = s->devices[j];
            if (i == j) continue;
            record_int(BYTES, (long)ledger_bytes(from, to), "bytes from device %d to device %d", i,
                       j);
            sums[n++] = (float)ledger_cargo(from, to);
        }
    record_floats(PART_IF(PART_IF(BYTES, SHORT), LONG), sums, n, 1e-4,
                  "sums of all numbers that went between two devices");
}

// The parameters are small, so that two steps change most of what is recorded.
static void two_steps(int part, int k, bool is_long) {
    int in = (int)draw(2, 6), hidden = (int)draw(4, 7), out = (int)draw(4, 7), rows = k;
    rows *= (int)draw(2, 5);
    float max_norm = is_long ? (float)draw(5, 20) / 10 : 1e6f * (float)draw(1, 9);
    begin_case("two steps, k = %d, max_norm %g, %d rows", k, (double)max_norm, rows);
    Module *net = Sequential(Linear(in, hidden), ReLU(), Linear(hidden, out));
    initialize(net, (uint64_t)draw(1, 1000000));
    Sharded *s = sharded_new(net, k, 0, false);
    for (int i = 0; i < k; i++) tensor_fill(s->squares[i], 5000);
    synchronize_all();
    ledger_reset();
    ledger_watch_cargo();
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < k; i++) begin_step(s->devices[i]);
        draw_gradients(s);
        clipped_step(s, (float)draw(1, 9) / 10, max_norm, rows);
        synchronize_all();
    }
    record_params(s, part);
    if (k > 1) record_traffic(s);
    sharded_free(s);
    module_free(net);
}

static void one_device(void) {
    for (int c = 0; c < 6; c++) two_steps(ONE, 1, c % 2);
}
static void short_gradients(void) {
    for (int c = 0; c < 6; c++) two_steps(SHORT, 2 + c / 2, false);
}
static void long_gradients(void) {
    for (int c = 0; c < 6; c++) two_steps(LONG, 2 + c / 2, true);
}

const Group groups[] = {{"one device", one_device, 0},
                        {"short gradients", short_gradients, 0},
                        {"long gradients", long_gradients, 0},
                        {0}};
