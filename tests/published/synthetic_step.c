// synthetic_step.c: see synthetic_step.h.
#include "synthetic_step.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "common/base/error.h"
#include "common/device/device.h"
#include "common/device/modelled_clock.h"
#include "common/tensor/autograd.h"

#include <stdlib.h>

// ---- devices that only tell the time ---------------------------------------------------------

// A framework's launches are not needed here, so their time is that of an exchange: none.
static Machine exchange_is_one_launch(const Machine *machine) {
    Machine copy = *machine;
    copy.framework = 0;
    return copy;
}

static void open_models(const Machine *machine, const int order[], int k, bool tf32,
                        Device *devices[]) {
    devices_close();
    modelled_clock_start(machine);
    devices_init(BACKEND_MODEL, 0);
    allow_tf32(tf32);
    for (int i = 0; i < k; i++) devices[i] = try_gpu(order ? order[i] : i);
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

// ---- a ring alone ----------------------------------------------------------------------------

static void vectors_on(Device *const devices[], int k, size_t n, Tensor *vectors[]) {
    for (int i = 0; i < k; i++) {
        vectors[i] = tensor_new(devices[i], (int)n);
        begin_step(devices[i]);
    }
    synchronize_all();
}

static void free_all(Tensor *const tensors[], int k) {
    for (int i = 0; i < k; i++) tensor_free(tensors[i]);
}

double ring_seconds(const Machine *machine, const int order[], int k, double bytes,
                    bool one_launch) {
    Machine copy = exchange_is_one_launch(machine);
    Device *devices[MAX_DEVICES];
    Tensor *vectors[MAX_DEVICES];
    open_models(&copy, order, k, false, devices);
    modelled_clock_use_framework(one_launch);
    vectors_on(devices, k, (size_t)(bytes / sizeof(float)), vectors);
    double begin = modelled_seconds();
    allreduce_ring(vectors, k);
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    free_all(vectors, k);
    close_models();
    return seconds;
}

// The second half of each vector, by the communication queues and the other way round.
static void ring_backwards(Device *const devices[], Tensor *const vectors[], Tensor *const room[],
                           int k) {
    Queue *queues[MAX_DEVICES];
    float *halves[MAX_DEVICES], *places[MAX_DEVICES];
    size_t n = numel(vectors[0]), half = n / 2;
    for (int i = 0; i < k; i++) {
        queues[i] = comm_queue(devices[k - 1 - i]);
        halves[i] = vectors[k - 1 - i]->data + half;
        places[i] = room[k - 1 - i]->data;
    }
    ring_on_queues(queues, halves, places, n - half, k);
}

double two_rings_seconds(const Machine *machine, const int order[], int k, double bytes) {
    Machine copy = exchange_is_one_launch(machine);
    Device *devices[MAX_DEVICES];
    Tensor *vectors[MAX_DEVICES] = {NULL}, *halves[MAX_DEVICES], *room[MAX_DEVICES];
    size_t n = (size_t)(bytes / sizeof(float));
    open_models(&copy, order, k, false, devices);
    modelled_clock_use_framework(true);
    vectors_on(devices, k, n, vectors);
    vectors_on(devices, k, n / 2, room);
    for (int i = 0; i < k; i++)
        halves[i] = tensor_slice(vectors[i], 0, 1, (const int[]){(int)(n / 2)});
    double begin = modelled_seconds();
    allreduce_ring(halves, k);
    ring_backwards(devices, vectors, room, k);
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    free_all(halves, k);
    free_all(room, k);
    free_all(vectors, k);
    close_models();
    return seconds;
}

double busbw(double bytes, double seconds, int k) { return bytes / seconds * 2 * (k - 1) / k; }

// ---- forward and backward --------------------------------------------------------------------

// One device's part of a step.
typedef struct Worker {
    Device *device;
    float *anywhere; // stands for all that kernels read and write
    Tensor *grads;   // all gradients, as one vector; those of the last layer first
    Tensor *room;    // to receive the longest part of them
    int images;
} Worker;

static struct conv2d_shape conv_shape(const Layer *l, int images) {
    return (struct conv2d_shape){.N = images,
                                 .C = l->in,
                                 .H = l->side,
                                 .W = l->side,
                                 .M = l->out,
                                 .kernel_h = l->window.h,
                                 .kernel_w = l->window.w,
                                 .stride_h = l->window.stride,
                                 .stride_w = l->window.stride,
                                 .pad_h = l->window.pad_h,
                                 .pad_w = l->window.pad_w,
                                 .out_h = l->out_side,
                                 .out_w = l->out_side};
}

// Our pooling knows no padding, so the image is as large as its windows reach.
static struct avg_pool2d_shape pool_shape(const Layer *l, int images) {
    int side = (l->out_side - 1) * l->window.stride + l->window.h;
    return (struct avg_pool2d_shape){.N = images,
                                     .C = l->in,
                                     .H = side,
                                     .W = side,
                                     .kernel_h = l->window.h,
                                     .kernel_w = l->window.w,
                                     .stride_h = l->window.stride,
                                     .stride_w = l->window.stride,
                                     .out_h = l->out_side,
                                     .out_w = l->out_side};
}

static int pixels(const Layer *l) { return l->out_side * l->out_side; }
static size_t outputs(const Layer *l, int images) {
    return (size_t)images * (size_t)l->out * (size_t)pixels(l);
}

static void norm_forward(const Worker *w, const Layer *l) {
    float *p = w->anywhere;
    int N = w->images, C = l->out, S = pixels(l);
    launch(w->device, batch_norm_stats, .X = p, .stats = p, .N = N, .C = C, .S = S);
    launch(w->device, batch_norm_merge, .stats = p, .mean = p, .var = p, .count = p,
           .running_mean = p, .running_var = p, .k = 1, .C = C);
    launch(w->device, batch_norm_forward, .X = p, .mean = p, .var = p, .weight = p, .bias = p,
           .Y = p, .N = N, .C = C, .S = S);
}

static void norm_backward(const Worker *w, const Layer *l) {
    float *p = w->anywhere;
    int N = w->images, C = l->out, S = pixels(l);
    launch(w->device, batch_norm_backward_sums, .dY = p, .X = p, .mean = p, .var = p, .sums = p,
           .N = N, .C = C, .S = S);
    for (int i = 0; i < 2; i++) // the sums are the gradients of bias and weight
        launch(w->device, add_backward, .dY = p, .dX = p, .n = (size_t)C);
    launch(w->device, batch_norm_backward_input, .dY = p, .X = p, .mean = p, .var = p, .weight = p,
           .sums = p, .count = p, .dX = p, .N = N, .C = C, .S = S);
}

static void layer_forward(const Worker *w, const Layer *l) {
    float *p = w->anywhere;
    switch (l->kind) {
    case CONVOLUTION:
        launch(w->device, conv2d_forward, .X = p, .W = p, .b = l->norm ? NULL : p, .Y = p,
               .s = conv_shape(l, w->images));
        break;
    case LINEAR:
        launch(w->device, gemm, .A = p, .B = p, .C = p, .M = w->images, .N = l->out, .K = l->in);
        launch(w->device, add_bias_forward, .X = p, .b = p, .Y = p, .rows = w->images,
               .cols = l->out);
        break;
    case POOLING:
        launch(w->device, avg_pool2d_forward, .X = p, .Y = p, .s = pool_shape(l, w->images));
        break;
    case ADDITION:
        launch(w->device, add_forward, .A = p, .B = p, .Y = p, .n = outputs(l, w->images));
        break;
    }
    if (l->norm) norm_forward(w, l);
    if (l->relu) launch(w->device, relu_forward, .X = p, .Y = p, .n = outputs(l, w->images));
}

// The images have no gradient, so the first layer passes none on.
static void layer_backward(const Worker *w, const Layer *l, bool is_first) {
    float *p = w->anywhere;
    if (l->relu)
        launch(w->device, relu_backward, .Y = p, .dY = p, .dX = p, .n = outputs(l, w->images));
    if (l->norm) norm_backward(w, l);
    switch (l->kind) {
    case CONVOLUTION:
        launch(w->device, conv2d_backward_params, .dY = p, .X = p, .dW = p,
               .db = l->norm ? NULL : p, .s = conv_shape(l, w->images));
        if (!is_first)
            launch(w->device, conv2d_backward_input, .dY = p, .W = p, .dX = p,
                   .s = conv_shape(l, w->images));
        break;
    case LINEAR:
        launch(w->device, add_bias_backward, .dY = p, .db = p, .rows = w->images, .cols = l->out);
        launch(w->device, gemm, .A = p, .B = p, .C = p, .M = l->in, .N = l->out, .K = w->images,
               .trans_A = 1);
        launch(w->device, gemm, .A = p, .B = p, .C = p, .M = w->images, .N = l->in, .K = l->out,
               .trans_B = 1);
        break;
    case POOLING:
        launch(w->device, avg_pool2d_backward, .dY = p, .dX = p, .s = pool_shape(l, w->images));
        break;
    case ADDITION: // both parts get the gradient; where they come from the same layer it is added
        launch(w->device, add_backward, .dY = p, .dX = p, .beta = 1, .n = outputs(l, w->images));
        break;
    }
}

static void loss(const Worker *w, int classes) {
    float *p = w->anywhere;
    launch(w->device, cross_entropy_forward, .logits = p, .labels = p, .losses = p, .probs = p,
           .rows = w->images, .classes = classes);
    launch(w->device, cross_entropy_backward, .probs = p, .labels = p, .dlosses = p, .dlogits = p,
           .rows = w->images, .classes = classes);
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
    modelled_clock_use_framework(true); // the launches of an exchange: see step_seconds()
    ring_on_queues(queues, data, room, end - first, k);
    modelled_clock_use_framework(false);
}

static void exchange_all(const Worker workers[], int k) {
    Tensor *grads[MAX_DEVICES];
    for (int i = 0; i < k; i++) grads[i] = workers[i].grads;
    modelled_clock_use_framework(true);
    allreduce_ring(grads, k);
    modelled_clock_use_framework(false);
}

static void wait_for_exchanges(const Worker workers[], int k) {
    for (int i = 0; i < k; i++)
        device_wait(workers[i].device, queue_record(comm_queue(workers[i].device)));
}

// ---- a step ----------------------------------------------------------------------------------

static void forward_all(const Step *step, const Worker workers[]) {
    const Network *network = step->network;
    for (int l = 0; l < network->num_layers; l++)
        for (int i = 0; i < step->devices; i++) layer_forward(&workers[i], &network->layers[l]);
    for (int i = 0; i < step->devices; i++)
        loss(&workers[i], network->layers[network->num_layers - 1].out);
}

static void backward_all_layers(const Step *step, const Worker workers[]) {
    bool in_buckets = step->devices > 1 && step->exchange == IN_BUCKETS;
    size_t first = 0, end = 0; // of the open bucket
    for (int l = step->network->num_layers - 1; l >= 0; l--) {
        const Layer *layer = &step->network->layers[l];
        for (int i = 0; i < step->devices; i++) layer_backward(&workers[i], layer, l == 0);
        end += (size_t)layer_params(layer);
        bool full = (double)((end - first) * sizeof(float)) >= step->bucket_bytes || l == 0;
        if (in_buckets && full && end > first) {
            exchange_bucket(workers, step->devices, first, end);
            first = end;
        }
    }
}

static void run(const Step *step, const Worker workers[]) {
    int k = step->devices;
    forward_all(step, workers);
    backward_all_layers(step, workers);
    if (k > 1 && step->exchange == AFTER_BACKWARD) exchange_all(workers, k);
    if (k > 1 && step->exchange == IN_BUCKETS) wait_for_exchanges(workers, k);
    for (int i = 0; i < k; i++)
        launch(workers[i].device, sgd, .param = workers[i].anywhere, .grad = workers[i].grads->data,
               .batch_size = step->images * k, .n = numel(workers[i].grads));
}

static void new_workers(const Step *step, Device *const devices[], Worker workers[]) {
    size_t params = (size_t)network_params(step->network);
    for (int i = 0; i < step->devices; i++) {
        workers[i] = (Worker){.device = devices[i],
                              .anywhere = device_alloc(devices[i], sizeof(float)),
                              .grads = tensor_new(devices[i], (int)params),
                              .room = tensor_new(devices[i], (int)(params / 2 + 1)),
                              .images = step->images};
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
    open_models(&copy, NULL, step->devices, step->tf32, devices);
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

double images_per_second(const Machine *machine, const Step *step) {
    return step->images * step->devices / step_seconds(machine, step);
}

double scaling_efficiency(const Machine *machine, const Step *step) {
    Step alone = *step;
    alone.devices = 1;
    return step_seconds(machine, &alone) / step_seconds(machine, step);
}
