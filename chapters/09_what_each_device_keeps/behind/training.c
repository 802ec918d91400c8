// training.c: trains ResNet-18 in one of the stages, and counts memory and bytes.
#include "behind.h"

#include "common/book.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/05_resnet18_concise/resnet18.h"

typedef struct Running {
    ZeroRun *t;
    Device **devices;
    Module *net;
    Zero *z;
} Running;

// (Memory that earlier trainings used must not count.)
static Running begin_run(ZeroRun *t, Device *devices[], uint64_t seed) {
    Running r = {.t = t, .devices = devices, .net = resnet18(10, 1)};
    autograd_close();
    for (int i = 0; i < t->plan.k; i++) device_reset_peaks(devices[i]);
    if (has_values(devices[0]))
        initialize(r.net, seed);
    else
        initialize_without_values(r.net);
    r.z = zero_new(r.net, devices, t->plan.k, t->plan.stage, (AdamOptions){0});
    r.z->recompute = t->plan.recompute;
    return r;
}

static void step(Running *r, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    int k = r->t->plan.k;
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    ledger_reset();
    modelled_clock_use_ranks(true); // each rank has its own host thread
    for (int i = 0; i < k; i++) begin_step(r->devices[i]);
    split_batch(X, y, r->devices, k, X_shards, y_shards);
    zero_step(r->z, X_shards, y_shards, 1e-4f, X->shape[0], losses);
    modelled_clock_use_ranks(false);
}

// DDP's allreduce takes from the arena what it receives. Here that counts as temporary memory.
static void count_memory(Running *r) {
    const Device *device = r->devices[0];
    ZeroMemory formula = zero_memory(r->z, 0), *m = &r->t->memory;
    size_t arena = arena_reserved_bytes(device), buffers = buffer_bytes(r->net);
    if (r->t->plan.stage == STAGE_DDP) arena -= formula.temporary;
    m->parameters = device_bytes_of(device, MEMORY_PARAMETERS);
    m->gradients = device_bytes_of(device, MEMORY_GRADIENTS);
    m->moments = device_bytes_of(device, MEMORY_OTHER) - buffers;
    r->t->peak = device_peak_bytes(device) - device_bytes_of(device, MEMORY_KERNELS);
    m->temporary = r->t->peak - arena - buffers - m->parameters - m->gradients - m->moments;
    r->t->activations = arena;
    CHECK(memcmp(m, &formula, sizeof formula) == 0, "a device holds the bytes of the formulas");
}

static void count_bytes(Running *r) {
    for (int i = 0; i < r->t->plan.k; i++) {
        size_t sent = 0;
        for (int j = 0; j < r->t->plan.k; j++)
            if (i != j) sent += ledger_bytes(r->devices[i], r->devices[j]);
        CHECK(sent == zero_bytes(r->z, i).sent, "a device sends the bytes of the formula");
        if (i == 0) r->t->sent = sent;
    }
}

static void end_run(Running *r) {
    count_bytes(r);
    count_memory(r);
    zero_free(r->z);
    module_free(r->net);
}

// The mean of k summed losses.
static double mean_of(Tensor *const losses[], int k, int rows) {
    float values[MAX_DEVICES];
    double sum = 0;
    items(losses, k, values);
    for (int i = 0; i < k; i++) sum += (double)values[i];
    return sum / rows;
}

// A copy of all parameters; NULL without values.
static float *parameters_now(Running *r) {
    r->t->num_values = parameter_bytes(r->net) / sizeof(float);
    if (!has_values(r->devices[0])) return NULL;
    float *values = xmalloc(parameter_bytes(r->net));
    zero_read(r->z, values);
    return values;
}

// What must be the same for a checkpoint to be this training's.
static char *settings_of(const Plan *plan, const Dataset *data, int batch_size, uint64_t seed) {
    if (!plan->resume && !plan->checkpoint) return NULL;
    return xprintf("seed %llu, batch size %d, %d images (%08x)", (unsigned long long)seed,
                   batch_size, data->count, dataset_checksum(data));
}

static void next_batch(DataIter *batches, Tensor **X, Tensor **y) {
    if (!data_iter_next(batches, X, y))
        die("a larger --train-size", "an epoch of so few images ends before the last step");
}

ZeroRun train_stage(const Plan *plan, Dataset *data, int batch_size, uint64_t seed) {
    ZeroRun t = {.plan = *plan, .seconds = NAN};
    if (t.plan.steps == 0) t.plan.steps = NUM_STEPS;
    Device *devices[MAX_DEVICES];
    Tensor *X, *y, *losses[MAX_DEVICES];
    open_devices(devices, plan->k);
    DataIter *batches = data_iter_new(data, batch_size, true, seed);
    char *settings = settings_of(plan, data, batch_size, seed);
    Running r = begin_run(&t, devices, seed);
    data_iter_start(batches, 0);
    if (plan->resume) {
        t.first_step = (int)zero_load(r.z, settings, plan->resume);
        t.loaded = parameters_now(&r);
    }
    for (int s = 0; s < t.first_step; s++) next_batch(batches, &X, &y);
    for (int s = 0; s < t.plan.steps; s++) {
        next_batch(batches, &X, &y);
        step(&r, X, y, losses);
        t.losses[s] = has_values(devices[0]) ? mean_of(losses, plan->k, X->shape[0]) : NAN;
    }
    t.values = parameters_now(&r);
    if (plan->checkpoint) zero_save(r.z, settings, plan->checkpoint);
    end_run(&r);
    data_iter_free(batches);
    free(settings);
    return t;
}

static void traced_step(Running *r, const Tensor *X, const Tensor *y, Tensor *losses[]) {
    int none;
    trace_begin_models();
    step(r, X, y, losses);
    free(trace_end(&none)); // nothing was computed
    r->t->spans = trace_modelled(&r->t->num_spans);
}

ZeroRun model_stage(const Plan *plan, int rows, const Machine *machine, bool traced) {
    int k = plan->k;
    ZeroRun t = {.plan = *plan};
    ModelledRun run = {.machine = machine, .k = k, .warm_up = 1, .traced = traced};
    const Tensor X = {.ndim = 4, .shape = {k * rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {k * rows}, .device = host()};
    Tensor *losses[MAX_DEVICES];
    modelled_begin(&run);
    Running r = begin_run(&t, run.devices, 0);
    for (int s = 0; modelled_run(&run); s++)
        (traced && s == run.warm_up ? traced_step : step)(&r, &X, &y, losses);
    t.seconds = machine ? run.seconds : NAN;
    end_run(&r);
    modelled_end(&run);
    return t;
}

void zero_run_free(ZeroRun *t) {
    free(t->values);
    free(t->loaded);
    free(t->spans);
}

static double num_different_of(const float *a, const float *b, size_t num_values) {
    if (!a || !b) return NAN;
    size_t different = 0;
    for (size_t n = 0; n < num_values; n++) different += memcmp(&a[n], &b[n], sizeof(float)) != 0;
    return (double)different;
}

double num_different(const ZeroRun *a, const ZeroRun *b) {
    return num_different_of(a->values, b->values, a->num_values);
}

double num_different_after_loading(const ZeroRun *resumed, const ZeroRun *stopped) {
    return num_different_of(resumed->loaded, stopped->values, stopped->num_values);
}
