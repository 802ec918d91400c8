// tensor.c: a tensor is a header on the host and memory on its device; all work on the memory is
// enqueued there.
#include "tensor.h"
#include "common/base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t numel(const Tensor *t) {
    size_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= (size_t)t->shape[i];
    return n;
}

size_t tensor_bytes(const Tensor *t) { return numel(t) * sizeof(float); }

bool same_shape(const Tensor *a, const Tensor *b) {
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof(int) * (size_t)a->ndim) == 0;
}

const char *shape_text(const Tensor *t) {
    static char texts[4][64];
    static int next;
    char *text = texts[next++ % 4];
    int used = snprintf(text, sizeof texts[0], "(");
    for (int i = 0; i < t->ndim; i++)
        used += snprintf(text + used, sizeof texts[0] - (size_t)used, "%s%d", i ? ", " : "",
                         t->shape[i]);
    snprintf(text + used, sizeof texts[0] - (size_t)used, t->ndim == 1 ? ",)" : ")");
    return text;
}

static Tensor *header_of_shape(Device *device, int ndim, const int *shape) {
    CHECK(ndim >= 1 && ndim <= MAX_DIMS, "a tensor has 1 to 4 dimensions");
    Tensor *t = xcalloc(1, sizeof *t);
    t->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        CHECK(shape[i] >= 0, "sizes are not negative");
        t->shape[i] = shape[i];
    }
    t->device = device;
    return t;
}

Tensor *tensor_of_shape(Device *device, int ndim, const int *shape) {
    Tensor *t = header_of_shape(device, ndim, shape);
    t->data = device_alloc(device, tensor_bytes(t));
    return t;
}

Tensor *tensor_zeros_like(const Tensor *t) {
    Tensor *zeros = tensor_of_shape(t->device, t->ndim, t->shape);
    tensor_fill(zeros, 0);
    return zeros;
}

void tensor_free(Tensor *t) {
    if (!t) return;
    tensor_free(t->grad);
    if (!t->is_slice) device_free(t->device, t->data);
    free(t);
}

void tensor_copy(Tensor *dst, const Tensor *src) {
    if (!same_shape(dst, src))
        die("copy between tensors of one shape", "cannot copy %s %s to %s %s",
            src->name ? src->name : "a tensor", shape_text(src), dst->name ? dst->name : "a tensor",
            shape_text(dst));
    device_copy(dst->device, dst->data, src->device, src->data, tensor_bytes(src));
}

Tensor *tensor_to(const Tensor *t, Device *device) {
    Tensor *copy = tensor_of_shape(device, t->ndim, t->shape);
    copy->name = t->name;
    tensor_copy(copy, t);
    return copy;
}

void tensor_fill(Tensor *t, float value) {
    size_t n = numel(t);
    if (t->device == host())
        for (size_t i = 0; i < n; i++) t->data[i] = value;
    else
        launch(t->device, fill, .x = t->data, .value = value, .n = n);
}

void tensor_read(const Tensor *t, float *values) {
    if (t->device == host()) synchronize_all(); // some device may still be copying into it
    device_copy(host(), values, t->device, t->data, tensor_bytes(t));
    synchronize(t->device);
}

void tensor_write(Tensor *t, const float *values) {
    device_copy(t->device, t->data, host(), values, tensor_bytes(t));
    synchronize(t->device);
}

float *tensor_values(const Tensor *t) {
    float *values = xmalloc(tensor_bytes(t) + 1); // + 1, so that no elements have an array, too
    tensor_read(t, values);
    return values;
}

float *values_of_all(Tensor *const tensors[], int n, size_t *num_values) {
    *num_values = 0;
    for (int i = 0; i < n; i++) *num_values += numel(tensors[i]);
    float *values = xmalloc(sizeof(float) * *num_values + 1), *next = values;
    for (int i = 0; i < n; i++) {
        tensor_read(tensors[i], next);
        next += numel(tensors[i]);
    }
    return values;
}

// Prints dimension `dim` in brackets, each row on a line that is indented.
static void print_values(const Tensor *t, const float **values, int dim, int indent) {
    if (dim >= MAX_DIMS) return;
    putchar('[');
    for (int i = 0; i < t->shape[dim]; i++) {
        if (dim == t->ndim - 1) {
            double value = (double)*(*values)++;
            bool whole = fabs(value) < 1e6 && value == trunc(value); // false for NaN
            printf(whole ? "%s%.0f." : "%s%.4g", i ? ", " : "", value);
        } else {
            if (i) printf(",\n%*s", indent + dim + 1, "");
            print_values(t, values, dim + 1, indent);
        }
    }
    putchar(']');
}

void tensor_print(const char *label, const Tensor *t) {
    if (!has_values(t->device)) {
        printf("%s: %s on %s, no values\n", label, shape_text(t), device_name(t->device));
        return;
    }
    float *values = tensor_values(t);
    const float *next = values;
    int indent = printf("%s: ", label);
    print_values(t, &next, 0, indent);
    printf(" on %s\n", device_name(t->device));
    free(values);
}

float item(const Tensor *t) {
    CHECK(numel(t) == 1, "item() takes a tensor of one element");
    float value;
    tensor_read(t, &value);
    return value;
}

void items(Tensor *const t[], int k, float values[]) {
    for (int i = 0; i < k; i++) {
        CHECK(numel(t[i]) == 1, "items() takes tensors of one element");
        device_copy(host(), &values[i], t[i]->device, t[i]->data, sizeof values[i]);
    }
    for (int i = 0; i < k; i++) synchronize(t[i]->device);
}

static void start_grad(Tensor *t) {
    device_memory_is_for(t->device, t->data, MEMORY_PARAMETERS);
    device_memory_is_for(t->device, t->grad->data, MEMORY_GRADIENTS);
    t->requires_grad = true;
    tensor_fill(t->grad, 0);
    t->grad_filled = true; // with zeros: the first gradient is added to them
}

void attach_grad(Tensor *t) {
    if (!t->grad) t->grad = tensor_of_shape(t->device, t->ndim, t->shape);
    start_grad(t);
}

Tensor *tensor_slice(const Tensor *flat, size_t first, int ndim, const int *shape) {
    Tensor *t = header_of_shape(flat->device, ndim, shape);
    CHECK(flat->ndim == 1 && first + numel(t) <= numel(flat), "a slice lies inside of its tensor");
    t->is_slice = true;
    if (numel(t) > 0) t->data = flat->data + first;
    return t;
}

void attach_grad_at(Tensor *t, const Tensor *flat_grad, size_t first) {
    CHECK(!t->grad && t->device == flat_grad->device,
          "the gradient is on the tensor's device, and its first one");
    t->grad = tensor_slice(flat_grad, first, t->ndim, t->shape);
    start_grad(t);
}

double relative_difference(const float *a, const float *b, const float *start, size_t n) {
    double largest = 0, change = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i])) return NAN;
        largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
        change = fmax(change, fabs((double)b[i] - (start ? (double)start[i] : 0)));
    }
    return largest > 0 ? largest / change : 0;
}
