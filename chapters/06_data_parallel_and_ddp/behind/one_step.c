// one_step.c: what moves in a step, what each device holds, and which queue does what, and when. On
// devices without values: bytes, memory and modelled times are the same there as on devices that
// compute.
#include "behind.h"

#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"

typedef struct Stepper {
    StepRecord *r;
    Module *net;
    Dp *dp;
    Ddp *ddp;
} Stepper;

static void step_by_ddp(Ddp *ddp, const Tensor *X, const Tensor *y) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    modelled_clock_use_ranks(true); // each rank has its own host thread
    for (int i = 0; i < ddp->k; i++) begin_step(ddp->devices[i]);
    trace_label("load");
    split_batch(X, y, ddp->devices, ddp->k, X_shards, y_shards);
    ddp_step(ddp, X_shards, y_shards, 0, X->shape[0], losses);
    modelled_clock_use_ranks(false);
}

static void step(const Stepper *s) {
    int rows = s->r->setup.k * s->r->setup.rows;
    const Tensor X = {.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    if (s->dp)
        dp_step(s->dp, &X, &y, 0);
    else
        step_by_ddp(s->ddp, &X, &y);
}

static Stepper stepper_of(StepRecord *r) {
    const Setup *setup = &r->setup;
    Stepper s = {.r = r, .net = setup->network->make(setup->classes)};
    initialize_without_values(s.net);
    if (setup->is_ddp) {
        s.ddp = ddp_new(s.net, r->devices, setup->k, setup->options);
        r->num_buckets = s.ddp->buckets.n;
    } else
        s.dp = dp_new(s.net, r->devices, setup->k, setup->gathers);
    step(&s);
    synchronize_all();
    return s;
}

static void stepper_free(Stepper *s) {
    synchronize_all();
    if (s->ddp) ddp_free(s->ddp);
    if (s->dp) dp_free(s->dp);
    module_free(s->net);
}

static void count_bytes(const Stepper *s) {
    StepRecord *r = s->r;
    const Setup *setup = &r->setup;
    for (int i = 0; i < setup->k; i++) {
        Traffic *t = &r->total[i];
        for (int j = 0; j < setup->k; j++) {
            t->sent += i == j ? 0 : ledger_bytes(r->devices[i], r->devices[j]);
            t->received += i == j ? 0 : ledger_bytes(r->devices[j], r->devices[i]);
        }
        if (chosen_allreduce() == &no_exchange) continue;
        Traffic formula =
            s->ddp ? ddp_bytes(s->ddp, i)
                   : dp_bytes(s->dp, i, setup->k * setup->rows, 28 * 28, (size_t)setup->classes);
        CHECK(t->sent == formula.sent && t->received == formula.received,
              "a step moves the bytes of its formula");
    }
}

static void find_seconds(StepRecord *r) {
    double start = INFINITY, end = 0;
    for (int i = 0; i < r->count; i++) start = fmin(start, r->spans[i].start);
    for (int i = 0; i < r->count; i++) {
        r->spans[i].start -= start;
        r->spans[i].end -= start;
        end = fmax(end, r->spans[i].end);
    }
    r->seconds = r->count > 0 ? end : NAN;
}

StepRecord *record_one_step(const Setup *setup, const Machine *machine) {
    StepRecord *r = xcalloc(1, sizeof *r);
    ModelledRun run = {.machine = machine, .k = setup->k, .traced = true};
    int none;
    CHECK(setup->k <= MOST_RECORDED, "a recorded step has a row for each device");
    r->setup = *setup;
    modelled_begin(&run);
    memcpy(r->devices, run.devices, sizeof(Device *) * (size_t)setup->k);
    Stepper s = stepper_of(r);
    ledger_reset();
    if (machine) trace_begin_models();
    step(&s);
    count_bytes(&s);
    if (machine) {
        free(trace_end(&none)); // nothing was computed
        r->spans = trace_modelled(&r->count);
    }
    find_seconds(r);
    // The arena reserves memory in large pieces: what counts is what is used of it.
    for (int i = 0; i < setup->k; i++)
        r->memory[i] = device_bytes(r->devices[i]) - arena_reserved_bytes(r->devices[i]) +
                       arena_used_bytes(r->devices[i]);
    stepper_free(&s);
    modelled_end(&run);
    return r;
}

void step_record_free(StepRecord *r) {
    free(r->spans);
    free(r);
}

// (Spans are ordered by device, queue and time: rank 0's compute queue comes first.)
Exchange exchange_of(const StepRecord *r) {
    Exchange e = {0};
    int c = 0, x = 0;
    while (x < r->count && !r->spans[x].communicates) x++;
    for (; x < r->count && r->spans[x].device == r->devices[0]; x++) {
        const TraceSpan *exchange = &r->spans[x], *compute = &r->spans[c];
        e.seconds += exchange->end - exchange->start;
        while (!compute->communicates && compute->end <= exchange->start) compute = &r->spans[++c];
        for (int n = c; !compute->communicates && compute->start < exchange->end;
             compute = &r->spans[++n])
            e.hidden += fmin(exchange->end, compute->end) - fmax(exchange->start, compute->start);
    }
    return e;
}
