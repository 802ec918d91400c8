// nn.c: a kind of module is a forward function and what it owns, a few lines for each. On each
// device, all parameters of a network are slices of one vector.
#include "nn.h"
#include "common/base/error.h"
#include "random.h"
#include "transformer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 4 }; // in one module, not counting modules in it

// X[i] becomes the output for X[i], for each of k devices.
typedef void Forward(Module *m, Tensor *X[], int k);

struct Module {
    Forward *forward;
    char *name; // within the module that contains it
    Parameter *own[MOST_PARAMETERS];
    int num_own;
    Module **children;
    int num_children;
    // Options for some kinds:
    Conv2dOptions conv;
    int pool_kernel, pool_h, pool_w;
    bool training, sync, do_not_track;
    long num_batches_tracked, tracked_at_start;
    // For the whole network that was initialised:
    Parameters all;
    FlatParameters *on;              // each device; NULLs where there are none
    size_t num_trained, num_buffers; // floats in FlatParameters
};

// ---- building ---------------------------------------------------------------------------------

static Module *new_module(Forward *kind) {
    Module *m = xcalloc(1, sizeof *m);
    m->forward = kind;
    m->training = true;
    return m;
}

#define OWN(m, name, trained, deviation, value, ...)                                               \
    own((m), (name), (trained), (deviation), (value),                                              \
        tensor_of_shape(host(), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)),                 \
                        (const int[]){__VA_ARGS__}))
static void own(Module *m, const char *name, bool trained, double deviation, float value,
                Tensor *start) {
    Parameter *p = xcalloc(1, sizeof *p);
    *p = (Parameter){.name = xstrdup(name),
                     .trained = trained,
                     .deviation = deviation,
                     .value = value,
                     .start = start};
    m->own[m->num_own++] = p;
}

void add_module(Module *sequential, const char *name, Module *module) {
    size_t n = (size_t)sequential->num_children;
    sequential->children = xgrow(sequential->children, n + 1, sizeof(Module *));
    sequential->children[sequential->num_children++] = module;
    module->name = xstrdup(name);
}

static void free_copies(Module *net) {
    for (int id = 0; id < NUM_DEVICE_IDS && net->on; id++) {
        for (int i = 0; i < net->all.n; i++) {
            tensor_free(net->all.list[i]->on[id]);
            net->all.list[i]->on[id] = NULL;
        }
        tensor_free(net->on[id].data);
        tensor_free(net->on[id].grad);
        tensor_free(net->on[id].buffers);
        net->on[id] = (FlatParameters){NULL, NULL, NULL};
    }
}

void module_free(Module *m) {
    if (!m) return;
    free_copies(m);
    for (int i = 0; i < m->num_children; i++) module_free(m->children[i]);
    for (int i = 0; i < m->num_own; i++) {
        tensor_free(m->own[i]->start);
        free(m->own[i]->name);
        free(m->own[i]);
    }
    free(m->children);
    free(m->name);
    free(m->all.list);
    free(m->on);
    free(m);
}

// ---- copies on devices ------------------------------------------------------------------------

static Tensor *zeros(Device *device, size_t n) {
    CHECK(n <= INT_MAX, "a network has fewer than 2^31 parameters");
    Tensor *t = tensor_new(device, (int)n);
    tensor_fill(t, 0);
    return t;
}

void place_on(Module *net, Device *device) {
    Parameters all = parameters_of(net);
    FlatParameters *flat = &net->on[device_id(device)];
    if (flat->data) return;
    flat->data = zeros(device, net->num_trained);
    flat->grad = zeros(device, net->num_trained);
    flat->buffers = zeros(device, net->num_buffers);
    for (int i = 0; i < all.n; i++) {
        Parameter *p = all.list[i];
        Tensor *home = p->trained ? flat->data : flat->buffers;
        Tensor *copy = tensor_slice(home, p->first, p->start->ndim, p->start->shape);
        copy->name = p->name;
        tensor_copy(copy, p->start);
        if (p->trained) attach_grad_at(copy, flat->grad, p->first);
        p->on[device_id(device)] = copy;
    }
}

