// lenet.c: the network, and one step of its training. Both read line for line like the book's.
#include "lenet.h"

#include "common/tensor/random.h"
#include "common/tensor/step_graph.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"

// ## A simple network
//
// Two convolutions, each with ReLU and average pooling, then two fully connected layers. In the
// comments, n is the number of images; (n,20,13,13) is a shape: images, channels, height, width.

static Tensor *named(const char *name, Tensor *t) {
    t->name = name;
    return t;
}

void lenet_init(Tensor *params[LENET_PARAMS], uint64_t seed) {
    const double scale = 0.01;
    params[0] = named("W1", tensor_new(host(), 20, 1, 3, 3));
    params[1] = named("b1", tensor_new(host(), 20));
    params[2] = named("W2", tensor_new(host(), 50, 20, 5, 5));
    params[3] = named("b2", tensor_new(host(), 50));
    params[4] = named("W3", tensor_new(host(), 800, 128));
    params[5] = named("b3", tensor_new(host(), 128));
    params[6] = named("W4", tensor_new(host(), 128, 10));
    params[7] = named("b4", tensor_new(host(), 10));
    for (int i = 0; i < LENET_PARAMS; i++) {
        bool is_weight = params[i]->ndim > 1;
        if (is_weight)
            fill_normal(params[i]->data, numel(params[i]), scale, seed,
                        STREAM_PARAMS + (uint32_t)i);
        else
            tensor_fill(params[i], 0);
    }
}

static Tensor *fully_connected(Tensor *h2, Tensor *const params[]) {
    h2 = reshape(h2, h2->shape[0], -1);                         // (n,800)
    Tensor *h3_linear = add_bias(mm(h2, params[4]), params[5]); // (n,128)
    Tensor *h3 = relu(h3_linear);                               // (n,128)
    Tensor *y_hat = add_bias(mm(h3, params[6]), params[7]);     // (n,10)
    return y_hat;
}

Tensor *lenet_by_the_book(Tensor *X, Tensor *const params[]) {        // X (n,1,28,28)
    Tensor *h1_conv = conv2d(X, params[0], params[1]);                // (n,20,26,26)
    Tensor *h1_activation = relu(h1_conv);                            // (n,20,26,26)
    Tensor *h1 = avg_pool2d(h1_activation, .kernel = 2, .stride = 2); // (n,20,13,13)
    Tensor *h2_conv = conv2d(h1, params[2], params[3]);               // (n,50,9,9)
    Tensor *h2_activation = relu(h2_conv);                            // (n,50,9,9)
    Tensor *h2 = avg_pool2d(h2_activation, .kernel = 2, .stride = 2); // (n,50,4,4)
    return fully_connected(h2, params);
}

// Here convolution, ReLU and pooling are one operation, so that an image is still in the cache when
// ReLU and pooling need it.
Tensor *lenet(Tensor *X, Tensor *const params[]) {                 // X (n,1,28,28)
    Tensor *h1 = conv2d_relu_avg_pool2d(X, params[0], params[1]);  // (n,20,13,13)
    Tensor *h2 = conv2d_relu_avg_pool2d(h1, params[2], params[3]); // (n,50,4,4)
    return fully_connected(h2, params);
}

// ## Training

// The comments number the book's five steps. No line here creates a thread.
// Each line only puts work on a device's queue and does not wait for it. So the devices compute
// side by side, and only `allreduce` makes them wait for each other.
void train_batch(const Tensor *X, const Tensor *y, Tensor *device_params[][LENET_PARAMS],
                 Device *const devices[], int k, float lr, Tensor *losses[]) {
    for (int i = 0; i < k; i++) begin_step(devices[i]); // forget the last minibatch's activations

    // 1. Split the minibatch over the devices
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    split_batch(X, y, devices, k, X_shards, y_shards);

    // 2. Each device computes the loss of its shard, and by backpropagation its gradients
    for (int i = 0; i < k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], device_params[i]), y_shards[i]));
    for (int i = 0; i < k; i++) backward(losses[i]);

    // 3. Sum the gradients of all devices, and 4. send the sum back to each: one allreduce for each
    // parameter
    for (int p = 0; p < LENET_PARAMS; p++) {
        Tensor *grads[MAX_DEVICES];
        for (int i = 0; i < k; i++) grads[i] = device_params[i][p]->grad;
        allreduce(grads, k);
    }

    // 5. The parameters are updated separately on each device. Gradients are sums, so they are
    // divided by the size of the whole minibatch, not of the shard.
    for (int i = 0; i < k; i++) sgd(device_params[i], LENET_PARAMS, lr, X->shape[0]);
}

// A step is dozens of small kernels, and the host launches each of them. A GPU can record the whole
// step as a *CUDA graph*, which is one launch from then on. The graph contains the addresses of all
// tensors, so each minibatch has to be put where the first one was.
void train_batch_as_graph(const Tensor *X, const Tensor *y, Tensor *device_params[][LENET_PARAMS],
                          Device *const devices[], int k, float lr, Tensor *losses[]) {
    const StepWork work = {.devices = devices,
                           .k = k,
                           .params = *device_params,
                           .num_params = k * LENET_PARAMS,
                           .numbers = {lr, X->shape[0]},
                           .algorithm = chosen_allreduce()};
    if (step_graph_begin(&work)) {
        Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
        for (int i = 0; i < k; i++) begin_step(devices[i]);
        split_batch(X, y, devices, k, X_shards, y_shards);
        step_graph_launch(losses);
    } else {
        train_batch(X, y, device_params, devices, k, lr, losses);
        step_graph_done(losses);
    }
}
