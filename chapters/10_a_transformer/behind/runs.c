// runs.c: a few steps of training, to compare what they compute, send, keep, and how long they
// take.
#include "behind.h"

#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"

static size_t sent_by(Device *const devices[], int k, int i) {
    size_t sent = 0;
    for (int j = 0; j < k; j++)
        if (i != j) sent += ledger_bytes(devices[i], devices[j]);
    return sent;
}

// (Memory that earlier runs used must not count.)
static Vit *begin(const VitPlan *plan, Device *const devices[], int k, bool values) {
    autograd_close();
    for (int i = 0; i < k; i++) device_reset_peaks(devices[i]);
    float *start = values ? vit_start(plan->width, plan->seed) : NULL;
    Vit *v = vit_new(plan->width, devices, k, start, (AdamOptions){0});
    free(start);
    if (values) make_mistake(v, plan->mistake);
    return v;
}

static void end(VitRun *run, Vit *v) {
    run->peak = device_peak_bytes(v->devices[0]) - device_bytes_of(v->devices[0], MEMORY_KERNELS);
    run->activations = arena_reserved_bytes(v->devices[0]);
    vit_free(v);
}

static double mean_loss(Tensor *loss, int images) {
    return has_values(loss->device) ? (double)item(loss) / images : NAN;
}

VitRun run_steps(const VitPlan *plan, const Dataset *data) {
    VitRun run = {.plan = *plan, .num_values = vit_numbers(plan->width)};
    Device *devices[MOST_SPLIT];
    Tensor *X, *y, *losses[MOST_SPLIT];
    open_devices(devices, plan->k);
    bool values = has_values(devices[0]);
    Vit *v = begin(plan, devices, plan->k, values);
    DataIter *batches = data_iter_new(data, plan->batch_size, plan->shuffle, plan->seed);
    data_iter_start(batches, 0);
    for (int s = 0; s < plan->steps && !interrupted(); s++) {
        CHECK(data_iter_next(batches, &X, &y), "these steps are within an epoch");
        ledger_reset();
        vit_train_batch(v, X, y, plan->lr, losses);
        run.losses[s] = mean_loss(losses[0], X->shape[0]);
    }
    run.sent = sent_by(devices, plan->k, 0);
    size_t formula = vit_bytes(plan->width, plan->k, 0, plan->batch_size);
    bool may_differ = interrupted() || (plan->mistake && plan->mistake->mlp);
    if (run.sent != formula && !may_differ)
        die("a block has a sum in each enter() and in each leave()",
            "a device sent %.2f MB in a step, and by the formula it sends %.2f MB",
            (double)run.sent / 1e6, (double)formula / 1e6);
    if (values) run.values = vit_join(v);
    run.equal_copies = values && vit_copies_are_equal(v);
    end(&run, v);
    data_iter_free(batches);
    return run;
}

// ## Modelled

static void images_of(const VitPlan *plan, Tensor *X, Tensor *y) {
    *X = (Tensor){.ndim = 4, .shape = {plan->batch_size, 1, 28, 28}, .device = host()};
    *y = (Tensor){.ndim = 1, .shape = {plan->batch_size}, .device = host()};
}

VitRun model_step(const VitPlan *plan, const Machine *machine, bool traced) {
    VitRun run = {.plan = *plan, .num_values = vit_numbers(plan->width)};
    ModelledRun m = {
        .machine = machine, .k = plan->k, .warm_up = 1, .ranks = true, .traced = traced};
    Tensor X, y, *losses[MOST_SPLIT];
    int none;
    images_of(plan, &X, &y);
    modelled_begin(&m);
    Vit *v = begin(plan, m.devices, plan->k, false);
    for (int s = 0; modelled_run(&m); s++) {
        bool trace = traced && s == m.warm_up;
        if (trace) trace_begin_models();
        ledger_reset();
        vit_train_batch(v, &X, &y, 1e-3f, losses);
        if (trace) free(trace_end(&none)); // nothing was computed
    }
    if (traced) run.spans = trace_modelled(&run.num_spans);
    run.sent = sent_by(m.devices, plan->k, 0);
    run.seconds = machine ? m.seconds : NAN;
    end(&run, v);
    modelled_end(&m);
    return run;
}

// k networks, one on each device.
static void train_batch_of_ddp(Vit *const nets[], int k, const Tensor *X, const Tensor *y) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    Tensor *gradients[MAX_DEVICES];
    Device *devices[MAX_DEVICES];
    for (int i = 0; i < k; i++) {
        devices[i] = nets[i]->devices[0];
        gradients[i] = nets[i]->shards[0].flat->grad;
        begin_step(devices[i]);
    }
    split_batch(X, y, devices, k, X_shards, y_shards);
    for (int i = 0; i < k; i++) {
        Tensor *y_hat;
        vit_forward(nets[i], &X_shards[i], &y_hat);
        losses[i] = sum(cross_entropy(y_hat, y_shards[i]));
    }
    backward_all(losses, k);
    allreduce_sharded(gradients, k);
    for (int i = 0; i < k; i++) adam_step(nets[i]->shards[0].adam, 1e-3f, X->shape[0]);
}

VitRun model_step_of_ddp(const VitPlan *plan, const Machine *machine) {
    VitRun run = {.plan = *plan};
    ModelledRun m = {.machine = machine, .k = plan->k, .warm_up = 1, .ranks = true};
    Tensor X, y;
    Vit *nets[MAX_DEVICES];
    images_of(plan, &X, &y);
    modelled_begin(&m);
    for (int i = 0; i < plan->k; i++)
        nets[i] = vit_new(plan->width, &m.devices[i], 1, NULL, (AdamOptions){0});
    while (modelled_run(&m)) {
        ledger_reset();
        train_batch_of_ddp(nets, plan->k, &X, &y);
    }
    run.sent = sent_by(m.devices, plan->k, 0);
    run.seconds = machine ? m.seconds : NAN;
    for (int i = 1; i < plan->k; i++) vit_free(nets[i]);
    end(&run, nets[0]);
    modelled_end(&m);
    return run;
}

// ## To compare

void vit_run_free(VitRun *run) {
    free(run->values);
    free(run->spans);
}

double num_different_numbers(const VitRun *a, const VitRun *b) {
    double different = 0;
    if (!a->values || !b->values) return NAN;
    for (size_t n = 0; n < a->num_values; n++)
        different += memcmp(&a->values[n], &b->values[n], sizeof(float)) != 0;
    return different;
}
