// cases.c: a block with drawn weights, forward and backward, on 1 to 4 devices: what comes out, the
// gradients, and what devices sent each other.
#include "common/program/facts.h"
#include "your_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ONE = 1, OUTPUTS, WEIGHTS, INPUTS, BYTES, SEQUENCE };
const Part parts[] = {
    {"one device: the block, forward and backward", 1},
    {"2 to 4 devices: each has the tokens that one device would compute", 2},
    {"2 to 4 devices: the gradients of the weights that are cut are one device's", 2},
    {"2 to 4 devices: gradients of the input and of what all devices have, the same on each", 2},
    {"2 to 4 devices: a device sends four sums of all tokens, and your formula says so", 1},
    {"sequence parallelism: the same values, what is kept between the passes, and bytes", 2},
    {0}};

enum { MOST_SHOWN = 40, NUM_BLOCKS = 4 };

// Up to 40 of the numbers, from all over them.
static void record_some(int part, const float *values, size_t n, const char *name) {
    float some[MOST_SHOWN];
    size_t step = n / MOST_SHOWN + 1, shown = 0;
    for (size_t at = step / 2; at < n; at += step) some[shown++] = values[at];
    record_floats(part, some, shown, 1e-4, "%s", name);
}

// A tensor on each device, or what all devices' own tokens are together.
static void record_devices(int part, const Half *h, bool own, const OnDevices of,
                           const char *name) {
    for (int i = 0; i < (own && h->sequence ? 1 : h->t); i++) {
        size_t n;
        char text[80];
        float *values = values_of_all(of + i, own && h->sequence ? h->t : 1, &n);
        snprintf(text, sizeof text, name, i);
        record_some(part, values, n, text);
        free(values);
    }
}

static void record_outputs(const Block *b, int part) {
    const Half *attention = &b->halves[0], *mlp = &b->halves[1];
    record_devices(part, attention, true, attention->Y, "tokens after attention, device %d");
    record_devices(part, mlp, true, mlp->Y, "tokens after the MLP, device %d");
}

static void record_weights(const Block *b, int part) {
    static const char *const names[] = {"gradient of QUERIES", "gradient of KEYS",
                                        "gradient of VALUES",  "gradient of OUT",
                                        "gradient of UP",      "gradient of DOWN"};
    size_t most = 0;
    for (Weight w = QUERIES; w <= DOWN; w++) {
        float *gradient = weight_gradient(b, w);
        Shard all = whole_weight(w, b->sizes);
        size_t n = (size_t)(all.rows.count * all.columns.count) / (w <= VALUES ? 3 : 1);
        record_some(part, gradient + (w <= VALUES ? w * n : 0), n, names[w]);
        free(gradient);
    }
    for (int i = 0; i < b->halves[0].t; i++)
        if (weights_on(b, i) > most) most = weights_on(b, i);
    record_at_most(part, (double)most, "most numbers of these weights on a device");
}

// How many numbers do not have the bits of those on device 0.
static long num_other_bits(const OnDevices of, int i) {
    float *first = tensor_values(of[0]), *own = tensor_values(of[i]);
    long different = 0;
    for (size_t at = 0; at < numel(of[i]); at++)
        different += memcmp(&first[at], &own[at], sizeof *own) != 0;
    free(first);
    free(own);
    return different;
}

static void record_gradients(const Block *b, int part) {
    const Half *attention = &b->halves[0], *mlp = &b->halves[1];
    record_devices(part, mlp, false, mlp->replicated,
                   "gradient of the MLP's norm and bias, device %d");
    record_devices(part, mlp, true, mlp->dX, "gradient of the MLP's X, device %d");
    record_devices(part, attention, false, attention->replicated,
                   "gradient of attention's norm and bias, device %d");
    record_devices(part, attention, true, attention->dX, "gradient of attention's X, device %d");
    for (int i = 1; i < mlp->t; i++) {
        long norms = num_other_bits(attention->replicated, i);
        record_int(part, norms,
                   "numbers of attention's norm and bias that differ, devices 0 and %d", i);
        if (!mlp->sequence)
            record_int(part, num_other_bits(attention->dX, i),
                       "numbers of X's gradient that differ, devices 0 and %d", i);
    }
}

static void record_traffic(const Block *b, int part) {
    float sums[MOST_SPLIT_BLOCK * MOST_SPLIT_BLOCK];
    size_t n = 0;
    for (int i = 0; i < b->halves[0].t; i++)
        for (int j = 0; j < b->halves[0].t; j++) {
            if (i == j) continue;
            record_int(part, (long)ledger_bytes(b->devices[i], b->devices[j]),
                       "bytes from device %d to device %d", i, j);
            sums[n++] = (float)ledger_cargo(b->devices[i], b->devices[j]);
        }
    if (part == BYTES) part = PART_IF(PART_IF(PART_IF(BYTES, OUTPUTS), WEIGHTS), INPUTS);
    record_floats(part, sums, n, 1e-3, "sums of all numbers that one device sent to another");
}

static void block(Sizes s, int t, bool sequence, uint64_t seed) {
    Device *devices[MOST_SPLIT_BLOCK];
    begin_case("%st = %d, %d tokens, d = %d, %d heads", sequence ? "sequence parallelism, " : "", t,
               s.tokens, s.d, s.heads);
    open_devices(devices, t);
    Block *b = block_new(s, t, sequence, devices, seed);
    synchronize_all();
    ledger_reset();
    ledger_watch_cargo();
    block_forward(b);
    synchronize_all();
    record_outputs(b, sequence ? SEQUENCE : t == 1 ? ONE : OUTPUTS);
    for (int i = 0; i < t && sequence; i++)
        record_int(SEQUENCE, (long)tokens_on(b, i),
                   "numbers of X, N, N_all that device %d keeps between the passes", i);
    block_backward(b);
    synchronize_all();
    record_weights(b, sequence ? SEQUENCE : t == 1 ? ONE : WEIGHTS);
    record_gradients(b, sequence ? SEQUENCE : t == 1 ? ONE : INPUTS);
    if (t > 1) record_traffic(b, sequence ? SEQUENCE : BYTES);
    block_free(b);
}

// All of these numbers of devices divide the tokens, but few of them the heads.
static void blocks(bool sequence) {
    static const int heads[NUM_BLOCKS] = {5, 8, 7, 6};
    Sizes sizes[NUM_BLOCKS];
    uint64_t seeds[NUM_BLOCKS];
    for (int c = 0; c < NUM_BLOCKS; c++) {
        sizes[c] = (Sizes){12 * (int)draw(1, 2), 4 * heads[c], heads[c]};
        seeds[c] = (uint64_t)draw(1, 1000000);
    }
    for (int t = 1; t <= 4; t++)
        for (int c = 0; c < NUM_BLOCKS; c++) block(sizes[c], t, sequence, seeds[c]);
}

static void whole_tokens(void) { blocks(false); }
static void sequence_parallel(void) { blocks(true); }

static void formula(void) {
    for (int c = 0; c < 8; c++) {
        int t = (int)draw(1, 8), d = t * (int)draw(8, 512), tokens = t * (int)draw(8, 512);
        begin_case("bytes_of_block(), %d tokens, d = %d, t = %d", tokens, d, t);
        record_int(BYTES, bytes_of_block(tokens, d, t, false),
                   "bytes without sequence parallelism");
        record_int(SEQUENCE, bytes_of_block(tokens, d, t, true), "bytes with it");
    }
}

const Group groups[] = {{"whole tokens", whole_tokens, 0},
                        {"sequence parallelism", sequence_parallel, 0},
                        {"bytes", formula, 0},
                        {0}};
