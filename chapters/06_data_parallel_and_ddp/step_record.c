// step_record.c: see step_record.h.
#include "step_record.h"

#include "common/base/error.h"
#include "common/program/modelled_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- bytes -------------------------------------------------------------------------------------

// What each device has sent and received since the ledger was reset.
static void count_traffic(Device *const devices[], int k, Traffic traffic[]) {
    for (int i = 0; i < k; i++) {
        traffic[i] = (Traffic){0};
        for (int j = 0; j < k; j++) {
            if (i == j) continue;
            traffic[i].sent += ledger_bytes(devices[i], devices[j]);
            traffic[i].received += ledger_bytes(devices[j], devices[i]);
        }
    }
}

typedef struct Counting {
    StepRecord *r;
    Device *const *devices;
    Traffic before[MOST_RECORDED];
} Counting;

static void count_phase(int phase, void *context) {
    Counting *c = context;
    Traffic now[MOST_RECORDED];
    count_traffic(c->devices, c->r->way.k, now);
    for (int i = 0; i < c->r->way.k; i++) {
        c->r->phases[phase][i].sent += now[i].sent - c->before[i].sent;
        c->r->phases[phase][i].received += now[i].received - c->before[i].received;
        c->before[i] = now[i];
    }
}

static Traffic formula_of_dp(const Trained *t, int phase, int i, int rows) {
    return dp_phase_bytes(t->dp, (DpPhase)phase, i, rows, 28 * 28, (size_t)t->way.classes);
}

static Traffic formula_of_ddp(const Trained *t, int phase, int i) {
    return phase == 0 ? ddp_buffer_bytes(t->ddp, i) : ddp_gradient_bytes(t->ddp, i);
}

static void fill_in_formulas(StepRecord *r, const Trained *t) {
    for (int i = 0; i < r->way.k; i++) {
        for (int p = 0; t->dp && p < NUM_DP_PHASES; p++)
            r->formula[p][i] = formula_of_dp(t, p, i, r->rows);
        for (int p = 0; t->ddp && p < 2; p++) r->formula[p][i] = formula_of_ddp(t, p, i);
    }
}

// ---- a step ------------------------------------------------------------------------------------

static StepRecord *step_record_new(const Way *way, int rows, bool modelled) {
    CHECK(way->k <= MOST_RECORDED, "a recorded step has a row for each device");
    StepRecord *r = xcalloc(1, sizeof *r);
    *r = (StepRecord){.way = *way, .rows = rows, .modelled = modelled, .seconds = NAN};
    return r;
}

void step_record_free(StepRecord *r) {
    free(r->spans);
    free(r);
}

static void find_seconds(StepRecord *r) {
    double start = INFINITY, end = 0;
    for (int i = 0; i < r->count; i++) {
        start = fmin(start, r->spans[i].start);
        end = fmax(end, r->spans[i].end);
    }
    for (int i = 0; i < r->count; i++) {
        r->spans[i].start -= start;
        r->spans[i].end -= start;
    }
    if (r->count > 0) r->seconds = end - start;
}

static void count_step(StepRecord *r, Trained *t, const Tensor *X, const Tensor *y) {
    Counting counting = {.r = r, .devices = t->devices};
    t->phase_ends = count_phase;
    t->context = &counting;
    ledger_reset();
    trained_step(t, X, y, 0);
    t->phase_ends = NULL;
    count_traffic(t->devices, r->way.k, r->total);
}

// ---- modelled ----------------------------------------------------------------------------------

// The start of a large network takes a second to draw, and nobody reads it here: each is kept.
enum { MOST_KEPT = 4 };
static struct {
    const NetworkKind *kind;
    int classes;
    Module *net;
} kept[MOST_KEPT];

static Module *kept_network(const Way *way) {
    int i = 0;
    while (kept[i].net && (kept[i].kind != way->network || kept[i].classes != way->classes)) i++;
    CHECK(i < MOST_KEPT, "make MOST_KEPT larger");
    if (!kept[i].net) {
        kept[i].kind = way->network;
        kept[i].classes = way->classes;
        kept[i].net = way->network->make(way->classes);
        initialize(kept[i].net, 1);
    }
    return kept[i].net;
}

void step_records_end(void) {
    for (int i = 0; i < MOST_KEPT; i++) {
        module_free(kept[i].net);
        kept[i].net = NULL;
    }
}

static Trained *modelled_new(const Way *way, Device *const devices[]) {
    Way with_net = *way;
    if (way->kind != WAY_CHAPTER_4) with_net.net = kept_network(way);
    return trained_new(&with_net, devices, 1);
}

static void wait_for_step(Trained *t) { trained_loss(t); } // as a training does

// (Nobody reads images that are sent to devices without values: a shape is enough.)
typedef struct Shapes {
    Tensor X, y;
} Shapes;

