// cases.c: three steps of a small network from a state that was saved, and what loading leaves on
// each device.
#include "common/program/facts.h"
#include "your_part.h"

enum { ONE = 1, SEVERAL, LOADED };
const Part parts[] = {
    {"one device: three steps are the same as in a training that is not divided", 3},
    {"2 to 4 devices: they are the same, too, and only the necessary bytes move", 4},
    {"a saved training goes on: each device has what it needs of parameters and moments", 3},
    {0}};

enum { ROWS = 12, STEPS = 3, SOME = 64, SMALLEST = 8 };
static const double NEAR = 1e-4; // other orders of additions round elsewhere

static void draw_into(float *values, int n, int most) {
    for (int j = 0; j < n; j++) values[j] = (float)draw(-most, most) / 1000;
}

// More than is needed. With `most_moment` 0 the moments are 0, as at the beginning.
static void draw_saved(Saved *saved, int most_moment) {
    for (int p = 0; p < MOST_TENSORS; p++) {
        draw_into(saved->params[p], SOME, 900);
        draw_into(saved->moments[p], SOME, most_moment);
    }
}

// Of all parameters, what is in t[p][i].
static void record_tensors(int part, const Sharded *s, Tensor *const t[MOST_TENSORS][MOST_SHARDS],
                           int i, const char *what) {
    float values[4 * SOME], *to = values;
    for (int p = 0; p < s->n; to += numel(t[p++][i])) tensor_read(t[p][i], to);
    record_floats(part, values, (size_t)(to - values), NEAR, "%s that device %d keeps", what, i);
}

static void record_kept(int part, const Sharded *s) {
    for (int i = 0; i < s->k; i++) {
        record_tensors(part, s, s->own, i, "parameters");
        record_tensors(part, s, s->moments, i, "moments");
    }
}

static void record_traffic(int part, const Sharded *s) {
    for (int i = 0; i < s->k; i++)
        for (int j = 0; j < s->k; j++)
            if (i != j)
                record_int(part, (long)ledger_bytes(s->devices[i], s->devices[j]),
                           "bytes from device %d to device %d in the last step", i, j);
}

static void train(int part, Sharded *s, int in, int out, int steps) {
    float losses[STEPS], values[ROWS * SOME];
    Tensor *X = tensor_new(host(), ROWS, in), *y = tensor_new(host(), ROWS);
    for (int step = 0; step < steps; step++) {
        draw_into(values, ROWS * in, 2000);
        tensor_write(X, values);
        for (int row = 0; row < ROWS; row++) values[row] = (float)draw(0, out - 1);
        tensor_write(y, values);
        synchronize_all();
        ledger_reset();
        losses[step] = train_step(s, X, y, (float)draw(2, 6) / 10);
        synchronize_all();
    }
    record_traffic(part, s);
    record_floats(part, losses, (size_t)steps, NEAR, "mean losses of the steps");
    tensor_free(X);
    tensor_free(y);
}

static void run(int part, int k) {
    int in = (int)draw(3, 6), hidden = (int)draw(4, 7), out = (int)draw(4, 7);
    static Saved saved;
    begin_case(part == LOADED ? "load(), k = %d, layers of %d, %d and %d numbers"
                              : "three steps, k = %d, layers of %d, %d and %d numbers",
               k, in, hidden, out);
    Module *net = Sequential(Linear(in, hidden), ReLU(), Linear(hidden, out));
    initialize(net, 1);
    Sharded *s = sharded_new(net, k, SMALLEST, true);
    draw_saved(&saved, part == LOADED ? 900 : 0);
    load(s, &saved);
    if (part == LOADED) {
        record_kept(part, s);
        train(PART_IF(PART_IF(LOADED, ONE), SEVERAL), s, in, out, 2);
    } else {
        train(part, s, in, out, STEPS);
        record_kept(part, s);
    }
    sharded_free(s);
    module_free(net);
}

static void one_device(void) {
    for (int c = 0; c < 3; c++) run(ONE, 1);
}
static void several_devices(void) {
    for (int c = 0; c < 6; c++) run(SEVERAL, 2 + c / 2);
}
static void loaded(void) {
    for (int c = 0; c < 6; c++) run(LOADED, 2 + c / 2);
}

const Group groups[] = {{"one device", one_device, 0},
                        {"several devices", several_devices, 0},
                        {"from a saved training", loaded, 0},
                        {0}};
