// check.c: each half of the step, on variables of a few floats: what arrives, the bytes on each
// link, and the sums, first as numbers, then to the bit. Then a trace of a step on model devices,
// and LeNet next to chapter 7's towers.
#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/device/ledger.h"
#include "common/device/trace.h"
#include "common/program/exercise.h"
#include "common/program/modelled_run.h"
#include "common/tensor/autograd.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- small variables ---------------------------------------------------------------------------

enum { NUM_SMALL = 3, FLOATS = 11, MOST_TOWERS = 7 };
enum { HOST = MOST_TOWERS, NUM_PLACES }; // where bytes go besides the towers
static const int small_shapes[NUM_SMALL][2] = {{4, 1}, {3, 2}, {1, 1}};
static const int ks[] = {1, 2, 3, 4, 7};
enum { NUM_KS = sizeof ks / sizeof *ks, NUM_CASES = 2 * NUM_KS };

typedef enum { SEND, UPDATE, NUM_HALVES } Half;
static const char *const calls[NUM_HALVES] = {"send_variables_from_gpu()", "update_on_gpu()"};

// What a half of your part did with so many towers.
typedef struct Case {
    int k;
    Combine combine;
    bool whole; // gradients are whole numbers: their sums are the same in any order
    uint64_t bytes[NUM_PLACES][NUM_PLACES]; // [from][to]
    uint64_t elsewhere;                     // to and from devices without a tower
    float sent[MOST_TOWERS][FLOATS];        // the variables of each tower
    float updated[FLOATS];                  // those of device 0
} Case;

// One behind the other, over all variables.
static void write_floats(Tensor *const list[], const float *values) {
    for (int v = 0; v < NUM_SMALL; values += numel(list[v++])) tensor_write(list[v], values);
}

static void read_floats(Tensor *const list[], float *values) {
    for (int v = 0; v < NUM_SMALL; values += numel(list[v++])) tensor_read(list[v], values);
}

static float variable(int i, int j) { return (float)(100 * i + j + 1); }

// Whole numbers: tower i has 8^i, times a factor that says where. So the digits of a sum, to the
// base 8, say how often each tower's gradient is in it.
static int factor_of(int j) { return j + 1; }

// Numbers whose sum depends on the order of additions, as a float has 24 bits: with N = 2^24, N + 1
// is N again, but 1 + 1 + N is N + 2; and N + 5 is N + 4. Below each its sum with those before it,
// worked out by hand.
enum { NUM_ROWS = 3 };
#define N 16777216
static const float numbers[NUM_ROWS][MOST_TOWERS] = {
    {1, N, 1, -N, 3, 0.5f, -1}, {N, 1, 1, -N, 5, N, -N}, {-N, N, 1, N, 1, -N, 3}};
static const float sums_of_numbers[NUM_ROWS][MOST_TOWERS] = {
    {1, N, N, 0, 3, 3.5f, 2.5f}, {N, N, N, 0, 5, N + 4, 4}, {-N, 0, 1, N, N, 0, 3}};
#undef N

// The gradient of float j of tower i.
static float gradient(const Case *c, int i, int j) {
    return c->whole ? (float)((1 << 3 * i) * factor_of(j)) : numbers[j % NUM_ROWS][i];
}

static void count_bytes(const GpuTowers *t, Case *c) {
    uint64_t known = 0;
    for (int i = 0; i < t->k; i++) {
        c->bytes[i][HOST] = ledger_bytes(t->devices[i], host());
        c->bytes[HOST][i] = ledger_bytes(host(), t->devices[i]);
        for (int j = 0; j < t->k; j++)
            known += c->bytes[i][j] = ledger_bytes(t->devices[i], t->devices[j]);
    }
    c->elsewhere = ledger_bytes_between_devices() - known;
}

