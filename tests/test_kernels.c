// test_kernels.c: every kernel, on each kind of device, against its definition in plain loops, and
// what it costs (kernels/cost.c) against what these loops count. For each kernel there is a
// function that makes its cases, by number; one engine does the rest.
//
// All operands of a case lie in one piece of memory, between guards of NaN: reading past an end
// makes a result NaN. What a kernel writes to is NaN first when beta is 0, which proves that it is
// not read. Guards and inputs must stay as they are.
#include <dirent.h>

#include "common/base/error.h"
#include "definitions.h"
#include "dies.h"
#include "kernels/cpu/naive.h"
#include "kernels/cpu/winograd.h"
#include "kernels/fail.h"

// How close is close enough, by what a kernel does with each number.
static const double EXACT = 0;       // copies it, or chooses between two
static const double ROUNDED = 3e-7;  // a few operations; float32 rounds by 6e-8
static const double SUMMED = 2e-5;   // sums of up to a few thousand, in any order
static const double WINOGRAD = 5e-5; // the same by a method that adds numbers of different size

// ---- operands ----------------------------------------------------------------------------------

enum { GUARD = 256, MAX_OPERANDS = 12, MEMORY = 32 << 20 }; // bytes

// What an argument struct points to. The error may be `tolerance` times `usual`; if that is 0,
// times what is expected, but at least 1.
typedef struct Operand {
    size_t at, n, size; // the first byte; how many numbers; bytes of each
    bool output;
    double tolerance, usual;
} Operand;

// One case. The pointers in args point into `expected`, where the definition computes.
static struct Case {
    Operand operands[MAX_OPERANDS];
    int count;
    size_t bytes;
    bool special; // there are NaNs and infinities, and results may be such, too
    _Alignas(8) char args[MAX_KERNEL_ARGS];
} the_case;

static Device *device;         // under test
static char *there;            // the operands on it
static char *start, *expected; // here: as they were, as the definition leaves them,
static char *got, *again;      // and as the kernel does
static bool blank;             // inputs are to be all zeros

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
static int pick_size(void) { return pick(0, 1) ? pick(0, 1) : pick(2, 9); } // often none or one
static float uniform(void) { return (float)(2 * ((double)(draw() >> 11) * 0x1p-53) - 1); }

static void write_guard(size_t first, size_t end) {
    const uint32_t bits = 0x7fc12345; // a NaN that no computation makes
    for (size_t at = first; at < end; at++) expected[at] = ((const char *)&bits)[at % 4];
}

static void begin_case(uint64_t seed) {
    the_case = (struct Case){.bytes = GUARD};
    draws = seed;
    every = 1;
    write_guard(0, GUARD);
}

static void *place(size_t n, size_t size) {
    assert_true(the_case.count < MAX_OPERANDS);
    Operand *o = &the_case.operands[the_case.count++];
    *o = (Operand){.at = the_case.bytes, .n = n, .size = size};
    size_t end = o->at + n * size;
    the_case.bytes = (end + 2 * GUARD - 1) / GUARD * GUARD;
    assert_true(the_case.bytes <= MEMORY);
    write_guard(end, the_case.bytes);
    return expected + o->at;
}

