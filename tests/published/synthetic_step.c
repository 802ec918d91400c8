// synthetic_step.c: see synthetic_step.h.
#include "synthetic_step.h"

#include "chapters/08_many_machines/layer_kernels.h"
#include "common/base/error.h"
#include "common/base/range.h"
#include "common/device/device.h"
#include "common/model/modelled_clock.h"
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

static void open_models(const Machine *machine, const Step *step, Device *devices[]) {
    devices_close();
    modelled_clock_start(machine);
    devices_init(BACKEND_MODEL, 0);
    allow_tf32(step->tf32);
    modelled_clock_use_ranks(true);
    modelled_clock_use_framework(true);
    for (int i = 0; i < step->devices; i++) devices[i] = try_gpu(i);
}

static void close_models(void) {
    devices_close();
    modelled_clock_start(NULL);
    allow_tf32(false);
}

// ---- a ring on any queues --------------------------------------------------------------------

// As in chapter 2, where it is explained: queue i receives from its left neighbour, and adds.
static void pass_to_the_right(Queue *const queues[], float *const data[], float *const room[],
                              size_t n, int k, int first, bool add_up) {
    Event ready[MAX_DEVICES];
    for (int i = 0; i < k; i++) ready[i] = queue_record(queues[i]);
    for (int i = 0; i < k; i++) {
        int left = (i + k - 1) % k;
        Range part = equal_range((long)n, k, (left + first) % k);
        size_t count = (size_t)part.count;
        float *mine = data[i] + part.first, *arrived = add_up ? room[i] : mine;
        queue_wait(queues[i], ready[left]);
        queue_copy(queues[i], queue_device(queues[i]), arrived, queue_device(queues[left]),
                   data[left] + part.first, count * sizeof(float));
        if (add_up) launch_on(queues[i], add, .y = mine, .x = arrived, .n = count);
    }
}

void ring_on_queues(Queue *const queues[], float *const data[], float *const room[], size_t n,
                    int k) {
    for (int s = 0; s < k - 1; s++) pass_to_the_right(queues, data, room, n, k, k - s, true);
    for (int s = 0; s < k - 1; s++) pass_to_the_right(queues, data, room, n, k, k + 1 - s, false);
}

// ---- forward and backward --------------------------------------------------------------------

// One device's part of a step.
typedef struct Worker {
    Device *device;
    float *anywhere; // stands for all that kernels read and write
    Tensor *grads;   // all gradients, as one vector; those of the last layer first
    Tensor *room;    // to receive the longest part of them
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
    Queue *queues[MAX_DEVICES];
    float *data[MAX_DEVICES], *room[MAX_DEVICES];
    for (int i = 0; i < k; i++) {
        queues[i] = comm_queue(workers[i].device);
        queue_wait(queues[i], device_record(workers[i].device));
        data[i] = workers[i].grads->data + first;
        room[i] = workers[i].room->data;
    }
    modelled_clock_use_framework(false); // see exchange_is_one_launch()
    ring_on_queues(queues, data, room, end - first, k);
    modelled_clock_use_framework(true);
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

static void run(const Step *step, const Worker workers[]) {
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
                              .grads = tensor_new(devices[i], (int)params),
                              .room = tensor_new(devices[i], (int)(params / 2 + 1))};
        begin_step(devices[i]);
    }
    synchronize_all();
}

static void free_workers(Worker workers[], int k) {
    for (int i = 0; i < k; i++) {
        device_free(workers[i].device, workers[i].anywhere);
        tensor_free(workers[i].grads);
        tensor_free(workers[i].room);
    }
}

double step_seconds(const Machine *machine, const Step *step) {
    Machine copy = exchange_is_one_launch(machine);
    Device *devices[MAX_DEVICES];
    Worker *workers = xcalloc((size_t)step->devices, sizeof *workers);
    open_models(&copy, step, devices);
    new_workers(step, devices, workers);
    double begin = modelled_seconds();
    run(step, workers);
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    free_workers(workers, step->devices);
    free(workers);
    close_models();
    return seconds;
}