static void call_yours(GpuTowers *t, Half half) {
    synchronize_all();
    ledger_reset();
    if (half == SEND)
        send_variables_from_gpu(t);
    else
        update_on_gpu(t, 1);
    synchronize_all();
}

static void run_send(GpuTowers *t, Case *c) {
    float values[FLOATS];
    for (int i = 0; i < t->k; i++) {
        for (int j = 0; j < FLOATS; j++) values[j] = variable(i, j);
        write_floats(t->vars[i], values);
    }
    call_yours(t, SEND);
    count_bytes(t, c);
    for (int i = 0; i < t->k; i++) read_floats(t->vars[i], c->sent[i]);
}

static void run_update(GpuTowers *t, Case *c) {
    float values[FLOATS];
    for (int i = 0; i < t->k; i++)
        for (int j = 0, v = 0; v < NUM_SMALL; j += (int)numel(t->vars[i][v++])) {
            tensor_fill(t->vars[i][v], 0);
            for (int e = 0; e < (int)numel(t->vars[i][v]); e++) values[e] = gradient(c, i, j + e);
            tensor_write(t->vars[i][v]->grad, values);
        }
    call_yours(t, UPDATE);
    count_bytes(t, c);
    read_floats(t->vars[0], c->updated);
}

static void run_case(Case *c, Half half) {
    Device *devices[MOST_TOWERS];
    Tensor *list[MOST_TOWERS][NUM_SMALL], **vars[MOST_TOWERS];
    open_devices(devices, c->k);
    for (int i = 0; i < c->k; i++) {
        vars[i] = list[i];
        for (int v = 0; v < NUM_SMALL; v++) {
            list[i][v] = tensor_of_shape(devices[i], 2, small_shapes[v]);
            attach_grad(list[i][v]);
        }
    }
    GpuTowers *t = gpu_towers_new(devices, c->k, vars, NUM_SMALL, c->combine);
    if (half == SEND)
        run_send(t, c);
    else
        run_update(t, c);
    gpu_towers_free(t);
    for (int i = 0; i < c->k; i++)
        for (int v = 0; v < NUM_SMALL; v++) tensor_free(list[i][v]);
}

static Case cases[NUM_CASES];

static void run_cases(Half half, bool whole) {
    for (int c = 0; c < NUM_CASES; c++) {
        Combine combine = c % 2 ? TOWERS_MEAN : TOWERS_SUM;
        cases[c] = (Case){.k = ks[c / 2], .combine = combine, .whole = whole};
        run_case(&cases[c], half);
    }
}

// ---- bytes -------------------------------------------------------------------------------------

enum { P = FLOATS * sizeof(float) };

static uint64_t formula(Half half, int from, int to) {
    bool wanted = half == SEND ? from == 0 && to > 0 : to == 0 && from > 0;
    return wanted && from < HOST && to < HOST ? P : 0;
}

static const char *hint_for_send(const Case *c, int from, int to, uint64_t came) {
    if (from >= HOST || to >= HOST)
        return "no detour: tensor_copy() copies from device 0 straight to another tower";
    if (to == 0 && c->bytes[0][from] == 0)
        return "these copies go the other way: tensor_copy(dst, src) writes its first argument";
    if (from > 0) return "the variables are those of tower 0: all others have copies of them";
    if (came == 0)
        return "this tower keeps its old variables: all n of them, to each of the towers 1 to k-1";
    return came < P ? "some variables are left out: 0 to n-1"
                    : "each variable goes to each other tower once";
}

// Whether all send to all; two towers do not tell.
static bool towers_exchange(void) {
    const Case *c = &cases[NUM_CASES - 1];
    bool all = true;
    for (int i = 0; i < c->k; i++)
        for (int j = 0; j < c->k; j++) all = all && (i == j || c->bytes[i][j] > 0);
    return all;
}