static Shapes shapes_of(int rows) {
    return (Shapes){{.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()},
                    {.ndim = 1, .shape = {rows}, .device = host()}};
}

StepRecord *model_step(const Way *way, int rows, const Machine *machine) {
    StepRecord *r = step_record_new(way, rows, true);
    ModelledRun run = {.machine = machine, .k = way->k, .traced = true};
    Device *const *devices = run.devices;
    Shapes batch = shapes_of(rows);
    int none;
    modelled_begin(&run);
    memcpy(r->devices, devices, sizeof(Device *) * (size_t)way->k);
    size_t before[MOST_RECORDED];
    for (int i = 0; i < way->k; i++) before[i] = device_bytes(devices[i]);
    ledger_reset();
    Trained *t = modelled_new(way, devices);
    count_traffic(devices, way->k, r->start);
    trained_step(t, &batch.X, &batch.y, 0); // the first takes memory
    wait_for_step(t);
    if (machine) trace_begin_models();
    count_step(r, t, &batch.X, &batch.y);
    if (machine) {
        free(trace_end(&none)); // nothing was computed
        r->spans = trace_modelled(&r->count);
    }
    fill_in_formulas(r, t);
    for (int i = 0; i < way->k; i++) {
        r->reserved[i] = device_bytes(devices[i]) - before[i];
        r->memory[i] =
            r->reserved[i] - arena_reserved_bytes(devices[i]) + arena_used_bytes(devices[i]);
    }
    find_seconds(r);
    trained_free(t);
    modelled_end(&run);
    return r;
}

double model_step_seconds(const Way *way, int rows, const Machine *machine) {
    ModelledRun run = {.machine = machine, .k = way->k, .warm_up = 1};
    Shapes batch = shapes_of(rows);
    modelled_begin(&run);
    Trained *t = modelled_new(way, run.devices);
    while (modelled_run(&run)) trained_step(t, &batch.X, &batch.y, 0);
    trained_free(t);
    modelled_end(&run);
    return run.seconds;
}

int buckets_of_way(const Way *way) {
    Device *devices[MAX_DEVICES];
    for (int i = 0; i < way->k; i++) devices[i] = model_device(i);
    Trained *t = modelled_new(way, devices);
    int n = t->ddp->buckets.n;
    trained_free(t);
    return n;
}

// ---- measured ----------------------------------------------------------------------------------

static void measure_once(StepRecord *r, Trained *t, const Tensor *X, const Tensor *y) {
    TraceSpan *spans;
    int count;
    StepRecord *other = step_record_new(&r->way, r->rows, false);
    memcpy(other->devices, r->devices, sizeof r->devices);
    trace_begin();
    count_step(other, t, X, y);
    spans = trace_end(&count);
    other->spans = spans;
    other->count = count;
    find_seconds(other);
    if (!(r->seconds <= other->seconds)) {
        StepRecord swap = *r;
        *r = *other;
        *other = swap;
    }
    step_record_free(other);
}

StepRecord *measure_step(const Way *way, const Tensor *X, const Tensor *y) {
    enum { RUNS = 7 };
    StepRecord *r = step_record_new(way, X->shape[0], false);
    Device *devices[MAX_DEVICES];
    open_devices(devices, way->k);
    memcpy(r->devices, devices, sizeof(Device *) * (size_t)way->k);
    Trained *t = trained_new(way, devices, 1);
    trained_step(t, X, y, 0);
    wait_for_step(t);
    for (int run = 0; run < RUNS; run++) measure_once(r, t, X, y);
    trained_free(t);
    return r;
}

// ---- what a step was made of -------------------------------------------------------------------

int busiest_other(const StepRecord *r) {
    int most = 1;
    for (int i = 2; i < r->way.k; i++)
        if (r->total[i].sent + r->total[i].received > r->total[most].sent + r->total[most].received)
            most = i;
    return most;
}

size_t most_memory_of_others(const StepRecord *r) {
    size_t most = 0;
    for (int i = 1; i < r->way.k; i++)
        if (r->memory[i] > most) most = r->memory[i];
    return most;
}

static bool is_copy(const TraceSpan *span) { return strcmp(span->work, "copy") == 0; }

int copies_of(const StepRecord *r) {
    int n = 0;
    for (int i = 0; i < r->count; i++) n += is_copy(&r->spans[i]);
    return n;
}

int kernels_of(const StepRecord *r) { return r->count - copies_of(r); }

double label_seconds(const StepRecord *r, const Device *device, const char *label) {
    double seconds = 0;
    for (int i = 0; i < r->count; i++) {
        const TraceSpan *span = &r->spans[i];
        bool is_it = span->device == device && !span->communicates &&
                     strncmp(span->label, label, strlen(label)) == 0;
        if (is_it) seconds += span->end - span->start;
    }
    return seconds;
}
