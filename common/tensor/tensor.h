// tensor.h: float32 arrays on a device.
//
// A tensor has up to four dimensions, row-major; images are (N,C,H,W). Labels are float32 too (0..9
// are exact), so that one type serves all. Tensors made here live until tensor_free(); the
// activations that functional.h makes live until the next begin_step() of their device.
#ifndef TENSOR_H
#define TENSOR_H

#include "common/device/device.h"

enum { MAX_DIMS = 4 };

typedef struct Tensor {
    float *data; // on `device`; NULL if the tensor has no elements
    int ndim, shape[MAX_DIMS];
    Device *device;
    const char *name;    // "W1", or NULL; used in messages and files
    bool requires_grad;  // backward() computes the gradient of the loss with respect to it
    struct Tensor *grad; // the same shape, on the same device; NULL unless requires_grad
    bool is_slice;       // the memory is another tensor's, see tensor_slice()
    // For autograd.c:
    struct Tensor *base; // whose memory and gradient this is a view of, or NULL
    bool grad_filled;    // the gradient holds a value to which the next one is added
    bool grad_spent;     // backward() has passed the gradient on already
    int uses_on_tape;    // by operations that backward() has not come to yet
    void (*grad_final)(struct Tensor *t, void *context); // see when_grad_is_final()
    void *grad_final_context;
} Tensor;

// A whole number that is stored beside tensors, under a name.
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
// "(20, 1, 3, 3)"; the text is replaced by the fourth next call.
const char *shape_text(const Tensor *t);

// Copies the elements; shapes must be equal, devices may differ. Enqueued, not waited for.
void tensor_copy(Tensor *dst, const Tensor *src);
// The book's X.clone().to(device).
Tensor *tensor_to(const Tensor *t, Device *device);
void tensor_fill(Tensor *t, float value);

// Between the tensor and the program's own memory; both wait until it is done.
void tensor_read(const Tensor *t, float *values);
void tensor_write(Tensor *t, const float *values);
// All values in a new array, never NULL, to be given to free(). Waits.
float *tensor_values(const Tensor *t);
// The values of n tensors, one after the other, and how many they are. As tensor_values().
float *values_of_all(Tensor *const tensors[], int n, size_t *num_values);
// Prints "label: [[1., 2.], [3., 4.]] on cpu:0", a row per line; for small tensors. Waits. Without
// values (--backend model): "label: (2, 2) on model:0, no values".
void tensor_print(const char *label, const Tensor *t);
// The only element of a tensor, on the host. Waits.
float item(const Tensor *t);
// The same of k tensors on devices: values[i] is that of t[i]. Waits once, for all of them. (A GPU
// copies beside the others only into memory of device_alloc(host(), ..), as tensors have.)
void items(Tensor *const t[], int k, float values[]);

// The book's p.requires_grad_(): from now on the tensor has a gradient, at first zero.
void attach_grad(Tensor *t);

// A tensor of that shape whose elements are those of `flat` (one dimension) from number `first` on.
// So many tensors can be one piece of memory, and be copied, summed or updated as one. To be freed
// before `flat` is.
Tensor *tensor_slice(const Tensor *flat, size_t first, int ndim, const int *shape);
// attach_grad() with a gradient that is a slice of `flat_grad`.
void attach_grad_at(Tensor *t, const Tensor *flat_grad, size_t first);

// How far two trainings of n parameters that began at `start` ended from each other: the largest
// difference, relative to the largest change from start to b. Without a start (NULL): relative to
// the largest number of b. 0: equal to the bit. NAN if there is a NAN.
double relative_difference(const float *a, const float *b, const float *start, size_t n);

#endif