static const char *hint_for_update(int from, int to, uint64_t came) {
    if (from == HOST || to == HOST)
        return "gradients take a detour by way of the host, as in the chapter: tensor_copy() from "
               "the tower's device straight to device 0";
    if (towers_exchange())
        return "gradients of all at all devices come to this, for an update on each: that is "
               "another scheme, an allreduce; here device 0 alone combines and updates";
    if (from == 0)
        return "device 0 has something for the others, but not here: they get the new variables "
               "when the next step begins, and have no use for sums";
    if (to > 0) return "gradients go to device 0 alone";
    if (came == 0) return "the gradients of this tower do not get to device 0";
    return came < P ? "some gradients are left out: 0 to n-1" : "each gradient goes there once";
}

static const char *place_name(int place) {
    static char text[2][24];
    static int turn;
    if (place == HOST) return "the host";
    snprintf(text[turn ^= 1], sizeof text[0], "device %d", place);
    return text[turn];
}

static void check_bytes(const Case *c, Half half) {
    EXPECT(c->elsewhere == 0,
           "no detour by a device that is none of the towers' (the CPU?): copy straight",
           "%s, k = %d towers: %llu bytes to and from devices without a tower, expected 0",
           calls[half], c->k, (unsigned long long)c->elsewhere);
    for (int from = NUM_PLACES - 1; from >= 0; from--) // what tells most comes first
        for (int to = NUM_PLACES - 1; to >= 0; to--) {
            uint64_t came = c->bytes[from][to];
            bool among_towers = from < c->k && to < c->k;
            uint64_t right = among_towers ? formula(half, from, to) : 0;
            EXPECT(came == right,
                   half == SEND ? hint_for_send(c, from, to, came)
                                : hint_for_update(from, to, came),
                   "%s, k = %d towers, %d bytes of variables: %llu bytes from %s to %s, expected "
                   "%llu",
                   calls[half], c->k, (int)P, (unsigned long long)came, place_name(from),
                   place_name(to), (unsigned long long)right);
        }
}

// LeNet's variables have other shapes.
static void check_bytes_of_lenet(int k, Half half) {
    Device *devices[MOST_TOWERS];
    Worker workers[MOST_TOWERS];
    Tensor **vars[MOST_TOWERS];
    open_devices(devices, k);
    for (int i = 0; i < k; i++) {
        workers[i] = worker_new(devices[i], 1);
        vars[i] = workers[i].list;
    }
    GpuTowers *t = gpu_towers_new(devices, k, vars, LENET_PARAMS, TOWERS_SUM);
    call_yours(t, half);
    uint64_t by_host = ledger_bytes_host(), between = ledger_bytes_between_devices();
    uint64_t right = (uint64_t)(k - 1) * lenet_floats() * sizeof(float);
    EXPECT(by_host == 0 && between == right, "(k-1) P between devices, nothing by way of the host",
           "%s, LeNet, k = %d: %llu bytes by way of the host, and %llu between devices, expected 0 "
           "and %llu",
           calls[half], k, (unsigned long long)by_host, (unsigned long long)between,
           (unsigned long long)right);
    gpu_towers_free(t);
    for (int i = 0; i < k; i++) worker_free(&workers[i]);
}

static void check_all_bytes(Half half) {
    run_cases(half, true);
    for (int c = 0; c < NUM_CASES; c++) check_bytes(&cases[c], half);
    for (int i = 0; i < NUM_KS; i++) check_bytes_of_lenet(ks[i], half);
}

// ---- values ------------------------------------------------------------------------------------

static const char *hint_for_sent(const Case *c, int i, int j) {
    if (c->sent[i][j] == variable(i, j)) return "this tower keeps its old variable";
    if (i == 0)
        return "the variables themselves stay as they are: tensor_copy(dst, src) writes its first "
               "argument";
    return "is each variable sent as it is, from tower 0's to the one with the same number?";
}

