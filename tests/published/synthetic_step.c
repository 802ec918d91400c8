// synthetic_step.c: see synthetic_step.h.
#include "synthetic_step.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/08_many_machines/layer_kernels.h"
#include "common/base/error.h"
#include "common/device/device.h"
#include "common/program/modelled_run.h"
#include "common/tensor/autograd.h"

#include <stdlib.h>

// ---- devices that only tell the time ---------------------------------------------------------

// Kernels are a framework's, launched as fast as this machine can; "our own" launches are left for
// the exchange, and take no time.
static Machine exchange_is_one_launch(const Machine *machine) {
    Machine copy = *machine;
    copy.framework = machine->launch;
    copy.launch = copy.event = 0;
    return copy;
}

// ---- forward and backward --------------------------------------------------------------------

// One device's part of a step.
typedef struct Worker {
    Device *device;
    float *anywhere; // stands for all that kernels read and write
    Tensor *grads;   // all gradients, as one vector; those of the last layer first
} Worker;

static void launch_there(void *device, KernelId kernel, const void *args, size_t size) {
    queue_launch(compute_queue(device), kernel, args, size);
}

static KernelTaker on_device(const Worker *w) {
    return (KernelTaker){.take = launch_there, .context = w->device, .anywhere = w->anywhere};
}

// ---- the exchange ----------------------------------------------------------------------------

// Gradients first .. end of all devices, on the communication queues, when backward has come to
// where it is now.
static void exchange_bucket(const Worker workers[], int k, size_t first, size_t end) {
    Tensor *bucket[MAX_DEVICES];
    for (int i = 0; i < k; i++) {
        queue_wait(comm_queue(workers[i].device), device_record(workers[i].device));
        bucket[i] = tensor_slice(workers[i].grads, first, 1, (const int[]){(int)(end - first)});
    }
    modelled_clock_use_framework(false); // see exchange_is_one_launch()
    communicate_begin();
    allreduce_ring(bucket, k);
    communicate_end();
    modelled_clock_use_framework(true);
    for (int i = 0; i < k; i++) tensor_free(bucket[i]);
}

static void wait_for_exchanges(const Worker workers[], int k) {
    for (int i = 0; i < k; i++)
        device_wait(workers[i].device, queue_record(comm_queue(workers[i].device)));
}

// ---- a step ----------------------------------------------------------------------------------

static void forward_all(const Step *step, const Worker workers[]) {
    const NetworkTable *network = step->network;
    for (int l = 0; l < network->num_layers; l++)
        for (int i = 0; i < step->devices; i++) {
            KernelTaker to = on_device(&workers[i]);
            table_layer_forward(&to, &network->layers[l], step->images);
        }
    for (int i = 0; i < step->devices; i++) {
        KernelTaker to = on_device(&workers[i]);
        table_loss(&to, network, step->images);
    }
}

static void backward_all_layers(const Step *step, const Worker workers[]) {
    size_t first = 0, end = 0; // of the open bucket
    for (int l = step->network->num_layers - 1; l >= 0; l--) {
        const TableLayer *layer = &step->network->layers[l];
        for (int i = 0; i < step->devices; i++) {
            KernelTaker to = on_device(&workers[i]);
            table_layer_backward(&to, layer, step->images, l == 0);
        }
        end += (size_t)table_layer_params(layer);
        bool full = (double)((end - first) * sizeof(float)) >= step->bucket_bytes || l == 0;
        if (step->devices > 1 && full && end > first) {
            exchange_bucket(workers, step->devices, first, end);
            first = end;
        }
    }
}

static void run_step(const Step *step, const Worker workers[]) {
    int k = step->devices;
    forward_all(step, workers);
    backward_all_layers(step, workers);
    if (k > 1) wait_for_exchanges(workers, k);
    for (int i = 0; i < k; i++) {
        KernelTaker to = on_device(&workers[i]);
        table_update(&to, step->network, step->images * k);
    }
}

static void new_workers(const Step *step, Device *const devices[], Worker workers[]) {
    size_t params = (size_t)table_params(step->network);
    for (int i = 0; i < step->devices; i++) {
        workers[i] = (Worker){.device = devices[i],
                              .anywhere = device_alloc(devices[i], sizeof(float)),
                              .grads = tensor_new(devices[i], (int)params)};
        begin_step(devices[i]);
    }
    synchronize_all();
}

static void free_workers(Worker workers[], int k) {
    for (int i = 0; i < k; i++) {
        device_free(workers[i].device, workers[i].anywhere);
        tensor_free(workers[i].grads);
    }
}

double step_seconds(const Machine *machine, const Step *step) {
    Machine copy = exchange_is_one_launch(machine);
    ModelledRun run = {.machine = &copy, .k = step->devices, .framework = true, .ranks = true};
    Worker *workers = xcalloc((size_t)step->devices, sizeof *workers);
    devices_close(); // they are opened with TF32, or without it
    allow_tf32(step->tf32);
    modelled_begin(&run);
    new_workers(step, run.devices, workers);
    while (modelled_run(&run)) run_step(step, workers);
    free_workers(workers, step->devices);
    free(workers);
    modelled_end(&run);
    devices_close();
    allow_tf32(false);
    return run.seconds;
}