static Tensor *without_memory(Device *device, const Tensor *like) {
    Tensor *t = xcalloc(1, sizeof *t);
    *t = (Tensor){.ndim = like->ndim, .device = device, .name = like->name, .is_slice = true};
    memcpy(t->shape, like->shape, sizeof t->shape);
    return t;
}

void place_without_memory(Module *net, Device *device) {
    Parameters all = parameters_of(net);
    FlatParameters *flat = &net->on[device_id(device)];
    CHECK(!flat->buffers, "the network is on this device already");
    flat->buffers = zeros(device, net->num_buffers);
    for (int i = 0; i < all.n; i++) {
        Parameter *p = all.list[i];
        Tensor *copy = without_memory(device, p->start);
        if (p->trained) {
            copy->grad = without_memory(device, p->start);
            copy->requires_grad = copy->grad_filled = true;
        } else {
            if (numel(copy) > 0) copy->data = flat->buffers->data + p->first;
            tensor_copy(copy, p->start);
        }
        p->on[device_id(device)] = copy;
    }
}

void parameter_memory(const Parameter *p, const Device *device, float *data, float *grad) {
    Tensor *t = parameter_data(p, device);
    t->data = data;
    t->grad->data = grad;
}

static Tensor *copy_on(Parameter *p, Device *device) {
    Tensor **copy = &p->on[device_id(device)];
    if (!*copy) place_on(p->net, device);
    return *copy;
}

static _Noreturn void die_not_there(const char *name, const Device *device) {
    die("parameters exist on the devices that data went through; send some there first",
        "parameter \"%s\" is not initialized on %s", name, device_name(device));
}

Tensor *parameter_data(const Parameter *p, const Device *device) {
    Tensor *copy = p->on[device_id(device)];
    if (!copy) die_not_there(p->name, device);
    return copy;
}

FlatParameters flat_parameters(const Module *net, const Device *device) {
    FlatParameters flat = net->on[device_id(device)];
    if (!flat.data) die_not_there(parameters_of(net).list[0]->name, device);
    return flat;
}

// ---- kinds of modules -------------------------------------------------------------------------

static void conv2d_forward(Module *m, Tensor *X[], int k) {
    for (int i = 0; i < k; i++)
        X[i] = conv2d_with(X[i], copy_on(m->own[0], X[i]->device), copy_on(m->own[1], X[i]->device),
                           m->conv);
}

Module *conv2d_module(int in_channels, int out_channels, Conv2dModuleOptions o) {
    Module *m = new_module(conv2d_forward);
    m->conv = (Conv2dOptions){.stride = o.stride, .padding = o.padding};
    OWN(m, "weight", true, 0.01, 0, out_channels, in_channels, o.kernel_size, o.kernel_size);
    OWN(m, "bias", true, 0, 0, out_channels);
    return m;
}

static void linear_forward(Module *m, Tensor *X[], int k) {
    for (int i = 0; i < k; i++)
        X[i] = linear(X[i], copy_on(m->own[0], X[i]->device), copy_on(m->own[1], X[i]->device));
}

Module *Linear(int in_features, int out_features) {
    Module *m = new_module(linear_forward);
    OWN(m, "weight", true, 0.01, 0, out_features, in_features);
    OWN(m, "bias", true, 0, 0, out_features);
    return m;
}

static void batch_norm_forward(Module *m, Tensor *X[], int k) {
    BatchNormTensors layers[MAX_DEVICES];
    BatchNormOptions options = {m->training, .momentum = 0.1f, .eps = 1e-5f};
    for (int i = 0; i < k; i++) {
        Device *device = X[i]->device;
        layers[i] = (BatchNormTensors){copy_on(m->own[0], device), copy_on(m->own[1], device),
                                       copy_on(m->own[2], device), copy_on(m->own[3], device)};
        if (m->training && m->do_not_track) layers[i].running_mean = layers[i].running_var = NULL;
    }
    if (m->training && !m->do_not_track) m->num_batches_tracked++;
    if (m->sync)
        sync_batch_norm(X, layers, k, options, X);
    else
        for (int i = 0; i < k; i++) X[i] = batch_norm(X[i], layers[i], options);
}

