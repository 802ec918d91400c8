// test_cost.c: what kernels cost (kernels/cost.c), against published figures, and what our GPU code
// moves. (That it is what the definitions count: test_kernels.c.)
#include "cases.h"

#include "kernels/cost.h"
#include "kernels/cuda/conv2d_plan.h"

// ---- against published figures -----------------------------------------------------------------

static KernelCost conv_cost(int C, int side, int M, int kernel, int stride, int pad) {
    int out = (side + 2 * pad - kernel) / stride + 1;
    struct conv2d_forward_args args = {
        .s = {1, C, side, side, M, kernel, kernel, stride, stride, pad, pad, out, out}};
    return kernel_cost(KERNEL_conv2d_forward, &args);
}

static KernelCost linear_cost(int in, int out) {
    return kernel_cost(KERNEL_gemm, &(struct gemm_args){.M = 1, .N = out, .K = in});
}

// The first convolution of ResNet-18 for an image of 224 x 224. torchstat says that it has
// 118,013,952 "Flops", each of which is a multiplication with an addition, and that it reads
// 639,744 and writes 3,211,264 bytes: https://blog.csdn.net/Hankerchen/article/details/122933469
TEST(as_published_for_resnet18) {
    KernelCost cost = conv_cost(3, 224, 64, 7, 2, 3);
    assert_true(cost.flop == 2 * 118013952.0);
    assert_true(cost.bytes == 639744.0 + 3211264.0);
}

// All layers of AlexNet for an image of 224 x 224: 0.714 billion multiplications with an addition,
// says torchvision: "_ops" in torchvision/models/alexnet.py of github.com/pytorch/vision.
TEST(as_published_for_alexnet) {
    const KernelCost layers[] = {conv_cost(3, 224, 64, 11, 4, 2),  conv_cost(64, 27, 192, 5, 1, 2),
                                 conv_cost(192, 13, 384, 3, 1, 1), conv_cost(384, 13, 256, 3, 1, 1),
                                 conv_cost(256, 13, 256, 3, 1, 1), linear_cost(9216, 4096),
                                 linear_cost(4096, 4096),          linear_cost(4096, 1000)};
    double sum = 0;
    for (size_t i = 0; i < COUNT(layers); i++) sum += layers[i].flop;
    assert_true(fabs(sum / 2 - 0.714e9) <= 0.0005e9);
}

// Layers that everybody knows, and how their convolutions are told apart.
TEST(forms_of_convolutions) {
    const struct {
        int C, side, M, kernel, stride, pad;
        ConvolutionForm form;
    } layers[] = {
        {3, 32, 64, 3, 1, 1, FORM_THIN},    // VGG's first
        {1, 28, 20, 5, 1, 0, FORM_THIN},    // LeNet's
        {64, 28, 64, 3, 1, 1, FORM_3X3},    // ResNet's usual one
        {64, 28, 128, 3, 2, 1, FORM_PLAIN}, // the first of its blocks
        {64, 28, 128, 1, 2, 0, FORM_PLAIN}, // and that beside it
        {256, 7, 64, 1, 1, 0, FORM_PLAIN},  // a bottleneck
        {64, 27, 192, 5, 1, 2, FORM_LARGE}, // AlexNet's second
    };
    for (size_t i = 0; i < COUNT(layers); i++) {
        KernelCost cost = conv_cost(layers[i].C, layers[i].side, layers[i].M, layers[i].kernel,
                                    layers[i].stride, layers[i].pad);
        assert_true(cost.form == layers[i].form && cost.pass == PASS_FORWARD);
    }
    struct conv2d_backward_params_args params = {.s = {.N = 1}};
    struct conv2d_backward_input_args input = {.s = {.N = 1}};
    assert_int_equal(kernel_cost(KERNEL_conv2d_backward_params, &params).pass, PASS_PARAMS);
    assert_int_equal(kernel_cost(KERNEL_conv2d_backward_input, &input).pass, PASS_INPUT);
}

// ---- what our GPU code does ---------------------------------------------------------------------

static void assert_traffic(KernelId kernel, const void *args, int launches, double again) {
    KernelCost cost = kernel_cost(kernel, args);
    KernelTraffic once = kernel_traffic(BY_ONE_LAUNCH, kernel, args);
    KernelTraffic ours = kernel_traffic(BY_OUR_CUDA, kernel, args);
    assert_int_equal(once.launches, 1);
    assert_true(once.moved == 0 && once.work.bytes == cost.bytes && once.work.flop == cost.flop);
    assert_int_equal(ours.launches, launches);
    assert_true(ours.work.flop == cost.flop);
    assert_true(ours.moved + ours.work.bytes == cost.bytes + again);
}

// Of LeNet's two layers and one of ResNet-18's, with 256 images. The matrices of windows and of
// planes are written once and read once; of two chunks, W is read twice.
TEST(traffic_of_our_convolutions) {
    if (CONV_WORKSPACE < 256 << 20) skip("chunks are small where GPUs are simulated");
    unsigned char pooled;
    float b;
    struct conv2d_shape second = {256, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0, 8, 8};
    double windows = 4.0 * 500 * 256 * 64, planes = 4.0 * 50 * 256 * 64,
           pooled_Y = planes / 4 * 1.5;
    struct conv2d_forward_args forward = {.s = second, .pooled = &pooled, .b = &b};
    struct conv2d_backward_input_args input = {.s = second, .pooled = &pooled};
    struct conv2d_backward_params_args params = {.s = second, .pooled = &pooled};
    assert_traffic(KERNEL_conv2d_forward, &forward, 3, 2 * (windows + planes));
    assert_traffic(KERNEL_conv2d_backward_input, &input, 3, 2 * (windows + planes));
    assert_traffic(KERNEL_conv2d_backward_params, &params, 3, 2 * (windows + planes));
    params.db = &b; // dY is read once more
    assert_traffic(KERNEL_conv2d_backward_params, &params, 5, 2 * (windows + planes) + pooled_Y);
    params.s = (struct conv2d_shape){256, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0, 26, 26};
    assert_int_equal(kernel_traffic(BY_OUR_CUDA, KERNEL_conv2d_backward_params, &params).launches,
                     6); // few weights: their sums are added up by another launch
    forward = (struct conv2d_forward_args){
        .s = {256, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1, 28, 28}}; // 256 MB: 133 images, and 123
    assert_traffic(KERNEL_conv2d_forward, &forward, 6,
                   2 * 4.0 * (576 + 64) * 256 * 784 + 4.0 * 64 * 576);
    Products p = kernel_traffic(BY_OUR_CUDA, KERNEL_conv2d_forward, &forward).products;
    assert_true(p.count == 2 && p.rows == 64 && p.columns == 128 * 784 && p.length == 576);
}

int main(void) { return run_all("cost", NULL, NULL); }
