// training.c: what is around a training of ResNet-18 in one of the stages: its beginning, with or
// without a checkpoint, the minibatches, and at its end memory and bytes, which are counted.
#include "behind.h"

#include "common/book.h"
#include "chapters/05_resnet18_concise/resnet18.h"

// (Memory that earlier trainings used must not count.)
static void begin(ZeroTraining *t, uint64_t seed) {
    autograd_close();
    for (int i = 0; i < t->run.plan.k; i++) device_reset_peaks(t->devices[i]);
    t->net = resnet18(10, 1);
    if (has_values(t->devices[0]))
        initialize(t->net, seed);
    else
        initialize_without_values(t->net);
    t->z = zero_new(t->net, t->devices, t->run.plan.k, t->run.plan.stage, (AdamOptions){0});
    t->z->recompute = t->run.plan.recompute;
}

// DDP's allreduce takes from the arena what it receives. Here that counts as temporary memory.
static void count_memory(ZeroTraining *t) {
    const Device *device = t->devices[0];
    ZeroMemory formula = zero_memory(t->z, 0), *m = &t->run.memory;
    size_t arena = arena_reserved_bytes(device), buffers = buffer_bytes(t->net);
    if (t->z->ddp) arena -= formula.temporary;
    m->parameters = device_bytes_of(device, MEMORY_PARAMETERS);
    m->gradients = device_bytes_of(device, MEMORY_GRADIENTS);
    m->moments = device_bytes_of(device, MEMORY_OTHER) - buffers;
    t->run.peak = device_peak_bytes(device) - device_bytes_of(device, MEMORY_KERNELS);
    m->temporary = t->run.peak - arena - buffers - m->parameters - m->gradients - m->moments;
    t->run.activations = arena;
    CHECK(memcmp(m, &formula, sizeof formula) == 0, "a device holds the bytes of the formulas");
}

static void count_bytes(ZeroTraining *t) {
    for (int i = 0; i < t->run.plan.k; i++) {
        size_t sent = 0;
        for (int j = 0; j < t->run.plan.k; j++)
            if (i != j) sent += ledger_bytes(t->devices[i], t->devices[j]);
        CHECK(sent == zero_bytes(t->z, i).sent, "a device sends the bytes of the formula");
        if (i == 0) t->run.sent = sent;
    }
}

static void end(ZeroTraining *t) {
    count_bytes(t);
    count_memory(t);
    zero_free(t->z);
    module_free(t->net);
}

double mean_loss(const ZeroTraining *t, Tensor *const losses[], int rows) {
    float values[MAX_DEVICES];
    double sum = 0;
    if (!has_values(t->devices[0])) return NAN;
    items(losses, t->run.plan.k, values);
    for (int i = 0; i < t->run.plan.k; i++) sum += (double)values[i];
    return sum / rows;
}

// A copy of all parameters; NULL without values.
static float *parameters_now(ZeroTraining *t) {
    t->run.num_values = parameter_bytes(t->net) / sizeof(float);
    if (!has_values(t->devices[0])) return NULL;
    float *values = xmalloc(parameter_bytes(t->net));
    zero_read(t->z, values);
    return values;
}

// What must be the same for a checkpoint to be this training's.
static char *settings_of(const Plan *plan, const Dataset *data, int batch_size, uint64_t seed) {
    if (!plan->resume && !plan->checkpoint) return NULL;
    return xprintf("seed %llu, batch size %d, %d images (%08x)", (unsigned long long)seed,
                   batch_size, data->count, dataset_checksum(data));
}

void next_minibatch(ZeroTraining *t, Tensor **X, Tensor **y) {
    if (!data_iter_next(t->batches, X, y))
        die("a larger --train-size", "an epoch of so few images ends before the last step");
}

void begin_counting(void) {
    ledger_reset();
    modelled_clock_use_ranks(true); // each rank has its own host thread
}

void end_counting(void) { modelled_clock_use_ranks(false); }

ZeroTraining begin_training(const Plan *plan, Dataset *data, int batch_size, uint64_t seed) {
    ZeroTraining t = {.run = {.plan = *plan, .seconds = NAN}};
    Tensor *X, *y;
    if (plan->steps == 0) t.run.plan.steps = NUM_STEPS;
    open_devices(t.devices, plan->k);
    t.batches = data_iter_new(data, batch_size, true, seed);
    t.settings = settings_of(plan, data, batch_size, seed);
    begin(&t, seed);
    data_iter_start(t.batches, 0);
    if (plan->resume) {
        t.run.first_step = (int)zero_load(t.z, t.settings, plan->resume);
        t.run.loaded = parameters_now(&t);
    }
    for (int s = 0; s < t.run.first_step; s++) next_minibatch(&t, &X, &y);
    return t;
}

ZeroRun end_training(ZeroTraining *t) {
    t->run.values = parameters_now(t);
    if (t->run.plan.checkpoint) zero_save(t->z, t->settings, t->run.plan.checkpoint);
    end(t);
    data_iter_free(t->batches);
    free(t->settings);
    return t->run;
}

ZeroRun model_stage(const Plan *plan, int rows, const Machine *machine, bool traced) {
    int k = plan->k, none;
    ZeroTraining t = {.run = {.plan = *plan}};
    ModelledRun run = {.machine = machine, .k = k, .warm_up = 1, .traced = traced};
    const Tensor X = {.ndim = 4, .shape = {k * rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {k * rows}, .device = host()};
    Tensor *losses[MAX_DEVICES];
    modelled_begin(&run);
    memcpy(t.devices, run.devices, sizeof t.devices);
    begin(&t, 0);
    for (int s = 0; modelled_run(&run); s++) {
        bool trace = traced && s == run.warm_up;
        if (trace) trace_begin_models();
        begin_counting();
        zero_train_batch(t.z, &X, &y, 1e-4f, losses);
        end_counting();
        if (trace) free(trace_end(&none)); // nothing was computed
    }
    if (traced) t.run.spans = trace_modelled(&t.run.num_spans);
    t.run.seconds = machine ? run.seconds : NAN;
    end(&t);
    modelled_end(&run);
    return t.run;
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
