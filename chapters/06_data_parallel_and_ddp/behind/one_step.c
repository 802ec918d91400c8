// one_step.c: see one_step.h. On devices without values: bytes, memory and modelled times are the
// same there as on devices that compute.
#include "one_step.h"

#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"

// ---- bytes ---------------------------------------------------------------------------------------

typedef struct Stepper {
    StepRecord *r;
    Module *net;
    Dp *dp;
    Ddp *ddp;
    Traffic before[MOST_RECORDED]; // what was counted when the phase began
} Stepper;

// What each device has sent and received since the ledger was reset.
static void count_traffic(const StepRecord *r, Traffic traffic[]) {
    for (int i = 0; i < r->setup.k; i++) {
        traffic[i] = (Traffic){0};
        for (int j = 0; j < r->setup.k; j++) {
            if (i == j) continue;
            traffic[i].sent += ledger_bytes(r->devices[i], r->devices[j]);
            traffic[i].received += ledger_bytes(r->devices[j], r->devices[i]);
        }
    }
}

static Traffic formula_of(const Stepper *t, int phase, int i) {
    const Setup *setup = &t->r->setup;
    if (t->dp)
        return dp_phase_bytes(t->dp, (DpPhase)phase, i, setup->k * setup->rows, 28 * 28,
                              (size_t)setup->classes);
    if (phase == DDP_BUFFERS) return ddp_buffer_bytes(t->ddp, i);
    return chosen_allreduce() == &no_exchange ? (Traffic){0} : ddp_gradient_bytes(t->ddp, i);
}

static void count_phase(Stepper *t, int phase) {
    Traffic now[MOST_RECORDED];
    count_traffic(t->r, now);
    for (int i = 0; i < t->r->setup.k; i++) {
        Traffic moved = {now[i].sent - t->before[i].sent, now[i].received - t->before[i].received};
        Traffic formula = formula_of(t, phase, i);
        CHECK(moved.sent == formula.sent && moved.received == formula.received,
              "a phase moves the bytes of its formula");
        t->r->phases[phase][i] = moved;
        t->before[i] = now[i];
    }
}

static void dp_phase_ends(Dp *dp, DpPhase phase, void *stepper) {
    (void)dp;
    count_phase(stepper, (int)phase);
}

// ---- a step --------------------------------------------------------------------------------------

static void step_by_ddp(Stepper *t, const Tensor *X, const Tensor *y) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *y_hat[MAX_DEVICES];
    Tensor *losses[MAX_DEVICES];
    int k = t->ddp->k;
    modelled_clock_use_ranks(true); // each rank has its own host thread
    for (int i = 0; i < k; i++) begin_step(t->ddp->devices[i]);
    trace_label("load");
    split_batch(X, y, t->ddp->devices, k, X_shards, y_shards);
    ddp_forward(t->ddp, X_shards, y_hat);
    count_phase(t, DDP_BUFFERS);
    for (int i = 0; i < k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
    ddp_backward(t->ddp, losses);
    count_phase(t, DDP_GRADIENTS);
    ddp_update(t->ddp, 0, X->shape[0]);
    modelled_clock_use_ranks(false);
}

// (Images that are sent to devices without values need no values either.)
static void step(Stepper *t) {
    int rows = t->r->setup.k * t->r->setup.rows;
    const Tensor X = {.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    ledger_reset();
    memset(t->before, 0, sizeof t->before);
    if (t->dp)
        dp_step(t->dp, &X, &y, NULL, 0);
    else
        step_by_ddp(t, &X, &y);
}

static void stepper_begin(Stepper *t) {
    const Setup *setup = &t->r->setup;
    t->net = setup->network->make(setup->classes);
    initialize_without_values(t->net);
    ledger_reset();
    if (setup->is_ddp) {
        t->ddp = ddp_new(t->net, t->r->devices, setup->k, setup->options);
        t->r->buckets = t->ddp->buckets.n;
    } else {
        t->dp = dp_new(t->net, t->r->devices, setup->k, setup->gathers);
        t->dp->phase_ends = dp_phase_ends;
        t->dp->context = t;
    }
    count_traffic(t->r, t->r->start);
    step(t);
    synchronize_all();
}

static void stepper_end(Stepper *t) {
    synchronize_all();
    if (t->ddp) ddp_free(t->ddp);
    if (t->dp) dp_free(t->dp);
    module_free(t->net);
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
    r->seconds = r->count > 0 ? end - start : NAN;
}

StepRecord *record_one_step(const Setup *setup, const Machine *machine) {
    StepRecord *r = xcalloc(1, sizeof *r);
    ModelledRun run = {.machine = machine, .k = setup->k, .traced = true};
    Stepper t = {.r = r};
    size_t before[MOST_RECORDED];
    int none;
    CHECK(setup->k <= MOST_RECORDED, "a recorded step has a row for each device");
    r->setup = *setup;
    modelled_begin(&run);
    memcpy(r->devices, run.devices, sizeof(Device *) * (size_t)setup->k);
    for (int i = 0; i < setup->k; i++) before[i] = device_bytes(r->devices[i]);
    stepper_begin(&t);
    if (machine) trace_begin_models();
    step(&t);
    count_traffic(r, r->total);
    if (machine) {
        free(trace_end(&none)); // nothing was computed
        r->spans = trace_modelled(&r->count);
    }
    find_seconds(r);
    // The arena reserves memory in large pieces: what counts is what is used of it.
    for (int i = 0; i < setup->k; i++)
        r->memory[i] = device_bytes(r->devices[i]) - before[i] -
                       arena_reserved_bytes(r->devices[i]) + arena_used_bytes(r->devices[i]);
    stepper_end(&t);
    modelled_end(&run);
    return r;
}

void step_record_free(StepRecord *r) {
    free(r->spans);
    free(r);
}

// ---- what a step was made of ---------------------------------------------------------------------

// The first span of a queue; `count` if it has none. (Spans are ordered by device, queue and time.)
static int first_of(const StepRecord *r, const Device *device, bool communicates) {
    int s = 0;
    while (s < r->count &&
           (r->spans[s].device != device || r->spans[s].communicates != communicates))
        s++;
    return s;
}

Exchange exchange_of(const StepRecord *r, int i) {
    Exchange e = {0};
    int c = first_of(r, r->devices[i], false), x = first_of(r, r->devices[i], true);
    for (; x < r->count && r->spans[x].device == r->devices[i]; x++) {
        const TraceSpan *exchange = &r->spans[x], *compute = &r->spans[c];
        e.seconds += exchange->end - exchange->start;
        while (!compute->communicates && compute->end <= exchange->start) compute = &r->spans[++c];
        for (int n = c; !compute->communicates && compute->start < exchange->end;
             compute = &r->spans[++n])
            e.hidden += fmin(exchange->end, compute->end) - fmax(exchange->start, compute->start);
    }
    return e;
}

int busiest_other(const StepRecord *r) {
    int most = 1;
    for (int i = 2; i < r->setup.k; i++)
        if (r->total[i].sent + r->total[i].received > r->total[most].sent + r->total[most].received)
            most = i;
    return most;
}

size_t most_memory_of_others(const StepRecord *r) {
    size_t most = 0;
    for (int i = 1; i < r->setup.k; i++)
        if (r->memory[i] > most) most = r->memory[i];
    return most;
}
