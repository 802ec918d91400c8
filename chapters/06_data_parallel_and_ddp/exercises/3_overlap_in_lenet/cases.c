// cases.c: on model devices a trace says when everything was done, in every run alike: what begins
// too early is a number there, and not a value that is sometimes wrong. Then steps that compute.
#include "common/device/trace.h"
#include "common/program/facts.h"
#include "common/program/modelled_run.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ONCE = 1, WAITS, GOES_ON, UPDATE, STEPS };
const Part parts[] = {
    {"gradient_is_final(): each parameter is exchanged once, by one allreduce", 2},
    {"gradient_is_final(): an exchange waits for the gradients of all devices", 3},
    {"gradient_is_final(): backward goes on meanwhile", 2},
    {"update_all(): the update waits for the exchange", 1},
    {"steps on 1 to 7 devices have the parameters of chapter 4's train_batch()", 2},
    {0}};

static const char *const names[LENET_PARAMS] = {"W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"};

typedef struct Traced {
    Overlap *o;
    TraceSpan *spans;
    int count;
} Traced;

// "exchange 4": 4; -1 if the label begins with something else.
static int number_in(const TraceSpan *span, const char *what) {
    size_t length = strlen(what);
    return strncmp(span->label, what, length) == 0 ? atoi(span->label + length) : -1;
}

// When gradient p is there: when all is done that its device's compute queue was given by then.
static double final_at(const Traced *t, const Device *device, int p) {
    const Overlap *o = t->o;
    double at = 0;
    int call = 0;
    while (o->devices[o->order_i[call]] != device || o->order_p[call] != p) call++;
    for (const TraceSpan *s = t->spans; s < t->spans + t->count; s++) {
        int calls = number_in(s, "backward ");
        if (calls < 0 || calls > call || s->device != device || s->communicates) continue;
        at = fmax(at, s->end);
    }
    return at;
}

static void record_exchange(const Traced *t, int p) {
    int sent[MAX_COMPUTING] = {0};
    double early = -1;
    for (const TraceSpan *s = t->spans; s < t->spans + t->count; s++) {
        if (number_in(s, "exchange ") != p) continue;
        early = fmax(fmax(early, 0), final_at(t, s->device, p) - s->start);
        if (s->from) early = fmax(early, final_at(t, s->from, p) - s->start);
        for (int i = 0; i < t->o->k; i++)
            if (s->from == t->o->devices[i]) sent[i] += (int)s->bytes;
    }
    record_ints(ONCE, sent, (size_t)t->o->k, "bytes that devices send for %s", names[p]);
    record_int(WAITS, early < 0 ? -1 : lround(1e9 * early),
               "ns that the exchange of %s begins too early (-1: there is none)", names[p]);
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
    record_int(UPDATE, (long)kernels, "kernels that update device %d", i);
    record_int(UPDATE, exchanged == 0 ? -1 : lround(1e9 * fmax(0, exchanged - update)),
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

// Links are slow enough for the exchange to outlast backward, and launches take no time: so all
// that is not waited for begins too early. One device's gradients come later than the others'.
static void traces(void) {
    Machine machine = *machine_find("cluster-10gbe");
    machine.launch = 0;
    for (int c = 0; c < 4; c++) {
        int k = c < 2 ? 2 : (int)draw(3, 4), rows = 256 * (int)draw(1, 3) * k, none;
        int slow = (int)draw(0, k - 1);
        const Tensor X = {.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()};
        const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
        Tensor *losses[MAX_COMPUTING];
        ModelledRun run = {.machine = &machine, .k = k, .traced = true};
        choose_allreduce(c % 2 ? "ring" : "star");
        begin_case("a step on %d devices, %s, %d images, device %d is slow", k,
                   chosen_allreduce()->name, rows, slow);
        modelled_begin(&run);
        device_set_slowdown(run.devices[slow], 2);
        Traced t = {.o = overlap_open(run.devices, k, 0)};
        trace_begin_models();
        overlap_step(t.o, &X, &y, 0, losses);
        free(trace_end(&none)); // nothing was computed
        t.spans = trace_modelled(&t.count);
        device_set_slowdown(run.devices[slow], 1);
        record_trace(&t);
        free(t.spans);
        overlap_close(t.o);
        modelled_end(&run);
    }
}

// Of each parameter some numbers, spread over all: by how much training changed them. A last digit
// decides on which side of zero one of LeNet's ReLUs is, so they can differ by more than rounding.
enum { TOLD = 10, TOLD_OF_ALL = LENET_PARAMS * TOLD };
static void read_some(const Overlap *o, int i, float some[TOLD_OF_ALL]) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *values = tensor_values(o->params[i][p]);
        int n = (int)numel(o->params[i][p]);
        for (int j = 0; j < TOLD; j++) some[p * TOLD + j] = values[j * n / TOLD];
        free(values);
    }
}

// The book's weights are so small that what changes them would be lost in rounding.
static void scale_weights(Overlap *o, float factor) {
    for (int i = 0; i < o->k; i++)
        for (int p = 0; p < LENET_PARAMS; p += 2) {
            float *values = tensor_values(o->params[i][p]);
            for (size_t j = 0; j < numel(o->params[i][p]); j++) values[j] *= factor;
            tensor_write(o->params[i][p], values);
            free(values);
        }
}

// What does not wait has the right values now and then; that is worth nothing.
static void steps_on(int k, const char *way) {
    enum { MOST_ROWS = 40, VALUES = PART_IF(PART_IF(STEPS, WAITS), UPDATE) };
    int rows = (int)draw(2 * k, MOST_ROWS);
    float lr = (float)draw(1, 40) / 100;
    static float pixels[MOST_ROWS * 784];
    Tensor *X = tensor_new(host(), rows, 1, 28, 28), *y = tensor_new(host(), rows);
    Tensor *losses[MAX_COMPUTING];
    Device *devices[MAX_COMPUTING];
    for (int j = 0; j < rows * 784; j++) pixels[j] = (float)draw(0, 255) / 255;
    tensor_write(X, pixels);
    for (int j = 0; j < rows; j++) pixels[j] = (float)draw(0, 9);
    tensor_write(y, pixels);
    choose_allreduce(way);
    open_devices(devices, k);
    Overlap *o = overlap_open(devices, k, (uint64_t)draw(1, 1000000));
    scale_weights(o, (float)draw(5, 15));
    float before[TOLD_OF_ALL], after[TOLD_OF_ALL];
    read_some(o, 0, before);
    begin_case("two steps on %d device%s, %s, %d images, lr %.2f", k, k == 1 ? "" : "s", way, rows,
               (double)lr);
    ledger_reset();
    for (int step = 0; step < 2; step++) {
        overlap_step(o, X, y, lr, losses);
        synchronize_all();
    }
    record_int(ONCE, (long)ledger_bytes_between_devices(), "bytes between devices");
    for (int i = 0; i < k; i++) {
        read_some(o, i, after);
        for (int j = 0; j < TOLD_OF_ALL; j++) after[j] -= before[j];
        for (int p = 0; p < LENET_PARAMS; p++)
            record_floats(VALUES, after + p * TOLD, TOLD, 0.02, "change of %s on device %d",
                          names[p], i);
    }
    overlap_close(o);
    tensor_free(X);
    tensor_free(y);
}

static void steps(void) {
    for (int k = 1; k <= 7; k += k < 4 ? 1 : 3) steps_on(k, draw(0, 1) ? "ring" : "star");
}

const Group groups[] = {{"traces", traces, 5}, {"steps", steps, 5}, {0}};