Module *BatchNorm2d(int num_features) {
    Module *m = new_module(batch_norm_forward);
    OWN(m, "weight", true, 0, 1, num_features);
    OWN(m, "bias", true, 0, 0, num_features);
    OWN(m, "running_mean", false, 0, 0, num_features);
    OWN(m, "running_var", false, 0, 1, num_features);
    return m;
}

static void relu_forward(Module *m, Tensor *X[], int k) {
    (void)m;
    for (int i = 0; i < k; i++) X[i] = relu(X[i]);
}

Module *ReLU(void) { return new_module(relu_forward); }

static void gelu_forward(Module *m, Tensor *X[], int k) {
    (void)m;
    for (int i = 0; i < k; i++) X[i] = gelu(X[i]);
}

Module *GELU(void) { return new_module(gelu_forward); }

static void layer_norm_forward(Module *m, Tensor *X[], int k) {
    for (int i = 0; i < k; i++)
        X[i] = layer_norm(X[i], copy_on(m->own[0], X[i]->device), copy_on(m->own[1], X[i]->device));
}

Module *LayerNorm(int num_features) {
    Module *m = new_module(layer_norm_forward);
    OWN(m, "weight", true, 0, 1, num_features);
    OWN(m, "bias", true, 0, 0, num_features);
    return m;
}

static void flatten_forward(Module *m, Tensor *X[], int k) {
    (void)m;
    for (int i = 0; i < k; i++) X[i] = reshape(X[i], X[i]->shape[0], -1);
}

Module *Flatten(void) { return new_module(flatten_forward); }

static void avg_pool2d_forward(Module *m, Tensor *X[], int k) {
    for (int i = 0; i < k; i++) X[i] = avg_pool2d(X[i], .kernel = m->pool_kernel);
}

Module *AvgPool2d(int kernel_size) {
    Module *m = new_module(avg_pool2d_forward);
    m->pool_kernel = kernel_size;
    return m;
}

static void adaptive_avg_pool2d_forward(Module *m, Tensor *X[], int k) {
    for (int i = 0; i < k; i++) {
        int H = X[i]->shape[2], W = X[i]->shape[3];
        CHECK(X[i]->ndim == 4 && H % m->pool_h == 0 && W % m->pool_w == 0,
              "AdaptiveAvgPool2d: H and W must be multiples of the output's");
        X[i] = avg_pool2d(X[i], .kernel_hw = {H / m->pool_h, W / m->pool_w});
    }
}

Module *AdaptiveAvgPool2d(int out_h, int out_w) {
    CHECK(out_h > 0 && out_w > 0, "AdaptiveAvgPool2d: the output has pixels");
    Module *m = new_module(adaptive_avg_pool2d_forward);
    m->pool_h = out_h;
    m->pool_w = out_w;
    return m;
}

static void sequential_forward(Module *m, Tensor *X[], int k) {
    for (int i = 0; i < m->num_children; i++) m->children[i]->forward(m->children[i], X, k);
}

Module *sequential_of(Module *const modules[]) {
    Module *m = new_module(sequential_forward);
    for (int i = 0; modules[i]; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        add_module(m, name, modules[i]);
    }
    return m;
}

// ---- the residual block -----------------------------------------------------------------------

static Module *child(Module *m, const char *name) {
    for (int i = 0; i < m->num_children; i++)
        if (strcmp(m->children[i]->name, name) == 0) return m->children[i];
    return NULL;
}

static void pass(Module *m, const char *name, Tensor *X[], int k) {
    Module *part = child(m, name);
    part->forward(part, X, k);
}

