// conv.c: how fast each convolution of LeNet and ResNet-18 is, next to a matrix product.
//
//     build/tests/bench/conv [threads [rounds]]    (all cores, 5 rounds)
//
// GFLOP/s are those of the plain sums: two operations for each product of a pixel and a weight.
// Winograd's method needs fewer, so it may come out above what the machine can do. Our product of
// large matrices shows what that is. The best of some rounds, which other programs disturbed least.
#include <stdio.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "common/tensor/tensor.h"
#include "common/base/clock.h"
#include "about.h"

typedef struct Layer {
    const char *name;
    int N, C, H, M, kernel, stride, pad;
    bool pooled; // ends in ReLU and pooling
} Layer;

static const Layer LAYERS[] = {
    {"LeNet conv1", 256, 1, 28, 20, 3, 1, 0, true},
    {"LeNet conv2", 256, 20, 13, 50, 5, 1, 0, true},
    {"ResNet-18 first", 64, 1, 28, 64, 3, 1, 1, false},
    {"64 channels", 64, 64, 28, 64, 3, 1, 1, false},
    {"64 to 128", 64, 64, 28, 128, 3, 2, 1, false},
    {"64 to 128, 1x1", 64, 64, 28, 128, 1, 2, 0, false},
    {"128 channels", 64, 128, 14, 128, 3, 1, 1, false},
    {"128 to 256", 64, 128, 14, 256, 3, 2, 1, false},
    {"256 channels", 64, 256, 7, 256, 3, 1, 1, false},
    {"256 to 512", 64, 256, 7, 512, 3, 2, 1, false},
    {"512 channels", 64, 512, 4, 512, 3, 1, 1, false},
};
enum { NUM_LAYERS = sizeof LAYERS / sizeof LAYERS[0], PASSES = 3, SIDE = 1536 };

static Device *device;
static int rounds = 5;

// What a layer works on. dX and Y are written to.
typedef struct Layout {
    struct conv2d_shape s;
    Tensor *X, *W, *b, *Y, *dX, *dW, *pooled; // pooled holds bytes, or is NULL
} Layout;

static Tensor *filled(int n) {
    Tensor *t = tensor_new(device, n);
    tensor_fill(t, 0.01f);
    return t;
}

static Layout layout_of(const Layer *l) {
    int window = l->pooled ? 2 : 1;
    int out = ((l->H + 2 * l->pad - l->kernel) / l->stride + 1) / window * window;
    struct conv2d_shape s = {l->N,      l->C,      l->H,   l->H,   l->M, l->kernel, l->kernel,
                             l->stride, l->stride, l->pad, l->pad, out,  out};
    int x = l->N * l->C * l->H * l->H, y = l->N * l->M * out * out, w = l->M * l->C;
    w *= l->kernel * l->kernel;
    return (Layout){s,
                    filled(x),
                    filled(w),
                    filled(l->M),
                    filled(y / window / window),
                    filled(x),
                    filled(w),
                    l->pooled ? filled(y / 2 / 4 + 1) : NULL};
}

static void layout_free(Layout *l) {
    Tensor *all[] = {l->X, l->W, l->b, l->Y, l->dX, l->dW, l->pooled};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) tensor_free(all[i]);
}

// forward, the gradient of the input, that of the weights
static double seconds_of(const Layout *l, int pass) {
    unsigned char *pooled = l->pooled ? (unsigned char *)l->pooled->data : NULL;
    double begin = seconds_now();
    if (pass == 0)
        launch(device, conv2d_forward, .X = l->X->data, .W = l->W->data, .b = l->b->data,
               .Y = l->Y->data, .s = l->s, .pooled = pooled);
    else if (pass == 1)
        launch(device, conv2d_backward_input, .dY = l->Y->data, .W = l->W->data, .dX = l->dX->data,
               .s = l->s, .pooled = pooled);
    else
        launch(device, conv2d_backward_params, .dY = l->Y->data, .X = l->X->data, .dW = l->dW->data,
               .s = l->s, .pooled = pooled);
    synchronize(device);
    return seconds_now() - begin;
}

static double best_of(const Layout *l, int pass) {
    double best = seconds_of(l, pass); // the first touches new memory
    for (int i = 0; i < rounds; i++) {
        double seconds = seconds_of(l, pass);
        if (seconds < best) best = seconds;
    }
    return best;
}

// The system takes a while until it has spread new threads over the cores.
static void warm_up(void) {
    Layout l = layout_of(&LAYERS[0]);
    for (double begin = seconds_now(); seconds_now() - begin < 0.5;) seconds_of(&l, 0);
    layout_free(&l);
}

static double peak(void) {
    Tensor *A = filled(SIDE * SIDE), *B = filled(SIDE * SIDE), *C = filled(SIDE * SIDE);
    double best = 1e30;
    for (int i = 0; i <= rounds; i++) {
        double begin = seconds_now();
        launch(device, gemm, .A = A->data, .B = B->data, .C = C->data, .M = SIDE, .N = SIDE,
               .K = SIDE);
        synchronize(device);
        double seconds = seconds_now() - begin;
        if (seconds < best) best = seconds;
    }
    tensor_free(A);
    tensor_free(B);
    tensor_free(C);
    return 2.0 * SIDE * SIDE * SIDE / best / 1e9;
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 2) rounds = atoi(argv[2]);
    if (threads < (argc > 1) || rounds < 1)
        die("tests/bench/conv [threads [rounds]]", "these numbers make no sense");
    devices_init(BACKEND_CPU, threads);
    device = cpu_device(0);
    share_cores(&device, 1);
    warm_up();
    printf("convolutions, GFLOP/s: the best of %d rounds; %s, %s\n", rounds, isa_name(), COMPILER);
    printf("%-50s%10s%10s%10s\n", "", "forward", "dX", "dW");
    for (int i = 0; i < NUM_LAYERS; i++) {
        const Layer *l = &LAYERS[i];
        Layout layout = layout_of(l);
        double flop =
            2.0 * l->N * l->M * l->C * l->kernel * l->kernel * layout.s.out_h * layout.s.out_w;
        char shapes[40];
        snprintf(shapes, sizeof shapes, "%d x (%d,%d,%d) -> (%d,%d,%d)", l->N, l->C, l->H, l->H,
                 l->M, layout.s.out_h, layout.s.out_w);
        printf("%-16s%-34s", l->name, shapes);
        for (int pass = 0; pass < PASSES; pass++)
            printf("%10.0f", flop / best_of(&layout, pass) / 1e9);
        printf("\n");
        layout_free(&layout);
    }
    printf("Our product of %d x %d matrices: %.0f. What is above that needs fewer multiplications\n"
           "than the plain sums that are counted (3x3 and 5x5 with stride 1: Winograd's method).\n"
           "dX, dW: the gradients of the input and of the weights.\n",
           SIDE, SIDE, peak());
    devices_close();
    return 0;
}
