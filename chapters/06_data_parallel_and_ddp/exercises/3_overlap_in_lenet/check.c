// check.c: on model devices a trace says when everything was done, in every run alike; so what is
// started too early is found there, and not by values that are sometimes wrong. Then the values:
// they must have the bits of chapter 4's train_batch().
#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/program/modelled_run.h"
#include "common/device/trace.h"
#include "common/program/exercise.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const param_names[LENET_PARAMS] = {"W1", "b1", "W2", "b2",
                                                      "W3", "b3", "W4", "b4"};

// ---- a traced step -----------------------------------------------------------------------------

typedef struct Traced {
    Overlap *o;
    TraceSpan *spans;
    int count;
    double final[MAX_COMPUTING][LENET_PARAMS]; // when the gradient was there
    double backward_end;                       // of all devices
} Traced;

// "exchange 4": 4; -1 if the label begins with something else.
static int number_in(const TraceSpan *span, const char *what) {
    size_t length = strlen(what);
    return strncmp(span->label, what, length) == 0 ? atoi(span->label + length) : -1;
}

static int device_of(const Overlap *o, const Device *device) {
    for (int i = 0; i < o->k; i++)
        if (o->devices[i] == device) return i;
    return -1;
}

// A gradient is there when all that its device's compute queue was given by then is done.
static void read_times(Traced *t) {
    for (int s = 0; s < t->count; s++) {
        const TraceSpan *span = &t->spans[s];
        int calls = number_in(span, "backward "), i = device_of(t->o, span->device);
        if (calls < 0 || span->communicates) continue;
        t->backward_end = fmax(t->backward_end, span->end);
        for (int q = calls; q < t->o->calls; q++)
            if (t->o->order_i[q] == i)
                t->final[i][t->o->order_p[q]] = fmax(t->final[i][t->o->order_p[q]], span->end);
    }
}

