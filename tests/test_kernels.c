// test_kernels.c: every kernel, on each kind of device, against its definition in plain loops, and
// what it costs (kernels/cost.c) against what these loops count. For each kernel, one function
// makes its numbered cases; shared code does the rest.
//
// To add a kernel, say `square`, take `relu_forward` as the example and
//
//   1. in kernels/kernels.h, add KERNEL(square) to the list and a `struct square_args`, with a
//      comment that says what the kernel computes;
//   2. write kernels/cpu/square.c, a plain loop in CPU_KERNEL(square) { ... };
//   3. write kernels/cuda/square.cu, a __global__ function and CUDA_KERNEL(square) { ... };
//   4. in kernels/cost.c, add square_cost(), which counts FLOP and bytes;
//   5. in tests/definitions.h, add FOR_EACH_I(square, ...) or DEFINITION(square) { ... }, the same
//      computation again, in loops that count FLOP and bytes;
//   6. here, add CASES(square, sizes, 1) { ... }, and a line in has_one_thread[] if the kernel
//      never uses more than one thread of a CPU;
//   7. run make build/tests/test_kernels && build/tests/test_kernels. Without a GPU this skips
//      the CUDA kernel; make simulated-tests runs it on a simulated GPU.
//
// If a step is missing, the program does not compile or link (step 3: only where nvcc is
// installed). The Makefile finds new files by itself. Afterwards, launch(device, square, .x = x, .y
// = y, .n = n) runs the kernel.
//
// All operands of a case lie in one piece of memory, between guards of NaN: a read past an end
// turns a result into NaN. When beta is 0, outputs are filled with NaN first, which shows that the
// kernel does not read them. Guards and inputs must stay as they are.
#include <dirent.h>

#include "cases.h"
#include "definitions.h"
#include "kernels/cpu/fast/convolution.h"
#include "kernels/fail.h"

// How close is close enough, by what a kernel does with each number.
static const double EXACT = 0;       // copies it, or chooses between two
static const double ROUNDED = 3e-7;  // a few operations; float32 rounds by 6e-8
static const double SUMMED = 2e-5;   // sums of up to a few thousand, in any order
static const double WINOGRAD = 5e-5; // the same by a method that adds large and small numbers
static const double CUT = 1e-4;      // sums of tensor cores, which cut off what does not fit

// ---- operands ----------------------------------------------------------------------------------

enum { GUARD = 256, MAX_OPERANDS = 12, MEMORY = 12 << 20 }; // bytes

// What an argument struct points to. The error may be up to `tolerance` times `usual`. If `usual`
// is 0, it may be up to `tolerance` times the expected value, or times 1 if that is larger.
typedef struct Operand {
    size_t at, n, size; // the first byte; how many numbers; bytes of each
    bool output, never_negative, exact_zeros;
    double tolerance, usual;
} Operand;

// One case. The pointers in args point into `expected`, where the definition computes.
static struct Case {
    Operand operands[MAX_OPERANDS], *last;
    size_t bytes;
    bool special; // there are NaNs and infinities, and results may contain them, too
    bool skipped;
    _Alignas(8) char args[MAX_KERNEL_ARGS];
} the_case;

static Device *device; // under test
static char *there;    // the operands on it
// Here: as they were, as the definition leaves them, and as the kernel does, twice.
static _Alignas(64) char start[MEMORY], expected[MEMORY], got[MEMORY], again[MEMORY];
static bool read_marks[MEMORY], stored_marks[MEMORY];
static bool blank; // inputs are to be all zeros

