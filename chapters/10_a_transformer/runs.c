// runs.c: see runs.h.
#include "runs.h"

#include "common/book.h"

static int devices_of(const VitPlan *plan) { return plan->data * plan->tensor; }

// What device 0 has sent: to all, or to other networks only.
static size_t sent_by_first(Device *const devices[], const VitPlan *plan, int from) {
    size_t sent = 0;
    for (int j = from; j < devices_of(plan); j++) sent += ledger_bytes(devices[0], devices[j]);
    return sent;
}

// (Memory that earlier runs used must not count.)
static Mesh *begin(const VitPlan *plan, Device *const devices[], bool values) {
    autograd_close();
    for (int i = 0; i < devices_of(plan); i++) device_reset_peaks(devices[i]);
    float *start = values ? vit_start(plan->width, plan->seed) : NULL;
    VitOptions options = {.width = plan->width, .sequence = plan->sequence};
    Mesh *m = mesh_new(options, devices, plan->data, plan->tensor, start);
    free(start);
    for (int d = 0; d < plan->data && values; d++) {
        make_mistake(m->nets[d], plan->mistake);
        if (plan->resume) vit_resume(m->nets[d], plan->resume);
    }
    return m;
}

static void end(VitRun *run, Mesh *m, Device *const devices[]) {
    run->sent = sent_by_first(devices, &run->plan, 1);
    run->sent_to_others = sent_by_first(devices, &run->plan, run->plan.tensor);
    run->peak = device_peak_bytes(devices[0]) - device_bytes_of(devices[0], MEMORY_KERNELS);
    run->activations = arena_reserved_bytes(devices[0]);
    mesh_free(m);
}

// A network that is split, but not its tokens, has its loss on each of its devices.
static double mean_loss(const VitPlan *plan, Tensor *const losses[], int images) {
    double sum = 0;
    for (int i = 0; i < devices_of(plan); i++)
        sum += has_values(losses[i]->device) ? (double)item(losses[i]) : NAN;
    return sum / images / (plan->sequence ? 1 : plan->tensor);
}

VitRun run_steps(const VitPlan *plan, const Dataset *data) {
    VitRun run = {.plan = *plan, .num_values = vit_numbers(plan->width)};
    Device *devices[MAX_DEVICES];
    Tensor *X, *y, *losses[MAX_DEVICES];
    open_devices(devices, devices_of(plan));
    bool values = has_values(devices[0]);
    Mesh *m = begin(plan, devices, values);
    DataIter *batches = data_iter_new(data, plan->batch_size, plan->shuffle, plan->seed);
    data_iter_start(batches, 0);
    long done = plan->resume ? *adam_state(m->nets[0]->shards[0].adam, 0).step : 0;
    for (int s = 0; s < plan->steps && !interrupted(); s++) {
        bool more = data_iter_next(batches, &X, &y);
        CHECK(more, "these steps are within an epoch");
        if (s < done) continue;
        ledger_reset();
        mesh_train_batch(m, X, y, plan->lr, losses);
        run.losses[s] = mean_loss(plan, losses, X->shape[0]);
    }
    if (plan->checkpoint) vit_save(m->nets[0], plan->checkpoint);
    size_t formula = mesh_bytes(m, 0, plan->batch_size);
    if (values) run.values = vit_join(m->nets[0]);
    run.equal_copies = values && mesh_copies_are_equal(m);
    end(&run, m, devices);
    bool may_differ = interrupted() || (plan->mistake && plan->mistake->mlp);
    if (run.sent != formula && !may_differ)
        die("the formula is mesh_bytes() in mesh.c",
            "a device sent %.2f MB in a step, and by the formula it sends %.2f MB",
            (double)run.sent / 1e6, (double)formula / 1e6);
    data_iter_free(batches);
    return run;
}

void check_equal_parts(const Flags *flags, int k) {
    static const char equal[] =
        "with --sequence, each device has equally many images of a minibatch";
    int rows = flags->batch_size, images = flags->train_size ? flags->train_size : 60000;
    if (rows % k != 0) die_usage(equal, "--batch-size %d: not a multiple of %d", rows, k);
    if (images % rows % k != 0)
        die_usage(equal, "--train-size %d: the last minibatch has %d images, not a multiple of %d",
                  images, images % rows, k);
}

VitPlan vit_plan(const Flags *flags, int width, int images, int data, int tensor, bool sequence) {
    int rows = flags->batch_size < images ? flags->batch_size : images;
    int steps = images / rows < COMPARED_STEPS ? images / rows : COMPARED_STEPS;
    return (VitPlan){.data = data,
                     .tensor = tensor,
                     .sequence = sequence,
                     .width = width,
                     .batch_size = rows,
                     .steps = steps,
                     .lr = flags->lr,
                     .shuffle = flags->shuffle,
                     .seed = flags->seed};
}

void run_all(const VitPlan plans[], int n, const Dataset *data, VitRun runs[]) {
    for (int r = 0; r < n && !interrupted(); r++) runs[r] = run_steps(&plans[r], data);
}

// ## Modelled

static void images_of(const VitPlan *plan, Tensor *X, Tensor *y) {
    *X = (Tensor){.ndim = 4, .shape = {plan->batch_size, 1, 28, 28}, .device = host()};
    *y = (Tensor){.ndim = 1, .shape = {plan->batch_size}, .device = host()};
}

VitRun model_step(const VitPlan *plan, const Machine *machine, bool traced) {
    VitRun run = {.plan = *plan, .num_values = vit_numbers(plan->width)};
    ModelledRun clock = {
        .machine = machine, .k = devices_of(plan), .warm_up = 1, .ranks = true, .traced = traced};
    Tensor X, y, *losses[MAX_DEVICES];
    int none;
    images_of(plan, &X, &y);
    modelled_begin(&clock);
    Mesh *m = begin(plan, clock.devices, false);
    for (int s = 0; modelled_run(&clock); s++) {
        bool trace = traced && s == clock.warm_up;
        if (trace) trace_begin_models();
        ledger_reset();
        mesh_train_batch(m, &X, &y, 1e-3f, losses);
        if (trace) free(trace_end(&none)); // nothing was computed
    }
    if (traced) run.spans = trace_modelled(&run.num_spans);
    run.seconds = machine ? clock.seconds : NAN;
    end(&run, m, clock.devices);
    modelled_end(&clock);
    return run;
}

// ## To compare

void vit_run_free(VitRun *run) {
    free(run->values);
    free(run->spans);
}

void vit_runs_free(VitRun runs[], int n) {
    for (int r = 0; r < n; r++) vit_run_free(&runs[r]);
}

double num_different_numbers(const VitRun *a, const VitRun *b) {
    double different = 0;
    if (!a->values || !b->values) return NAN;
    for (size_t n = 0; n < a->num_values; n++)
        different += memcmp(&a->values[n], &b->values[n], sizeof(float)) != 0;
    return different;
}
