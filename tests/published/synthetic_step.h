// synthetic_step.h: a training step of a network that is a table of layers, on devices that compute
// nothing: how long would it take on a machine? What is enqueued are the book's own kernels with
// the shapes of each layer; their addresses mean nothing. common/model/many_ranks.h
// computes the same for many ranks at once; this simulates each of them.
#pragma once

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "common/model/layer_kernels.h"
#include "common/base/error.h"
#include "common/program/modelled_run.h"
#include "common/tensor/autograd.h"

#include <stdlib.h>

typedef struct Step {
    const NetworkTable *network;
    int devices, images; // images on each device
    double bucket_bytes; // gradients are exchanged when there are this many
    bool tf32;
} Step;

// One device's part of a step.
typedef struct Worker {
    Device *device;
    KernelTaker to; // launches there
    Tensor *grads;  // all gradients, as one vector; those of the last layer first
} Worker;

static void launch_there(void *device, KernelId kernel, const void *args, size_t size) {
    queue_launch(compute_queue(device), kernel, args, size);
}

// Gradients first .. end of all devices, on the communication queues, when backward has come to
// where it is now.
static void exchange_bucket(const Worker workers[], int k, size_t first, size_t end) {
    Tensor *bucket[MAX_DEVICES];
    for (int i = 0; i < k; i++) {
        queue_wait(comm_queue(workers[i].device), device_record(workers[i].device));
        bucket[i] = tensor_slice(workers[i].grads, first, 1, (const int[]){(int)(end - first)});
    }
    modelled_clock_use_framework(false); // see step_seconds()
    communicate_begin();
    allreduce_ring(bucket, k);
    communicate_end();
    modelled_clock_use_framework(true);
    for (int i = 0; i < k; i++) tensor_free(bucket[i]);
}

static void backward_all_layers(const Step *step, const Worker workers[]) {
    size_t first = 0, end = 0; // of the open bucket
    for (int l = step->network->num_layers - 1; l >= 0; l--) {
        const TableLayer *layer = &step->network->layers[l];
        for (int i = 0; i < step->devices; i++)
            table_layer_backward(&workers[i].to, layer, step->images, l == 0);
        end += (size_t)table_layer_params(layer);
        bool full = (double)((end - first) * sizeof(float)) >= step->bucket_bytes || l == 0;
        if (step->devices > 1 && full && end > first) {
            exchange_bucket(workers, step->devices, first, end);
            first = end;
        }
    }
}

static void run_step(const Step *step, const Worker workers[]) {
    const NetworkTable *network = step->network;
    int k = step->devices;
    for (int l = 0; l < network->num_layers; l++)
        for (int i = 0; i < k; i++)
            table_layer_forward(&workers[i].to, &network->layers[l], step->images);
    for (int i = 0; i < k; i++) table_loss(&workers[i].to, network, step->images);
    backward_all_layers(step, workers);
    for (int i = 0; i < k && k > 1; i++)
        device_wait(workers[i].device, queue_record(comm_queue(workers[i].device)));
    for (int i = 0; i < k; i++) table_update(&workers[i].to, network, step->images * k);
}

// Modelled seconds of one step: forward, backward, update, and beside backward an exchange for each
// bucket, by chapter 2's ring on the communication queues. The images are on the devices already.
// One host thread per device launches its kernels; an exchange's launches are free, because in NCCL
// a whole exchange is one kernel. Closes all devices, and stops the modelled clock.
static double step_seconds(const Machine *machine, const Step *step) {
    // Kernels are a framework's, launched as fast as this machine can; "our own" launches are left
    // for the exchange, and take no time.
    Machine copy = *machine;
    copy.framework = machine->launch;
    copy.launch = copy.event = 0;
    ModelledRun run = {.machine = &copy, .k = step->devices, .framework = true, .ranks = true};
    Worker *workers = xcalloc((size_t)step->devices, sizeof *workers);
    devices_close(); // they are opened with TF32, or without it
    allow_tf32(step->tf32);
    modelled_begin(&run);
    for (int i = 0; i < step->devices; i++) {
        Device *device = run.devices[i];
        Tensor *grads = tensor_new(device, (int)table_params(step->network));
        workers[i] = (Worker){device, {launch_there, device, grads->data}, grads};
        begin_step(device);
    }
    synchronize_all();
    while (modelled_run(&run)) run_step(step, workers);
    for (int i = 0; i < step->devices; i++) tensor_free(workers[i].grads);
    free(workers);
    modelled_end(&run);
    devices_close();
    allow_tf32(false);
    return run.seconds;
}