static uint64_t draws;
static uint64_t draw(void) { // splitmix64
    uint64_t z = draws += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static int pick(int least, int most) {
    return least + (int)(draw() % (uint64_t)(most - least + 1));
}
static float uniform(void) { return (float)(2 * ((double)(draw() >> 11) * 0x1p-53) - 1); }

static void write_guard(size_t first, size_t end) {
    const uint32_t bits = 0x7fc12345; // a NaN that no computation makes
    for (size_t at = first; at < end; at++) expected[at] = ((const char *)&bits)[at % 4];
}

static void *place(size_t n, size_t size) {
    Operand *o = the_case.last = the_case.last ? the_case.last + 1 : the_case.operands;
    assert_true(o < the_case.operands + MAX_OPERANDS);
    *o = (Operand){.at = the_case.bytes, .n = n, .size = size};
    size_t end = o->at + n * size;
    the_case.bytes = (end + 2 * GUARD - 1) / GUARD * GUARD;
    assert_true(the_case.bytes <= MEMORY);
    write_guard(end, the_case.bytes);
    return expected + o->at;
}

static bool tf32; // numbers are to have at most 11 bits, which rounding to TF32 leaves as they are

static float *around(size_t n, float centre, float size) {
    float *x = place(n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = blank ? 0 : centre + size * uniform();
        if (tf32 && isfinite(x[i])) x[i] = rintf(x[i] * 0x1p10f) * 0x1p-10f;
    }
    return x;
}
static float *in(size_t n) { return around(n, 0, 1); }

// Multiples of `unit`: their sums are exact, and often equal or 0.
static float *whole(size_t n, int least, int most, float unit) {
    float *x = place(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (float)pick(least, most) * unit;
    return x;
}
static float *specials(size_t n) {
    static const float values[] = {NAN, 0,      -0.0f,    3,  1,       -1, 3,
                                   -3,  1e-40f, INFINITY, -1, -1e-40f, 0,  -INFINITY};
    the_case.special = true;
    float *x = place(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = values[pick(0, COUNT(values) - 1)];
    return x;
}
static unsigned char *gates(size_t n) {
    unsigned char *x = place(n, 1);
    for (size_t i = 0; i < n; i++) x[i] = (unsigned char)pick(0, 3);
    return x;
}

// What was placed last is written to.
static void *written(void *x, double tolerance) {
    the_case.last->output = true;
    the_case.last->tolerance = tolerance;
    return x;
}
static float *out(size_t n, float beta, double tolerance) {
    return written(beta != 0 ? in(n) : around(n, NAN, 0), tolerance);
}
// A sum of so many products of two numbers in (-1,1): usually the root of terms / 9.
static float *out_sum(size_t n, float beta, double tolerance, double terms) {
    float *x = out(n, beta, tolerance);
    the_case.last->usual = fmax(1, sqrt(terms / 9));
    return x;
}
// More numbers of what was placed last, with another tolerance.
static void more(size_t n, double tolerance) {
    the_case.bytes = the_case.last->at + the_case.last->n * sizeof(float);
    out(n, 0, tolerance);
}

// ---- cases: elementwise and sums ---------------------------------------------------------------

// The shapes of a kernel's cases: rows of a table, then some drawn at random between the two rows
// of one of so many `ranges`.
typedef struct Shapes {
    int dims, count;
    const int *rows;
    int random, ranges;
    const int *from_to;
} Shapes;
#define SHAPES(table)                                                                              \
    { COUNT(table[0]), COUNT(table), table[0], 0, 0, NULL }
#define AND_RANDOM(table, random, ranges)                                                          \
    { COUNT(table[0]), COUNT(table), table[0], random, COUNT(ranges), ranges[0][0] }

typedef struct Kernel {
    void (*definition)(const void *args);
    void (*make)(void *args, const int *v, size_t n, int kind);
    size_t size; // of its argument struct
    const Shapes *shapes;
    int kinds; // of cases for each shape
} Kernel;

// CASES(relu_forward, sizes, 2) { ... } sets the arguments `a` for a case of that kind, 0 or 1,
// whose shape is v[0], v[1], ...; n is their product.
#define CASES(name, shapes, kinds)                                                                 \
    static void name##_make(struct name##_args *a, const int *v, size_t n, int kind);              \
    static void name##_case(void *args, const int *v, size_t n, int kind) {                        \
        name##_make(args, v, n, kind);                                                             \
    }                                                                                              \
    static const Kernel name##_kernel = {name##_definition, name##_case,                           \
                                         sizeof(struct name##_args), &shapes, kinds};              \
    static void name##_make(struct name##_args *a, UNUSED const int *v, UNUSED size_t n,           \
                            UNUSED int kind)
#define UNUSED __attribute__((unused))
#define ARGS(...)                                                                                  \
    *a = (__typeof__(*a)) { __VA_ARGS__ }

// Around a warp, a block of threads, and the size from which on CPU threads share the work.
static const int SIZES[][1] = {{0}, {1}, {2}, {3}, {31}, {64}, {257}, {4099}, {16385}, {50003}};
static const int SUMS[][1] = {{0},   {1},   {2},    {31},    {255},
                              {256}, {257}, {1000}, {65537}, {1 << 20 | 3}};
// rows, cols
static const int MATRICES[][2] = {{0, 10},  {1, 1},   {1, 33},   {2, 31},    {3, 10},   {17, 128},
                                  {64, 10}, {257, 3}, {33, 257}, {130, 129}, {1000, 10}};
static const Shapes sizes = SHAPES(SIZES), sums = SHAPES(SUMS), matrices = SHAPES(MATRICES);

CASES(fill, sizes, 1) { ARGS(.x = out(n, 0, EXACT), .value = 1.5f, .n = n); }
CASES(scale, sizes, 1) { ARGS(.x = out(n, 1, ROUNDED), .factor = 0.3f, .n = n); }
CASES(add, sizes, 1) { ARGS(.x = in(n), .y = out(n, 1, ROUNDED), .n = n); }
CASES(add_forward, sizes, 3) { // the sum in memory of its own, or in that of either term
    float *Y = out(n, (float)kind, ROUNDED);
    ARGS(.A = kind == 1 ? Y : in(n), .B = kind == 2 ? Y : in(n), .Y = Y, .n = n);
}
CASES(add_backward, sizes, 2) {
    ARGS(.dY = in(n), .dX = out(n, (float)kind, ROUNDED), .beta = (float)kind, .n = n);
}
CASES(sum_forward, sums, 1) {
    ARGS(.x = in(n), .out = out_sum(1, 0, SUMMED, 3 * (double)n), .n = n);
}
CASES(sum_backward, sizes, 2) {
    ARGS(.dout = in(1), .dx = out(n, (float)kind, ROUNDED), .beta = (float)kind, .n = n);
}
CASES(relu_forward, sizes, 3) { // random, special, in place
    const float *X = kind == 0 ? in(n) : kind == 1 ? specials(n) : out(n, 1, EXACT);
    ARGS(.X = X, .Y = kind == 2 ? (float *)X : out(n, 0, EXACT), .n = n);
}
CASES(relu_backward, sizes, 4) { // beta 0, 1, special, in place
    float *dX = out(n, kind == 3 ? 1 : kind == 1, ROUNDED);
    ARGS(.Y = kind == 2 ? specials(n) : whole(n, 0, 2, 0.5f), // many are 0
         .dY = kind == 3   ? dX
               : kind == 2 ? specials(n)
                           : in(n),
         .dX = dX, .beta = kind == 1, .n = n);
}
// What lies between the columns that are copied stays as it was.
CASES(copy_columns, matrices, 4) {
    static const int X_more[] = {0, 0, 34, 7}, Y_more[] = {0, 5, 0, 2};
    int X_stride = v[1] + X_more[kind], Y_stride = v[1] + Y_more[kind];
    size_t last = v[0] ? (size_t)v[0] - 1 : 0, width = v[0] ? (size_t)v[1] : 0;
    ARGS(.X = in(last * (size_t)X_stride + width), .rows = v[0], .cols = v[1],
         .Y = out(last * (size_t)Y_stride + width, 1, EXACT), .X_stride = X_stride,
         .Y_stride = Y_stride);
}

// ---- cases: fully connected layers -------------------------------------------------------------

// M, N, K
static const int PRODUCTS[][3] = {
    {64, 128, 800}, {64, 800, 128}, {800, 128, 64}, {64, 10, 128}, // LeNet: h2 W3, its gradients
    {33, 10, 512},  {5, 33, 1000},                 // many groups of rows, large ones
    {3, 520, 40},                                  // more columns than are packed
    {257, 129, 65}, {129, 257, 64}, {31, 65, 257}, // around vectors, and the blocks that are cut
    {64, 32, 33},   {33, 64, 32},   {800, 128, 0},  {65, 3, 0},
    {0, 65, 33},    {65, 0, 33},    {0, 0, 0}, // a shard without rows; empty sums
    {48, 192, 64},  {21, 33, 2048},            // a transformer's tokens; 8 groups of 256 products
};
static const int SMALL_PRODUCTS[][2][3] = {{{1, 1, 1}, {67, 67, 67}}, {{0, 0, 0}, {5, 5, 5}}};
static const Shapes products = AND_RANDOM(PRODUCTS, 120, SMALL_PRODUCTS);

// 1, 2, 4 or 8 groups, if they may be so many.
static int groups_of(int K) {
    int groups = 1 << pick(0, 3);
    while (groups < 8 && K > 256 * groups) groups *= 2;
    return K % groups == 0 && K <= 256 * groups ? groups : 0;
}
// Kinds 0 and 2, of which A is not transposed, once more with groups.
CASES(gemm, products, 6) {
    size_t M = (size_t)v[0], N = (size_t)v[1], K = (size_t)v[2];
    float beta = (float)pick(0, 1);
    ARGS(.A = in(M * K), .B = in(K * N), .C = out_sum(M * N, beta, SUMMED, v[2]), .beta = beta,
         .M = v[0], .N = v[1], .K = v[2], .trans_A = kind < 4 && kind & 1,
         .trans_B = kind == 2 || kind == 3 || kind == 5, .groups = kind > 3 ? groups_of(v[2]) : 0);
}
// (With 16 parts, some have more than there are rows.)
static const int BIAS_PARTS[] = {0, 1, 3, 16};
static size_t size_bias(const int *v, int parts) { return (size_t)(v[1] * at_least_1(parts)); }

CASES(add_bias_forward, matrices, 4) {
    int parts = BIAS_PARTS[kind];
    ARGS(.X = in(n), .b = in(size_bias(v, parts)), .Y = out(n, 0, ROUNDED), .rows = v[0],
         .cols = v[1], .parts = parts);
}
CASES(add_bias_backward, matrices, 8) {
    int parts = BIAS_PARTS[kind / 2];
    float beta = (float)(kind % 2);
    ARGS(.dY = in(n), .db = out_sum(size_bias(v, parts), beta, SUMMED, 3 * v[0]), .beta = beta,
         .rows = v[0], .cols = v[1], .parts = parts);
}

// ---- cases: convolution ------------------------------------------------------------------------

// clang-format off
// N C H W, M kernel_h kernel_w, stride_h stride_w, pad_h pad_w
static const int CONVOLUTIONS[][11] = {
    {3, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0},  // LeNet's first
    {2, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0}, // and its second
    {2, 20, 14, 14, 50, 5, 5, 1, 1, 0, 0}, // Winograd's tiles with a rest
    {3, 20, 12, 12, 24, 5, 5, 1, 1, 2, 2},
    {2, 16, 9, 9, 8, 3, 3, 1, 1, 1, 1},    // as in ResNet: 3x3 that keeps the size,
    {2, 8, 9, 9, 16, 1, 1, 2, 2, 0, 0},    // 1x1 that halves it,
    {2, 3, 23, 21, 8, 7, 7, 2, 2, 3, 3},   // the 7x7 at its start
    {17, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0}, // the first layer of the book's LeNet
    {17, 2, 5, 5, 3, 3, 3, 1, 1, 1, 1},    // more images than parts of a sum
    {33, 1, 4, 3, 2, 2, 3, 1, 1, 0, 1},
    {17, 1, 32, 32, 2, 1, 1, 1, 1, 0, 0},  // channels that several blocks of a GPU add up
    {19, 70, 3, 2, 6, 3, 3, 1, 1, 1, 1},   // images that share a product; channels in slices
    {35, 33, 4, 4, 3, 3, 3, 2, 2, 1, 1},
    {2, 24, 10, 14, 40, 3, 3, 1, 1, 1, 1}, // 3x3, stride 1, many channels: the method of Winograd,
    {19, 17, 9, 5, 18, 3, 3, 1, 1, 1, 1},  // also with two groups of images to sum up,
    {3, 7, 9, 10, 5, 5, 5, 1, 1, 2, 1},    // and 5x5 with padding
    {35, 40, 4, 4, 16, 3, 3, 1, 1, 1, 1},
    {1, 16, 3, 3, 16, 3, 3, 1, 1, 0, 0},
    {0, 16, 5, 5, 16, 3, 3, 1, 1, 1, 1},
    {3, 4, 6, 7, 5, 1, 1, 1, 1, 0, 0},     // 1x1: the image is its own matrix of columns
    {2, 1, 3, 40, 2, 2, 3, 1, 1, 0, 0},    // long rows, longer than what is copied at once
    {1, 2, 40, 3, 2, 5, 1, 3, 1, 1, 0},    // tall; strides and padding that differ
    // Large enough for each way in which threads share the work: as a matrix product,
    {37, 40, 15, 14, 24, 5, 5, 2, 2, 2, 2},
    {40, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0},  // Winograd's method: threads have their own images,
    {13, 16, 24, 24, 300, 3, 3, 1, 1, 1, 1}, // or share them, in two or three turns,
    {2, 290, 4, 4, 310, 3, 3, 1, 1, 1, 1},   // or each has kernels of its own;
    {3, 16, 16, 16, 16, 3, 3, 1, 1, 1, 1},   // whole vectors of tiles, images in place;
    {3, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1},   // the layers of ResNet-18,
    {1, 128, 14, 14, 128, 3, 3, 1, 1, 1, 1},
    {2, 256, 7, 7, 256, 3, 3, 1, 1, 1, 1},
    {2, 64, 28, 28, 128, 3, 3, 2, 2, 1, 1},
    {5, 64, 28, 28, 70, 1, 1, 2, 2, 0, 0},
    {2, 512, 4, 4, 512, 3, 3, 1, 1, 1, 1},
    {2, 90, 9, 9, 101, 5, 5, 1, 1, 0, 0},    // and some that are cut where nothing comes out even
    {1, 120, 8, 8, 128, 5, 5, 1, 1, 0, 0},
};
// Of any kind, small ones, of 1x1 with much padding; for CPUs' fast ways: Winograd's, in registers.
static const int SOME_CONVOLUTIONS[][2][11] = {
    {{0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0}, {4, 4, 12, 12, 5, 5, 5, 3, 3, 3, 3}},
    {{0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0}, {2, 2, 7, 7, 2, 3, 3, 3, 3, 2, 2}},
    {{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, {4, 5, 7, 7, 5, 1, 1, 2, 2, 2, 2}},
    {{1, 16, 1, 1, 16, 3, 3, 1, 1, 0, 0}, {4, 40, 13, 13, 40, 3, 3, 1, 1, 2, 2}},
    {{1, 4, 1, 1, 4, 5, 5, 1, 1, 0, 0}, {4, 20, 13, 13, 20, 5, 5, 1, 1, 2, 2}},
    {{1, 1, 1, 1, 1, 3, 3, 1, 1, 0, 0}, {24, 1, 31, 31, 9, 3, 3, 1, 1, 3, 3}},
};
// clang-format on
static const Shapes convolutions = AND_RANDOM(CONVOLUTIONS, SANITIZED ? 24 : 72, SOME_CONVOLUTIONS);

static int windows(int size, int pad, int kernel, int stride) {
    return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}

// Kinds 2 and 3 are pooled; what fills no window is left out. A large shape has kinds 0 and 2 only;
// the largest kind 0, and only some of its channels are compared.
static Conv conv_of(const int *v, int kind) {
    int out_h = windows(v[2], v[9], v[5], v[7]), out_w = windows(v[3], v[10], v[6], v[8]);
    if (kind > 1) out_h -= out_h % 2, out_w -= out_w % 2;
    Conv s = {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], out_h, out_w};
    double count = (double)size_Y(&s) * (double)size_window(&s);
    every = (int)(count / 3e6) | 1;
    bool slow = SIMULATED && device_gpu(device) >= 0 && count > 1e6;
    the_case.skipped = slow || (every > 1 ? kind > 0 : kind % 2 && count > 1e6);
    return s;
}

static double tolerance_of(const Conv *s) {
    if (tf32) return CUT;
    return strncmp(device_name(device), "cpu", 3) == 0 && winograd_suits(s) ? WINOGRAD : SUMMED;
}
static size_t outputs(const Conv *s, int kind) { return (size_t)size_Y(s) / (kind > 1 ? 4 : 1); }
static unsigned char *gates_of(const Conv *s, int kind) {
    return kind > 1 ? gates((size_t)size_Y(s) / 2) : NULL;
}

// Kinds 1 and 3 have a bias. (Pooled, Winograd's always has.) Of kinds 2 and 3 numbers have exact
// sums, and many are 0: then ReLU's gate is shut, whatever rounding errors a fast method has. So it
// is in an image that is blank or half blank, where kind 0 gives zeros.
CASES(conv2d_forward, convolutions, 4) {
    Conv s = conv_of(v, kind);
    size_t X = (size_t)size_X(&s), M = (size_t)v[4],
           image = pick(0, 2) && v[0] > 1 ? X / (size_t)v[0] : 0;
    bool with_bias = kind % 2 || (kind > 1 && winograd_suits(&s));
    float *pixels = kind > 1 ? whole(X, 0, 3, 0.25f) : in(X);
    size_t plane = (size_t)s.H * (size_t)s.W, empty = pick(0, 1) ? plane : plane / 2;
    for (size_t i = 0; i < image && kind != 1; i++)
        if (i % plane < empty) pixels[i] = 0;
    ARGS(.X = pixels, .s = s,
         .W = kind > 1 ? whole((size_t)size_W(&s), -2, 2, 0.25f) : in((size_t)size_W(&s)),
         .b = !with_bias ? NULL
              : kind > 1 ? whole(M, -1, 1, 0.0625f)
                         : in(M),
         .Y = out_sum(outputs(&s, kind), 0, tolerance_of(&s), (double)size_window(&s)));
    the_case.last->exact_zeros = !kind;
    if (kind > 1) a->pooled = written(gates_of(&s, kind), EXACT);
}
// Kinds 1 and 3 are added to what is there.
CASES(conv2d_backward_input, convolutions, 4) {
    Conv s = conv_of(v, kind);
    float beta = (float)(kind % 2);
    double terms = (double)v[4] * v[5] * v[6];
    ARGS(.dY = in(outputs(&s, kind)), .W = in((size_t)size_W(&s)), .s = s, .beta = beta,
         .dX = out_sum((size_t)size_X(&s), beta, tolerance_of(&s), terms),
         .pooled = gates_of(&s, kind));
}
CASES(conv2d_backward_params, convolutions, 4) {
    Conv s = conv_of(v, kind);
    float beta = (float)(kind % 2);
    double terms = (double)v[0] * s.out_h * s.out_w;
    ARGS(.dY = in(outputs(&s, kind)), .X = in((size_t)size_X(&s)), .s = s, .beta = beta,
         .dW = out_sum((size_t)size_W(&s), beta, tolerance_of(&s), terms),
         .db = pick(0, 2) ? out_sum((size_t)v[4], beta, SUMMED, 3 * terms) : NULL,
         .pooled = gates_of(&s, kind));
}

// ---- cases: pooling ----------------------------------------------------------------------------

// N C H W, kernel_h kernel_w, stride_h stride_w; then windows that overlap, and that leave pixels
// out
static const int POOLS[][8] = {
    {4, 20, 26, 26, 2, 2, 2, 2},
    {4, 50, 9, 9, 2, 2, 2, 2}, // LeNet's; the second leaves a rim out
    {2, 5, 7, 7, 7, 7, 7, 7},
    {2, 1, 33, 35, 2, 2, 2, 2}, // ResNet's last: a mean per channel
};
static const int SOME_POOLS[][2][8] = {{{0, 0, 1, 1, 1, 1, 1, 1}, {3, 4, 12, 12, 4, 4, 4, 4}},
                                       {{1, 1, 1, 1, 2, 2, 2, 2}, {3, 3, 12, 20, 2, 2, 2, 2}}};
static const Shapes pools = AND_RANDOM(POOLS, 120, SOME_POOLS);

static Pool pool_of(const int *v) {
    return (Pool){v[0],
                  v[1],
                  v[2],
                  v[3],
                  v[4],
                  v[5],
                  v[6],
                  v[7],
                  windows(v[2], 0, v[4], v[6]),
                  windows(v[3], 0, v[5], v[7])};
}
CASES(avg_pool2d_forward, pools, 1) {
    Pool s = pool_of(v);
    ARGS(.X = in((size_t)pool_inputs(&s)), .Y = out((size_t)pool_outputs(&s), 0, ROUNDED), .s = s);
}
CASES(avg_pool2d_backward, pools, 2) {
    Pool s = pool_of(v);
    ARGS(.dY = in((size_t)pool_outputs(&s)), .beta = (float)kind, .s = s,
         .dX = out((size_t)pool_inputs(&s), (float)kind, 2 * ROUNDED));
}

// ---- cases: batch normalisation ----------------------------------------------------------------

// N, C, S; some are for several threads
static const int NORMS[][3] = {
    {0, 3, 4},  {2, 3, 0},   {2, 0, 4},    {1, 1, 1},    {1, 5, 1},    {2, 1, 1},      {3, 1, 33},
    {9, 3, 2},  {64, 7, 1},  {5, 2, 17},   {2, 33, 16},  {17, 3, 255}, {3, 2, 257},    {1, 600, 3},
    {4, 5, 49}, {3, 6, 784}, {33, 33, 16}, {5, 3, 1111}, {2, 3, 2900}, {3, 1, 100003},
};
static const Shapes norms = SHAPES(NORMS);
// A channel's mean, for deviations of about 1: they keep 7, 3 and 2 digits.
static const float CENTRES[] = {0, 1e4f, 1e5f};
static const float EPS = 0.05f; // large, so that it matters

// Then equal numbers: their variance is as good as zero, and not negative, or its root could be
// NaN.
CASES(batch_norm_stats, norms, 8) {
    static const float same[] = {0.1f, -1.0f / 3, 10000.1f, 1e-20f, 123456.7f};
    size_t C = (size_t)v[1];
    float *stats = out(C, 0, 1.2e-7); // the last bit
    if (kind > 2) the_case.last->usual = fabsf(same[kind - 3]);
    more(C, SUMMED);
    if (kind > 2) the_case.last->usual = pow(1e-6 * same[kind - 3], 2) * v[0] * v[2] / SUMMED;
    the_case.last->never_negative = true;
    more(1, EXACT);
    ARGS(.X = kind > 2 ? around(n, same[kind - 3], 0) : around(n, CENTRES[kind], 2), .stats = stats,
         .N = v[0], .C = v[1], .S = v[2]);
}

// Channels, pixels, then rows of up to 7 devices: none in the first; then one number, if there is
// one pixel.
static const int PARTS[][9] = {{3, 1, 0}, {1, 1, 1}, {1, 1, 0, 1}, {300, 6, 7}, {0, 1, 2, 2}};
static const int SOME_PARTS[][2][9] = {{{1, 1, 0, 0, 0, 0, 0, 0, 0}, {4, 6, 1, 1, 1, 1, 1, 1, 1}},
                                       {{1, 1, 0, 0, 0, 0, 0, 0, 0}, {40, 6, 9, 2, 2, 2, 2, 3, 9}}};
static const Shapes parts = AND_RANDOM(PARTS, 40, SOME_PARTS);

// Statistics of k devices, whose means differ.
static float *stats_of_parts(int k, const int *v, float centre) {
    size_t C = (size_t)v[0];
    float *stats = in((size_t)k * (2 * C + 1));
    for (int i = 0; i < k; i++) {
        float *mean = stats + (size_t)i * (2 * C + 1), *M2 = mean + C;
        float rows = M2[C] = (float)(v[2 + i] * v[1]);
        for (size_t c = 0; c < C; c++) {
            mean[c] = rows > 0 ? centre + 2 * mean[c] : 0;
            M2[c] = rows > 1 ? rows * fabsf(M2[c]) : 0;
        }
    }
    return stats;
}

// With both running values, one of them, or none; of some of the devices.
CASES(batch_norm_merge, parts, 12) {
    size_t C = (size_t)v[0];
    int k = kind % 2 ? 1 : pick(2, 7), running = kind / 3;
    ARGS(.stats = stats_of_parts(k, v, CENTRES[kind % 3]), .var = out(C, 0, ROUNDED),
         .mean = out(C, 0, k == 1 ? EXACT : ROUNDED), .count = out(1, 0, EXACT),
         .running_mean = running & 1 ? out(C, 1, ROUNDED) : NULL,
         .running_var = running & 2 ? out(C, 1, ROUNDED) : NULL, .momentum = pick(0, 1) ? 0.1f : 1,
         .k = k, .C = v[0]);
}
CASES(batch_norm_forward, norms, 3) {
    size_t C = (size_t)v[1];
    ARGS(.X = around(n, CENTRES[kind], 2), .mean = around(C, CENTRES[kind], 1), .weight = in(C),
         .var = around(C, 0.6f, 0.5f), .bias = in(C), .Y = out(n, 0, 2e-6), .eps = EPS, .N = v[0],
         .C = v[1], .S = v[2]);
}
CASES(batch_norm_backward_sums, norms, 3) {
    size_t C = (size_t)v[1];
    ARGS(.X = around(n, CENTRES[kind], 2), .mean = around(C, CENTRES[kind], 1), .dY = in(n),
         .var = around(C, 0.6f, 0.5f), .sums = out_sum(2 * C, 0, 2 * SUMMED, v[0] * v[2]),
         .eps = EPS, .N = v[0], .C = v[1], .S = v[2]);
}
// The sums are those of several devices, so they and the count are larger than this one's; or there
// are none, and then what else they need is not there either.
CASES(batch_norm_backward_input, norms, 8) {
    size_t C = (size_t)v[1];
    float all = (float)(3 * v[0] * v[2] + 5), beta = (float)(kind & 1);
    ARGS(.dY = in(n), .var = around(C, 0.6f, 0.5f), .weight = in(C), .dX = out(n, beta, 4e-6),
         .eps = EPS, .beta = beta, .N = v[0], .C = v[1], .S = v[2]);
    if (kind < 2) return;
    a->X = around(n, CENTRES[kind / 2 - 1], 2);
    a->mean = around(C, CENTRES[kind / 2 - 1], 1);
    a->sums = around(2 * C, 0, all / 2);
    a->count = around(1, all, 0);
}

// ---- cases: transformers -----------------------------------------------------------------------

// rows, cols
static const int TOKENS[][2] = {{0, 64},  {1, 1},    {1, 64},   {5, 3},     {3, 33},  {7, 2},
                                {80, 64}, {33, 257}, {17, 128}, {1000, 64}, {3, 5000}};
static const Shapes tokens = SHAPES(TOKENS);

// Each row's mean, then one by its deviation.
static float *stats_of_rows(const int *v, float centre) {
    float *stats = in(2 * (size_t)v[0]);
    for (int i = 0; i < v[0]; i++) {
        stats[2 * i] += centre;
        stats[2 * i + 1] = 0.6f + 0.5f * stats[2 * i + 1];
    }
    return stats;
}
// Also equal numbers, whose variance is 0.
CASES(layer_norm_forward, tokens, 3) {
    size_t cols = (size_t)v[1];
    ARGS(.X = kind == 2 ? around(n, 0.1f, 0) : around(n, kind ? 10 : 0, 2), .weight = in(cols),
         .bias = in(cols), .Y = out(n, 0, SUMMED), .stats = out(2 * (size_t)v[0], 0, 2e-6),
         .eps = EPS, .rows = v[0], .cols = v[1]);
}
CASES(layer_norm_backward_input, tokens, 4) {
    float beta = (float)(kind % 2), centre = kind > 1 ? 10 : 0;
    ARGS(.dY = in(n), .X = around(n, centre, 2), .stats = stats_of_rows(v, centre),
         .weight = in((size_t)v[1]), .dX = out(n, beta, 4e-6), .beta = beta, .rows = v[0],
         .cols = v[1]);
}
CASES(layer_norm_backward_params, tokens, 4) {
    size_t cols = (size_t)v[1];
    float beta = (float)(kind % 2), centre = kind > 1 ? 10 : 0;
    ARGS(.dY = in(n), .X = around(n, centre, 2), .stats = stats_of_rows(v, centre),
         .dweight = out_sum(cols, beta, 2 * SUMMED, v[0]), .beta = beta,
         .dbias = out_sum(cols, beta, SUMMED, 3 * v[0]), .rows = v[0], .cols = v[1]);
}
CASES(gelu_forward, sizes, 3) { // where it bends, far out, special
    ARGS(.X = kind == 2 ? specials(n) : around(n, 0, kind ? 40 : 4), .Y = out(n, 0, ROUNDED),
         .n = n);
}
CASES(gelu_backward, sizes, 5) { // beta 0, 1, far out, special, in place
    float beta = kind == 1, *dX = out(n, kind == 4 ? 1 : beta, 2 * ROUNDED);
    ARGS(.X = kind == 3 ? specials(n) : around(n, 0, kind == 2 ? 40 : 4),
         .dY = kind == 4   ? dX
               : kind == 3 ? specials(n)
                           : in(n),
         .dX = dX, .beta = beta, .n = n);
}

// N, C, H, W, and the side of a square
static const int CUTS[][5] = {{0, 3, 4, 4, 2},   {1, 1, 1, 1, 1},   {2, 0, 4, 4, 2},
                              {3, 1, 28, 28, 7}, {5, 3, 6, 9, 3},   {2, 4, 3, 5, 1},
                              {2, 2, 12, 4, 4},  {80, 1, 28, 28, 7}};
static const Shapes cuts = SHAPES(CUTS);

CASES(patches, cuts, 1) {
    n /= (size_t)v[4];
    ARGS(.X = in(n), .Y = out(n, 0, EXACT), .N = v[0], .C = v[1], .H = v[2], .W = v[3],
         .side = v[4]);
}

// N, T, heads, width; the last head is too large for a GPU's shared memory
static const int ATTENTIONS[][4] = {{0, 16, 8, 8}, {2, 0, 2, 4},   {2, 5, 0, 3},  {1, 1, 1, 1},
                                    {3, 1, 2, 5},  {2, 5, 1, 3},   {3, 16, 8, 8}, {2, 17, 3, 7},
                                    {1, 33, 2, 2}, {40, 16, 8, 8}, {1, 70, 2, 64}};
static const Shapes attentions = SHAPES(ATTENTIONS);

static Attention attention_of(const int *v) {
    Attention s = {v[0], v[1], v[2], v[3]};
    the_case.skipped = SIMULATED && device_gpu(device) >= 0 && s.N > 3;
    return s;
}
static size_t size_probs(const int *v) { return (size_t)(v[0] * v[2] * v[1] * v[1]); }

// Of the last kind are scores of which exp() is infinite.
CASES(attention_forward, attentions, 3) {
    double tolerance = kind == 2 ? CUT : SUMMED;
    ARGS(.QKV = kind == 2 ? whole(3 * n, -16, 16, 1) : around(3 * n, 0, kind ? 3 : 1),
         .Y = out(n, 0, tolerance), .s = attention_of(v));
    if (kind == 2) the_case.last->usual = 16;
    a->probs = out(size_probs(v), 0, tolerance);
}
CASES(attention_backward, attentions, 2) {
    float beta = (float)kind, part = 1 / (float)at_least_1(v[1]);
    ARGS(.dY = in(n), .QKV = in(3 * n), .probs = around(size_probs(v), part, part),
         .dQKV = out(3 * n, beta, SUMMED), .beta = beta, .s = attention_of(v));
}

// ---- cases: loss, accuracy, update -------------------------------------------------------------

// rows, classes
static const int SCORES[][2] = {{0, 10}, {1, 1},  {1, 10}, {17, 1},   {17, 2},  {17, 10},
                                {5, 31}, {5, 32}, {5, 33}, {3, 1000}, {300, 10}};
static const int SOME_SCORES[][2][2] = {{{1, 1}, {2, 5}}, {{0, 1}, {9, 8}}};
static const Shapes scores = AND_RANDOM(SCORES, 30, SOME_SCORES);

// Of the wrong ones some are no class: nothing is read there.
static float *labels(const int *v, bool are_wrong) {
    const float wrong[] = {-1, (float)v[1], 1e30f, -1e30f, NAN, INFINITY};
    float *classes = whole((size_t)v[0], 0, v[1] - 1, 1);
    for (int i = pick(0, 1); i < v[0] && are_wrong; i += pick(1, 4))
        classes[i] = wrong[pick(0, COUNT(wrong) - 1)];
    the_case.special |= are_wrong;
    return classes;
}
CASES(cross_entropy_forward, scores, 6) {
    static const float far[] = {0, 1, 10, 80, 1e4f, 1}; // exp(80) is near float's largest
    ARGS(.logits = around(n, 0, far[kind]), .labels = labels(v, kind == 5), .rows = v[0],
         .losses = out((size_t)v[0], 0, 1e-6), .probs = out(n, 0, 1e-6), .classes = v[1]);
}
CASES(cross_entropy_backward, scores, 2) {
    ARGS(.probs = in(n), .labels = labels(v, false), .dlosses = in((size_t)v[0]), .rows = v[0],
         .dlogits = out(n, (float)kind, ROUNDED), .beta = (float)kind, .classes = v[1]);
}
// Also with ties, numbers that are equal but for their sign, infinities and NaN.
CASES(count_correct, scores, 6) {
    ARGS(.logits = kind % 3 == 0   ? in(n)
                   : kind % 3 == 1 ? whole(n, 0, 2, 1)
                                   : specials(n),
         .labels = labels(v, kind == 5), .count = out(1, 1, ROUNDED), .rows = v[0],
         .classes = v[1]);
}
CASES(sgd, sizes, 1) {
    ARGS(.param = out(n, 1, ROUNDED), .grad = out(n, 1, EXACT), .lr = 0.3f, .batch_size = 7,
         .n = n);
}
CASES(adam, sizes, 1) {
    ARGS(.param = out(n, 1, ROUNDED), .grad = out(n, 1, EXACT), .mean = out(n, 1, ROUNDED),
         .square = written(around(n, 0.5f, 0.5f), ROUNDED), .rate = 0.3f, .root = 0.25f,
         .beta1 = 0.9f, .beta2 = 0.999f, .eps = 0.25f, .batch_size = 7, .n = n);
}

// ---- the engine --------------------------------------------------------------------------------

// A kernel that is not defined, or of which there are no cases, does not compile here.
static const Kernel *const kernels[NUM_KERNELS] = {
#define ENTRY(name) [KERNEL_##name] = &name##_kernel,
    KERNELS(ENTRY)};

// Makes case i, unless there is none. (One that is `skipped` is too large, for that device or
// kind.)
static bool make_case(KernelId kernel, int i) {
    const Kernel *k = kernels[kernel];
    const Shapes *shapes = k->shapes;
    int shape = i / k->kinds, random = shape - shapes->count, v[16];
    if (random >= shapes->random) return false;
    the_case = (struct Case){.bytes = GUARD};
    draws = (uint64_t)kernel << 32 | (uint64_t)i;
    every = 1;
    write_guard(0, GUARD);
    size_t n = 1;
    for (int d = 0; d < shapes->dims; d++) {
        const int *row = random < 0 ? &shapes->rows[shape * shapes->dims] : NULL;
        const int *from =
            row ? row : &shapes->from_to[2 * (random % shapes->ranges) * shapes->dims];
        v[d] = row ? row[d] : pick(from[d], from[d + shapes->dims]);
        n *= (size_t)v[d];
    }
    k->make(the_case.args, v, n, i % k->kinds);
    memcpy(start, expected, the_case.bytes);
    return true;
}

// The arguments with the operands at another place. An empty one is NULL there, as in a tensor
// without elements.
static void redirect(void *to, KernelId kernel, char *memory) {
    memcpy(to, the_case.args, kernels[kernel]->size);
    for (const Operand *o = the_case.operands; o <= the_case.last; o++)
        for (size_t at = 0; at + sizeof(char *) <= kernels[kernel]->size; at += sizeof(char *)) {
            char *was = expected + o->at, *is = o->n > 0 ? memory + o->at : NULL;
            if (memcmp(the_case.args + at, &was, sizeof was) == 0)
                memcpy((char *)to + at, &is, sizeof is);
        }
}

static void run_kernel(KernelId kernel, char *result) {
    char args[MAX_KERNEL_ARGS];
    redirect(args, kernel, there);
    device_copy(device, there, host(), start, the_case.bytes);
    queue_launch(compute_queue(device), kernel, args, kernels[kernel]->size);
    device_copy(host(), result, device, there, the_case.bytes);
    synchronize(device);
}

static void define(KernelId kernel) {
    counted = (struct Counted){expected, the_case.bytes, read_marks, stored_marks, 0};
    memset(read_marks, 0, the_case.bytes);
    memset(stored_marks, 0, the_case.bytes);
    kernels[kernel]->definition(the_case.args);
}

static double number_at(const char *memory, const Operand *o, size_t i) {
    const char *at = memory + o->at + i * o->size;
    return o->size == 1 ? *(const unsigned char *)at : *(const float *)at;
}

static bool is_close(const Operand *o, double value, double of) {
    if (isnan(of)) return every > 1 ? !isnan(value) : the_case.special && isnan(value);
    if (isinf(of)) return the_case.special && !isfinite(value);
    if ((o->never_negative && value < 0) || (o->exact_zeros && of == 0 && value != 0)) return false;
    return fabs(value - of) <= o->tolerance * (o->usual > 0 ? o->usual : fmax(1, fabs(of)));
}

// Fails, saying what the arguments were.
static void fail_case(KernelId kernel, int i, const char *what) {
    int words[MAX_KERNEL_ARGS / 4];
    memcpy(words, the_case.args, sizeof words);
    for (size_t k = 0; k < kernels[kernel]->size / 4; k++)
        if (abs(words[k]) < 1 << 14) printf("%d ", words[k]); // no addresses, nor floats
    fail_msg("case %d of %s: %s", i, kernel_name(kernel), what);
}

// What is not an output must be as it was.
static void compare(KernelId kernel, int i, const char *result, const char *who) {
    char what[200];
    size_t checked = 0;
    for (const Operand *o = the_case.operands; o <= the_case.last; o++) {
        if (!o->output) continue;
        for (size_t e = 0; e < o->n; e++) {
            double value = number_at(result, o, e), of = number_at(expected, o, e);
            if (is_close(o, value, of)) continue;
            snprintf(what, sizeof what, "%s: number %zu of %zu of operand %d is %.9g, not %.9g",
                     who, e, o->n, (int)(o - the_case.operands), value, of);
            fail_case(kernel, i, what);
        }
        if (memcmp(result + checked, start + checked, o->at - checked) != 0)
            fail_case(kernel, i, "an input was changed, or what is beside an array");
        checked = o->at + o->n * o->size;
    }
    if (memcmp(result + checked, start + checked, the_case.bytes - checked) != 0)
        fail_case(kernel, i, "an input was changed, or what is behind an array");
}

static CostKind kind_of(KernelId kernel) {
    bool convolution = kernel == KERNEL_conv2d_forward || kernel == KERNEL_conv2d_backward_input ||
                       kernel == KERNEL_conv2d_backward_params;
    return kernel == KERNEL_gemm ? COST_PRODUCT : convolution ? COST_CONVOLUTION : COST_ELEMENTS;
}

static void check_cost(KernelId kernel, int i) {
    KernelCost cost = kernel_cost(kernel, the_case.args);
    double bytes = 0;
    for (const Operand *o = the_case.operands; o <= the_case.last; o++)
        for (size_t at = o->at; at < o->at + o->n * o->size; at += o->size)
            bytes += (double)o->size * (counted.read[at] + counted.stored[at]);
    assert_int_equal(cost.kind, kind_of(kernel));
    if (cost.flop == (double)counted.flop && cost.bytes == bytes) return;
    char what[160];
    snprintf(what, sizeof what, "it costs %.0f FLOP, %.0f bytes, but counted are %ld and %.0f",
             cost.flop, cost.bytes, counted.flop, bytes);
    fail_case(kernel, i, what);
}

#define WITH_NAIVE(KERNEL)                                                                         \
    KERNEL(gemm)                                                                                   \
    KERNEL(conv2d_forward)                                                                         \
    KERNEL(conv2d_backward_input)                                                                  \
    KERNEL(conv2d_backward_params)
#define CALL(name)                                                                                 \
    static void name##_plain(const void *args) { name##_naive(args); }
#define PLAIN(name) [KERNEL_##name] = name##_plain,
WITH_NAIVE(CALL)
static void (*const naive[NUM_KERNELS])(const void *args) = {WITH_NAIVE(PLAIN)};

// The naive kernels know nothing of pooling.
static void check_naive(KernelId kernel, int i) {
    if (!naive[kernel] || the_case.bytes > 1 << 16) return;
    for (const Operand *o = the_case.operands; o <= the_case.last; o++)
        if (o->size == 1) return;
    _Alignas(8) char args[MAX_KERNEL_ARGS];
    memcpy(again, start, the_case.bytes);
    redirect(args, kernel, again);
    naive[kernel](args);
    compare(kernel, i, again, "naive");
}

static void use_device(Device *that) {
    device = that;
    there = device_alloc(device, MEMORY);
}

// Simulated GPUs have another order in each run.
static void test_kernel(KernelId kernel, void **state) {
    use_device(device_under_test(state));
    for (int i = 0; make_case(kernel, i); i++) {
        if (the_case.skipped) continue;
        define(kernel);
        if (every == 1) check_cost(kernel, i);
        run_kernel(kernel, got);
        compare(kernel, i, got, "kernel");
        for (int run = 0; run < (SIMULATED ? 3 : 1); run++) {
            run_kernel(kernel, again);
            if (memcmp(again, got, the_case.bytes) != 0) fail_case(kernel, i, "other bits again");
        }
        check_naive(kernel, i);
    }
    device_free(device, there);
}

#define TEST_OF(name)                                                                              \
    TEST_ON_BOTH(test_##name) { test_kernel(KERNEL_##name, state); }
KERNELS(TEST_OF)

TEST_AS(test_convolutions_with_tf32, ON_GPU(test_convolutions_with_tf32)) {
    (void)device_under_test(state);
    devices_close();
    allow_tf32(tf32 = true);
    test_kernel(KERNEL_conv2d_forward, state);
    test_kernel(KERNEL_conv2d_backward_input, state);
    test_kernel(KERNEL_conv2d_backward_params, state);
    devices_close();
    allow_tf32(tf32 = false);
}

// ---- NaN and infinity --------------------------------------------------------------------------

// Inputs of which one element is not finite, while all others are zeros (0 NaN is NaN): it must
// reach the results that the definition says, and no others.
#define INPUT(name, member) KERNEL_##name, offsetof(struct name##_args, member)
static const struct {
    KernelId kernel;
    size_t member;
} REACHING[] = {{INPUT(gemm, A)},
                {INPUT(gemm, B)},
                {INPUT(conv2d_forward, X)},
                {INPUT(avg_pool2d_forward, X)},
                {INPUT(batch_norm_stats, X)},
                {INPUT(batch_norm_merge, stats)},
                {INPUT(batch_norm_forward, X)},
                {INPUT(batch_norm_forward, mean)},
                {INPUT(batch_norm_forward, var)},
                {INPUT(layer_norm_forward, X)},
                {INPUT(gelu_forward, X)},
                {INPUT(attention_forward, QKV)},
                {INPUT(sum_forward, x)},
                {INPUT(cross_entropy_forward, logits)}};

// `where`: from 0 up to 1. False if the operand has no elements.
static bool put(size_t member, double where, float value) {
    for (const Operand *o = the_case.operands; o <= the_case.last; o++) {
        char *address = expected + o->at;
        if (o->n == 0 || memcmp(the_case.args + member, &address, sizeof address) != 0) continue;
        size_t at = o->at + (size_t)(where * (double)o->n) * sizeof value;
        memcpy(expected + at, &value, sizeof value);
        memcpy(start + at, &value, sizeof value);
        return the_case.special = true;
    }
    return false;
}

// Up to where: not in Winograd's method, which spreads it, nor in a count of rows; and of a device
// without rows nothing is asked.
static double reaching_part(KernelId kernel) {
    const struct conv2d_forward_args *conv = (const void *)the_case.args;
    const struct batch_norm_merge_args *norm = (const void *)the_case.args;
    if (the_case.skipped || the_case.bytes > 1 << 17) return 0;
    if (kernel == KERNEL_conv2d_forward) return !conv->pooled && !winograd_suits(&conv->s);
    if (kernel != KERNEL_batch_norm_merge) return 1;
    return norm->stats[2 * norm->C] > 0 ? 2.0 * norm->C / (2 * norm->C + 1) / norm->k : 0;
}

TEST_ON_BOTH(test_nan_and_infinity) {
    use_device(device_under_test(state));
    blank = true;
    for (size_t r = 0; r < COUNT(REACHING); r++) {
        KernelId kernel = REACHING[r].kernel;
        for (int i = 0; make_case(kernel, i); i++) {
            double where = reaching_part(kernel) * (uniform() + 1) / 2;
            bool infinite = kernel != KERNEL_cross_entropy_forward &&
                            kernel != KERNEL_batch_norm_merge && pick(0, 1);
            if (!(where > 0) || !put(REACHING[r].member, where, infinite ? INFINITY : NAN))
                continue;
            define(kernel);
            run_kernel(kernel, got);
            compare(kernel, i, got, infinite ? "with an infinity" : "with a NaN");
        }
    }
    blank = false;
    device_free(device, there);
}

// ---- the same bits for any number of threads ---------------------------------------------------

// All others must share their work. (These add up in order, or have too little to do.)
static const bool has_one_thread[NUM_KERNELS] = {
    [KERNEL_sum_forward] = true,
    [KERNEL_sum_backward] = true,
    [KERNEL_batch_norm_merge] = true,
    [KERNEL_cross_entropy_forward] = true,
    [KERNEL_cross_entropy_backward] = true,
    [KERNEL_count_correct] = true,
};

#ifdef _OPENMP
enum { WITH_OPENMP = 1 };
#else
enum { WITH_OPENMP = 0 };
#endif

static int threads_of_this_process(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (const struct dirent *e; (e = readdir(folder));) count += e->d_name[0] != '.';
    closedir(folder);
    return count;
}

static uint64_t hash_of_memory(void) { // FNV-1a, of words
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t at = 0; at < the_case.bytes; at += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, got + at, sizeof word);
        hash = (hash ^ word) * 0x100000001b3;
    }
    return hash;
}

enum { MAX_CASES = 900 };

// Each kernel gets a new device here, so that the threads that are counted are its own.
static void check_threads(KernelId kernel, int threads, uint64_t *hashes, int *alone) {
    devices_close();
    devices_init(BACKEND_CPU, threads);
    use_device(cpu_device(0));
    share_cores(&device, 1);
    for (int i = 0; make_case(kernel, i); i++) {
        assert_true(i < MAX_CASES);
        if (the_case.skipped) continue;
        run_kernel(kernel, got);
        uint64_t hash = hash_of_memory();
        if (threads == 1) hashes[i] = hash;
        if (hash != hashes[i]) fail_case(kernel, i, "other bits with more threads");
    }
    int count = threads_of_this_process(); // (also those of before, which are ending)
    if (threads == 1 && (*alone == 0 || count < *alone)) *alone = count;
    if (threads > 1 && WITH_OPENMP && !has_one_thread[kernel] && count <= *alone)
        fail_msg("%s uses one thread of %d", kernel_name(kernel), threads);
    device_free(device, there);
}

TEST_UNLESS_SIMULATED(test_same_bits_for_any_number_of_threads) {
    static uint64_t hashes[NUM_KERNELS][MAX_CASES];
    const int threads[] = {1, 5, 2, 3};
    int alone = 0; // threads of this process while a kernel may use but one
    for (size_t t = 0; t < (SANITIZED ? 2 : COUNT(threads)); t++)
        for (KernelId kernel = 0; kernel < NUM_KERNELS; kernel++)
            check_threads(kernel, threads[t], hashes[kernel], &alone);
    devices_close(); // the next test finds the kinds of devices that the machine has
}

// ---- what is chosen ----------------------------------------------------------------------------

static bool has_nan(const char *memory) {
    for (const Operand *o = the_case.operands; o <= the_case.last; o++)
        for (size_t i = 0; i < o->n && o->output; i++)
            if (isnan(number_at(memory, o, i))) return true;
    return false;
}

// One infinity gives plain sums infinities, and Winograd's method NaN, unless it is at the rim of a
// tile: so it was this one, in the shapes of the table that suit it. (The first member is X or dY.)
static bool spreads_infinity(KernelId kernel, int i, double where) {
    make_case(kernel, i);
    put(0, where, INFINITY);
    define(kernel);
    run_kernel(kernel, got);
    return has_nan(got) && !has_nan(expected);
}

TEST_UNLESS_SIMULATED(test_winograd_is_used) {
    use_device(cpu_device(0));
    int shapes = 0;
    for (int i = 0; i < 4 * (int)COUNT(CONVOLUTIONS); i += 4) {
        const Conv s = conv_of(CONVOLUTIONS[i / 4], 0);
        if (!winograd_suits(&s) || every > 1 || s.N == 0) continue;
        for (int k = KERNEL_conv2d_forward; k <= KERNEL_conv2d_backward_params; k++) {
            double where = 0.517;
            while (where < 0.7 && !spreads_infinity((KernelId)k, i, where)) where += 0.0231;
            if (where >= 0.7) fail_case((KernelId)k, i, "plain sums");
        }
        shapes++;
    }
    assert_int_equal(shapes, 9);
    device_free(device, there);
}

// What all kernels were compiled for: what BOOK_ISA names, else the most that this CPU can do (v4
// comes before v3).
TEST(test_best_instruction_set_is_used) {
    const char *named = getenv("BOOK_ISA"), *used = cpu_instruction_set()->name;
    if (named && *named) assert_string_equal(used, named);
    for (const InstructionSet *set = instruction_sets; set->name && !(named && *named); set++)
        assert_true(!set->runs_here() || strcmp(set->name, used) <= 0);
}

static void without_memory(void *unused) {
    (void)unused;
    Conv s = {.N = 1, .C = 1, .H = 1 << 30, .W = 1 << 30};
    kernels_fail_with(die);
    conv2d_backward_input_naive(&(struct conv2d_backward_input_args){.s = s});
}

TEST(test_conv2d_backward_without_memory) {
    if (SANITIZED) skip("sanitizers end a program that asks for so much");
    expect_death(1, "out of memory: 1152921504606846976 sums", without_memory, NULL);
}

int main(void) { return run_all("kernels", NULL, devices_end); }