static void check_sent(const Case *c) {
    for (int i = 0; i < c->k; i++)
        for (int j = 0; j < FLOATS; j++)
            EXPECT(c->sent[i][j] == variable(0, j), hint_for_sent(c, i, j),
                   "%s, k = %d: float %d of tower %d is %g, expected %g", calls[SEND], c->k, j, i,
                   (double)c->sent[i][j], (double)variable(0, j));
}

// The digits of whole numbers are all 1, and so they are (8^k - 1) / 7.
static float sum_of_all(const Case *c, int j) {
    return c->whole ? (float)(((1 << 3 * c->k) - 1) / 7 * factor_of(j))
                    : sums_of_numbers[j % NUM_ROWS][c->k - 1];
}

static float expected_update(const Case *c, int j) {
    float rate = 1 / (float)(c->combine == TOWERS_MEAN ? c->k : 1);
    return 0 - rate * sum_of_all(c, j);
}

static bool is_near(double came, double right) { return fabs(came - right) <= 1e-5 * fabs(right); }

// Of whole numbers to the rounding of a division, of others to the bit.
static bool is_updated(const Case *c, int j) {
    float right = expected_update(c, j);
    return c->whole ? is_near((double)c->updated[j], (double)right) : c->updated[j] == right;
}

static bool all_are_updated(void) {
    for (int c = 0; c < NUM_CASES; c++)
        for (int j = 0; j < FLOATS; j++)
            if (!is_updated(&cases[c], j)) return false;
    return true;
}

static bool any_is_updated(void) {
    for (int c = 0; c < NUM_CASES; c++)
        for (int j = 0; j < FLOATS; j++)
            if (cases[c].updated[j] != 0) return true;
    return false;
}

// By what the sum of all was divided: 1, k, or 0, if that is not the sum of all.
static int divisor_in(const Case *c, int j) {
    double sum = (double)sum_of_all(c, j), came = -(double)c->updated[j];
    return is_near(came, sum) ? 1 : is_near(came * c->k, sum) ? c->k : 0;
}

static const char *hint_for_divisor(const Case *c, int j) {
    bool sum = c->combine == TOWERS_SUM;
    const Case *other = sum ? c + 1 : c - 1; // the same k
    if (divisor_in(other, j) == (sum ? 1 : c->k))
        return "sum and mean, one for the other, come to this: which of them is divided?";
    return sum ? "sums that are always divided by k come to this: what if t->combine is TOWERS_SUM?"
               : "sums that are never divided come to this: what if t->combine is TOWERS_MEAN?";
}

// Whose gradients are in it, how often; false: that is no sum of whole gradients.
static bool times_of(const Case *c, int j, int times[MOST_TOWERS]) {
    double sum = -(double)c->updated[j] * (c->combine == TOWERS_MEAN ? c->k : 1) / factor_of(j);
    long digits = lround(sum);
    if (!c->whole || !(sum >= 0 && sum < 1 << 24) || !(fabs(sum - (double)digits) < 0.1))
        return false;
    for (int i = 0; i < c->k; i++) times[i] = (int)(digits >> 3 * i & 7);
    return digits >> 3 * c->k == 0;
}

static const char *hint_for_times(int k, const int times[]) {
    int once = 0;
    for (int i = 0; i < k; i++) once += times[i] == 1;
    if (times[0] == 2 && once == k - 1)
        return "device 0's own gradient, added twice, comes to this: is the sum 0 before the first "
               "addition?";
    if (times[0] == 0 && once == k - 1 && k > 2)
        return "device 0's own gradient is left out: it needs no copy, but it counts";
    if (times[k - 1] == 1 && once == 1)
        return "the last gradient alone comes to this: does each overwrite the one before? Or is "
               "device 0's own left out? Add them all";
    if (times[0] == 1 && once == 1)
        return "device 0's own gradient alone comes to this: add the others', too";
    if (times[k - 1] == 0) return "sums without the last tower's come to this: 0 to k-1";
    return "each tower's gradient counts once";
}

