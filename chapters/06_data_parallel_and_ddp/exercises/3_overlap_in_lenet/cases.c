// cases.c: on model devices a trace says when everything was done, in every run alike: what begins
// too early is a number there, and not a value that is sometimes wrong. Then steps that compute.
#include "common/program/facts.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "traced.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WAITS = 1, GOES_ON, UPDATE, STEPS };
const Part parts[] = {
    {"gradient_is_final(): a parameter is exchanged once, after the gradients of all devices", 3},
    {"gradient_is_final(): backward goes on meanwhile", 3},
    {"update_all(): the update waits for the exchange", 2},
    {"steps on 1 to 7 devices have the parameters of chapter 4's train_batch()", 2},
    {0}};

static void record_exchange(const Traced *t, int p) {
    int sent[MAX_COMPUTING] = {0};
    double early = -1;
    for (const TraceSpan *s = t->spans; s < t->spans + t->count; s++) {
        if (number_in(s, "exchange ") != p) continue;
        for (int i = 0; i < t->o->k; i++) {
            const Device *device = t->o->devices[i];
            if (s->from == device) sent[i] += (int)s->bytes;
            if (s->from == device || s->device == device)
                early = fmax(fmax(early, 0), final_at(t, i, p) - s->start);
        }
    }
    record_ints(WAITS, sent, (size_t)t->o->k, "bytes that devices send for %s", gradient_names[p]);
    record_int(WAITS, early < 0 ? -1 : lround(1e9 * early),
               "ns that the exchange of %s begins too early (-1: there is none)",
               gradient_names[p]);
}

// Nothing on the way back waits for another device, so no compute queue has a gap there.
static void record_device(const Traced *t, int i) {
    const Device *device = t->o->devices[i];
    double begin = INFINITY, end = 0, busy = 0, update = INFINITY, exchanged = 0, kernels = 0;
    for (const TraceSpan *s = t->spans; s < t->spans + t->count; s++) {
        if (s->device == device && number_in(s, "exchange ") >= 0)
            exchanged = fmax(exchanged, s->end);
        if (s->device != device || s->communicates) continue;
        bool updates = strcmp(s->label, "update") == 0;
        kernels += updates;
        if (updates) update = fmin(update, s->start);
        if (number_in(s, "backward ") < 0) continue;
        begin = fmin(begin, s->start);
        end = fmax(end, s->end);
        busy += s->end - s->start;
    }
    record_int(GOES_ON, lround(1e9 * (end - begin - busy)),
               "ns that device %d stands still in backward", i);
    record_int(PART_IF(UPDATE, GOES_ON), (long)kernels, "kernels that update device %d", i);
    record_int(PART_IF(UPDATE, GOES_ON),
               exchanged == 0 ? -1 : lround(1e9 * fmax(0, exchanged - update)),
               "ns that device %d updates too early (-1: there is no exchange)", i);
}

static void record_trace(const Traced *t) {
    int in_compute_queues = 0;
    double first = INFINITY, backward_end = 0;
    for (int p = LENET_PARAMS - 1; p >= 0; p--) record_exchange(t, p);
    for (const TraceSpan *s = t->spans; s < t->spans + t->count; s++) {
        if (number_in(s, "backward ") >= 0) backward_end = fmax(backward_end, s->end);
        if (number_in(s, "exchange ") < 0) continue;
        in_compute_queues += !s->communicates;
        first = fmin(first, s->start);
    }
    record_int(GOES_ON, in_compute_queues, "pieces of exchanges in compute queues");
    record_text(GOES_ON, first < backward_end ? "while backward goes on" : "later, or never",
                "the first exchange begins");
    for (int i = 0; i < t->o->k; i++) record_device(t, i);
}

// One device's gradients come later than the others'.
static void traces(void) {
    for (int c = 0; c < 4; c++) {
        int k = c < 2 ? 2 : (int)draw(3, 4), rows = 256 * (int)draw(1, 3) * k;
        int slow = c < 2 ? c : (int)draw(0, k - 1);
        choose_allreduce(c % 2 ? "ring" : "star");
        begin_case("a step on %d devices, %s, %d images, device %d is slow", k,
                   chosen_allreduce()->name, rows, slow);
        Traced t;
        traced_step(&t, k, rows, slow);
        record_trace(&t);
        traced_close(&t);
    }
}

// What does not wait has the right values now and then; that is worth nothing. (Biases begin with
// 0. The tolerance is large, as a last digit decides on which side of zero a ReLU is.)
static void steps(void) {
    enum { ROWS = 30, TOLD = 6, VALUES = PART_IF(PART_IF(STEPS, WAITS), UPDATE) };
    static float pixels[ROWS * 784];
    for (int k = 1; k <= 7; k += k < 4 ? 1 : 3) {
        float lr = (float)draw(1, 40) / 100;
        Tensor *X = tensor_new(host(), ROWS, 1, 28, 28), *y = tensor_new(host(), ROWS);
        Tensor *losses[MAX_COMPUTING];
        Device *devices[MAX_COMPUTING];
        for (int j = 0; j < ROWS * 784; j++) pixels[j] = (float)draw(0, 255) / 255;
        tensor_write(X, pixels);
        for (int j = 0; j < ROWS; j++) pixels[j] = (float)draw(0, 9);
        tensor_write(y, pixels);
        open_devices(devices, k);
        Overlap *o = overlap_open(devices, k, (uint64_t)draw(1, 1000000));
        begin_case("two steps on %d device%s, lr %.2f", k, k == 1 ? "" : "s", (double)lr);
        for (int step = 0; step < 2; step++) overlap_step(o, X, y, lr, losses);
        synchronize_all();
        for (int i = 0; i < k; i++)
            for (int p = 1; p < LENET_PARAMS; p += 2) {
                float *values = tensor_values(o->params[i][p]);
                record_floats(VALUES, values, TOLD, 0.02, "%s on device %d", gradient_names[p], i);
                free(values);
            }
        overlap_close(o);
        tensor_free(X);
        tensor_free(y);
    }
}

const Group groups[] = {{"traces", traces, 5}, {"steps", steps, 5}, {0}};
