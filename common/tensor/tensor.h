// tensor.h: float32 arrays on a device.
//
// To make one, call tensor_new(); to copy values in and out, call tensor_write(), tensor_read() and
// item(), which wait until the copy is done. Everything else is enqueued. Do not read t->data of a
// tensor on a device.
//
// A tensor has up to four dimensions, row-major; images are (N,C,H,W). Labels are float32 too, so
// that there is only one type; 0 to 9 are exact. Tensors made here live until tensor_free(); the
// activations that functional.h makes live until the next begin_step() of their device.
#pragma once

#include "common/device/device.h"

enum { MAX_DIMS = 4 };

typedef struct Tensor {
    float *data; // on `device`; NULL if the tensor has no elements
    int ndim, shape[MAX_DIMS];
    Device *device;
    const char *name;    // "W1", or NULL; for messages and files
    bool requires_grad;  // backward() computes the gradient of the loss with respect to it
    struct Tensor *grad; // the same shape, on the same device; NULL unless requires_grad
    bool is_slice;       // the memory is another tensor's, see tensor_slice()
    int grad_groups;     // of a parameter: see row_groups() in operation.h; else 0
    // For autograd.c:
    struct Tensor *base; // this is a view of base's memory and gradient; NULL if it is no view
    bool grad_filled;    // the gradient holds a value to which the next one is added
    bool grad_spent;     // backward() has passed the gradient on already
    int uses_on_tape;    // operations that read it and that backward() has not come to yet
    void (*grad_final)(struct Tensor *t, void *context); // see when_grad_is_final()
    void *grad_final_context;
} Tensor;

// A whole number that is stored beside tensors.
typedef struct NamedCount {
    const char *name;
    int64_t value;
} NamedCount;

// tensor_new(device, 20, 1, 3, 3): a tensor of that shape, contents undefined.
#define tensor_new(device, ...)                                                                    \
    tensor_of_shape((device), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)),                   \
                    (const int[]){__VA_ARGS__})
Tensor *tensor_of_shape(Device *device, int ndim, const int *shape);
Tensor *tensor_zeros_like(const Tensor *t);
void tensor_free(Tensor *t); // and its gradient; NULL is allowed

size_t numel(const Tensor *t);
size_t tensor_bytes(const Tensor *t);
bool same_shape(const Tensor *a, const Tensor *b);
// "(20, 1, 3, 3)"; valid during the next three calls.
const char *shape_text(const Tensor *t);

// Copies the elements; shapes must be equal, devices may differ. Enqueued, not waited for.
void tensor_copy(Tensor *dst, const Tensor *src);
// The book's X.clone().to(device).
Tensor *tensor_to(const Tensor *t, Device *device);
void tensor_fill(Tensor *t, float value);

// Copies between the tensor and the program's own memory. Both wait until the copy is done.
void tensor_read(const Tensor *t, float *values);
void tensor_write(Tensor *t, const float *values);
// All values in a new array, never NULL. free() it. Waits.
float *tensor_values(const Tensor *t);
// The same for n tensors, one after the other, and the number of all values.
float *values_of_all(Tensor *const tensors[], int n, size_t *num_values);
// Prints a small tensor, a row per line: "label: [[1., 2.], [3., 4.]] on cpu:0". If there are no
// values (--backend model): "label: (2, 2) on model:0, no values". Waits.
void tensor_print(const char *label, const Tensor *t);
// The only element of a tensor, on the host. Waits.
float item(const Tensor *t);
// The same for k tensors: values[i] is the element of t[i]. Waits once, for all of them. (GPUs copy
// at the same time only into memory that device_alloc(host(), ..) gave, such as a tensor's.)
void items(Tensor *const t[], int k, float values[]);

// The book's p.requires_grad_(): from now on the tensor has a gradient, which starts as zero.
void attach_grad(Tensor *t);

// A tensor of that shape in the memory of `flat` (one dimension), from element `first` on. In this
// way many tensors can be copied, summed or updated as one. Free it before `flat`.
Tensor *tensor_slice(const Tensor *flat, size_t first, int ndim, const int *shape);
// attach_grad() with a gradient that is a slice of `flat_grad`.
void attach_grad_at(Tensor *t, const Tensor *flat_grad, size_t first);

// How far apart two trainings of n parameters, which began at `start`, ended: the largest
// difference relative to the largest change from start to b. If start is NULL, it is relative to
// the largest number in b. 0 if all are equal to the bit, NAN if there is a NAN.
double relative_difference(const float *a, const float *b, const float *start, size_t n);