static void residual_forward(Module *m, Tensor *X[], int k) {
    Tensor *Y[MAX_DEVICES];
    for (int i = 0; i < k; i++) Y[i] = X[i];
    pass(m, "conv1", Y, k);
    pass(m, "bn1", Y, k);
    for (int i = 0; i < k; i++) Y[i] = relu_(Y[i]);
    pass(m, "conv2", Y, k);
    pass(m, "bn2", Y, k);
    if (child(m, "conv3")) pass(m, "conv3", X, k);
    for (int i = 0; i < k; i++) X[i] = relu_(add_(Y[i], X[i]));
}

Module *residual_module(int in_channels, int out_channels, ResidualOptions o) {
    Module *m = new_module(residual_forward);
    add_module(
        m, "conv1",
        Conv2d(in_channels, out_channels, .kernel_size = 3, .padding = 1, .stride = o.strides));
    add_module(m, "conv2", Conv2d(out_channels, out_channels, .kernel_size = 3, .padding = 1));
    if (o.use_1x1conv)
        add_module(m, "conv3",
                   Conv2d(in_channels, out_channels, .kernel_size = 1, .stride = o.strides));
    add_module(m, "bn1", BatchNorm2d(out_channels));
    add_module(m, "bn2", BatchNorm2d(out_channels));
    return m;
}

// ---- the whole network ------------------------------------------------------------------------

// Adds the parameters of m and of all modules in it, and gives them their full names. path is "" or
// ends with a dot.
static void collect(Module *m, const char *path, Parameters *all) {
    all->list = xgrow(all->list, (size_t)(all->n + m->num_own) + 1, sizeof(Parameter *));
    for (int i = 0; i < m->num_own; i++) {
        char *name = xprintf("%s%s", path, m->own[i]->name);
        free(m->own[i]->name);
        m->own[i]->start->name = m->own[i]->name = name;
        all->list[all->n++] = m->own[i];
    }
    for (int i = 0; i < m->num_children; i++) {
        char *inner = xprintf("%s%s.", path, m->children[i]->name);
        collect(m->children[i], inner, all);
        free(inner);
    }
}

// The counts of minibatches are again what they were at the start, or 0.
static void restart_counts(Module *m, bool at_zero) {
    if (at_zero) m->tracked_at_start = 0;
    m->num_batches_tracked = m->tracked_at_start;
    for (int i = 0; i < m->num_children; i++) restart_counts(m->children[i], at_zero);
}

void restart(Module *net) {
    parameters_of(net);
    free_copies(net);
    restart_counts(net, false);
}

void initialize_without_values(Module *net) {
    if (!net->all.n) {
        collect(net, "", &net->all);
        net->on = xcalloc(NUM_DEVICE_IDS, sizeof *net->on);
    }
    restart(net);
    restart_counts(net, true); // also if a file had set them
    net->num_trained = net->num_buffers = 0;
    for (int i = 0; i < net->all.n; i++) {
        Parameter *p = net->all.list[i];
        size_t *end = p->trained ? &net->num_trained : &net->num_buffers;
        p->net = net;
        p->first = *end;
        *end += numel(p->start);
    }
}

void initialize(Module *net, uint64_t seed) {
    initialize_without_values(net);
    for (int i = 0; i < net->all.n; i++) {
        Parameter *p = net->all.list[i];
        if (p->deviation > 0)
            fill_normal(p->start->data, numel(p->start), p->deviation, seed,
                        STREAM_PARAMS + (uint32_t)i);
        else
            tensor_fill(p->start, p->value);
    }
}

Parameters parameters_of(const Module *net) {
    CHECK(net->all.n, "initialize() the network first");
    return net->all;
}

Parameter *find_parameter(const Module *net, const char *name) {
    Parameters all = parameters_of(net);
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.list[i]->name, name) == 0) return all.list[i];
    die("names are those of PyTorch's state_dict, such as \"0.weight\"",
        "the network has no parameter \"%s\"", name);
}

void set_training(Module *net, bool training) {
    net->training = training;
    for (int i = 0; i < net->num_children; i++) set_training(net->children[i], training);
}

void set_track_running_stats(Module *net, bool track) {
    net->do_not_track = !track;
    for (int i = 0; i < net->num_children; i++) set_track_running_stats(net->children[i], track);
}