static Traced traced_step(Device *const devices[], int k, int rows) {
    const Tensor X = {.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    Tensor *losses[MAX_COMPUTING];
    Traced t = {0};
    int none;
    device_set_slowdown(devices[1], 2); // its gradients come later than those of the others
    t.o = overlap_open(devices, k, 0);
    trace_begin_models();
    overlap_step(t.o, &X, &y, 0, losses);
    free(trace_end(&none)); // nothing was computed
    t.spans = trace_modelled(&t.count);
    device_set_slowdown(devices[1], 1);
    read_times(&t);
    return t;
}

// ---- what is wrong with it ---------------------------------------------------------------------

static double bytes_of_exchange(const Traced *t, int p) {
    double bytes = 0;
    for (int s = 0; s < t->count; s++)
        if (t->spans[s].from && number_in(&t->spans[s], "exchange ") == p)
            bytes += (double)t->spans[s].bytes;
    return bytes;
}

static const char *hint_for_bytes(double bytes, double expected) {
    if (bytes == 0) return "allreduce() when the gradient is final on all k devices";
    if (bytes > expected)
        return "one exchange for each parameter: not before num_final[p] has come to k";
    return "all k gradients of the parameter take part in its exchange";
}

static void check_exchanges(const Traced *t) {
    int k = t->o->k;
    for (int p = LENET_PARAMS - 1; p >= 0; p--) {
        double bytes = bytes_of_exchange(t, p), expected = 0;
        for (int i = 0; i < k; i++)
            expected +=
                (double)allreduce_bytes(chosen_allreduce(), numel(t->o->params[0][p]), k, i).sent;
        EXPECT(bytes == expected, hint_for_bytes(bytes, expected),
               "a step on %d devices: the calls of gradient_is_final() for %s moved %.0f bytes, "
               "expected %.0f, those of one allreduce",
               k, param_names[p], bytes, expected);
    }
}

// Work of the exchange on device i reads the gradient of device d.
static void check_final(const Traced *t, const TraceSpan *span, int p, int i, int d) {
    EXPECT(span->start >= t->final[d][p] - 1e-12,
           "that a gradient's work is enqueued does not mean that it is done: the communication "
           "queue of each device must queue_wait() for a point of its compute queue, recorded by "
           "device_record() when the gradient was final there",
           "a step on %d devices: the exchange of %s (%s) begins on device %d after %.3g us, "
           "expected not before %.3g us, when the gradient of device %d is computed",
           t->o->k, param_names[p], span->work, i, 1e6 * span->start, 1e6 * t->final[d][p], d);
}

static void check_any_exchange(const Traced *t) {
    int exchanges = 0;
    for (int s = 0; s < t->count; s++) exchanges += number_in(&t->spans[s], "exchange ") >= 0;
    EXPECT(exchanges > 0, hint_for_bytes(0, 1),
           "a step on %d devices: gradient_is_final() exchanges nothing, expected each parameter",
           t->o->k);
}

static void check_waits_for_gradients(const Traced *t) {
    check_any_exchange(t);
    for (int s = 0; s < t->count; s++) {
        const TraceSpan *span = &t->spans[s];
        int p = number_in(span, "exchange "), i = device_of(t->o, span->device);
        if (p < 0) continue;
        check_final(t, span, p, i, i);
        if (span->from) check_final(t, span, p, i, device_of(t->o, span->from));
    }
}

static void check_under_backward(const Traced *t) {
    double first = INFINITY;
    check_any_exchange(t);
    for (int s = 0; s < t->count; s++) {
        const TraceSpan *span = &t->spans[s];
        int p = number_in(span, "exchange ");
        if (p < 0) continue;
        EXPECT(span->communicates,
               "what allreduce() enqueues goes into the compute queues, unless it stands between "
               "communicate_begin() and communicate_end(); there backward would have to wait for "
               "it",
               "a step on %d devices: the exchange of %s (%s) is done by the compute queue of "
               "device %d, expected its communication queue",
               t->o->k, param_names[p], span->work, device_of(t->o, span->device));
        first = fmin(first, span->start);
    }
    EXPECT(first < t->backward_end,
           "exchange a parameter in gradient_is_final(), when its last device has called, and wait "
           "for nothing but its own gradients",
           "a step on %d devices: the first exchange begins after %.3g us, expected while backward "
           "goes on, which ends after %.3g us",
           t->o->k, 1e6 * first, 1e6 * t->backward_end);
}

// Nothing on the way back waits for another device, so no compute queue has a gap there.
static void check_no_gaps(const Traced *t) {
    for (int i = 0; i < t->o->k; i++) {
        double begin = INFINITY, end = 0, busy = 0;
        for (int s = 0; s < t->count; s++) {
            const TraceSpan *span = &t->spans[s];
            if (device_of(t->o, span->device) != i || span->communicates) continue;
            if (number_in(span, "backward ") < 0) continue;
            begin = fmin(begin, span->start);
            end = fmax(end, span->end);
            busy += span->end - span->start;
        }
        EXPECT(end - begin - busy <= 1e-9,
               "who waits? not the host (event_synchronize(), synchronize()), and not the compute "
               "queue (device_wait()): the communication queue alone, by queue_wait()",
               "a step on %d devices: device %d stands still for %.3g us of its backward pass, "
               "expected 0",
               t->o->k, i, 1e6 * (end - begin - busy));
    }
}

static void check_update(const Traced *t) {
    double exchanged[MAX_COMPUTING] = {0};
    int updates = 0;
    for (int s = 0; s < t->count; s++) {
        int i = device_of(t->o, t->spans[s].device);
        if (number_in(&t->spans[s], "exchange ") >= 0)
            exchanged[i] = fmax(exchanged[i], t->spans[s].end);
    }
    for (int s = 0; s < t->count; s++) {
        const TraceSpan *span = &t->spans[s];
        int i = device_of(t->o, span->device);
        if (strncmp(span->label, "update", 6) != 0) continue;
        updates++;
        EXPECT(span->start >= exchanged[i] - 1e-12,
               "the compute queue knows nothing of the communication queue: device_wait() before "
               "sgd(), for a point behind all that the device's communication queue was given",
               "a step on %d devices: the update (%s) of device %d begins after %.3g us, expected "
               "not before %.3g us, when its last exchange is done",
               t->o->k, span->work, i, 1e6 * span->start, 1e6 * exchanged[i]);
    }
    EXPECT(updates > 0, "sgd() on each device", "a step on %d devices: no update, expected sgd()",
           t->o->k);
    check_any_exchange(t);
}

static void check_no_races(const Traced *t) {
    check_waits_for_gradients(t);
    check_update(t);
}

static void check_overlap(const Traced *t) {
    check_under_backward(t);
    check_no_gaps(t);
}

// Links are slow enough for the exchange to outlast backward, and launches take no time: so all
// that is not waited for begins too early.
static void check_trace(int k, void (*look)(const Traced *t)) {
    Machine machine = *machine_find("cluster-10gbe");
    machine.launch = 0;
    ModelledRun run = {.machine = &machine, .k = k, .traced = true};
    modelled_begin(&run);
    Traced t = traced_step(run.devices, k, 512 * k);
    look(&t);
    free(t.spans);
    overlap_close(t.o);
    modelled_end(&run);
}

static const char *const checked_allreduces[] = {"star", "ring"};
enum { NUM_CHECKED = sizeof checked_allreduces / sizeof *checked_allreduces };

static void check_traces(void (*look)(const Traced *t)) {
    for (int a = 0; a < NUM_CHECKED; a++) {
        choose_allreduce(checked_allreduces[a]);
        check_trace(3, look);
    }
}

// ---- steps that compute ------------------------------------------------------------------------

enum { CHECKED_STEPS = 3, CHECKED_BATCH = 56 };

static uint64_t bytes_since(uint64_t before) {
    synchronize_all();
    return ledger_bytes_between_devices() - before;
}

// By how much of the right update device i was updated: 1 if there is rounding between them.
static double part_of_update(const float *before, const float *came, const float *right, size_t n) {
    double product = 0, square = 0;
    for (size_t j = 0; j < n; j++) {
        double change = (double)right[j] - (double)before[j];
        product += change * ((double)came[j] - (double)before[j]);
        square += change * change;
    }
    return product / square;
}

static const char *hint_for_bits(double part, int k) {
    if (fabs(part) < 1e-3) return "there is no update: sgd() on each device";
    if (fabs(part / k - 1) < 1e-2)
        return "k times the update: batch_size is that of the whole minibatch, and no shard's";
    if (fabs(part - 1) < 1e-4)
        return "that is rounding: another order of additions; grads[j] is that of device j";
    return "the sums of all k gradients, then sgd() with lr and batch_size as they are, once on "
           "each device";
}

static void check_device(const Overlap *theirs, const Overlap *yours, int i, const float *before,
                         int step) {
    size_t n, differ = 0;
    float *came = values_of_all(yours->params[i], LENET_PARAMS, &n);
    float *right = values_of_all(theirs->params[i], LENET_PARAMS, &n);
    for (size_t j = 0; j < n; j++) differ += memcmp(&came[j], &right[j], sizeof *came) != 0;
    double part = part_of_update(before, came, right, n);
    free(came);
    free(right);
    EXPECT(differ == 0, hint_for_bits(part, yours->k),
           "step %d on %d devices, %s: %zu of the %zu parameters of device %d differ from those of "
           "train_batch(), expected the same bits",
           step, yours->k, chosen_allreduce()->name, differ, n, i);
}

// What a part of the check looks at, in each step.
typedef enum { BYTES, BITS } Looked;

// Chapter 4's step and yours, each on replicas of its own.
static void check_step(Overlap *theirs, Overlap *yours, const Tensor *X, const Tensor *y, int step,
                       Looked at) {
    Tensor *losses[MAX_DEVICES];
    size_t n;
    int k = yours->k;
    float *before = values_of_all(theirs->params[0], LENET_PARAMS, &n);
    uint64_t counted = bytes_since(0);
    train_batch(X, y, theirs->params, theirs->devices, k, 0.2f, losses);
    uint64_t expected = bytes_since(counted);
    counted += expected;
    overlap_step(yours, X, y, 0.2f, losses);
    uint64_t bytes = bytes_since(counted);
    EXPECT(at != BYTES || bytes == expected, "one allreduce() for each parameter, and nothing else",
           "step %d on %d devices: %llu bytes between devices, expected %llu", step, k,
           (unsigned long long)bytes, (unsigned long long)expected);
    for (int i = 0; i < k && at == BITS; i++) check_device(theirs, yours, i, before, step);
    free(before);
}

static void check_steps_on(const Dataset *data, int k, Looked at) {
    Device *devices[MAX_COMPUTING];
    Tensor *X, *y;
    open_devices(devices, k);
    Overlap *theirs = overlap_open(devices, k, 1), *yours = overlap_open(devices, k, 1);
    DataIter *iter = data_iter_new(data, CHECKED_BATCH, true, 7);
    data_iter_start(iter, 0);
    for (int step = 1; data_iter_next(iter, &X, &y); step++)
        check_step(theirs, yours, X, y, step, at);
    data_iter_free(iter);
    overlap_close(theirs);
    overlap_close(yours);
}

static void check_steps(const Flags *flags, Looked at) {
    const int ks[] = {1, 2, 3, 4, 7};
    Dataset *data = fashion_mnist_open(flags->data, true, CHECKED_STEPS * CHECKED_BATCH - 5);
    const Machine *machine = modelled_machine();
    modelled_clock_start(NULL);
    for (int a = 0; a < NUM_CHECKED; a++) {
        choose_allreduce(checked_allreduces[a]);
        for (int j = 0; j < 5; j++) check_steps_on(data, ks[j], at);
    }
    modelled_clock_start(machine);
    dataset_free(data);
}

// ---- parts -------------------------------------------------------------------------------------

static void check_bytes(const Flags *flags) {
    check_traces(check_exchanges);
    check_steps(flags, BYTES);
}
static void check_exchange_waits(const Flags *flags) {
    (void)flags;
    check_traces(check_waits_for_gradients);
}
static void check_backward_goes_on(const Flags *flags) {
    (void)flags;
    check_traces(check_overlap);
}
static void check_update_waits(const Flags *flags) {
    (void)flags;
    check_traces(check_update);
}
// What does not wait has the right bits now and then; that is worth nothing.
static void check_bits(const Flags *flags) {
    check_traces(check_no_races);
    check_steps(flags, BITS);
}

const CheckPart check_parts[] = {
    {"gradient_is_final(): each parameter is exchanged once, by one allreduce", 2, check_bytes},
    {"gradient_is_final(): an exchange waits for the gradients of all devices", 3,
     check_exchange_waits},
    {"gradient_is_final(): backward goes on meanwhile", 2, check_backward_goes_on},
    {"update_all(): the update waits for the exchange", 1, check_update_waits},
    {"steps on 1 to 7 devices have the bits of chapter 4's train_batch()", 2, check_bits},
    {0}};