static float *around(size_t n, float centre, float size) {
    float *x = place(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = blank ? 0 : centre + size * uniform();
    return x;
}
static float *in(size_t n) { return around(n, 0, 1); }

// Multiples of `unit`: their sums are exact, and often equal or 0.
static float *whole(size_t n, int least, int most, float unit) {
    float *x = place(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (float)pick(least, most) * unit;
    return x;
}
static float *given(const float *values, size_t n) {
    float *x = place(n, sizeof *x);
    memcpy(x, values, n * sizeof *x);
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

// What is placed next, or was last, is written to.
static void *written(void *x, double tolerance) {
    Operand *o = &the_case.operands[the_case.count - 1];
    o->output = true;
    o->tolerance = tolerance;
    return x;
}
static float *out(size_t n, float beta, double tolerance) {
    return written(beta != 0 ? in(n) : around(n, NAN, 0), tolerance);
}
// A sum of so many products of two numbers in (-1,1): usually the root of terms / 9.
static float *out_sum(size_t n, float beta, double tolerance, double terms) {
    float *x = out(n, beta, tolerance);
    the_case.operands[the_case.count - 1].usual = fmax(1, sqrt(terms / 9));
    return x;
}
// More numbers of what was placed last, with another tolerance.
static void more(size_t n, double tolerance) {
    size_t end = the_case.operands[the_case.count - 1].at;
    end += the_case.operands[the_case.count - 1].n * sizeof(float);
    the_case.bytes = end;
    out(n, 0, tolerance);
}

// ---- cases: elementwise and sums ---------------------------------------------------------------

// CASE(relu_forward) { ... } sets the arguments `a` for case number i, and says if there is one.
#define CASE(name)                                                                                 \
    static bool name##_make(struct name##_args *a, int i);                                         \
    static bool name##_case(void *args, int i) { return name##_make(args, i); }                    \
    static bool name##_make(struct name##_args *a, int i)

// i counts cases in `count` variants of each: which one is this?
static int variant(int *i, int count) {
    int which = *i % count;
    *i /= count;
    return which;
}

// Around a warp, a block of threads, and the size from which on CPU threads share the work.
static const size_t SIZES[] = {0, 1, 2, 3, 31, 64, 257, 4099, 16385, 50003};
enum { NUM_SIZES = COUNT(SIZES) };

CASE(fill) {
    if (i >= NUM_SIZES) return false;
    a->x = out(a->n = SIZES[i], 0, EXACT);
    a->value = 1.5f;
    return true;
}
CASE(scale) {
    if (i >= NUM_SIZES) return false;
    a->x = out(a->n = SIZES[i], 1, ROUNDED);
    a->factor = 0.3f;
    return true;
}
CASE(add) {
    if (i >= NUM_SIZES) return false;
    a->x = in(a->n = SIZES[i]);
    a->y = out(a->n, 1, ROUNDED);
    return true;
}
// The sum in memory of its own, then in that of either term.
CASE(add_forward) {
    int in_place = variant(&i, 3);
    if (i >= NUM_SIZES) return false;
    a->Y = out(a->n = SIZES[i], (float)in_place, ROUNDED);
    a->A = in_place == 1 ? a->Y : in(a->n);
    a->B = in_place == 2 ? a->Y : in(a->n);
    return true;
}
CASE(add_backward) {
    a->beta = (float)variant(&i, 2);
    if (i >= NUM_SIZES) return false;
    a->dY = in(a->n = SIZES[i]);
    a->dX = out(a->n, a->beta, ROUNDED);
    return true;
}
// What lies between the columns that are copied stays as it was.
CASE(copy_columns) {
    static const int rows[] = {0, 1, 2, 17, 300}, cols[] = {0, 1, 3, 33, 169};
    static const int X_more[] = {0, 0, 34, 7}, Y_more[] = {0, 5, 0, 2};
    int more_columns = variant(&i, 4);
    a->cols = cols[variant(&i, COUNT(cols))];
    if (i >= (int)COUNT(rows)) return false;
    a->rows = rows[i];
    a->X_stride = a->cols + X_more[more_columns];
    a->Y_stride = a->cols + Y_more[more_columns];
    size_t last = a->rows && a->cols ? (size_t)a->rows - 1 : 0,
           width = a->rows ? (size_t)a->cols : 0;
    a->X = in(last * (size_t)a->X_stride + width);
    a->Y = out(last * (size_t)a->Y_stride + width, 1, EXACT);
    return true;
}
CASE(sum_forward) {
    static const size_t sizes[] = {0, 1, 2, 31, 33, 255, 256, 257, 1000, 65537, (1 << 20) + 3};
    if (i >= (int)COUNT(sizes)) return false;
    a->x = in(a->n = sizes[i]);
    a->out = out_sum(1, 0, SUMMED, 3 * (double)a->n);
    return true;
}
CASE(sum_backward) {
    a->beta = (float)variant(&i, 2);
    if (i >= NUM_SIZES) return false;
    a->dout = in(1);
    a->dx = out(a->n = SIZES[i], a->beta, ROUNDED);
    return true;
}
CASE(relu_forward) {
    int kind = variant(&i, 3);
    if (i >= NUM_SIZES) return false;
    a->n = SIZES[i];
    a->X = kind == 0 ? in(a->n) : kind == 1 ? specials(a->n) : out(a->n, 1, EXACT);
    a->Y = kind == 2 ? (float *)a->X : out(a->n, 0, EXACT);
    return true;
}
CASE(relu_backward) {
    int kind = variant(&i, 4); // beta, special numbers, in place
    if (i >= NUM_SIZES) return false;
    a->n = SIZES[i];
    a->beta = kind == 1;
    a->Y = kind == 2 ? specials(a->n) : whole(a->n, 0, 2, 0.5f); // many are 0
    a->dX = out(a->n, kind == 3 ? 1 : a->beta, ROUNDED);
    a->dY = kind == 3 ? a->dX : kind == 2 ? specials(a->n) : in(a->n);
    return true;
}

// ---- cases: fully connected layers -------------------------------------------------------------

// M, N, K
static const int PRODUCTS[][3] = {
    {64, 128, 800}, {64, 800, 128}, {800, 128, 64}, {64, 10, 128}, // LeNet: h2 W3, its gradients
    {33, 10, 512},  {5, 33, 1000},                 // many groups of rows, large ones
    {3, 520, 40},                                  // more columns than are packed
    {257, 257, 65}, {65, 3, 0},     {800, 128, 0}, // without rows in a shard each sum is empty
};
// Around vector lengths, and the blocks that the CPU kernel cuts.
static const int SIDES[] = {0, 1, 3, 31, 32, 33, 64, 65, 257};
enum { NUM_SIDES = COUNT(SIDES) };

CASE(gemm) {
    int transposed = variant(&i, 4), random = i - (int)COUNT(PRODUCTS);
    a->trans_A = transposed & 1;
    a->trans_B = transposed >> 1;
    a->beta = (float)pick(0, 1);
    if (random >= NUM_SIDES * NUM_SIDES) return false;
    a->M = random < 0 ? PRODUCTS[i][0] : SIDES[random % NUM_SIDES];
    a->N = random < 0 ? PRODUCTS[i][1] : SIDES[random / NUM_SIDES];
    a->K = random < 0 ? PRODUCTS[i][2] : SIDES[pick(0, a->M * a->N > 9000 ? 5 : NUM_SIDES - 1)];
    a->A = in((size_t)a->M * (size_t)a->K);
    a->B = in((size_t)a->K * (size_t)a->N);
    a->C = out_sum((size_t)a->M * (size_t)a->N, a->beta, SUMMED, a->K);
    return true;
}

static const int MATRICES[][2] = {{0, 10},  {1, 1},   {1, 33},   {2, 31},    {3, 10},   {17, 128},
                                  {64, 10}, {257, 3}, {33, 257}, {130, 129}, {1000, 10}};

CASE(add_bias_forward) {
    if (i >= (int)COUNT(MATRICES)) return false;
    size_t n = (size_t)(a->rows = MATRICES[i][0]) * (size_t)(a->cols = MATRICES[i][1]);
    a->X = in(n);
    a->b = in((size_t)a->cols);
    a->Y = out(n, 0, ROUNDED);
    return true;
}
CASE(add_bias_backward) {
    a->beta = (float)variant(&i, 2);
    if (i >= (int)COUNT(MATRICES)) return false;
    a->dY = in((size_t)(a->rows = MATRICES[i][0]) * (size_t)(a->cols = MATRICES[i][1]));
    a->db = out_sum((size_t)a->cols, a->beta, SUMMED, 3 * a->rows);
    return true;
}

// ---- cases: convolution ------------------------------------------------------------------------

// clang-format off
// N C H W, M kernel_h kernel_w, stride_h stride_w, pad_h pad_w
static const int CONVOLUTIONS[][11] = {
    {3, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0},  // LeNet's first
    {3, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0}, // and its second
    {3, 20, 14, 14, 50, 5, 5, 1, 1, 0, 0}, // Winograd's tiles with a rest
    {3, 20, 12, 12, 24, 5, 5, 1, 1, 2, 2},
    {2, 16, 9, 9, 8, 3, 3, 1, 1, 1, 1},    // as in ResNet: 3x3 that keeps the size,
    {2, 8, 9, 9, 16, 3, 3, 2, 2, 1, 1},    // 3x3 and 1x1 that halve it,
    {2, 8, 9, 9, 16, 1, 1, 2, 2, 0, 0},
    {2, 3, 23, 21, 8, 7, 7, 2, 2, 3, 3},   // the 7x7 at its start
    {17, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0}, // the first layer of the book's LeNet
    {0, 2, 5, 5, 3, 3, 3, 1, 1, 1, 1},     // no images, more than parts of a sum
    {17, 2, 5, 5, 3, 3, 3, 1, 1, 1, 1},
    {33, 1, 4, 3, 2, 2, 3, 1, 1, 0, 1},
    {17, 1, 32, 32, 2, 1, 1, 1, 1, 0, 0},  // channels that several blocks of a GPU add up
    {19, 70, 3, 2, 6, 3, 3, 1, 1, 1, 1},   // images that share a product; channels in slices
    {35, 33, 4, 4, 3, 3, 3, 2, 2, 1, 1},
    {2, 24, 10, 14, 40, 3, 3, 1, 1, 1, 1}, // 3x3, stride 1, many channels: the method of Winograd,
    {19, 17, 9, 5, 18, 3, 3, 1, 1, 1, 1},  // also with two groups of images to sum up,
    {3, 7, 9, 10, 5, 5, 5, 1, 1, 2, 1},    // and 5x5 with padding
    {3, 17, 7, 9, 33, 3, 3, 1, 1, 1, 1},
    {35, 40, 4, 4, 16, 3, 3, 1, 1, 1, 1},
    {1, 16, 3, 3, 16, 3, 3, 1, 1, 0, 0},
    {0, 16, 5, 5, 16, 3, 3, 1, 1, 1, 1},
    {3, 4, 6, 7, 5, 1, 1, 1, 1, 0, 0},     // 1x1: the image is its own matrix of columns
    {3, 4, 6, 7, 5, 1, 1, 1, 1, 2, 1},     // more padding than the kernel can use
    {3, 4, 6, 7, 5, 1, 1, 1, 2, 0, 0},
    {3, 4, 6, 7, 5, 1, 1, 2, 1, 0, 0},
    {2, 1, 1, 1, 1, 3, 3, 1, 1, 2, 2},
    {2, 3, 4, 5, 2, 4, 5, 1, 1, 0, 0},     // the kernel as large as the image: one output pixel
    {2, 1, 3, 40, 2, 2, 3, 1, 1, 0, 0},    // long rows, longer than what is copied at once
    {2, 1, 3, 18, 2, 2, 3, 1, 1, 0, 0},
    {1, 2, 40, 3, 2, 5, 1, 3, 1, 1, 0},    // tall; strides and padding that differ
    {2, 2, 10, 11, 3, 4, 2, 3, 2, 2, 1},
    {2, 2, 9, 9, 3, 2, 2, 3, 3, 0, 0},     // strides that leave pixels out
    {2, 0, 3, 3, 2, 2, 2, 1, 1, 0, 0},     // no channels, in and out
    {2, 2, 3, 3, 0, 2, 2, 1, 1, 0, 0},
    // Large enough for each way in which threads share the work: as a matrix product,
    {37, 40, 15, 14, 24, 5, 5, 2, 2, 2, 2},
    {40, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0}, // Winograd's method: threads have their own images,
    {13, 16, 24, 24, 300, 3, 3, 1, 1, 1, 1}, // or share them, in two or three turns,
    {2, 290, 4, 4, 310, 3, 3, 1, 1, 1, 1},   // or each has kernels of its own;
    {3, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1},   // the layers of ResNet-18,
    {1, 128, 14, 14, 128, 3, 3, 1, 1, 1, 1},
    {2, 256, 7, 7, 256, 3, 3, 1, 1, 1, 1},
    {2, 512, 4, 4, 512, 3, 3, 1, 1, 1, 1},
    {2, 90, 9, 9, 101, 5, 5, 1, 1, 0, 0},    // and some that are cut where nothing comes out even
    {1, 120, 8, 8, 128, 5, 5, 1, 1, 0, 0},
};
enum { NUM_CONVOLUTIONS = COUNT(CONVOLUTIONS), LARGE = NUM_CONVOLUTIONS - 10 };
// Random ones: of any kind; for Winograd's method, 3x3 and 5x5; pooled in registers. From, to.
static const int RANDOM[][2][11] = {
    {{0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0}, {4, 4, 12, 12, 5, 5, 5, 3, 3, 3, 3}},
    {{0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0}, {2, 2, 7, 7, 2, 5, 5, 3, 3, 2, 2}},
    {{1, 16, 1, 1, 16, 3, 3, 1, 1, 0, 0}, {6, 65, 13, 13, 65, 3, 3, 1, 1, 2, 2}},
    {{1, 4, 1, 1, 4, 5, 5, 1, 1, 0, 0}, {6, 33, 13, 13, 33, 5, 5, 1, 1, 2, 2}},
    {{1, 1, 1, 1, 1, 3, 3, 1, 1, 0, 0}, {40, 1, 31, 31, 12, 3, 3, 1, 1, 3, 3}},
};
// clang-format on

static int windows(int size, int pad, int kernel, int stride) {
    return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}

static Conv conv_of(const int v[11]) {
    int out_h = windows(v[2], v[9], v[5], v[7]), out_w = windows(v[3], v[10], v[6], v[8]);
    return (Conv){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], out_h, out_w};
}

static Conv random_conv(int kind) {
    int v[11];
    for (int i = 0; i < 11; i++) v[i] = pick(RANDOM[kind][0][i], RANDOM[kind][1][i]);
    return conv_of(v);
}

typedef struct ConvCase {
    Conv s;
    bool pooled, flag; // flag: a bias, or beta
} ConvCase;

// Each shape plain and pooled, with the flag and without. A large one is plain, and only some of
// its channels are compared. The last kinds of random shapes are for CPUs' fast ways.
static bool make_conv(ConvCase *c, int i) {
    bool slow = SIMULATED && device_gpu(device) >= 0;
    int tables = 4 * LARGE, large = slow ? 0 : NUM_CONVOLUTIONS - LARGE;
    int random = i - tables - large;
    *c = (ConvCase){.pooled = i & 2, .flag = i & 1};
    if (i < tables) {
        c->s = conv_of(CONVOLUTIONS[i / 4]);
    } else if (random < 0) {
        c->s = conv_of(CONVOLUTIONS[LARGE + i - tables]);
        c->pooled = c->flag = false;
        double products = (double)size_Y(&c->s) * (double)size_window(&c->s);
        every = (int)(products / 4e6) | 1;
    } else {
        if (random >= (SANITIZED ? 60 : 240)) return false;
        c->s = random_conv(random % 8 > 4 || slow ? random % 2 : random % 8);
        c->pooled |= random % 8 == 4;
    }
    if (c->pooled) { // what fills no window is left out
        c->s.out_h -= c->s.out_h % 2;
        c->s.out_w -= c->s.out_w % 2;
    }
    return true;
}

static double tolerance_of(const Conv *s) {
    return strncmp(device_name(device), "cpu", 3) == 0 && winograd_suits(s) ? WINOGRAD : SUMMED;
}
static size_t outputs(const ConvCase *c) { return (size_t)size_Y(&c->s) / (c->pooled ? 4 : 1); }

// Pooled, numbers have exact sums, and many are 0 with their bias: then ReLU's gate is shut, also
// in a blank image, whatever rounding errors a fast method has.
CASE(conv2d_forward) {
    ConvCase c;
    if (!make_conv(&c, i)) return false;
    size_t X = (size_t)size_X(&c.s), W = (size_t)size_W(&c.s), M = (size_t)c.s.M;
    float *pixels = c.pooled ? whole(X, 0, 3, 0.25f) : in(X);
    size_t image = c.s.N > 1 && c.pooled && i % 3 > 0 ? X / (size_t)c.s.N : 0;
    for (size_t k = 0; k < image; k++) pixels[k] = 0;
    a->X = pixels;
    a->W = c.pooled ? whole(W, -2, 2, 0.25f) : in(W);
    if (c.flag) a->b = c.pooled ? whole(M, -1, 1, 0.0625f) : in(M);
    a->s = c.s;
    a->Y = out_sum(outputs(&c), 0, tolerance_of(&c.s), (double)size_window(&c.s));
    if (c.pooled) a->pooled = written(gates((size_t)size_Y(&c.s) / 2), EXACT);
    return true;
}
CASE(conv2d_backward_input) {
    ConvCase c;
    if (!make_conv(&c, i)) return false;
    a->dY = in(outputs(&c));
    a->W = in((size_t)size_W(&c.s));
    a->s = c.s;
    a->beta = c.flag;
    a->dX = out_sum((size_t)size_X(&c.s), a->beta, tolerance_of(&c.s),
                    c.s.M * c.s.kernel_h * c.s.kernel_w);
    if (c.pooled) a->pooled = gates((size_t)size_Y(&c.s) / 2);
    return true;
}
CASE(conv2d_backward_params) {
    ConvCase c;
    if (!make_conv(&c, i)) return false;
    double pixels = (double)c.s.N * c.s.out_h * c.s.out_w;
    a->dY = in(outputs(&c));
    a->X = in((size_t)size_X(&c.s));
    a->s = c.s;
    a->beta = c.flag;
    a->dW = out_sum((size_t)size_W(&c.s), a->beta, tolerance_of(&c.s), pixels);
    if (i % 3 > 0) a->db = out_sum((size_t)c.s.M, a->beta, SUMMED, 3 * pixels);
    if (c.pooled) a->pooled = gates((size_t)size_Y(&c.s) / 2);
    return true;
}

// ---- cases: pooling ----------------------------------------------------------------------------

// N C H W, kernel_h kernel_w, stride_h stride_w
static const int POOLS[][8] = {
    {4, 20, 26, 26, 2, 2, 2, 2},
    {4, 50, 9, 9, 2, 2, 2, 2}, // LeNet's; the second leaves a rim out
    {2, 5, 7, 7, 7, 7, 7, 7},
    {2, 1, 33, 35, 2, 2, 2, 2}, // ResNet's last: a mean per channel
};

// Then random ones: windows that overlap, that touch, and that leave pixels out.
static bool make_pool(Pool *s, int i) {
    static const int from[8] = {0, 0, 1, 1, 1, 1, 1, 1}, to[8] = {3, 4, 12, 12, 4, 4, 4, 4};
    int v[8];
    for (int j = 0; j < 8; j++) v[j] = i < (int)COUNT(POOLS) ? POOLS[i][j] : pick(from[j], to[j]);
    int out_h = windows(v[2], 0, v[4], v[6]), out_w = windows(v[3], 0, v[5], v[7]);
    *s = (Pool){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], out_h, out_w};
    return i < 120;
}

CASE(avg_pool2d_forward) {
    if (!make_pool(&a->s, i)) return false;
    a->X = in((size_t)pool_inputs(&a->s));
    a->Y = out((size_t)pool_outputs(&a->s), 0, ROUNDED);
    return true;
}
CASE(avg_pool2d_backward) {
    a->beta = (float)variant(&i, 2);
    if (!make_pool(&a->s, i)) return false;
    a->dY = in((size_t)pool_outputs(&a->s));
    a->dX = out((size_t)pool_inputs(&a->s), a->beta, 2 * ROUNDED);
    return true;
}

// ---- cases: batch normalisation ----------------------------------------------------------------

// N, C, S
static const int NORMS[][3] = {
    {0, 3, 4},  {2, 3, 0},   {2, 0, 4},    {1, 1, 1},    {1, 5, 1},    {2, 1, 1},   {3, 1, 33},
    {9, 3, 2},  {64, 7, 1},  {5, 2, 17},   {2, 33, 16},  {17, 3, 255}, {3, 2, 257}, {1, 600, 3},
    {4, 5, 49}, {3, 6, 784}, {33, 33, 16}, {5, 3, 1111}, {2, 3, 2500}, // some are for threads
};
// A channel's mean, for deviations of about 1: they keep 7, 3 and 2 digits.
static const float CENTRES[] = {0, 1e4f, 1e5f};
static const float EPS = 0.05f; // large, so that it matters

typedef struct Norm {
    int N, C, S;
    size_t n, channels; // numbers in all
    float centre;
} Norm;

static bool make_norm(Norm *m, int i) {
    m->centre = CENTRES[variant(&i, COUNT(CENTRES))];
    if (i >= (int)COUNT(NORMS)) return false;
    m->N = NORMS[i][0], m->C = NORMS[i][1], m->S = NORMS[i][2];
    m->channels = (size_t)m->C;
    m->n = (size_t)(m->N * m->S) * m->channels;
    return true;
}

CASE(batch_norm_stats) {
    Norm m;
    if (!make_norm(&m, i)) return false;
    *a = (struct batch_norm_stats_args){.N = m.N, .C = m.C, .S = m.S};
    a->X = around(m.n, m.centre, 2);
    a->stats = out(m.channels, 0, 1.2e-7); // the last bit
    more(m.channels, SUMMED);
    more(1, EXACT);
    return true;
}

// Rows of each device: none in the first two; in the next two one number, if there is one pixel.
static const struct {
    int k, rows[7];
} PARTS[] = {{1, {0}},    {3, {0, 0, 0}}, {1, {1}},          {2, {0, 1}},
             {1, {7}},    {2, {4, 4}},    {2, {1, 6}},       {2, {5, 0}},
             {2, {0, 5}}, {3, {3, 0, 2}}, {4, {2, 1, 1, 9}}, {7, {1, 1, 2, 1, 1, 2, 1}}};

// Statistics of k devices, whose means differ.
static float *stats_of_parts(int parts, size_t C, int S, float centre) {
    float *stats = in((size_t)PARTS[parts].k * (2 * C + 1));
    for (int i = 0; i < PARTS[parts].k; i++) {
        float *mean = stats + (size_t)i * (2 * C + 1), *M2 = mean + C;
        float n = M2[C] = (float)(PARTS[parts].rows[i] * S);
        for (size_t c = 0; c < C; c++) {
            mean[c] = n > 0 ? centre + 2 * mean[c] : 0;
            M2[c] = n > 1 ? n * fabsf(M2[c]) : 0;
        }
    }
    return stats;
}

CASE(batch_norm_merge) {
    static const int channels[] = {0, 1, 3, 300};
    size_t C = (size_t)(a->C = channels[variant(&i, 4)]);
    int S = variant(&i, 2) ? 6 : 1, kind = pick(0, 3);
    float centre = CENTRES[variant(&i, 3)];
    if (i >= (int)COUNT(PARTS)) return false;
    a->k = PARTS[i].k;
    a->momentum = kind ? 0.1f : 1;
    a->stats = stats_of_parts(i, C, S, centre);
    a->mean = out(C, 0, a->k == 1 ? EXACT : ROUNDED);
    a->var = out(C, 0, ROUNDED);
    a->count = out(1, 0, EXACT);
    if (kind != 2) a->running_mean = out(C, 1, ROUNDED);
    if (kind != 3) a->running_var = out(C, 1, ROUNDED);
    return true;
}
CASE(batch_norm_forward) {
    Norm m;
    if (!make_norm(&m, i)) return false;
    *a = (struct batch_norm_forward_args){.N = m.N, .C = m.C, .S = m.S, .eps = EPS};
    a->X = around(m.n, m.centre, 2);
    a->mean = around(m.channels, m.centre, 1);
    a->var = around(m.channels, 0.6f, 0.5f);
    a->weight = in(m.channels);
    a->bias = in(m.channels);
    a->Y = out(m.n, 0, 2e-6);
    return true;
}
CASE(batch_norm_backward_sums) {
    Norm m;
    if (!make_norm(&m, i)) return false;
    *a = (struct batch_norm_backward_sums_args){.N = m.N, .C = m.C, .S = m.S, .eps = EPS};
    a->X = around(m.n, m.centre, 2);
    a->mean = around(m.channels, m.centre, 1);
    a->var = around(m.channels, 0.6f, 0.5f);
    a->dY = in(m.n);
    a->sums = out(2 * m.channels, 0, 2 * SUMMED);
    return true;
}
// The sums are those of several devices, so they and the count are larger than this one's; or there
// are none, and then what else they need is not there either.
CASE(batch_norm_backward_input) {
    Norm m;
    int beta = variant(&i, 2), frozen = variant(&i, 2);
    if (!make_norm(&m, i)) return false;
    *a = (struct batch_norm_backward_input_args){.N = m.N, .C = m.C, .S = m.S, .eps = EPS};
    const float all = (float)(3 * m.N * m.S + 5);
    a->dY = in(m.n);
    a->var = around(m.channels, 0.6f, 0.5f);
    a->weight = in(m.channels);
    a->beta = (float)beta;
    a->dX = out(m.n, a->beta, 4e-6);
    if (frozen) return true;
    a->X = around(m.n, m.centre, 2);
    a->mean = around(m.channels, m.centre, 1);
    a->sums = around(2 * m.channels, 0, all / 2);
    a->count = given(&all, 1);
    return true;
}

// ---- cases: loss, accuracy, update -------------------------------------------------------------

// rows, classes; then random ones
static const int SCORES[][2] = {{0, 10}, {1, 1},  {1, 10}, {17, 1},   {17, 2},  {17, 10},
                                {5, 31}, {5, 32}, {5, 33}, {3, 1000}, {300, 10}};

static size_t make_scores(int i, int *rows, int *classes) {
    bool random = i >= (int)COUNT(SCORES);
    *rows = random ? pick_size() : SCORES[i][0];
    *classes = random ? pick(1, 8) : SCORES[i][1];
    return (size_t)*rows * (size_t)*classes;
}

// Some of these are no class: nothing is read there.
static float *wrong_labels(int n, int classes) {
    const float wrong[] = {-1, (float)classes, 1e30f, -1e30f, NAN, INFINITY};
    float *labels = whole((size_t)n, 0, classes - 1, 1);
    for (int i = 0; i < n; i += pick(1, 4)) labels[i] = wrong[pick(0, COUNT(wrong) - 1)];
    the_case.special = true;
    return labels;
}

CASE(cross_entropy_forward) {
    static const float sizes[] = {0, 1, 10, 80, 1e4f}; // exp(80) is near float's largest
    int kind = variant(&i, 6);
    if (i >= (int)COUNT(SCORES)) return false;
    size_t n = make_scores(i, &a->rows, &a->classes), rows = (size_t)a->rows;
    a->logits = around(n, 0, sizes[kind % 5]);
    a->labels = kind == 5 ? wrong_labels(a->rows, a->classes) : whole(rows, 0, a->classes - 1, 1);
    a->losses = out(rows, 0, 1e-6);
    a->probs = out(n, 0, 1e-6);
    return true;
}
CASE(cross_entropy_backward) {
    a->beta = (float)variant(&i, 2);
    if (i >= (int)COUNT(SCORES)) return false;
    size_t n = make_scores(i, &a->rows, &a->classes), rows = (size_t)a->rows;
    a->probs = in(n);
    a->labels = whole(rows, 0, a->classes - 1, 1);
    a->dlosses = in(rows);
    a->dlogits = out(n, a->beta, ROUNDED);
    return true;
}
// Random ones have ties, numbers that are equal but for their sign, infinities and NaN.
CASE(count_correct) {
    if (i >= 300) return false;
    size_t n = make_scores(i, &a->rows, &a->classes), rows = (size_t)a->rows;
    a->logits = i % 3 == 0 ? in(n) : i % 3 == 1 ? whole(n, 0, 2, 1) : specials(n);
    a->labels = i % 5 == 4 ? wrong_labels(a->rows, a->classes) : whole(rows, 0, a->classes - 1, 1);
    a->count = out(1, 1, ROUNDED);
    return true;
}
CASE(sgd) {
    if (i >= NUM_SIZES) return false;
    a->param = out(a->n = SIZES[i], 1, ROUNDED);
    a->grad = out(a->n, 1, EXACT);
    a->lr = 0.3f;
    a->batch_size = 7;
    return true;
}
CASE(adam) {
    if (i >= NUM_SIZES) return false;
    a->param = out(a->n = SIZES[i], 1, ROUNDED);
    a->grad = out(a->n, 1, EXACT);
    a->mean = out(a->n, 1, ROUNDED);
    a->square = written(around(a->n, 0.5f, 0.5f), ROUNDED);
    a->rate = 0.3f, a->root = 0.25f, a->beta1 = 0.9f, a->beta2 = 0.999f, a->eps = 0.25f;
    a->batch_size = 7;
    return true;
}

// ---- the engine --------------------------------------------------------------------------------

// A kernel that is not defined, or of which there are no cases, does not compile here.
static const struct {
    void (*definition)(const void *args);
    bool (*make)(void *args, int i);
    size_t size; // of its argument struct
} kernels[NUM_KERNELS] = {
#define ENTRY(name) [KERNEL_##name] = {name##_definition, name##_case, sizeof(struct name##_args)},
    KERNELS(ENTRY)};

#define WITH_NAIVE(KERNEL)                                                                         \
    KERNEL(gemm)                                                                                   \
    KERNEL(conv2d_forward)                                                                         \
    KERNEL(conv2d_backward_input)                                                                  \
    KERNEL(conv2d_backward_params)                                                                 \
    KERNEL(avg_pool2d_forward)                                                                     \
    KERNEL(avg_pool2d_backward)                                                                    \
    KERNEL(batch_norm_stats)                                                                       \
    KERNEL(batch_norm_forward)                                                                     \
    KERNEL(batch_norm_backward_sums)                                                               \
    KERNEL(batch_norm_backward_input)
#define CALL(name)                                                                                 \
    static void name##_plain(const void *args) { name##_naive(args); }
#define PLAIN(name) [KERNEL_##name] = name##_plain,
WITH_NAIVE(CALL)
static void (*const naive[NUM_KERNELS])(const void *args) = {WITH_NAIVE(PLAIN)};

static bool make_case(KernelId kernel, int i) {
    begin_case((uint64_t)kernel << 32 | (uint64_t)i);
    if (!kernels[kernel].make(the_case.args, i)) return false;
    memcpy(start, expected, the_case.bytes);
    return true;
}

// The arguments with the operands at another place. An empty one is NULL there, as in a tensor
// without elements.
static void redirect(void *to, const void *args, size_t size, char *memory) {
    memcpy(to, args, size);
    for (size_t at = 0; at + sizeof(char *) <= size; at += sizeof(char *)) {
        char *word;
        memcpy(&word, (char *)to + at, sizeof word);
        size_t offset = (size_t)((uintptr_t)word - (uintptr_t)expected);
        if (offset >= the_case.bytes) continue;
        bool empty = false;
        for (int k = 0; k < the_case.count; k++)
            empty |= the_case.operands[k].at == offset && the_case.operands[k].n == 0;
        word = empty ? NULL : memory + offset;
        memcpy((char *)to + at, &word, sizeof word);
    }
}

static void upload(void) { device_copy(device, there, host(), start, the_case.bytes); }
static void launch_there(KernelId kernel, const void *args) {
    char redirected[MAX_KERNEL_ARGS];
    redirect(redirected, args, kernels[kernel].size, there);
    queue_launch(compute_queue(device), kernel, redirected, kernels[kernel].size);
}
static void download(char *to) {
    device_copy(host(), to, device, there, the_case.bytes);
    synchronize(device);
}
static void run_kernel(KernelId kernel, char *result) {
    upload();
    launch_there(kernel, the_case.args);
    download(result);
}

static void define(KernelId kernel) {
    memset(counted.read, 0, the_case.bytes);
    memset(counted.stored, 0, the_case.bytes);
    counted.memory = expected;
    counted.bytes = the_case.bytes;
    counted.flop = 0;
    kernels[kernel].definition(the_case.args);
}

static double number_at(const char *memory, const Operand *o, size_t i) {
    const char *at = memory + o->at + i * o->size;
    return o->size == 1 ? *(const unsigned char *)at : *(const float *)at;
}

static bool is_close(const Operand *o, double value, double of) {
    if (isnan(of)) return every > 1 ? !isnan(value) : the_case.special && isnan(value);
    if (isinf(of)) return the_case.special && !isfinite(value);
    return fabs(value - of) <= o->tolerance * (o->usual > 0 ? o->usual : fmax(1, fabs(of)));
}

// Fails, saying what the arguments were.
static void fail_case(KernelId kernel, int i, const char *what) {
    int words[MAX_KERNEL_ARGS / 4];
    memcpy(words, the_case.args, sizeof words);
    printf("%s, arguments", kernel_name(kernel));
    for (size_t k = 0; k < kernels[kernel].size / 4; k++)
        if (abs(words[k]) < 1 << 20) printf(" %d", words[k]);
    fail_msg("case %d of %s: %s", i, kernel_name(kernel), what);
}

static void compare(KernelId kernel, int i, const char *result, const char *who) {
    char what[200];
    size_t checked = 0; // what is not an output must be as it was
    for (int k = 0; k < the_case.count; k++) {
        const Operand *o = &the_case.operands[k];
        if (!o->output) continue;
        for (size_t e = 0; e < o->n; e++) {
            double value = number_at(result, o, e), of = number_at(expected, o, e);
            if (is_close(o, value, of)) continue;
            snprintf(what, sizeof what, "%s: number %zu of %zu of operand %d is %.9g, not %.9g",
                     who, e, o->n, k, value, of);
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
    for (int k = 0; k < the_case.count; k++) {
        const Operand *o = &the_case.operands[k];
        for (size_t at = o->at; at < o->at + o->n * o->size; at += o->size)
            bytes += (double)o->size * (counted.read[at] + counted.stored[at]);
    }
    assert_int_equal(cost.kind, kind_of(kernel));
    if (cost.flop == (double)counted.flop && cost.bytes == bytes) return;
    char what[160];
    snprintf(what, sizeof what, "it costs %.0f FLOP, %.0f bytes, but counted are %ld and %.0f",
             cost.flop, cost.bytes, counted.flop, bytes);
    fail_case(kernel, i, what);
}

// The naive kernels know nothing of pooling.
static void check_naive(KernelId kernel, int i) {
    if (!naive[kernel] || every > 1 || the_case.bytes > 1 << 16) return;
    for (int k = 0; k < the_case.count; k++)
        if (the_case.operands[k].size == 1) return;
    char args[MAX_KERNEL_ARGS];
    memcpy(again, start, the_case.bytes);
    redirect(args, the_case.args, kernels[kernel].size, again);
    naive[kernel](args);
    compare(kernel, i, again, "naive");
}

static void use_device(Device *that) {
    if (!start) {
        char **parts[] = {&start, &expected, &got, &again};
        for (size_t i = 0; i < COUNT(parts); i++) *parts[i] = xmalloc(MEMORY);
        counted.read = xcalloc(MEMORY, 1);
        counted.stored = xcalloc(MEMORY, 1);
    }
    device = that;
    there = device_alloc(device, MEMORY);
}

// Simulated GPUs have another order in each run.
static void test_kernel(KernelId kernel, void **state) {
    use_device(device_under_test(state));
    for (int i = 0; make_case(kernel, i); i++) {
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
    static void test_##name(void **state) { test_kernel(KERNEL_##name, state); }
KERNELS(TEST_OF)

// ---- NaN and infinity --------------------------------------------------------------------------

// Inputs, by number, of which one element is not finite, while all others are zeros (0 NaN is NaN):
// it must reach the results that the definition says, and no others.
static const struct {
    KernelId kernel;
    int operand;
} REACHING[] = {{KERNEL_gemm, 0},
                {KERNEL_gemm, 1},
                {KERNEL_conv2d_forward, 0},
                {KERNEL_avg_pool2d_forward, 0},
                {KERNEL_batch_norm_stats, 0},
                {KERNEL_batch_norm_merge, 0},
                {KERNEL_batch_norm_forward, 0},
                {KERNEL_batch_norm_forward, 1},
                {KERNEL_batch_norm_forward, 2},
                {KERNEL_sum_forward, 0},
                {KERNEL_cross_entropy_forward, 0}};

static void put(int operand, float value) {
    const Operand *o = &the_case.operands[operand];
    size_t at = o->at + (size_t)(draw() % o->n) * sizeof value;
    memcpy(expected + at, &value, sizeof value);
    memcpy(start + at, &value, sizeof value);
    the_case.special = true;
}

static bool is_plain(KernelId kernel) {
    const struct conv2d_forward_args *a = (const void *)the_case.args;
    return kernel != KERNEL_conv2d_forward || !(a->pooled || winograd_suits(&a->s));
}

static void test_nan_and_infinity(void **state) {
    use_device(device_under_test(state));
    blank = true;
    for (size_t r = 0; r < COUNT(REACHING); r++) {
        KernelId kernel = REACHING[r].kernel;
        for (int i = 0; make_case(kernel, i); i++) {
            if (the_case.bytes > 1 << 17 || the_case.operands[REACHING[r].operand].n == 0) continue;
            if (!is_plain(kernel) || every > 1) continue;
            bool infinite = kernel != KERNEL_cross_entropy_forward && pick(0, 1);
            put(REACHING[r].operand, infinite ? INFINITY : NAN);
            define(kernel);
            run_kernel(kernel, got);
            compare(kernel, i, got, infinite ? "with an infinity" : "with a NaN");
        }
    }
    blank = false;
    device_free(device, there);
}

// A variance is never negative, or its root could be NaN. That of equal numbers is as good as zero.
static void test_batch_norm_of_equal_numbers(void **state) {
    use_device(device_under_test(state));
    const float values[] = {0, 0.1f, -1.0f / 3, 10000.1f, 1e-20f, 123456.7f};
    const int sizes[] = {1, 3, 7, 30, 333, 10007, 100003}; // a mean of many is off by many bits
    for (size_t i = 0; i < COUNT(values) * COUNT(sizes); i++) {
        float x = values[i % COUNT(values)];
        struct batch_norm_stats_args a = {.N = 3, .C = 1, .S = sizes[i / COUNT(values)]};
        begin_case(0);
        a.X = around((size_t)a.S * 3, x, 0);
        a.stats = out(3, 0, EXACT);
        memcpy(start, expected, the_case.bytes);
        upload();
        launch_there(KERNEL_batch_norm_stats, &a);
        download(got);
        const float *stats = (const float *)(got + the_case.operands[1].at);
        assert_true(fabsf(stats[0] - x) <= 1.2e-7f * fabsf(x));
        assert_true(stats[1] >= 0 && sqrt(stats[1] / (3 * a.S)) <= 1e-6 * fabsf(x));
    }
    device_free(device, there);
}

// ---- batch normalisation over several devices --------------------------------------------------

enum { NORM_N = 6, NORM_C = 3, NORM_S = 5, NORM_IMAGE = NORM_C * NORM_S };

// The sum of dY times the normalised X, as a function of X alone: its mean and variance included.
static double norm_loss(const double *X, const float *dY, const float *weight) {
    const int n = NORM_N * NORM_S;
    double loss = 0;
    for (int c = 0; c < NORM_C; c++) {
        double mean = 0, var = 0;
        for (int i = 0; i < n; i++) mean += X[channel_number(NORM_C, NORM_S, c, i)] / n;
        for (int i = 0; i < n; i++)
            var += pow(X[channel_number(NORM_C, NORM_S, c, i)] - mean, 2) / n;
        for (int i = 0; i < n; i++) {
            long at = channel_number(NORM_C, NORM_S, c, i);
            loss += dY[at] * weight[c] * (X[at] - mean) / sqrt(var + EPS);
        }
    }
    return loss;
}

// By finite differences.
static void expect_gradient(float *dX, const float *X, const float *dY, const float *weight) {
    const double step = 1e-4;
    double values[NORM_N * NORM_IMAGE];
    for (int i = 0; i < NORM_N * NORM_IMAGE; i++) values[i] = X[i];
    for (int i = 0; i < NORM_N * NORM_IMAGE; i++) {
        values[i] = X[i] + step;
        double above = norm_loss(values, dY, weight);
        values[i] = X[i] - step;
        dX[i] = (float)((above - norm_loss(values, dY, weight)) / (2 * step));
        values[i] = X[i];
    }
}

// The rows are cut as if each part were a device's; each part is normalised with all rows'
// statistics.
static void check_batch_norm_of_parts(int k, const int *rows) {
    begin_case(1);
    const size_t n = NORM_N * NORM_IMAGE, stats = 2 * NORM_C + 1;
    const double ANY = INFINITY;
    float *X = in(n), *dY = in(n), *weight = in(NORM_C), *sums = out(2 * NORM_C, 1, ANY);
    float *of_parts = out((size_t)k * stats, 1, ANY), *own = out(2 * NORM_C, 1, ANY);
    float *mean = out(NORM_C, 1, ANY), *var = out(NORM_C, 1, ANY), *rows_of_all = out(1, 1, ANY);
    float *dX = out(n, 0, 1e-6);
    memcpy(start, expected, the_case.bytes);
    expect_gradient(dX, X, dY, weight);
    upload();
    for (int i = 0, at = 0; i < k; at += rows[i++] * NORM_IMAGE)
        launch_there(KERNEL_batch_norm_stats,
                     &(struct batch_norm_stats_args){X + at, of_parts + (size_t)i * stats, rows[i],
                                                     NORM_C, NORM_S});
    launch_there(KERNEL_batch_norm_merge, &(struct batch_norm_merge_args){.stats = of_parts,
                                                                          .mean = mean,
                                                                          .var = var,
                                                                          .count = rows_of_all,
                                                                          .k = k,
                                                                          .C = NORM_C});
    launch_there(KERNEL_fill, &(struct fill_args){.x = sums, .n = 2 * NORM_C});
    for (int i = 0, at = 0; i < k; at += rows[i++] * NORM_IMAGE) {
        launch_there(KERNEL_batch_norm_backward_sums,
                     &(struct batch_norm_backward_sums_args){dY + at, X + at, mean, var, own, EPS,
                                                             rows[i], NORM_C, NORM_S});
        launch_there(KERNEL_add, &(struct add_args){.y = sums, .x = own, .n = 2 * NORM_C});
    }
    for (int i = 0, at = 0; i < k; at += rows[i++] * NORM_IMAGE)
        launch_there(KERNEL_batch_norm_backward_input,
                     &(struct batch_norm_backward_input_args){dY + at, X + at, mean, var, weight,
                                                              sums, rows_of_all, dX + at, EPS, 0,
                                                              rows[i], NORM_C, NORM_S});
    download(got);
    compare(KERNEL_batch_norm_backward_input, k, got, "over several devices");
}

static void test_batch_norm_of_several_devices(void **state) {
    use_device(device_under_test(state));
    check_batch_norm_of_parts(1, (int[]){6});
    check_batch_norm_of_parts(2, (int[]){3, 3});
    check_batch_norm_of_parts(3, (int[]){1, 0, 5});
    check_batch_norm_of_parts(4, (int[]){0, 4, 1, 1});
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

static uint64_t hash_of_outputs(void) { // FNV-1a, of words
    uint64_t hash = 0xcbf29ce484222325;
    for (int k = 0; k < the_case.count; k++) {
        const Operand *o = &the_case.operands[k];
        for (size_t i = 0; i < o->n && o->output; i += 4 / o->size) {
            uint32_t word;
            memcpy(&word, got + o->at + i * o->size, sizeof word); // the last: with a guard's bytes
            hash = (hash ^ word) * 0x100000001b3;
        }
    }
    return hash;
}

enum { MAX_CASES = 500 };

// With a device of its own for the kernel: all its threads are new.
static void check_threads(KernelId kernel, int threads, uint64_t *hashes, int *alone) {
    devices_close();
    devices_init(BACKEND_CPU, threads);
    use_device(cpu_device(0));
    share_cores(&device, 1);
    for (int i = 0; make_case(kernel, i); i++) {
        assert_true(i < MAX_CASES);
        run_kernel(kernel, got);
        uint64_t hash = hash_of_outputs();
        if (threads == 1) hashes[i] = hash;
        if (hash != hashes[i]) fail_case(kernel, i, "other bits with more threads");
    }
    int count = threads_of_this_process(); // (also those of before, which are ending)
    if (threads == 1 && (*alone == 0 || count < *alone)) *alone = count;
    if (threads > 1 && WITH_OPENMP && !has_one_thread[kernel] && count <= *alone)
        fail_msg("%s uses one thread of %d", kernel_name(kernel), threads);
}

static void test_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
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
    for (int k = 0; k < the_case.count; k++)
        for (size_t i = 0; i < the_case.operands[k].n; i++)
            if (the_case.operands[k].output && isnan(number_at(memory, &the_case.operands[k], i)))
                return true;
    return false;
}

// One infinity gives plain sums infinities, and Winograd's method NaN: so it was this one. (Operand
// 0 is X or dY; the other one of backward to the parameters is finite.)
static void test_winograd_is_used(void **state) {
    (void)state;
    use_device(cpu_device(0));
    int cases = 0;
    for (int i = 0; make_case(KERNEL_conv2d_forward, i); i++) {
        Conv s = ((const struct conv2d_forward_args *)(const void *)the_case.args)->s;
        int channels = s.C < s.M ? s.C : s.M, most = s.C > s.M ? s.C : s.M;
        bool suits = s.stride_h == 1 && s.stride_w == 1 && s.kernel_h == s.kernel_w &&
                     ((s.kernel_h == 3 && channels >= 16) ||
                      (s.kernel_h == 5 && channels >= 4 && most <= 128));
        assert_int_equal(winograd_suits(&s), suits);
        if (!suits || every > 1 || i % 4 != 0 || i >= 4 * LARGE || s.N == 0) continue;
        for (KernelId kernel = KERNEL_conv2d_forward; kernel <= KERNEL_conv2d_backward_params;
             kernel++) {
            make_case(kernel, i);
            put(0, INFINITY);
            define(kernel);
            run_kernel(kernel, got);
            if (has_nan(expected) || !has_nan(got)) fail_case(kernel, i, "plain sums");
            cases++;
        }
    }
    assert_true(cases >= 15);
    device_free(device, there);
}

// What all kernels were compiled for: what CPU=... names, else the most that this CPU can do (v4
// comes before v3).
static void test_best_instruction_set_is_used(void **state) {
    (void)state;
    const char *named = getenv("CPU"), *used = cpu_instruction_set()->name;
    if (named && *named) assert_string_equal(used, named);
    for (const InstructionSet *set = instruction_sets; set->name && !(named && *named); set++)
        assert_true(!set->runs_here() || strcmp(set->name, used) <= 0);
}

static void without_memory(void *unused) {
    (void)unused;
    Conv s = conv_of((int[]){1, 1, 1 << 30, 1 << 30, 1, 1, 1, 1, 1, 0, 0});
    kernels_fail_with(die);
    conv2d_backward_input_naive(&(struct conv2d_backward_input_args){.s = s});
}

static void test_conv2d_backward_without_memory(void **state) {
    (void)state;
    if (SANITIZED) skip("sanitizers end a program that asks for so much");
    expect_death(1, "out of memory: 1152921504606846976 sums", without_memory, NULL);
}

// ---- small examples, worked out by hand --------------------------------------------------------

// What definitions mean where a kernel could make the same mistake.
static void expect(KernelId kernel, const void *args, const float *result, int n,
                   const float *by_hand) {
    memcpy(the_case.args, args, kernels[kernel].size);
    define(kernel);
    for (int i = 0; i < n; i++)
        if (result[i] != by_hand[i])
            fail_msg("%s: number %d is %g, by hand it is %g", kernel_name(kernel), i, result[i],
                     by_hand[i]);
}

static void test_gemm_by_hand(void **state) {
    (void)state;
    const float A[] = {1, 2, 3, 4, 5, 6}, A_T[] = {1, 4, 2, 5, 3, 6};   // (2,3)
    const float B[] = {1, 0, -1, 2, 1, 0}, B_T[] = {1, -1, 1, 0, 2, 0}; // (3,2)
    const float ones[] = {1, 1, 1, 1}, AB_plus_one[] = {3, 5, 6, 11};
    for (int i = 0; i < 4; i++) {
        begin_case(0);
        struct gemm_args a = {
            .beta = 1, .M = 2, .N = 2, .K = 3, .trans_A = i & 1, .trans_B = i / 2};
        a.A = given(a.trans_A ? A_T : A, 6);
        a.B = given(a.trans_B ? B_T : B, 6);
        a.C = given(ones, 4);
        expect(KERNEL_gemm, &a, a.C, 4, AB_plus_one);
    }
}

// One image, one channel, two output channels; stride 2 down and 1 across, padding at the sides.
// The third row of X is under no window. The kernel is not flipped.
static void test_conv2d_by_hand(void **state) {
    (void)state;
    Conv s = conv_of((int[]){1, 1, 3, 3, 2, 2, 2, 2, 1, 0, 1}); // Y (1,2,1,4)
    const float X[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, W[] = {1, 2, 3, 4, 0, 1, 0, 0}, b[] = {10, 20};
    const float dY[] = {1, 2, 3, 4, 5, 6, 7, 8};
    // Pixel (h,w) was right in window w (weights 2, 4 and 1, 0) and left in window w+1.
    // clang-format off
    const float Y[] = {
        10 + 2 * 1 + 4 * 4, 10 + 1 + 4 + 12 + 20, 10 + 2 + 6 + 15 + 24, 10 + 3 + 18,
        20 + 1,             20 + 2,               20 + 3,               20 + 0,
    };
    const float dX[] = {
        2 * 1 + 2 + 5, 2 * 2 + 3 + 6, 2 * 3 + 4 + 7,
        4 * 1 + 3 * 2, 4 * 2 + 3 * 3, 4 * 3 + 3 * 4,
        0,             0,             0,
    };
    const float dW[] = {
        1 * 2 + 2 * 3 + 3 * 4, 1 * 1 + 2 * 2 + 3 * 3, 4 * 2 + 5 * 3 + 6 * 4, 4 * 1 + 5 * 2 + 6 * 3,
        1 * 6 + 2 * 7 + 3 * 8, 1 * 5 + 2 * 6 + 3 * 7, 4 * 6 + 5 * 7 + 6 * 8, 4 * 5 + 5 * 6 + 6 * 7,
    };
    // clang-format on
    const float db[] = {1 + 2 + 3 + 4, 5 + 6 + 7 + 8};
    begin_case(0);
    float *x = given(X, 9), *w = given(W, 8), *d = given(dY, 8), *to = out(9, 0, 0);
    float *to_b = given(b, 2);
    expect(KERNEL_conv2d_forward, &(struct conv2d_forward_args){x, w, to_b, to, s, NULL}, to, 8, Y);
    expect(KERNEL_conv2d_backward_input, &(struct conv2d_backward_input_args){d, w, to, 0, s, NULL},
           to, 9, dX);
    struct conv2d_backward_params_args params = {d, x, to, to_b, 0, s, NULL};
    expect(KERNEL_conv2d_backward_params, &params, to, 8, dW);
    expect(KERNEL_conv2d_backward_params, &params, to_b, 2, db);
}

// Two images of two channels of two pixels. Deviations are -3, -1, 1, 3 in some order. The running
// variance is without bias: 20 / 3; by this momentum all of it. With eps the deviation is 4.
static void test_batch_norm_by_hand(void **state) {
    (void)state;
    const float X[] = {1, 3, 10, 16, 5, 7, 12, 14}, stats[] = {4, 13, 20, 20, 4};
    const float halves[] = {2, 13, 2, 18, 2, 6, 13, 2, 2, 2}, var[] = {5, 5};
    const float without_bias[] = {20.0f / 3, 20.0f / 3}, weight[] = {4, 8}, bias[] = {1, -1};
    const float Y[] = {-2, 0, -7, 5, 2, 4, -3, 1};
    begin_case(0);
    float *x = given(X, 8), *to_stats = out(5, 0, 0), *mean = out(2, 0, 0), *to_var = out(2, 0, 0);
    float *to_count = out(1, 0, 0), *running = out(2, 1, 0), *y = out(8, 0, 0);
    struct batch_norm_merge_args merge_args = {.mean = mean,
                                               .var = to_var,
                                               .count = to_count,
                                               .running_var = running,
                                               .momentum = 1,
                                               .k = 2,
                                               .C = 2};
    struct batch_norm_forward_args forward = {
        .X = x, .mean = mean, .var = to_var, .Y = y, .eps = 11, .N = 2, .C = 2, .S = 2};
    merge_args.stats = given(halves, 10);
    forward.weight = given(weight, 2);
    forward.bias = given(bias, 2);
    expect(KERNEL_batch_norm_stats, &(struct batch_norm_stats_args){x, to_stats, 2, 2, 2}, to_stats,
           5, stats);
    expect(KERNEL_batch_norm_merge, &merge_args, mean, 2, stats);
    expect(KERNEL_batch_norm_merge, &merge_args, to_var, 2, var);
    expect(KERNEL_batch_norm_merge, &merge_args, running, 2, without_bias);
    expect(KERNEL_batch_norm_forward, &forward, y, 8, Y);
}

static void test_by_hand(void **state) {
    use_device(cpu_device(0));
    test_gemm_by_hand(state);
    test_conv2d_by_hand(state);
    test_batch_norm_by_hand(state);
    device_free(device, there);
}

// ---- main --------------------------------------------------------------------------------------

#define TEST(name) ON_BOTH(test_##name),

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_conv2d_backward_without_memory),
        KERNELS(TEST) // each has its comma
        ON_BOTH(test_nan_and_infinity),
        ON_BOTH(test_batch_norm_of_equal_numbers),
        ON_BOTH(test_batch_norm_of_several_devices),
        UNLESS_SIMULATED(test_same_bits_for_any_number_of_threads),
        UNLESS_SIMULATED(test_winograd_is_used),
        cmocka_unit_test(test_best_instruction_set_is_used),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    devices_close();
    char *parts[] = {start, expected, got, again};
    for (size_t i = 0; i < COUNT(parts); i++) free(parts[i]);
    free(counted.read);
    free(counted.stored);
    return failed;
}