void set_sync_batch_norm(Module *net, bool sync) {
    net->sync = sync;
    for (int i = 0; i < net->num_children; i++) set_sync_batch_norm(net->children[i], sync);
}

void forward_all(Module *net, Tensor *const X[], int k, Tensor *Y[]) {
    CHECK(net->all.n, "initialize() the network first");
    for (int i = 0; i < k; i++) Y[i] = X[i];
    net->forward(net, Y, k);
}

static int num_parameters(const Module *m) {
    int n = m->num_own;
    for (int i = 0; i < m->num_children; i++) n += num_parameters(m->children[i]);
    return n;
}

// Adds the parts of m, whose parameters begin at list[*first], and moves *first past them.
static NetPart *add_parts(Module *m, NetPart *parts, int *n, int *first) {
    if (m->forward == sequential_forward) {
        for (int i = 0; i < m->num_children; i++)
            parts = add_parts(m->children[i], parts, n, first);
        return parts;
    }
    parts = xgrow(parts, (size_t)*n + 1, sizeof *parts);
    parts[*n] = (NetPart){m, *first, num_parameters(m)};
    *first += parts[(*n)++].num;
    return parts;
}

NetPart *net_parts(Module *net, int *n) {
    int first = *n = 0;
    return add_parts(net, NULL, n, &first);
}

void forward_part(const NetPart *part, Tensor *X[], int k) {
    part->module->forward(part->module, X, k);
}

Tensor *forward(Module *net, Tensor *X) {
    Tensor *Y;
    forward_all(net, &X, 1, &Y);
    return Y;
}

void sgd_step(Module *net, Device *device, float lr, int batch_size) {
    FlatParameters flat = flat_parameters(net, device);
    launch(device, sgd, .param = flat.data->data, .grad = flat.grad->data, .lr = lr,
           .batch_size = batch_size, .n = numel(flat.data));
}

static size_t bytes_of(const Module *net, bool trained) {
    Parameters all = parameters_of(net);
    size_t bytes = 0;
    for (int i = 0; i < all.n; i++)
        if (all.list[i]->trained == trained) bytes += tensor_bytes(all.list[i]->start);
    return bytes;
}

size_t parameter_bytes(const Module *net) { return bytes_of(net, true); }
size_t buffer_bytes(const Module *net) { return bytes_of(net, false); }

// ---- counts of minibatches --------------------------------------------------------------------

static long *count_of(Module *m, bool at_start) {
    return at_start ? &m->tracked_at_start : &m->num_batches_tracked;
}

static void add_counts(Module *m, const char *path, bool at_start, Counts *counts) {
    if (m->forward == batch_norm_forward) {
        counts->list = xgrow(counts->list, (size_t)(counts->n + 1), sizeof *counts->list);
        counts->list[counts->n++] =
            (NamedCount){xprintf("%snum_batches_tracked", path), *count_of(m, at_start)};
    }
    for (int i = 0; i < m->num_children; i++) {
        char *inner = xprintf("%s%s.", path, m->children[i]->name);
        add_counts(m->children[i], inner, at_start, counts);
        free(inner);
    }
}

Counts counts_of(const Module *net, bool at_start) {
    Counts counts = {0};
    add_counts((Module *)net, "", at_start, &counts);
    return counts;
}

// Takes counts from `next` on, and returns where it stopped.
static const NamedCount *take_counts(Module *m, const NamedCount *next, bool at_start) {
    if (m->forward == batch_norm_forward) *count_of(m, at_start) = (long)(next++)->value;
    for (int i = 0; i < m->num_children; i++) next = take_counts(m->children[i], next, at_start);
    return next;
}

void set_counts(Module *net, const Counts *counts, bool at_start) {
    take_counts(net, counts->list, at_start);
}

void free_counts(Counts *counts) {
    for (int i = 0; i < counts->n; i++) free((char *)counts->list[i].name);
    free(counts->list);
    *counts = (Counts){0};
}
