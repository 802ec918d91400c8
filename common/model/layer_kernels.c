// layer_kernels.c: see layer_kernels.h. A function for each direction of each kind of layer; each
// reads like a training step of that layer, and nothing is computed.
#include "layer_kernels.h"

#define put(to, kernel, ...)                                                                       \
    (to)->take((to)->context, KERNEL_##kernel, &(struct kernel##_args){__VA_ARGS__},               \
               sizeof(struct kernel##_args))

// ## Shapes

static struct conv2d_shape conv_shape(const TableLayer *l, int images) {
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
static struct avg_pool2d_shape pool_shape(const TableLayer *l, int images) {
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

static int pixels(const TableLayer *l) { return l->out_side * l->out_side; }
static size_t outputs(const TableLayer *l, int images) {
    return (size_t)images * (size_t)l->out * (size_t)pixels(l);
}

// ## Forward

static void norm_forward(const KernelTaker *to, const TableLayer *l, int images) {
    float *p = to->anywhere;
    int N = images, C = l->out, S = pixels(l);
    put(to, batch_norm_stats, .X = p, .stats = p, .N = N, .C = C, .S = S);
    put(to, batch_norm_merge, .stats = p, .mean = p, .var = p, .count = p, .running_mean = p,
        .running_var = p, .k = 1, .C = C);
    put(to, batch_norm_forward, .X = p, .mean = p, .var = p, .weight = p, .bias = p, .Y = p, .N = N,
        .C = C, .S = S);
}

// ## Backward

static void norm_backward(const KernelTaker *to, const TableLayer *l, int images) {
    float *p = to->anywhere;
    int N = images, C = l->out, S = pixels(l);
    put(to, batch_norm_backward_sums, .dY = p, .X = p, .mean = p, .var = p, .sums = p, .N = N,
        .C = C, .S = S);
    for (int i = 0; i < 2; i++) // the sums are the gradients of bias and weight
        put(to, add_backward, .dY = p, .dX = p, .n = (size_t)C);
    put(to, batch_norm_backward_input, .dY = p, .X = p, .mean = p, .var = p, .weight = p, .sums = p,
        .count = p, .dX = p, .N = N, .C = C, .S = S);
}

void table_layer_forward(const KernelTaker *to, const TableLayer *l, int images) {
    float *p = to->anywhere;
    switch (l->kind) {
    case TABLE_CONVOLUTION:
        put(to, conv2d_forward, .X = p, .W = p, .b = l->norm ? NULL : p, .Y = p,
            .s = conv_shape(l, images));
        break;
    case TABLE_LINEAR:
        put(to, gemm, .A = p, .B = p, .C = p, .M = images, .N = l->out, .K = l->in);
        put(to, add_bias_forward, .X = p, .b = p, .Y = p, .rows = images, .cols = l->out);
        break;
    case TABLE_POOLING:
        put(to, avg_pool2d_forward, .X = p, .Y = p, .s = pool_shape(l, images));
        break;
    case TABLE_ADDITION:
        put(to, add_forward, .A = p, .B = p, .Y = p, .n = outputs(l, images));
        break;
    }
    if (l->norm) norm_forward(to, l, images);
    if (l->relu) put(to, relu_forward, .X = p, .Y = p, .n = outputs(l, images));
}

// Why two kernels of a convolution, and two products: one gradient is for the parameters, the other
// for the layer before.
void table_layer_backward(const KernelTaker *to, const TableLayer *l, int images, bool is_first) {
    float *p = to->anywhere;
    if (l->relu) put(to, relu_backward, .Y = p, .dY = p, .dX = p, .n = outputs(l, images));
    if (l->norm) norm_backward(to, l, images);
    switch (l->kind) {
    case TABLE_CONVOLUTION:
        put(to, conv2d_backward_params, .dY = p, .X = p, .dW = p, .db = l->norm ? NULL : p,
            .s = conv_shape(l, images));
        if (!is_first)
            put(to, conv2d_backward_input, .dY = p, .W = p, .dX = p, .s = conv_shape(l, images));
        break;
    case TABLE_LINEAR:
        put(to, add_bias_backward, .dY = p, .db = p, .rows = images, .cols = l->out);
        put(to, gemm, .A = p, .B = p, .C = p, .M = l->in, .N = l->out, .K = images, .trans_A = 1);
        put(to, gemm, .A = p, .B = p, .C = p, .M = images, .N = l->in, .K = l->out, .trans_B = 1);
        break;
    case TABLE_POOLING:
        put(to, avg_pool2d_backward, .dY = p, .dX = p, .s = pool_shape(l, images));
        break;
    case TABLE_ADDITION: // both parts get the gradient; where they come from the same layer it is
                         // added
        put(to, add_backward, .dY = p, .dX = p, .beta = 1, .n = outputs(l, images));
        break;
    }
}

// ## Loss and update

void table_loss(const KernelTaker *to, const NetworkTable *network, int images) {
    int classes = network->layers[network->num_layers - 1].out;
    float *p = to->anywhere;
    put(to, cross_entropy_forward, .logits = p, .labels = p, .losses = p, .probs = p,
        .rows = images, .classes = classes);
    put(to, cross_entropy_backward, .probs = p, .labels = p, .dlosses = p, .dlogits = p,
        .rows = images, .classes = classes);
}

void table_update(const KernelTaker *to, const NetworkTable *network, int images) {
    float *p = to->anywhere;
    put(to, sgd, .param = p, .grad = p, .batch_size = images, .n = (size_t)table_params(network));
}
