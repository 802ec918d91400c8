// cases.c: training by a loader that keeps a log. On model devices the clock tells when the host
// began with each step; on those that compute, losses and biases tell what was trained.
#include "common/base/error.h"
#include "common/program/facts.h"
#include "common/program/modelled_run.h"
#include "your_part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_FURTHER = 1, AS_FAR, WAITING, AHEAD, SECONDS };
const Part parts[] = {
    {"train_ahead(): never further ahead than said", 2},
    {"train_ahead(): as far ahead as said", 2},
    {"train_ahead(): 0 steps ahead, losses and parameters of a host that waits", 2},
    {"train_ahead(): further ahead, still the same losses and parameters", 2},
    {"predict(): the seconds of steps that overlap", 2},
    {0}};

// ---- train_ahead() -----------------------------------------------------------------------------

enum { MOST_CHECKED = 8, NOT_WRITTEN = -1, DRAWN_SIDE = 14 };

static Dataset *drawn_images(int count) {
    Dataset *data = xcalloc(1, sizeof *data);
    size_t pixels = (size_t)count * DRAWN_SIDE * DRAWN_SIDE;
    *data = (Dataset){.count = count, .rows = DRAWN_SIDE, .cols = DRAWN_SIDE};
    data->images = xmalloc(pixels);
    data->labels = xmalloc((size_t)count);
    for (size_t p = 0; p < pixels; p++) data->images[p] = (uint8_t)draw(0, 255);
    for (int i = 0; i < count; i++) data->labels[i] = (uint8_t)draw(0, FASHION_MNIST_CLASSES - 1);
    return data;
}

// All that the cases need, in no time. Without ReLU, where rounding may put a value that is nearly
// 0 on the other side.
static Module *small_network(void) {
    enum { C = 4, SIDE = DRAWN_SIDE / 2 };
    return Sequential(Conv2d(1, C, .kernel_size = 3, .stride = 2, .padding = 1), BatchNorm2d(C),
                      Flatten(), Linear(C * SIDE * SIDE, FASHION_MNIST_CLASSES));
}

// A call: who is trained by how much. Small ones come first.
typedef struct Call {
    int k, steps, ahead, batch_size;
    float lr;
    Module *net;
    Dataset *data;
} Call;

static Call draw_call(Module *net, int c) {
    Call call = {.k = 1 + c % 3, .steps = (int)draw(2 + c / 2, 3 + c / 2), .net = net};
    call.ahead = c < 2 ? 0 : c == 7 ? call.steps - 1 : 1 + c % 2;
    call.batch_size = (int)draw(6, 16);
    call.lr = (float)draw(5, 30) / 100;
    call.data = drawn_images(call.steps * call.batch_size);
    return call;
}

static void train(const Call *c, DataParallel *dp, Loader *loader, double losses[]) {
    begin_case("train_ahead(), k = %d, %d steps, ahead %d", c->k, c->steps, c->ahead);
    for (int n = 0; n < MOST_CHECKED; n++) losses[n] = NOT_WRITTEN;
    train_ahead(dp, loader, c->steps, c->ahead, c->lr, losses);
    synchronize_all();
}

static void record_log(const Call *c, const Loader *loader) {
    int prepared[MOST_CHECKED], kept[MOST_CHECKED], left = 0;
    for (int n = 0; n < c->steps; n++) {
        const StepLog *log = &loader->log[n];
        prepared[n] = log->prepared;
        kept[n] = log->kept;
        left += log->kept > 0 && log->waited == 0;
        record_at_most(NO_FURTHER, log->not_waited_for,
                       "steps that were not waited for when step %d was prepared", n);
        record_at_most(PART_IF(AS_FAR, NO_FURTHER), round(1e9 * log->began),
                       "ns on the host's clock when step %d was prepared", n);
    }
    record_ints(NO_FURTHER, prepared, (size_t)c->steps, "prepare(): how often for each step");
    record_ints(AS_FAR, kept, (size_t)c->steps, "keep_losses(): how often for each step");
    record_int(NO_FURTHER, left, "steps that were not waited for at the end");
}

// (Who is too far ahead finds another step in a slot, and waits for that.) Launches take no time,
// so the host is further ahead than the devices unless it waits.
static void logs(void) {
    Module *net = small_network();
    Machine machine = *machine_find("rtx4090-pcie");
    machine.launch = 0;
    for (int i = 0; i < 8; i++) {
        Call c = draw_call(net, i);
        double losses[MOST_CHECKED];
        ModelledRun run = {.machine = &machine, .k = c.k};
        modelled_begin(&run);
        initialize(net, 1);
        DataParallel dp = data_parallel(net, run.devices, c.k, BN_AVERAGED);
        Loader *loader = loader_new(c.data, c.batch_size, c.k, c.ahead + 1);
        train(&c, &dp, loader, losses);
        record_log(&c, loader);
        initialize(net, 1);
        modelled_end(&run);
        loader_free(loader);
        dataset_free(c.data);
    }
    module_free(net);
}

// (Who is too far ahead writes over what is still read: what comes then differs from run to run.)
static void values(void) {
    Module *net = small_network();
    for (int i = 0; i < 8; i++) {
        Call c = draw_call(net, i);
        double losses[MOST_CHECKED];
        int part = c.ahead == 0 ? WAITING : AHEAD, written = 0;
        DataParallel dp = network_on(net, c.k, BN_AVERAGED, (uint64_t)draw(1, 1000000));
        Loader *loader = loader_new(c.data, c.batch_size, c.k, c.ahead + 1);
        train(&c, &dp, loader, losses);
        for (int n = 0; n < c.steps; n++) {
            record_real(PART_IF(part, NO_FURTHER), losses[n], 1e-4, "losses[%d]", n);
            written += losses[n] != NOT_WRITTEN;
        }
        record_int(part, written, "losses that were written");
        // Biases come after all that training did, and depend on it.
        Parameters all = parameters_of(net);
        float *biases = tensor_values(parameter_data(all.list[all.n - 1], dp.devices[c.k - 1]));
        record_floats(PART_IF(part, NO_FURTHER), biases, FASHION_MNIST_CLASSES, 1e-4,
                      "biases of the last layer on the last device");
        free(biases);
        loader_free(loader);
        dataset_free(c.data);
        leave_devices(net, 0);
    }
    module_free(net);
}

// ---- predict() ---------------------------------------------------------------------------------

// The host is faster than the devices, slower, or busy in a single step.
static void predictions(void) {
    for (int c = 0; c < 24; c++) {
        int steps = 2 + c / 4, ahead = (int)draw(0, steps - 1), busy = (int)draw(0, steps - 1);
        double host_seconds[MOST_STEPS] = {0}, device_seconds = (double)draw(2, 40) / 4;
        char text[200] = "";
        for (int n = 0; n < steps; n++) {
            size_t used = strlen(text);
            host_seconds[n] = (double)draw(0, c % 4 == 0 ? 8 : 60) / 4;
            if (c % 4 == 3) host_seconds[n] = n == busy ? 3 * device_seconds : 0;
            snprintf(text + used, sizeof text - used, " %g", host_seconds[n]);
        }
        begin_case("predict(), %d steps, ahead %d, the host needs%s s for them, the devices %g s",
                   steps, ahead, text, device_seconds);
        record_real(SECONDS, predict(steps, ahead, host_seconds, device_seconds), 1e-9, "seconds");
    }
}

const Group groups[] = {
    {"log", logs, 5}, {"values", values, 10}, {"predict()", predictions, 5}, {0}};