static const char *hint_for_value(const Case *c, int j) {
    int times[MOST_TOWERS];
    double came = (double)c->updated[j];
    if (!any_is_updated()) return "there is no update: combine, then sgd on device 0";
    if (!c->whole)
        return "additions in another order have other roundings: tower 0's gradient is first, then "
               "that of tower 1, and so on, nothing in pairs, device 0's own not at the end. And "
               "an sgd for each gradient rounds each time: combine first";
    if (is_near(-came, (double)expected_update(c, j)))
        return "plus instead of minus comes to this: sgd goes down the gradient";
    if (divisor_in(c, j) > 0) return hint_for_divisor(c, j);
    if (times_of(c, j, times)) return hint_for_times(c->k, times);
    return "suspects: whose gradients are added (0 to k-1, each once), batch_size, lr, n (numel() "
           "of the variable); no usual mistake comes to this";
}

static const char *times_text(const Case *c, int j) {
    static char text[160];
    int times[MOST_TOWERS], length = 0;
    if (!times_of(c, j, times) || divisor_in(c, j) > 0) return "";
    length +=
        snprintf(text, sizeof text, " (so the gradients of towers 0 to %d are in it", c->k - 1);
    for (int i = 0; i < c->k; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %d", times[i]);
    snprintf(text + length, sizeof text - (size_t)length, " times)");
    return text;
}

static void check_updated(const Case *c) {
    for (int j = 0; j < FLOATS; j++)
        EXPECT(is_updated(c, j), hint_for_value(c, j),
               "%s, k = %d, %s, learning rate 1: float %d of the variables goes from 0 to %.9g%s, "
               "expected %.9g",
               calls[UPDATE], c->k, c->combine == TOWERS_MEAN ? "mean" : "sum", j,
               (double)c->updated[j], times_text(c, j), (double)expected_update(c, j));
}

// ---- a traced step -----------------------------------------------------------------------------

typedef struct Traced {
    GpuTowers *t;
    Worker workers[MOST_TOWERS];
    TraceSpan *spans;
    int count;
    bool only_when; // needless copies are not asked for
} Traced;

static bool is_labelled(const TraceSpan *span, const char *label) {
    return strcmp(span->label, label) == 0;
}

static bool is_work(const TraceSpan *span, const char *work) {
    return strcmp(span->work, work) == 0;
}

// Of the spans with this label in the queue of the device: when the first began, the last ended.
static double first_start(const Traced *s, const char *label, const Device *device) {
    double start = INFINITY;
    for (int i = 0; i < s->count; i++)
        if (is_labelled(&s->spans[i], label) && s->spans[i].device == device)
            start = fmin(start, s->spans[i].start);
    return start;
}

static double last_end(const Traced *s, const char *label, const Device *device) {
    double end = 0;
    for (int i = 0; i < s->count; i++)
        if (is_labelled(&s->spans[i], label) && s->spans[i].device == device)
            end = fmax(end, s->spans[i].end);
    return end;
}

static void check_copy(const Traced *s, const TraceSpan *span) {
    EXPECT(span->from != span->to || s->only_when,
           "device 0's own gradients and variables are there: use them where they are",
           "a step of %d towers: %zu bytes are copied from %s to itself (\"%s\"), expected no copy",
           s->t->k, span->bytes, device_name(span->from), span->label);
    if (is_labelled(span, "send")) {
        double begins = first_start(s, "compute", span->to);
        EXPECT(span->end <= begins + 1e-12,
               "a tower must not compute before its variables are there: tensor_copy() sees to "
               "that; with queue_copy() or device_copy_after() it is yours to see to",
               "a step of %d towers: variables are at %s after %.3g us, expected before it "
               "computes, after %.3g us",
               s->t->k, device_name(span->to), 1e6 * span->end, 1e6 * begins);
        return;
    }
    double computed = last_end(s, "compute", span->from);
    EXPECT(span->start >= computed - 1e-12,
           "that a gradient's work is enqueued does not mean that it is done: tensor_copy() waits "
           "for both queues; with queue_copy() or device_copy_after() it is yours to see to",
           "a step of %d towers: gradients of %s are copied after %.3g us, expected not before "
           "%.3g us, when they are computed",
           s->t->k, device_name(span->from), 1e6 * span->start, 1e6 * computed);
}

static void check_spans(const Traced *s) {
    double arrived = 0, updated = 0;
    for (int i = 0; i < s->count; i++) {
        const TraceSpan *span = &s->spans[i];
        bool updates = is_labelled(span, "update");
        if (!updates && !is_labelled(span, "send")) continue;
        EXPECT(!span->communicates,
               "use the compute queues: the communication queues know nothing of what is in those",
               "a step of %d towers: %s (\"%s\") is in the communication queue of %s, expected its "
               "compute queue",
               s->t->k, span->work, span->label, device_name(span->device));
        EXPECT(!is_work(span, "sgd") || span->device == s->t->devices[0],
               "device 0 alone updates; the others get the variables when the next step begins",
               "a step of %d towers: there is an update on %s, expected on %s alone", s->t->k,
               device_name(span->device), device_name(s->t->devices[0]));
        if (span->from) check_copy(s, span);
        if (updates && span->from) arrived = fmax(arrived, span->end);
        if (is_work(span, "sgd")) updated = fmax(updated, span->start);
    }
    EXPECT(updated >= arrived - 1e-12,
           "all gradients must have arrived: tensor_copy() sees to that; with queue_copy() or "
           "device_copy_after() it is yours to see to",
           "a step of %d towers: the last sgd begins after %.3g us, expected not before %.3g us, "
           "when the last gradient is on device 0",
           s->t->k, 1e6 * updated, 1e6 * arrived);
}

// Links are slow and launches take no time: what is not waited for begins too early.
static void check_trace(int k, bool only_when) {
    const Tensor X = {.ndim = 4, .shape = {64 * k, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {64 * k}, .device = host()};
    Machine machine = *machine_find("cluster-10gbe");
    ModelledRun run = {.machine = &machine, .k = k, .traced = true};
    Device *const *devices = run.devices;
    Tensor **vars[MOST_TOWERS];
    Traced s = {.only_when = only_when};
    int none;
    machine.launch = 0;
    modelled_begin(&run);
    for (int i = 0; i < k; i++) {
        s.workers[i] = worker_new(devices[i], 0);
        vars[i] = s.workers[i].list;
    }
    s.t = gpu_towers_new(devices, k, vars, LENET_PARAMS, TOWERS_SUM);
    for (int i = 1; i < k; i++) device_set_slowdown(devices[i], 16); // device 0 would not wait
    trace_begin_models();
    gpu_towers_step(s.t, s.workers, &X, &y, 0);
    free(trace_end(&none)); // nothing was computed
    s.spans = trace_modelled(&s.count);
    for (int i = 1; i < k; i++) device_set_slowdown(devices[i], 1);
    check_spans(&s);
    free(s.spans);
    gpu_towers_free(s.t);
    for (int i = 0; i < k; i++) worker_free(&s.workers[i]);
    modelled_end(&run);
}

// What is copied too early has other values only now and then: so first it is asked when.
static void check_updates(bool whole) {
    run_cases(UPDATE, whole);
    if (!all_are_updated()) check_trace(3, true);
    for (int c = 0; c < NUM_CASES; c++) check_updated(&cases[c]);
}

// ---- LeNet -------------------------------------------------------------------------------------

enum { CHECKED_STEPS = 3, CHECKED_BATCH = 28 };

// A GPU's sgd rounds once where a CPU's rounds twice, so only on CPU devices may it be the bits.
static double tolerance(void) { return num_gpus() > 0 ? 1e-4 : 0; }

static void check_variables(const Towers *theirs, const GpuTowers *yours, const float *start,
                            int step) {
    size_t n;
    float *right = values_of_all(theirs->vars, LENET_PARAMS, &n);
    float *came = values_of_all(yours->vars[0], LENET_PARAMS, &n);
    double apart = relative_difference(came, right, start, n);
    free(right);
    free(came);
    EXPECT(apart <= tolerance(),
           "small variables are updated as they should be, and sent; so what is left? Is n "
           "numel() of each variable, and is lr the one that is given?",
           "step %d of LeNet, k = %d towers: the variables are %.2g of the change apart from those "
           "of chapter 7's towers, expected %g",
           step, yours->k, apart, tolerance());
}

static void train_lenet(Towers *theirs, GpuTowers *yours, Worker workers[], const Dataset *data) {
    Tensor *X, *y;
    size_t n;
    float *start = values_of_all(theirs->vars, LENET_PARAMS, &n);
    DataIter *iter = data_iter_new(data, CHECKED_BATCH, true, 7);
    data_iter_start(iter, 0);
    for (int step = 1; data_iter_next(iter, &X, &y); step++) {
        towers_step(theirs, X, y, 0.1f);
        gpu_towers_step(yours, workers, X, y, 0.1f);
        synchronize_all();
        check_variables(theirs, yours, start, step);
    }
    data_iter_free(iter);
    free(start);
}

static void check_lenet(const Dataset *data, int k, Combine combine, uint64_t seed) {
    Device *devices[MOST_TOWERS];
    Worker workers[MOST_TOWERS];
    Tensor **vars[MOST_TOWERS];
    open_devices(devices, k);
    Towers *theirs = towers_new(devices, k, seed, combine, false);
    for (int i = 0; i < k; i++) { // towers but the first begin with variables that nobody wants
        workers[i] = worker_new(devices[i], seed + (uint64_t)i);
        vars[i] = workers[i].list;
    }
    GpuTowers *yours = gpu_towers_new(devices, k, vars, LENET_PARAMS, combine);
    train_lenet(theirs, yours, workers, data);
    gpu_towers_free(yours);
    towers_free(theirs);
    for (int i = 0; i < k; i++) worker_free(&workers[i]);
}

// ---- the parts ---------------------------------------------------------------------------------

static void check_variables_sent(const Flags *flags) {
    (void)flags;
    run_cases(SEND, true);
    for (int c = 0; c < NUM_CASES; c++) check_sent(&cases[c]);
}
static void check_bytes_of_send(const Flags *flags) {
    (void)flags;
    check_all_bytes(SEND);
}
static void check_values_of_update(const Flags *flags) {
    (void)flags;
    check_updates(true);
}
static void check_bytes_of_update(const Flags *flags) {
    (void)flags;
    check_all_bytes(UPDATE);
}
static void check_order(const Flags *flags) {
    Dataset *data = fashion_mnist_open(flags->data, true, CHECKED_STEPS * CHECKED_BATCH - 5);
    check_trace(3, false);
    check_updates(false);
    for (int c = 0; c < NUM_CASES; c++)
        check_lenet(data, ks[c / 2], c % 2 ? TOWERS_MEAN : TOWERS_SUM, 1);
    dataset_free(data);
}

const CheckPart check_parts[] = {
    {"send_variables_from_gpu(): each tower has device 0's variables", 2, check_variables_sent},
    {"send_variables_from_gpu(): P bytes from device 0 to each other tower, none elsewhere", 1,
     check_bytes_of_send},
    {"update_on_gpu(): the sum of all towers' gradients, or their mean, is applied", 3,
     check_values_of_update},
    {"update_on_gpu(): P bytes from each other tower to device 0, none elsewhere", 2,
     check_bytes_of_update},
    {"nothing is copied too early, or needlessly, and LeNet has the bits of chapter 7's towers", 2,
     check_order},
    {0}};
