// test_kernels.c: every kernel, on each kind of device, against plain loops in double.
//
// What a kernel writes to is filled with NaN first when beta is 0, which proves that it is not
// read. Each array lies between guards of NaN: reading past an end makes a result NaN, writing past
// it is found when the array is freed; so are changed inputs.
#include <dirent.h>

#include "common/base/error.h"
#include "kernels/cpu/naive.h"
#include "kernels/cpu/winograd.h"
#include "kernels/fail.h"
#include "dies.h"

// How close is close enough, by what a kernel does with each number.
static const double EXACT = 0;       // copies it, or chooses between two
static const double ROUNDED = 3e-7;  // a few operations; float32 rounds by 6e-8
static const double SUMMED = 2e-5;   // sums of up to a few thousand, in any order
static const double WINOGRAD = 5e-5; // the same by a method that adds numbers of different size;
                                     // in terms of the usual result, not of each

// ---- arrays on the device --------------------------------------------------------------------

enum { GUARD = 64, MAX_BLOCKS = 12 }; // in floats: 256 bytes keep the alignment

typedef struct Block {
    Device *device;
    float *memory, *at; // on the device; `at` is behind the first guard, NULL if there is nothing
    float *values;      // on the host: what was put there
    float *got;         // what was there when read_back() was called last
    size_t n;
    bool output;
} Block;

static Block blocks[MAX_BLOCKS];
static int num_blocks;

static bool is_guard(const float *at) {
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return bits == 0x7fc12345;
}

static void write_guard(float *at) {
    const uint32_t bits = 0x7fc12345; // a NaN that no computation makes
    for (int i = 0; i < GUARD; i++) memcpy(at + i, &bits, sizeof bits);
}

// Copies `values` (taken over, freed by free_blocks) to the device. An empty array is NULL there,
// as in a tensor without elements.
static Block *block_of(Device *device, float *values, size_t n, bool output) {
    assert_true(num_blocks < MAX_BLOCKS);
    Block *b = &blocks[num_blocks++];
    *b = (Block){.device = device, .values = values, .n = n, .output = output};
    b->got = xmalloc((n + 2 * GUARD) * sizeof(float));
    if (n == 0) return b;
    write_guard(b->got);
    memcpy(b->got + GUARD, values, n * sizeof(float));
    write_guard(b->got + GUARD + n);
    size_t bytes = (n + 2 * GUARD) * sizeof(float);
    b->memory = device_alloc(device, bytes);
    b->at = b->memory + GUARD;
    device_copy(device, b->memory, host(), b->got, bytes);
    synchronize(device);
    return b;
}

static Block *given(Device *device, const float *values, size_t n) {
    float *copy = xmalloc((n + 1) * sizeof(float));
    memcpy(copy, values, n * sizeof(float));
    return block_of(device, copy, n, false);
}

static Block *input(Device *device, size_t n) {
    float *values = xmalloc((n + 1) * sizeof(float));
    random_floats(values, n, next_seed++);
    return block_of(device, values, n, false);
}

static Block *output(Device *device, size_t n, float beta) {
    float *values = xmalloc((n + 1) * sizeof(float));
    random_floats(values, n, next_seed++);
    for (size_t i = 0; i < n && beta == 0; i++) values[i] = NAN;
    return block_of(device, values, n, true);
}

static const float *read_back(Block *b) {
    if (b->n == 0) return b->got;
    device_copy(host(), b->got, b->device, b->memory, (b->n + 2 * GUARD) * sizeof(float));
    synchronize(b->device);
    for (size_t i = 0; i < GUARD; i++)
        if (!is_guard(b->got + i) || !is_guard(b->got + GUARD + b->n + i))
            fail_msg("an array of %zu floats was written to outside of it", b->n);
    return b->got + GUARD;
}

static void free_blocks(void) {
    for (int i = 0; i < num_blocks; i++) {
        Block *b = &blocks[i];
        const float *got = read_back(b);
        if (!b->output && b->n > 0 && memcmp(got, b->values, b->n * sizeof(float)) != 0)
            fail_msg("a kernel changed its input of %zu floats", b->n);
        device_free(b->device, b->memory);
        free(b->values);
        free(b->got);
    }
    num_blocks = 0;
}

// ---- checking, or writing down ---------------------------------------------------------------

// While recording, outputs are not checked but appended here, to be compared with another run's.
static struct {
    bool on;
    unsigned char *bytes;
    size_t used, size;
} record;

static void append_to_record(const float *values, size_t n) {
    size_t bytes = n * sizeof(float);
    if (record.used + bytes > record.size) {
        record.size = 2 * record.size + bytes;
        record.bytes = xrealloc(record.bytes, record.size);
    }
    if (bytes) memcpy(record.bytes + record.used, values, bytes);
    record.used += bytes;
}

static double *doubles(size_t n) { return xcalloc(n + 1, sizeof(double)); }

// Takes over `expected`. The rest says, as printf does, what was computed.
static void check(Block *out, double *expected, double tolerance, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void check(Block *out, double *expected, double tolerance, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const float *got = read_back(out);
    if (record.on)
        append_to_record(got, out->n);
    else
        assert_all_close(got, expected, out->n, tolerance, what);
    free(expected);
}

// beta old + value, as kernels.h defines beta
static double updated(const Block *out, size_t i, float beta, double value) {
    return beta != 0 ? out->values[i] + value : value;
}

// What a naive kernel is to write to: what `out` held at first. To be freed.
static float *copy_of_start(const Block *out) {
    float *copy = xmalloc((out->n + 1) * sizeof(float));
    memcpy(copy, out->values, out->n * sizeof(float));
    return copy;
}

static double *widened(float *values, size_t n) {
    double *wide = doubles(n);
    for (size_t i = 0; i < n; i++) wide[i] = values[i];
    free(values);
    return wide;
}

// ---- elementwise and sums --------------------------------------------------------------------

// Around a warp, a block of threads, and the size from which on CPU threads share the work.
static const size_t SIZES[] = {0, 1, 2, 3, 31, 64, 255, 257, 4099, 16384, 16385, 50003};

static void shapes_of_fill(Device *device) {
    for (size_t s = 0; s < COUNT(SIZES); s++) {
        size_t n = SIZES[s];
        Block *x = output(device, n, 0);
        launch(device, fill, .x = x->at, .value = 1.5f, .n = n);
        double *expected = doubles(n);
        for (size_t i = 0; i < n; i++) expected[i] = 1.5;
        check(x, expected, EXACT, "fill of %zu", n);
        free_blocks();
    }
}

static void shapes_of_scale(Device *device) {
    for (size_t s = 0; s < COUNT(SIZES); s++) {
        size_t n = SIZES[s];
        Block *x = output(device, n, 1);
        launch(device, scale, .x = x->at, .factor = 0.3f, .n = n);
        double *expected = doubles(n);
        for (size_t i = 0; i < n; i++) expected[i] = (double)0.3f * x->values[i];
        check(x, expected, ROUNDED, "scale of %zu", n);
        free_blocks();
    }
}

static void shapes_of_add(Device *device) {
    for (size_t s = 0; s < COUNT(SIZES); s++) {
        size_t n = SIZES[s];
        Block *x = input(device, n), *y = output(device, n, 1);
        launch(device, add, .y = y->at, .x = x->at, .n = n);
        double *expected = doubles(n);
        for (size_t i = 0; i < n; i++) expected[i] = (double)y->values[i] + x->values[i];
        check(y, expected, ROUNDED, "add of %zu", n);
        free_blocks();
    }
}

// The sum in memory of its own, then in that of either term.
static void shapes_of_add_forward(Device *device) {
    for (int in_place = 0; in_place < 3; in_place++)
        for (size_t s = 0; s < COUNT(SIZES); s++) {
            size_t n = SIZES[s];
            Block *A = input(device, n), *B = input(device, n), *Y = output(device, n, 0);
            if (in_place) {
                Y = in_place == 1 ? A : B;
                Y->output = true;
            }
            launch(device, add_forward, .A = A->at, .B = B->at, .Y = Y->at, .n = n);
            double *expected = doubles(n);
            for (size_t i = 0; i < n; i++) expected[i] = (double)A->values[i] + B->values[i];
            check(Y, expected, ROUNDED, "add_forward of %zu, in place %d", n, in_place);
            free_blocks();
        }
}

static void shapes_of_add_backward(Device *device) {
    for (float beta = 0; beta <= 1; beta++)
        for (size_t s = 0; s < COUNT(SIZES); s++) {
            size_t n = SIZES[s];
            Block *dY = input(device, n), *dX = output(device, n, beta);
            launch(device, add_backward, .dY = dY->at, .dX = dX->at, .beta = beta, .n = n);
            double *expected = doubles(n);
            for (size_t i = 0; i < n; i++) expected[i] = updated(dX, i, beta, dY->values[i]);
            check(dX, expected, ROUNDED, "add_backward of %zu, beta %g", n, beta);
            free_blocks();
        }
}

// What lies between the columns that are copied stays as it was.
static void check_copy_columns(Device *device, int rows, int cols, int X_stride, int Y_stride) {
    size_t last = rows && cols ? (size_t)(rows - 1) : 0, width = rows ? (size_t)cols : 0;
    Block *X = input(device, last * (size_t)X_stride + width);
    Block *Y = output(device, last * (size_t)Y_stride + width, 1);
    launch(device, copy_columns, .X = X->at, .Y = Y->at, .rows = rows, .cols = cols,
           .X_stride = X_stride, .Y_stride = Y_stride);
    double *expected = doubles(Y->n);
    for (size_t i = 0; i < Y->n; i++) expected[i] = Y->values[i];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) expected[i * Y_stride + j] = X->values[i * X_stride + j];
    check(Y, expected, EXACT, "copy_columns (%d,%d), rows %d and %d apart", rows, cols, X_stride,
          Y_stride);
    free_blocks();
}

static void shapes_of_copy_columns(Device *device) {
    const int rows[] = {0, 1, 2, 17, 300}, cols[] = {0, 1, 3, 33, 169, 2197};
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t j = 0; j < COUNT(cols); j++) {
            check_copy_columns(device, rows[i], cols[j], cols[j], cols[j]);
            check_copy_columns(device, rows[i], cols[j], cols[j], cols[j] + 5);
            check_copy_columns(device, rows[i], cols[j], 2 * cols[j] + 1, cols[j]);
            check_copy_columns(device, rows[i], cols[j], cols[j] + 7, cols[j] + 2);
        }
}

static void shapes_of_sum_forward(Device *device) {
    const size_t sizes[] = {0, 1, 2, 31, 33, 255, 256, 257, 1000, 65537, 1 << 20, (1 << 20) + 3};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        Block *x = input(device, sizes[s]), *out = output(device, 1, 0);
        launch(device, sum_forward, .x = x->at, .out = out->at, .n = x->n);
        double *expected = doubles(1);
        for (size_t i = 0; i < x->n; i++) expected[0] += x->values[i];
        check(out, expected, SUMMED, "sum_forward of %zu", x->n);
        free_blocks();
    }
}

static void shapes_of_sum_backward(Device *device) {
    for (float beta = 0; beta <= 1; beta++)
        for (size_t s = 0; s < COUNT(SIZES); s++) {
            size_t n = SIZES[s];
            Block *dout = input(device, 1), *dx = output(device, n, beta);
            launch(device, sum_backward, .dout = dout->at, .dx = dx->at, .beta = beta, .n = n);
            double *expected = doubles(n);
            for (size_t i = 0; i < n; i++) expected[i] = updated(dx, i, beta, dout->values[0]);
            check(dx, expected, ROUNDED, "sum_backward of %zu, beta %g", n, beta);
            free_blocks();
        }
}

static void shapes_of_relu_forward(Device *device) {
    for (size_t s = 0; s < COUNT(SIZES); s++) {
        size_t n = SIZES[s];
        Block *X = input(device, n), *Y = output(device, n, 0);
        launch(device, relu_forward, .X = X->at, .Y = Y->at, .n = n);
        double *expected = doubles(n);
        for (size_t i = 0; i < n; i++) expected[i] = fmax(X->values[i], 0);
        check(Y, expected, EXACT, "relu_forward of %zu", n);
        free_blocks();
    }
}

static void shapes_of_relu_backward(Device *device) {
    for (float beta = 0; beta <= 1; beta++)
        for (size_t s = 0; s < COUNT(SIZES); s++) {
            size_t n = SIZES[s];
            float *outputs = xmalloc((n + 1) * sizeof(float)); // of relu: half of them are zero
            random_floats(outputs, n, next_seed++);
            for (size_t i = 0; i < n; i++) outputs[i] = fmaxf(outputs[i], 0);
            Block *Y = block_of(device, outputs, n, false);
            Block *dY = input(device, n), *dX = output(device, n, beta);
            launch(device, relu_backward, .Y = Y->at, .dY = dY->at, .dX = dX->at, .beta = beta,
                   .n = n);
            double *expected = doubles(n);
            for (size_t i = 0; i < n; i++)
                expected[i] = updated(dX, i, beta, Y->values[i] > 0 ? dY->values[i] : 0);
            check(dX, expected, ROUNDED, "relu_backward of %zu, beta %g", n, beta);
            free_blocks();
        }
}

// ---- fully connected layers ------------------------------------------------------------------

static void check_gemm(Device *device, int M, int N, int K, int transposed, float beta) {
    size_t m = (size_t)M, n = (size_t)N, k = (size_t)K;
    Block *A = input(device, m * k), *B = input(device, k * n), *C = output(device, m * n, beta);
    struct gemm_args args = {A->at, B->at, C->at, beta, M, N, K, transposed & 1, transposed >> 1};
    queue_launch(compute_queue(device), KERNEL_gemm, &args, sizeof args);
    args.A = A->values;
    args.B = B->values;
    args.C = copy_of_start(C);
    if (!record.on) gemm_naive(&args);
    check(C, widened(args.C, C->n), SUMMED, "gemm M %d N %d K %d, transposed %d %d, beta %g", M, N,
          K, args.trans_A, args.trans_B, beta);
    free_blocks();
}

static void check_gemm_sizes(Device *device, int transposed, float beta) {
    // Around vector lengths and the blocks that the CPU kernel cuts; a record needs only some.
    static const int all[] = {1, 3, 31, 32, 33, 64, 65, 257}, few[] = {1, 33, 257};
    const int *sizes = record.on ? few : all, count = record.on ? COUNT(few) : COUNT(all);
    for (int i = 0; i < count * count * count; i++) {
        int M = sizes[i % count], N = sizes[i / count % count], K = sizes[i / count / count];
        // All three large takes the naive loops too long; one such case is below.
        if (M * N * K < 600000) check_gemm(device, M, N, K, transposed, beta);
    }
    for (int i = 0; i < 8; i++) // some of M, N, K are 0; without K each sum is empty
        check_gemm(device, i & 1 ? 3 : 0, i & 2 ? 65 : 0, i & 4 ? 33 : 0, transposed, beta);
    check_gemm(device, 65, 3, 0, transposed, beta);
    check_gemm(device, 257, 129, 65, transposed, beta);
}

static void shapes_of_gemm(Device *device) {
    for (int i = 0; i < 8; i++) check_gemm_sizes(device, i % 4, (float)(i / 4));
    check_gemm(device, 257, 257, 257, 3, 1);
    check_gemm(device, 64, 128, 800, 0, 0); // LeNet: h2 W3, then its two gradients
    check_gemm(device, 64, 800, 128, 2, 0);
    check_gemm(device, 800, 128, 64, 1, 1);
    check_gemm(device, 64, 10, 128, 0, 0);
    check_gemm(device, 33, 10, 512, 1,
               0); // as many groups as a sum over rows can have; larger ones
    check_gemm(device, 5, 33, 1000, 1, 1);
    check_gemm(device, 3, 520, 40, 1, 0);  // more columns than are packed at a time
    check_gemm(device, 800, 128, 0, 1, 1); // of a shard without rows
    check_gemm(device, 800, 128, 0, 1, 0);
}

// rows, cols
static const int MATRICES[][2] = {{0, 10},  {1, 1},   {1, 33},   {2, 31},    {3, 10},   {17, 128},
                                  {64, 10}, {257, 3}, {33, 257}, {130, 129}, {1000, 10}};

static void shapes_of_add_bias_forward(Device *device) {
    for (size_t s = 0; s < COUNT(MATRICES); s++) {
        int rows = MATRICES[s][0], cols = MATRICES[s][1];
        size_t n = (size_t)rows * (size_t)cols;
        Block *X = input(device, n), *b = input(device, (size_t)cols), *Y = output(device, n, 0);
        launch(device, add_bias_forward, .X = X->at, .b = b->at, .Y = Y->at, .rows = rows,
               .cols = cols);
        double *expected = doubles(n);
        for (size_t i = 0; i < n; i++)
            expected[i] = (double)X->values[i] + b->values[i % (size_t)cols];
        check(Y, expected, ROUNDED, "add_bias_forward (%d,%d)", rows, cols);
        free_blocks();
    }
}

static void shapes_of_add_bias_backward(Device *device) {
    for (float beta = 0; beta <= 1; beta++)
        for (size_t s = 0; s < COUNT(MATRICES); s++) {
            int rows = MATRICES[s][0], cols = MATRICES[s][1];
            size_t n = (size_t)rows * (size_t)cols;
            Block *dY = input(device, n), *db = output(device, (size_t)cols, beta);
            launch(device, add_bias_backward, .dY = dY->at, .db = db->at, .beta = beta,
                   .rows = rows, .cols = cols);
            double *expected = doubles((size_t)cols);
            for (size_t i = 0; i < db->n; i++) expected[i] = updated(db, i, beta, 0);
            for (size_t i = 0; i < n; i++) expected[i % (size_t)cols] += dY->values[i];
            check(db, expected, SUMMED, "add_bias_backward (%d,%d), beta %g", rows, cols, beta);
            free_blocks();
        }
}

// ---- convolution -----------------------------------------------------------------------------

typedef struct conv2d_shape Conv;
typedef void CheckConv(Device *device, Conv s);

// clang-format off
// N C H W, M kernel_h kernel_w, stride_h stride_w, pad_h pad_w
static const int CONVOLUTIONS[][11] = {
    {3, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0},  // LeNet's first
    {2, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0}, // and its second
    {2, 16, 9, 9, 8, 3, 3, 1, 1, 1, 1},    // as in ResNet: 3x3 that keeps the size,
    {2, 8, 9, 9, 16, 3, 3, 2, 2, 1, 1},    // 3x3 and 1x1 that halve it,
    {2, 8, 9, 9, 16, 1, 1, 2, 2, 0, 0},
    {2, 3, 23, 21, 8, 7, 7, 2, 2, 3, 3},   // the 7x7 at its start
    {17, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0}, // the first layer of the book's LeNet
    {0, 2, 5, 5, 3, 3, 3, 1, 1, 1, 1},     // no images, one, more than parts of a sum
    {1, 2, 5, 5, 3, 3, 3, 1, 1, 1, 1},
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
    {2, 16, 13, 5, 18, 3, 3, 1, 1, 2, 0},
    {0, 16, 5, 5, 16, 3, 3, 1, 1, 1, 1},
    {9, 5, 6, 6, 4, 1, 1, 1, 1, 0, 0},
    {3, 4, 6, 7, 5, 1, 1, 1, 1, 0, 0},     // 1x1: the image is its own matrix of columns
    {3, 4, 6, 7, 5, 1, 1, 1, 1, 2, 1},     // more padding than the kernel can use
    {3, 4, 6, 7, 5, 1, 1, 1, 1, 0, 2},
    {3, 4, 6, 7, 5, 1, 1, 1, 1, 2, 0},
    {3, 4, 6, 7, 5, 1, 1, 1, 2, 0, 0},
    {3, 4, 6, 7, 5, 1, 1, 2, 1, 0, 0},
    {2, 1, 1, 1, 1, 3, 3, 1, 1, 2, 2},
    {2, 3, 4, 5, 2, 4, 5, 1, 1, 0, 0},     // the kernel as large as the image: one output pixel
    {2, 1, 3, 40, 2, 2, 3, 1, 1, 0, 0},    // long rows, longer than what is copied at once
    {2, 1, 3, 18, 2, 2, 3, 1, 1, 0, 0},
    {1, 2, 40, 3, 2, 5, 1, 3, 1, 1, 0},    // tall; strides and padding that differ
    {2, 2, 11, 10, 3, 2, 4, 1, 3, 0, 2},
    {2, 2, 10, 11, 3, 4, 2, 3, 2, 2, 1},
    {2, 2, 9, 9, 3, 2, 2, 3, 3, 0, 0},     // strides that leave pixels out
    {2, 0, 3, 3, 2, 2, 2, 1, 1, 0, 0},     // no channels, in and out
    {2, 2, 3, 3, 0, 2, 2, 1, 1, 0, 0},
};
// clang-format on

static int windows(int size, int pad, int kernel, int stride) {
    return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}

static Conv conv_of(const int v[11]) {
    int out_h = windows(v[2], v[9], v[5], v[7]), out_w = windows(v[3], v[10], v[6], v[8]);
    return (Conv){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], out_h, out_w};
}

// A number from 0 to count-1.
static int pick(uint64_t seed, uint64_t index, int count) {
    return (int)(random_bits(seed, STREAM_TEST, index) % (uint64_t)count);
}

// How many random shapes are drawn for the fast ways of CPUs.
static int random_shapes(Device *device) {
    return SIMULATED && device_gpu(device) >= 0 ? 0 : SANITIZED ? 5 : 20;
}

static void check_random_conv(Device *device, CheckConv *check_one, uint64_t seed,
                              const int least[11], const int count[11]) {
    int v[11];
    for (int i = 0; i < 11; i++) v[i] = least[i] + pick(seed, (uint64_t)i, count[i]);
    Conv s = conv_of(v);
    if (s.out_h > 0 && s.out_w > 0) check_one(device, s);
}

static void for_each_conv(Device *device, CheckConv *check_one) {
    for (size_t i = 0; i < COUNT(CONVOLUTIONS); i++) check_one(device, conv_of(CONVOLUTIONS[i]));
    for (uint64_t seed = 0; seed < 200; seed++)
        check_random_conv(device, check_one, seed, (int[]){0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
                          (int[]){5, 4, 12, 12, 5, 5, 5, 3, 3, 3, 3});
    for (int seed = 0; seed < random_shapes(device); seed++) {
        // on CPUs, Winograd's method
        check_random_conv(device, check_one, seed, (int[]){1, 16, 1, 1, 16, 3, 3, 1, 1, 0, 0},
                          (int[]){6, 50, 13, 13, 50, 1, 1, 1, 1, 3, 3});
        check_random_conv(device, check_one, seed, (int[]){1, 4, 1, 1, 4, 5, 5, 1, 1, 0, 0},
                          (int[]){6, 30, 13, 13, 30, 1, 1, 1, 1, 3, 3});
        // pooled, in registers
        check_random_conv(device, check_one, seed, (int[]){1, 1, 1, 1, 1, 3, 3, 1, 1, 0, 0},
                          (int[]){40, 1, 31, 31, 12, 1, 1, 1, 1, 4, 4});
    }
}

static size_t size_X(const Conv *s) { return (size_t)s->N * (size_t)(s->C * s->H * s->W); }
static size_t size_Y(const Conv *s) { return (size_t)s->N * (size_t)(s->M * s->out_h * s->out_w); }
static size_t size_W(const Conv *s) { return (size_t)(s->M * s->C * s->kernel_h * s->kernel_w); }

static const char *conv_text(const Conv *s) {
    static char text[160];
    snprintf(text, sizeof text, "X (%d,%d,%d,%d), W (%d,%d,%d,%d), stride %d %d, padding %d %d",
             s->N, s->C, s->H, s->W, s->M, s->C, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w,
             s->pad_h, s->pad_w);
    return text;
}

// `terms` numbers in (-1,1) add up to the square root of terms/3 or, if they are products, /9,
// usually. SUMMED is for some thousands of them.
static double summed(int terms) { return SUMMED * fmax(1, sqrt(terms / 4096.0)); }

static double tolerance_of(Device *device, const Conv *s, int terms) {
    bool cpu = strncmp(device_name(device), "cpu", 3) == 0;
    return cpu && winograd_suits(s) ? WINOGRAD * fmax(1, sqrt(terms / 9.0)) : summed(terms);
}

static void check_conv2d_forward(Device *device, Conv s) {
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        Block *X = input(device, size_X(&s)), *W = input(device, size_W(&s));
        Block *b = input(device, (size_t)s.M), *Y = output(device, size_Y(&s), 0);
        struct conv2d_forward_args args = {
            .X = X->at, .W = W->at, .b = with_bias ? b->at : NULL, .Y = Y->at, .s = s};
        queue_launch(compute_queue(device), KERNEL_conv2d_forward, &args, sizeof args);
        args.X = X->values;
        args.W = W->values;
        args.b = with_bias ? b->values : NULL;
        args.Y = copy_of_start(Y);
        if (!record.on) conv2d_forward_naive(&args);
        check(Y, widened(args.Y, Y->n), tolerance_of(device, &s, s.C * s.kernel_h * s.kernel_w),
              "conv2d_forward %s, bias %d", conv_text(&s), with_bias);
        free_blocks();
    }
}

static void check_conv2d_backward_input(Device *device, Conv s) {
    for (float beta = 0; beta <= 1; beta++) {
        Block *dY = input(device, size_Y(&s)), *W = input(device, size_W(&s));
        Block *dX = output(device, size_X(&s), beta);
        struct conv2d_backward_input_args args = {
            .dY = dY->at, .W = W->at, .dX = dX->at, .beta = beta, .s = s};
        queue_launch(compute_queue(device), KERNEL_conv2d_backward_input, &args, sizeof args);
        args.dY = dY->values;
        args.W = W->values;
        args.dX = copy_of_start(dX);
        if (!record.on) conv2d_backward_input_naive(&args);
        check(dX, widened(args.dX, dX->n), tolerance_of(device, &s, s.M * s.kernel_h * s.kernel_w),
              "conv2d_backward_input %s, beta %g", conv_text(&s), beta);
        free_blocks();
    }
}

static void check_conv2d_backward_params(Device *device, Conv s) {
    for (int i = 0; i < 4; i++) {
        float beta = (float)(i % 2);
        bool with_bias = i / 2;
        Block *dY = input(device, size_Y(&s)), *X = input(device, size_X(&s));
        Block *dW = output(device, size_W(&s), beta), *db = output(device, (size_t)s.M, beta);
        struct conv2d_backward_params_args args = {
            .dY = dY->at, .X = X->at, .dW = dW->at, .beta = beta, .s = s};
        if (with_bias) args.db = db->at;
        queue_launch(compute_queue(device), KERNEL_conv2d_backward_params, &args, sizeof args);
        float *dW_start = copy_of_start(dW), *db_start = copy_of_start(db);
        args.dY = dY->values;
        args.X = X->values;
        args.dW = dW_start;
        args.db = db_start;
        if (!record.on) conv2d_backward_params_naive(&args);
        check(dW, widened(dW_start, dW->n), tolerance_of(device, &s, s.N * s.out_h * s.out_w),
              "conv2d_backward_params dW %s, beta %g", conv_text(&s), beta);
        double *expected_db = widened(db_start, db->n);
        if (with_bias)
            check(db, expected_db, summed(s.N * s.out_h * s.out_w),
                  "conv2d_backward_params db %s, beta %g", conv_text(&s), beta);
        else
            free(expected_db);
        free_blocks();
    }
}

// ---- convolutions that end in ReLU and pooling

// The shape without what fills no window.
static Conv even_shape(Conv s) {
    s.out_h -= s.out_h % 2;
    s.out_w -= s.out_w % 2;
    return s;
}

// A pixel of Y before pooling: the window that it is in, and where `pooled` tells of it.
typedef struct Pixel {
    size_t window, byte, bit;
} Pixel;

// Pixel i of (N,M,out_h,out_w).
static Pixel pixel_of(const Conv *s, size_t i) {
    size_t width = (size_t)s->out_w, byte = i / (2 * width) * width + i % width;
    return (Pixel){.window = byte / 2, .byte = byte, .bit = i / width % 2};
}

static bool is_positive(const float *pooled, Pixel pixel) {
    return ((const unsigned char *)pooled)[pixel.byte] >> pixel.bit & 1;
}

// As many floats as hold a byte for each two pixels.
static size_t size_pooled(const Conv *s) { return (size_Y(s) / 2 + 3) / 4; }

static Block *input_pooled(Device *device, const Conv *s) {
    float *floats = xcalloc(size_pooled(s) + 1, sizeof *floats);
    unsigned char *bytes = (unsigned char *)floats;
    for (size_t i = 0; i < size_Y(s) / 2; i++)
        bytes[i] = (unsigned char)(random_bits(next_seed, STREAM_TEST, i) % 4);
    next_seed++;
    Block *block = given(device, floats, size_pooled(s));
    free(floats);
    return block;
}

// Pixels that are not further than `near` from 0 may have any gate.
static void check_pooled(Device *device, Conv s, const Block *X, const Block *W, const Block *b,
                         float near) {
    Block *Y = output(device, size_Y(&s) / 4, 0), *pooled = output(device, size_pooled(&s), 0);
    launch(device, conv2d_forward, .X = X->at, .W = W->at, .b = b->at, .Y = Y->at, .s = s,
           .pooled = (unsigned char *)pooled->at);
    float *pixels = xcalloc(size_Y(&s) + 1, sizeof *pixels);
    double *expected = doubles(Y->n);
    const float *got = read_back(pooled);
    if (record.on)
        append_to_record(got, pooled->n);
    else
        conv2d_forward_naive(&(struct conv2d_forward_args){
            .X = X->values, .W = W->values, .b = b->values, .Y = pixels, .s = s});
    for (size_t i = 0; i < size_Y(&s); i++) {
        Pixel pixel = pixel_of(&s, i);
        expected[pixel.window] += fmax(pixels[i], 0) / 4;
        if (!record.on && fabsf(pixels[i]) > near && is_positive(got, pixel) != (pixels[i] > 0))
            fail_msg("conv2d_forward %s: pixel %zu is %g", conv_text(&s), i, (double)pixels[i]);
    }
    check(Y, expected, tolerance_of(device, &s, s.C * s.kernel_h * s.kernel_w),
          "conv2d_forward, pooled, %s", conv_text(&s));
    free(pixels);
    free_blocks();
}

static void check_pooled_forward(Device *device, Conv whole) {
    Conv s = even_shape(whole);
    Block *X = input(device, size_X(&s)), *W = input(device, size_W(&s));
    check_pooled(device, s, X, W, input(device, (size_t)s.M), 1e-4f);
}

static Block *whole_numbers(Device *device, size_t n, int least, int count, size_t blank) {
    float *values = xcalloc(n + 1, sizeof *values);
    for (size_t i = blank; i < n; i++) values[i] = (float)(least + pick(next_seed, i, count));
    next_seed++;
    Block *block = given(device, values, n);
    free(values);
    return block;
}

// Whole numbers have exact sums, and many of these are 0 with their bias: then ReLU's gate is shut,
// in a blank image too, whatever rounding errors a fast method has.
static void check_gates_at_zero(Device *device, const int v[11]) {
    const float EVERY_PIXEL = -1;
    Conv s = even_shape(conv_of(v));
    size_t image = size_X(&s) / (size_t)s.N;
    Block *X = whole_numbers(device, size_X(&s), 0, 4, image);
    Block *W = whole_numbers(device, size_W(&s), -2, 5, 0);
    Block *b = whole_numbers(device, (size_t)s.M, -1, 3, 0);
    check_pooled(device, s, X, W, b, EVERY_PIXEL);
}

static void gates_at_zero(Device *device) {
    check_gates_at_zero(device,
                        (int[]){3, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0}); // LeNet's second layer
    check_gates_at_zero(device, (int[]){3, 20, 14, 14, 50, 5, 5, 1, 1, 0, 0}); // tiles with a rest
    check_gates_at_zero(device, (int[]){3, 20, 12, 12, 24, 5, 5, 1, 1, 2, 2});
    check_gates_at_zero(device, (int[]){3, 20, 12, 12, 24, 3, 3, 1, 1, 1, 1});
    check_gates_at_zero(device, (int[]){3, 1, 28, 28, 20, 3, 3, 1, 1, 0, 0}); // LeNet's first layer
}

// dY of the pixels, from that of the windows. To be freed.
static float *unpooled(const Conv *s, const Block *dY, const Block *pooled) {
    float *pixels = xcalloc(size_Y(s) + 1, sizeof *pixels);
    for (size_t i = 0; i < size_Y(s); i++) {
        Pixel pixel = pixel_of(s, i);
        if (is_positive(pooled->values, pixel)) pixels[i] = dY->values[pixel.window] / 4;
    }
    return pixels;
}

static void check_pooled_backward_input(Device *device, Conv whole) {
    Conv s = even_shape(whole);
    for (float beta = 0; beta <= 1; beta++) {
        Block *dY = input(device, size_Y(&s) / 4), *pooled = input_pooled(device, &s);
        Block *W = input(device, size_W(&s)), *dX = output(device, size_X(&s), beta);
        launch(device, conv2d_backward_input, .dY = dY->at, .W = W->at, .dX = dX->at, .beta = beta,
               .s = s, .pooled = (unsigned char *)pooled->at);
        float *pixels = unpooled(&s, dY, pooled), *expected = copy_of_start(dX);
        if (!record.on)
            conv2d_backward_input_naive(&(struct conv2d_backward_input_args){
                .dY = pixels, .W = W->values, .dX = expected, .beta = beta, .s = s});
        check(dX, widened(expected, dX->n), tolerance_of(device, &s, s.M * s.kernel_h * s.kernel_w),
              "conv2d_backward_input, pooled, %s", conv_text(&s));
        free(pixels);
        free_blocks();
    }
}

static void check_pooled_backward_params(Device *device, Conv whole) {
    Conv s = even_shape(whole);
    for (float beta = 0; beta <= 1; beta++) {
        Block *dY = input(device, size_Y(&s) / 4), *pooled = input_pooled(device, &s);
        Block *X = input(device, size_X(&s)), *dW = output(device, size_W(&s), beta);
        Block *db = output(device, (size_t)s.M, beta);
        launch(device, conv2d_backward_params, .dY = dY->at, .X = X->at, .dW = dW->at, .db = db->at,
               .beta = beta, .s = s, .pooled = (unsigned char *)pooled->at);
        float *pixels = unpooled(&s, dY, pooled);
        float *expected_W = copy_of_start(dW), *expected_b = copy_of_start(db);
        if (!record.on)
            conv2d_backward_params_naive(&(struct conv2d_backward_params_args){.dY = pixels,
                                                                               .X = X->values,
                                                                               .dW = expected_W,
                                                                               .db = expected_b,
                                                                               .beta = beta,
                                                                               .s = s});
        check(dW, widened(expected_W, dW->n), tolerance_of(device, &s, s.N * s.out_h * s.out_w),
              "conv2d_backward_params, pooled, dW %s", conv_text(&s));
        check(db, widened(expected_b, db->n), summed(s.N * s.out_h * s.out_w),
              "conv2d_backward_params, pooled, db %s", conv_text(&s));
        free(pixels);
        free_blocks();
    }
}

static void shapes_of_conv2d_forward(Device *device) {
    for_each_conv(device, check_conv2d_forward);
    for_each_conv(device, check_pooled_forward);
    gates_at_zero(device);
}
static void shapes_of_conv2d_backward_input(Device *device) {
    for_each_conv(device, check_conv2d_backward_input);
    for_each_conv(device, check_pooled_backward_input);
}
static void shapes_of_conv2d_backward_params(Device *device) {
    for_each_conv(device, check_conv2d_backward_params);
    for_each_conv(device, check_pooled_backward_params);
}

// ---- pooling ---------------------------------------------------------------------------------

typedef struct avg_pool2d_shape Pool;

// N C H W, kernel_h kernel_w, stride_h stride_w
static const int POOLS[][8] = {
    {4, 20, 26, 26, 2, 2, 2, 2}, {4, 50, 9, 9, 2, 2, 2, 2}, // LeNet's; the second leaves a rim out
    {0, 3, 4, 4, 2, 2, 2, 2},    {1, 1, 2, 2, 2, 2, 2, 2},  {17, 1, 3, 2, 2, 2, 2, 2},
    {2, 3, 2, 3, 2, 2, 2, 2},    {2, 5, 7, 7, 7, 7, 7, 7}, // ResNet's last: one mean per channel
    {2, 2, 9, 8, 3, 3, 1, 1},    {2, 2, 9, 8, 3, 2, 2, 1}, // overlapping windows
    {2, 2, 9, 8, 1, 2, 3, 3},    {2, 2, 5, 5, 1, 1, 1, 1},  {2, 1, 33, 35, 2, 2, 2, 2},
};

static void for_each_pool(Device *device, void (*check_one)(Device *device, Pool s)) {
    for (uint64_t i = 0; i < 150; i++) {
        static const int least[8] = {0, 1, 1, 1, 1, 1, 1, 1}, count[8] = {4, 4, 12, 12, 4, 4, 3, 3};
        int v[8];
        for (int j = 0; j < 8; j++)
            v[j] = i < COUNT(POOLS) ? POOLS[i][j] : least[j] + pick(i, (uint64_t)j, count[j]);
        int out_h = windows(v[2], 0, v[4], v[6]), out_w = windows(v[3], 0, v[5], v[7]);
        Pool s = {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], out_h, out_w};
        if (s.out_h > 0 && s.out_w > 0) check_one(device, s);
    }
}

// The place in X of pixel t of the window whose place in Y is y.
static size_t pooled_pixel(const Pool *s, size_t y, int t) {
    size_t j = y % (size_t)s->out_w, i = y / (size_t)s->out_w % (size_t)s->out_h;
    size_t plane = y / (size_t)(s->out_w * s->out_h);
    size_t h = i * (size_t)s->stride_h + (size_t)(t / s->kernel_w);
    size_t w = j * (size_t)s->stride_w + (size_t)(t % s->kernel_w);
    return (plane * (size_t)s->H + h) * (size_t)s->W + w;
}

static const char *pool_text(const Pool *s) {
    static char text[120];
    snprintf(text, sizeof text, "X (%d,%d,%d,%d), kernel %d %d, stride %d %d", s->N, s->C, s->H,
             s->W, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w);
    return text;
}

static void check_avg_pool2d_forward(Device *device, Pool s) {
    size_t planes = (size_t)s.N * (size_t)s.C;
    Block *X = input(device, planes * (size_t)(s.H * s.W));
    Block *Y = output(device, planes * (size_t)(s.out_h * s.out_w), 0);
    launch(device, avg_pool2d_forward, .X = X->at, .Y = Y->at, .s = s);
    double *expected = doubles(Y->n), part = 1.0 / (s.kernel_h * s.kernel_w);
    for (size_t y = 0; y < Y->n; y++)
        for (int t = 0; t < s.kernel_h * s.kernel_w; t++)
            expected[y] += X->values[pooled_pixel(&s, y, t)] * part;
    check(Y, expected, ROUNDED, "avg_pool2d_forward %s", pool_text(&s));
    free_blocks();
}

static void check_avg_pool2d_backward(Device *device, Pool s) {
    size_t planes = (size_t)s.N * (size_t)s.C;
    for (float beta = 0; beta <= 1; beta++) {
        Block *dY = input(device, planes * (size_t)(s.out_h * s.out_w));
        Block *dX = output(device, planes * (size_t)(s.H * s.W), beta);
        launch(device, avg_pool2d_backward, .dY = dY->at, .dX = dX->at, .beta = beta, .s = s);
        double *expected = doubles(dX->n), part = 1.0 / (s.kernel_h * s.kernel_w);
        for (size_t i = 0; i < dX->n; i++) expected[i] = updated(dX, i, beta, 0);
        for (size_t y = 0; y < dY->n; y++)
            for (int t = 0; t < s.kernel_h * s.kernel_w; t++)
                expected[pooled_pixel(&s, y, t)] += dY->values[y] * part;
        check(dX, expected, 2 * ROUNDED, "avg_pool2d_backward %s, beta %g", pool_text(&s), beta);
        free_blocks();
    }
}

static void shapes_of_avg_pool2d_forward(Device *device) {
    for_each_pool(device, check_avg_pool2d_forward);
}
static void shapes_of_avg_pool2d_backward(Device *device) {
    for_each_pool(device, check_avg_pool2d_backward);
}

// ---- batch normalisation -----------------------------------------------------------------------

// N, C, S
static const int NORMS[][3] = {
    {0, 3, 4},  {2, 3, 0},   {2, 0, 4},    {1, 1, 1},    {1, 5, 1},    {2, 1, 1},   {3, 1, 33},
    {9, 3, 2},  {64, 7, 1},  {5, 2, 17},   {2, 33, 16},  {17, 3, 255}, {3, 2, 257}, {1, 600, 3},
    {4, 5, 49}, {3, 6, 784}, {33, 33, 16}, {5, 3, 1111}, // the last two: for several threads
};
// A channel's mean, for deviations of about 1: they keep 7, 3 and 2 digits.
static const float CENTRES[] = {0, 1e4f, 1e5f};

static const float EPS = 0.05f; // large, so that it matters

// Numbers between centre - size and centre + size.
static Block *around(Device *device, size_t n, float centre, float size) {
    float *values = xmalloc((n + 1) * sizeof(float));
    random_floats(values, n, next_seed++);
    for (size_t i = 0; i < n; i++) values[i] = centre + size * values[i];
    return block_of(device, values, n, false);
}

static void shapes_of_batch_norm_stats(Device *device) {
    for (size_t i = 0; i < COUNT(NORMS) * COUNT(CENTRES); i++) {
        const int *norm = NORMS[i / COUNT(CENTRES)], N = norm[0], C = norm[1], S = norm[2];
        float centre = CENTRES[i % COUNT(CENTRES)];
        Block *X = around(device, (size_t)N * (size_t)(C * S), centre, 2);
        size_t channels = (size_t)C;
        Block *stats = output(device, 2 * channels + 1, 0);
        launch(device, batch_norm_stats, .X = X->at, .stats = stats->at, .N = N, .C = C, .S = S);
        const float *got = read_back(stats);
        if (record.on) {
            append_to_record(got, stats->n);
        } else {
            float *values = copy_of_start(stats);
            batch_norm_stats_naive(&(struct batch_norm_stats_args){X->values, values, N, C, S});
            double *expected = widened(values, stats->n);
            char what[80];
            snprintf(what, sizeof what, "batch_norm_stats (%d,%d,%d) around %g", N, C, S, centre);
            assert_all_close(got, expected, channels, 1.2e-7, what); // the last bit
            assert_all_close(got + channels, expected + channels, channels, SUMMED, what);
            assert_all_close(got + 2 * channels, expected + 2 * channels, 1, EXACT, what);
            free(expected);
        }
        free_blocks();
    }
}

// Rows of each device: none in the first two; in the next two one number, if there is one pixel.
static const struct {
    int k, rows[7];
} PARTS[] = {{1, {0}},    {3, {0, 0, 0}}, {1, {1}},          {2, {0, 1}},
             {1, {7}},    {2, {4, 4}},    {2, {1, 6}},       {2, {5, 0}},
             {2, {0, 5}}, {3, {3, 0, 2}}, {4, {2, 1, 1, 9}}, {7, {1, 1, 2, 1, 1, 2, 1}}};

// Statistics of k devices, whose means differ.
static Block *stats_of_parts(Device *device, size_t parts, int C, int S, float centre) {
    size_t channels = (size_t)C, stride = 2 * channels + 1, n = (size_t)PARTS[parts].k * stride;
    float *values = xmalloc(sizeof(float) * n);
    random_floats(values, n, next_seed++);
    for (int i = 0; i < PARTS[parts].k; i++) {
        float *mean = values + (size_t)i * stride, *M2 = mean + channels, count;
        count = M2[channels] = (float)(PARTS[parts].rows[i] * S);
        for (size_t c = 0; c < channels; c++) {
            mean[c] = count > 0 ? centre + 2 * mean[c] : 0;
            M2[c] = count > 1 ? count * fabsf(M2[c]) : 0;
        }
    }
    return block_of(device, values, n, false);
}

typedef struct Moments {
    double count, mean, M2;
} Moments;

// Of channel c over all devices: what each has, and how far its mean lies from that of all.
static Moments moments_of(const float *stats, int k, size_t C, size_t c) {
    Moments all = {0};
    size_t stride = 2 * C + 1, end = (size_t)k * stride;
    for (size_t i = 0; i < end; i += stride) all.count += stats[i + 2 * C];
    if (all.count == 0) return all;
    for (size_t i = 0; i < end; i += stride)
        all.mean += (double)stats[i + 2 * C] * stats[i + c] / all.count;
    for (size_t i = 0; i < end; i += stride) {
        double off = stats[i + c] - all.mean;
        all.M2 += stats[i + C + c] + stats[i + 2 * C] * off * off;
    }
    return all;
}

// Output 0 is mean, 1 var, 2 running_mean, 3 running_var; out held `old` at first.
static double merged(int output, Moments m, double old, double momentum) {
    switch (output) {
    case 0:
        return m.mean;
    case 1:
        return m.count > 0 ? m.M2 / m.count : 0;
    case 2:
        return m.count > 0 ? (1 - momentum) * old + momentum * m.mean : old;
    default:
        return m.count > 1 ? (1 - momentum) * old + momentum * m.M2 / (m.count - 1) : old;
    }
}

static void check_batch_norm_merge(Device *device, size_t parts, int C, int S, float centre,
                                   float momentum, bool running) {
    static const char *const names[] = {"mean", "var", "running_mean", "running_var"};
    size_t channels = (size_t)C;
    Block *stats = stats_of_parts(device, parts, C, S, centre), *outputs[4];
    for (int i = 0; i < 4; i++) outputs[i] = output(device, channels, (float)(i / 2));
    Block *count = output(device, 1, 0);
    int k = PARTS[parts].k;
    launch(device, batch_norm_merge, .stats = stats->at, .mean = outputs[0]->at,
           .var = outputs[1]->at, .count = count->at,
           .running_mean = running ? outputs[2]->at : NULL,
           .running_var = running ? outputs[3]->at : NULL, .momentum = momentum, .k = k, .C = C);
    for (int i = 0; i < 4; i++) {
        double *expected = doubles(channels);
        for (size_t c = 0; c < channels; c++)
            expected[c] = merged(i, moments_of(stats->values, k, channels, c),
                                 outputs[i]->values[c], running ? (double)momentum : 0);
        bool copied = (i == 0 && k == 1) || (i >= 2 && !running); // to the bit
        check(outputs[i], expected, copied ? EXACT : ROUNDED,
              "batch_norm_merge: %s of case %zu, C %d, S %d, around %g, momentum %g", names[i],
              parts, C, S, centre, momentum);
    }
    double *total = doubles(1);
    for (int i = 0; i < k; i++) total[0] += PARTS[parts].rows[i] * S;
    check(count, total, EXACT, "batch_norm_merge: count of case %zu", parts);
    free_blocks();
}

static void shapes_of_batch_norm_merge(Device *device) {
    static const int channels[] = {0, 1, 3, 300}, pixels[] = {1, 6};
    for (size_t i = 0; i < COUNT(PARTS) * 24; i++) {
        size_t parts = i / 24;
        int C = channels[i % 4], S = pixels[i / 4 % 2];
        float centre = CENTRES[i / 8 % 3];
        check_batch_norm_merge(device, parts, C, S, centre, 0.1f, true);
        check_batch_norm_merge(device, parts, C, S, centre, 1, true);
        check_batch_norm_merge(device, parts, C, S, centre, 0.3f, false);
    }
}

static void shapes_of_batch_norm_forward(Device *device) {
    for (size_t i = 0; i < COUNT(NORMS) * COUNT(CENTRES); i++) {
        const int *norm = NORMS[i / COUNT(CENTRES)], N = norm[0], C = norm[1], S = norm[2];
        float centre = CENTRES[i % COUNT(CENTRES)];
        size_t n = (size_t)N * (size_t)(C * S), channels = (size_t)C;
        Block *X = around(device, n, centre, 2), *mean = around(device, channels, centre, 1);
        Block *var = around(device, channels, 0.6f, 0.5f);
        Block *weight = input(device, channels), *bias = input(device, channels);
        Block *Y = output(device, n, 0);
        struct batch_norm_forward_args args = {X->at, mean->at, var->at, weight->at, bias->at,
                                               Y->at, EPS,      N,       C,          S};
        queue_launch(compute_queue(device), KERNEL_batch_norm_forward, &args, sizeof args);
        args = (struct batch_norm_forward_args){X->values,
                                                mean->values,
                                                var->values,
                                                weight->values,
                                                bias->values,
                                                copy_of_start(Y),
                                                EPS,
                                                N,
                                                C,
                                                S};
        if (!record.on) batch_norm_forward_naive(&args);
        check(Y, widened(args.Y, n), 2e-6, "batch_norm_forward (%d,%d,%d) around %g", N, C, S,
              centre);
        free_blocks();
    }
}

static void shapes_of_batch_norm_backward_sums(Device *device) {
    for (size_t i = 0; i < COUNT(NORMS) * COUNT(CENTRES); i++) {
        const int *norm = NORMS[i / COUNT(CENTRES)], N = norm[0], C = norm[1], S = norm[2];
        float centre = CENTRES[i % COUNT(CENTRES)];
        size_t n = (size_t)N * (size_t)(C * S), channels = (size_t)C;
        Block *X = around(device, n, centre, 2), *mean = around(device, channels, centre, 1);
        Block *dY = input(device, n), *var = around(device, channels, 0.6f, 0.5f);
        Block *sums = output(device, 2 * channels, 0);
        struct batch_norm_backward_sums_args args = {dY->at, X->at, mean->at, var->at, sums->at,
                                                     EPS,    N,     C,        S};
        queue_launch(compute_queue(device), KERNEL_batch_norm_backward_sums, &args, sizeof args);
        args = (struct batch_norm_backward_sums_args){
            dY->values, X->values, mean->values, var->values, copy_of_start(sums), EPS, N, C, S};
        if (!record.on) batch_norm_backward_sums_naive(&args);
        check(sums, widened(args.sums, sums->n), 2 * SUMMED,
              "batch_norm_backward_sums (%d,%d,%d) around %g", N, C, S, centre);
        free_blocks();
    }
}

// The sums are those of several devices, so they and the count are larger than this one's.
static void check_batch_norm_backward_input(Device *device, int N, int C, int S, float centre,
                                            float beta, bool frozen) {
    size_t n = (size_t)N * (size_t)(C * S), channels = (size_t)C;
    const float all = (float)(3 * N * S + 5);
    Block *X = around(device, n, centre, 2), *mean = around(device, channels, centre, 1);
    Block *dY = input(device, n), *var = around(device, channels, 0.6f, 0.5f);
    Block *weight = input(device, channels), *sums = around(device, 2 * channels, 0, all / 2);
    Block *count = given(device, &all, 1), *dX = output(device, n, beta);
    struct batch_norm_backward_input_args args = {
        dY->at, X->at, mean->at, var->at, weight->at, sums->at, count->at,
        dX->at, EPS,   beta,     N,       C,          S};
    if (frozen) args.sums = args.X = args.mean = args.count = NULL;
    queue_launch(compute_queue(device), KERNEL_batch_norm_backward_input, &args, sizeof args);
    args = (struct batch_norm_backward_input_args){dY->values,
                                                   X->values,
                                                   mean->values,
                                                   var->values,
                                                   weight->values,
                                                   sums->values,
                                                   &all,
                                                   NULL,
                                                   EPS,
                                                   beta,
                                                   N,
                                                   C,
                                                   S};
    args.dX = copy_of_start(dX);
    if (frozen) args.sums = NULL;
    if (!record.on) batch_norm_backward_input_naive(&args);
    check(dX, widened(args.dX, n), 4e-6,
          "batch_norm_backward_input (%d,%d,%d) around %g, beta %g, frozen %d", N, C, S, centre,
          beta, frozen);
    free_blocks();
}

static void shapes_of_batch_norm_backward_input(Device *device) {
    for (float beta = 0; beta <= 1; beta++)
        for (size_t i = 0; i < COUNT(NORMS) * COUNT(CENTRES); i++) {
            const int *norm = NORMS[i / COUNT(CENTRES)], N = norm[0], C = norm[1], S = norm[2];
            float centre = CENTRES[i % COUNT(CENTRES)];
            check_batch_norm_backward_input(device, N, C, S, centre, beta, false);
            check_batch_norm_backward_input(device, N, C, S, centre, beta, true);
        }
}

// ---- loss, accuracy, update ------------------------------------------------------------------

// rows, classes
static const int SCORES[][2] = {{0, 10}, {1, 1},  {1, 10}, {17, 1},   {17, 2},  {17, 10},
                                {5, 31}, {5, 32}, {5, 33}, {3, 1000}, {300, 10}};

static Block *labels(Device *device, int rows, int classes) {
    float *values = xmalloc(sizeof(float) * ((size_t)rows + 1));
    uint64_t seed = next_seed++;
    for (int i = 0; i < rows; i++) values[i] = (float)pick(seed, (uint64_t)i, classes);
    return block_of(device, values, (size_t)rows, false);
}

// Logits in (-size, size).
static Block *logits(Device *device, int rows, int classes, float size) {
    size_t n = (size_t)rows * (size_t)classes;
    float *values = xmalloc(sizeof(float) * (n + 1));
    random_floats(values, n, next_seed++);
    for (size_t i = 0; i < n; i++) values[i] *= size;
    return block_of(device, values, n, false);
}

// The loss of one row, and the softmax of it into probs.
static double softmax_loss(const float *row, int classes, int label, double *probs) {
    double largest = row[0], total = 0;
    for (int c = 1; c < classes; c++) largest = fmax(largest, row[c]);
    for (int c = 0; c < classes; c++) total += probs[c] = exp(row[c] - largest);
    for (int c = 0; c < classes; c++) probs[c] /= total;
    return log(total) - (row[label] - largest);
}

static void check_cross_entropy_forward(Device *device, int rows, int classes, float size) {
    Block *x = logits(device, rows, classes, size), *y = labels(device, rows, classes);
    Block *losses = output(device, (size_t)rows, 0), *probs = output(device, x->n, 0);
    launch(device, cross_entropy_forward, .logits = x->at, .labels = y->at, .losses = losses->at,
           .probs = probs->at, .rows = rows, .classes = classes);
    double *expected_losses = doubles(losses->n), *expected_probs = doubles(probs->n);
    for (int i = 0; i < rows; i++) {
        size_t row = (size_t)i * (size_t)classes;
        expected_losses[i] =
            softmax_loss(x->values + row, classes, (int)y->values[i], expected_probs + row);
    }
    check(losses, expected_losses, 1e-6, "losses (%d,%d), logits up to %g", rows, classes, size);
    check(probs, expected_probs, 1e-6, "probs (%d,%d), logits up to %g", rows, classes, size);
    free_blocks();
}

static void shapes_of_cross_entropy_forward(Device *device) {
    const float sizes[] = {0, 1, 10, 80, 1e4f}; // exp(80) is near float's largest, exp(1e4) beyond
    for (size_t i = 0; i < COUNT(SCORES) * COUNT(sizes); i++) {
        const int *shape = SCORES[i % COUNT(SCORES)];
        check_cross_entropy_forward(device, shape[0], shape[1], sizes[i / COUNT(SCORES)]);
    }
}

static void shapes_of_cross_entropy_backward(Device *device) {
    for (float beta = 0; beta <= 1; beta++)
        for (size_t s = 0; s < COUNT(SCORES); s++) {
            int rows = SCORES[s][0], classes = SCORES[s][1];
            Block *probs = input(device, (size_t)(rows * classes));
            Block *y = labels(device, rows, classes);
            Block *dlosses = input(device, (size_t)rows), *dlogits = output(device, probs->n, beta);
            launch(device, cross_entropy_backward, .probs = probs->at, .labels = y->at,
                   .dlosses = dlosses->at, .dlogits = dlogits->at, .beta = beta, .rows = rows,
                   .classes = classes);
            double *expected = doubles(dlogits->n);
            for (size_t i = 0; i < dlogits->n; i++) {
                size_t row = i / (size_t)classes;
                double onehot = i % (size_t)classes == (size_t)y->values[row];
                expected[i] =
                    updated(dlogits, i, beta, dlosses->values[row] * (probs->values[i] - onehot));
            }
            check(dlogits, expected, ROUNDED, "cross_entropy_backward (%d,%d), beta %g", rows,
                  classes, beta);
            free_blocks();
        }
}

static void shapes_of_count_correct(Device *device) {
    for (size_t s = 0; s < COUNT(SCORES); s++) {
        int rows = SCORES[s][0], classes = SCORES[s][1];
        Block *x = logits(device, rows, classes, 1), *y = labels(device, rows, classes);
        Block *count = output(device, 1, 1);
        launch(device, count_correct, .logits = x->at, .labels = y->at, .count = count->at,
               .rows = rows, .classes = classes);
        double *expected = doubles(1);
        for (int i = 0; i < rows; i++) {
            const float *row = x->values + i * classes;
            int best = 0;
            for (int c = 1; c < classes; c++)
                if (row[c] > row[best]) best = c;
            expected[0] += best == (int)y->values[i];
        }
        expected[0] += count->values[0];
        check(count, expected, ROUNDED, "count_correct (%d,%d)", rows, classes);
        free_blocks();
    }
}

static void shapes_of_sgd(Device *device) {
    for (size_t s = 0; s < COUNT(SIZES); s++) {
        size_t n = SIZES[s];
        Block *param = output(device, n, 1), *grad = output(device, n, 1);
        launch(device, sgd, .param = param->at, .grad = grad->at, .lr = 0.3f, .batch_size = 7,
               .n = n);
        double *expected = doubles(n);
        for (size_t i = 0; i < n; i++)
            expected[i] = param->values[i] - (double)0.3f / 7 * grad->values[i];
        check(param, expected, ROUNDED, "sgd of %zu", n);
        check(grad, doubles(n), EXACT, "the gradient after sgd of %zu", n);
        free_blocks();
    }
}

// As output(), but of what cannot be below 0.
static Block *output_of_squares(Device *device, size_t n) {
    float *values = xmalloc((n + 1) * sizeof(float));
    random_floats(values, n, next_seed++);
    for (size_t i = 0; i < n; i++) values[i] *= values[i];
    return block_of(device, values, n, true);
}

static void shapes_of_adam(Device *device) {
    const double beta1 = 0.9f, beta2 = 0.999f, eps = 0.25f, rate = 0.3f, root = 0.25f;
    for (size_t s = 0; s < COUNT(SIZES); s++) {
        size_t n = SIZES[s];
        Block *param = output(device, n, 1), *grad = output(device, n, 1);
        Block *mean = output(device, n, 1), *square = output_of_squares(device, n);
        double *params = doubles(n), *means = doubles(n), *squares = doubles(n);
        launch(device, adam, .param = param->at, .grad = grad->at, .mean = mean->at,
               .square = square->at, .rate = 0.3f, .root = 0.25f, .beta1 = 0.9f, .beta2 = 0.999f,
               .eps = 0.25f, .batch_size = 7, .n = n);
        for (size_t i = 0; i < n; i++) {
            double g = (double)grad->values[i] / 7;
            means[i] = beta1 * mean->values[i] + (1 - beta1) * g;
            squares[i] = beta2 * square->values[i] + (1 - beta2) * g * g;
            params[i] = param->values[i] - rate * means[i] / (sqrt(squares[i]) / root + eps);
        }
        check(param, params, ROUNDED, "adam of %zu", n);
        check(mean, means, ROUNDED, "the mean after adam of %zu", n);
        check(square, squares, ROUNDED, "the squares after adam of %zu", n);
        check(grad, doubles(n), EXACT, "the gradient after adam of %zu", n);
        free_blocks();
    }
}

// ---- all shapes of all kernels ---------------------------------------------------------------

#define TESTED(KERNEL)                                                                             \
    KERNEL(fill)                                                                                   \
    KERNEL(scale)                                                                                  \
    KERNEL(add)                                                                                    \
    KERNEL(add_forward)                                                                            \
    KERNEL(add_backward)                                                                           \
    KERNEL(sum_forward)                                                                            \
    KERNEL(sum_backward)                                                                           \
    KERNEL(relu_forward)                                                                           \
    KERNEL(relu_backward)                                                                          \
    KERNEL(gemm)                                                                                   \
    KERNEL(add_bias_forward)                                                                       \
    KERNEL(add_bias_backward)                                                                      \
    KERNEL(conv2d_forward)                                                                         \
    KERNEL(conv2d_backward_input)                                                                  \
    KERNEL(conv2d_backward_params)                                                                 \
    KERNEL(avg_pool2d_forward)                                                                     \
    KERNEL(avg_pool2d_backward)                                                                    \
    KERNEL(batch_norm_stats)                                                                       \
    KERNEL(batch_norm_merge)                                                                       \
    KERNEL(batch_norm_forward)                                                                     \
    KERNEL(batch_norm_backward_sums)                                                               \
    KERNEL(batch_norm_backward_input)                                                              \
    KERNEL(cross_entropy_forward)                                                                  \
    KERNEL(cross_entropy_backward)                                                                 \
    KERNEL(count_correct)                                                                          \
    KERNEL(sgd)                                                                                    \
    KERNEL(adam)                                                                                   \
    KERNEL(copy_columns)

#define SHAPES_OF(name) [KERNEL_##name] = shapes_of_##name,
static void (*const shapes_of[NUM_KERNELS])(Device *device) = {TESTED(SHAPES_OF)};
#define NAME_OF(name) #name,
static const char *const kernel_names[] = {KERNELS(NAME_OF)};

#define TEST_OF(name)                                                                              \
    static void test_##name(void **state) { shapes_of_##name(device_under_test(state)); }
TESTED(TEST_OF)

static void test_each_kernel_is_tested(void **state) {
    (void)state;
    for (int i = 0; i < NUM_KERNELS; i++)
        if (!shapes_of[i])
            fail_msg("%s: write shapes_of_%s() and put it into TESTED", kernel_names[i],
                     kernel_names[i]);
}

// ---- the same input gives the same bits ------------------------------------------------------

static void record_kernel(int kernel, Device *device) {
    record.used = 0;
    next_seed = 1;
    record.on = true;
    shapes_of[kernel](device);
    record.on = false;
}

static void expect_same_record(int kernel, const unsigned char *expected, size_t size,
                               const char *when) {
    if (record.used != size || memcmp(record.bytes, expected, size) != 0)
        fail_msg("%s: other bits %s", kernel_names[kernel], when);
}

static void test_same_bits_run_after_run(void **state) {
    Device *device = device_under_test(state);
    for (int kernel = 0; kernel < NUM_KERNELS; kernel++) {
        if (!shapes_of[kernel]) continue;
        record_kernel(kernel, device);
        size_t size = record.used;
        unsigned char *first = xmalloc(size);
        memcpy(first, record.bytes, size);
        for (int run = 0; run < (SIMULATED ? 3 : 1); run++) { // there, each in another order
            record_kernel(kernel, device);
            expect_same_record(kernel, first, size, "in another run");
        }
        free(first);
    }
}

static Device *cpu_device_with(int threads) {
    devices_close();
    devices_init(BACKEND_CPU, threads);
    Device *device = cpu_device(0);
    share_cores(&device, 1);
    return device;
}

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

static void test_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    int alone = 0; // threads of this process while a kernel may use but one
    struct {
        unsigned char *bytes;
        size_t size;
    } first[NUM_KERNELS] = {0};
    const int threads[] = {1, 5, 2};
    for (size_t t = 0; t < (SANITIZED ? 2 : COUNT(threads)); t++) {
        for (int kernel = 0; kernel < NUM_KERNELS; kernel++) {
            if (!shapes_of[kernel]) continue;
            record_kernel(kernel, cpu_device_with(threads[t])); // whose threads are all new
            int count = threads_of_this_process(); // (also those of before, which are ending)
            if (t == 0 && (alone == 0 || count < alone)) alone = count;
            if (t > 0) {
                if (WITH_OPENMP && !has_one_thread[kernel] && count <= alone)
                    fail_msg("%s uses one thread of %d", kernel_names[kernel], threads[t]);
                expect_same_record(kernel, first[kernel].bytes, first[kernel].size,
                                   "with more threads");
                continue;
            }
            first[kernel].size = record.used;
            first[kernel].bytes = xmalloc(record.used);
            memcpy(first[kernel].bytes, record.bytes, record.used);
        }
    }
    for (int kernel = 0; kernel < NUM_KERNELS; kernel++) free(first[kernel].bytes);
    devices_close(); // the next test finds the kinds of devices that the machine has
}

static void record_conv(Device *device, Conv s) {
    record.used = 0;
    next_seed = 1;
    Block *X = input(device, size_X(&s)), *W = input(device, size_W(&s));
    Block *b = input(device, (size_t)s.M), *dY = input(device, size_Y(&s));
    Block *out[] = {output(device, size_Y(&s), 0), output(device, size_X(&s), 1),
                    output(device, size_W(&s), 1), output(device, (size_t)s.M, 1)};
    launch(device, conv2d_forward, .X = X->at, .W = W->at, .b = b->at, .Y = out[0]->at, .s = s);
    launch(device, conv2d_backward_input, .dY = dY->at, .W = W->at, .dX = out[1]->at, .beta = 1,
           .s = s);
    launch(device, conv2d_backward_params, .dY = dY->at, .X = X->at, .dW = out[2]->at,
           .db = out[3]->at, .beta = 1, .s = s);
    for (size_t i = 0; i < COUNT(out); i++) append_to_record(read_back(out[i]), out[i]->n);
    free_blocks();
}

// Recorded shapes are small. These are large enough for each way in which threads share the work.
static void test_same_bits_of_large_convolutions(void **state) {
    (void)state;
    const int large[][11] = {
        {37, 40, 15, 14, 24, 5, 5, 2, 2, 2, 2}, // as a matrix product
        {37, 20, 13, 13, 50, 5, 5, 1, 1, 0, 0}, // Winograd's method: threads have their own images,
        {13, 16, 24, 24, 300, 3, 3, 1, 1, 1, 1}, // or share them, in two or three turns,
        {2, 290, 4, 4, 310, 3, 3, 1, 1, 1, 1},   // or each has kernels of its own
    };
    for (size_t i = 0; i < COUNT(large); i++) {
        unsigned char *first = NULL;
        for (int threads = 1; threads <= 5; threads++) {
            record_conv(cpu_device_with(threads), conv_of(large[i]));
            if (!first) {
                first = xmalloc(record.used);
                memcpy(first, record.bytes, record.used);
            }
            if (memcmp(first, record.bytes, record.used) != 0)
                fail_msg("convolution %zu has other bits with %d threads", i, threads);
        }
        free(first);
    }
    devices_close();
}

// ---- the price of fewer multiplications --------------------------------------------------------

// The largest error, in terms of the root mean square of what is expected.
static double error_of(Block *out, const float *expected) {
    const float *got = read_back(out);
    double largest = 0, squares = 0;
    for (size_t i = 0; i < out->n; i++) {
        double error = fabs((double)got[i] - expected[i]);
        if (isnan(error)) return INFINITY;
        largest = fmax(largest, error);
        squares += (double)expected[i] * expected[i];
    }
    return largest / sqrt(squares / (double)out->n);
}

// The layers of ResNet-18, and LeNet's second. Plain sums come to 2e-6 here.
// Then some that are cut where nothing comes out even.
static void test_error_of_winograd(void **state) {
    (void)state;
    const int layers[][5] = {
        // images, channels in and out, pixels, kernel
        {3, 64, 64, 28, 3},  {1, 128, 128, 14, 3}, {2, 256, 256, 7, 3},
        {2, 512, 512, 4, 3}, {40, 20, 50, 13, 5},  {7, 16, 300, 24, 3},
        {2, 290, 310, 4, 3}, {2, 90, 101, 9, 5},   {1, 120, 128, 8, 5},
    };
    for (size_t i = 0; i < COUNT(layers); i++) {
        int N = layers[i][0], C = layers[i][1], M = layers[i][2];
        int H = layers[i][3], k = layers[i][4];
        int pad = k == 3 ? 1 : 0;
        Conv s = conv_of((int[]){N, C, H, H, M, k, k, 1, 1, pad, pad});
        assert_true(winograd_suits(&s));
        Device *device = cpu_device(0);
        Block *X = input(device, size_X(&s)), *W = input(device, size_W(&s));
        Block *dY = input(device, size_Y(&s));
        Block *Y = output(device, size_Y(&s), 0), *dX = output(device, size_X(&s), 0);
        Block *dW = output(device, size_W(&s), 0);
        launch(device, conv2d_forward, .X = X->at, .W = W->at, .Y = Y->at, .s = s);
        launch(device, conv2d_backward_input, .dY = dY->at, .W = W->at, .dX = dX->at, .s = s);
        launch(device, conv2d_backward_params, .dY = dY->at, .X = X->at, .dW = dW->at, .s = s);
        conv2d_forward_naive(
            &(struct conv2d_forward_args){.X = X->values, .W = W->values, .Y = Y->values, .s = s});
        conv2d_backward_input_naive(&(struct conv2d_backward_input_args){
            .dY = dY->values, .W = W->values, .dX = dX->values, .s = s});
        conv2d_backward_params_naive(&(struct conv2d_backward_params_args){
            .dY = dY->values, .X = X->values, .dW = dW->values, .s = s});
        printf("%d channels of %d x %d: error %.1e, dX %.1e, dW %.1e\n", C, H, H,
               error_of(Y, Y->values), error_of(dX, dX->values), error_of(dW, dW->values));
        assert_true(error_of(Y, Y->values) <= WINOGRAD);
        assert_true(error_of(dX, dX->values) <= WINOGRAD);
        assert_true(error_of(dW, dW->values) <= WINOGRAD);
        free_blocks();
    }
}

static Block *with_infinity(Device *device, size_t n) {
    float *values = xmalloc(n * sizeof(float));
    random_floats(values, n, next_seed++);
    values[n / 2] = INFINITY;
    return block_of(device, values, n, false);
}

static bool has_nan(Block *out) {
    const float *got = read_back(out);
    for (size_t i = 0; i < out->n; i++)
        if (isnan(got[i])) return true;
    return false;
}

// One infinity gives plain sums infinities, and Winograd's method NaN: so it was this one.
static void test_winograd_is_used(void **state) {
    (void)state;
    for (int k = 3; k <= 5; k += 2) {
        Conv s = conv_of((int[]){2, 16, 12, 12, 16, k, k, 1, 1, 1, 1});
        Device *device = cpu_device(0);
        Block *X = with_infinity(device, size_X(&s)), *dY = with_infinity(device, size_Y(&s));
        Block *W = input(device, size_W(&s)), *finite_dY = input(device, size_Y(&s));
        Block *Y = output(device, size_Y(&s), 0), *dX = output(device, size_X(&s), 0);
        Block *dW = output(device, size_W(&s), 0);
        launch(device, conv2d_forward, .X = X->at, .W = W->at, .Y = Y->at, .s = s);
        launch(device, conv2d_backward_input, .dY = dY->at, .W = W->at, .dX = dX->at, .s = s);
        launch(device, conv2d_backward_params, .dY = finite_dY->at, .X = X->at, .dW = dW->at,
               .s = s);
        assert_true(has_nan(Y) && has_nan(dX) && has_nan(dW));
        free_blocks();
    }
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

// ---- small examples, worked out by hand ------------------------------------------------------

// The device's kernel and, without a device, the naive one must both give these numbers.
static void expect_values(const float *got, const float *expected, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(got[i] == expected[i]))
            fail_msg("element %zu is %g, by hand it is %g", i, got[i], expected[i]);
}

static void test_gemm_by_hand(void **state) {
    Device *device = device_under_test(state);
    const float A[] = {1, 2, 3, 4, 5, 6}, A_T[] = {1, 4, 2, 5, 3, 6};   // (2,3)
    const float B[] = {1, 0, -1, 2, 1, 0}, B_T[] = {1, -1, 1, 0, 2, 0}; // (3,2)
    const float AB[] = {2, 4, 5, 10}, AB_plus_one[] = {3, 5, 6, 11}, ones[] = {1, 1, 1, 1};
    for (int i = 0; i < 8; i++) {
        int trans_A = i & 1, trans_B = i >> 1 & 1, beta = i >> 2;
        const float *left = trans_A ? A_T : A, *right = trans_B ? B_T : B;
        Block *a = given(device, left, 6), *b = given(device, right, 6);
        Block *c = given(device, ones, 4);
        c->output = true;
        float C[] = {1, 1, 1, 1};
        struct gemm_args args = {left, right, C, (float)beta, 2, 2, 3, trans_A, trans_B};
        gemm_naive(&args);
        expect_values(C, beta ? AB_plus_one : AB, 4);
        args.A = a->at;
        args.B = b->at;
        args.C = c->at;
        queue_launch(compute_queue(device), KERNEL_gemm, &args, sizeof args);
        expect_values(read_back(c), beta ? AB_plus_one : AB, 4);
        free_blocks();
    }
}

// One image, one channel, two output channels; stride 2 down and 1 across, padding at the sides.
static const float hand_X[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
static const float hand_W[] = {1, 2, 3, 4, 0, 1, 0, 0}, hand_b[] = {10, 20};
static Conv hand_conv(void) { return conv_of((int[]){1, 1, 3, 3, 2, 2, 2, 2, 1, 0, 1}); }

static void test_conv2d_forward_by_hand(void **state) {
    Device *device = device_under_test(state);
    Conv s = hand_conv(); // Y (1,2,1,4): the third row of X is under no window
    // clang-format off
    const float expected[] = {
        10 + 2 * 1 + 4 * 4, 10 + 1 + 4 + 12 + 20, 10 + 2 + 6 + 15 + 24, 10 + 3 + 18,
        20 + 1,             20 + 2,               20 + 3,               20 + 0,
    };
    // clang-format on
    float Y[8];
    conv2d_forward_naive(
        &(struct conv2d_forward_args){.X = hand_X, .W = hand_W, .b = hand_b, .Y = Y, .s = s});
    expect_values(Y, expected, 8);
    Block *X = given(device, hand_X, 9), *W = given(device, hand_W, 8);
    Block *b = given(device, hand_b, 2), *out = output(device, 8, 0);
    launch(device, conv2d_forward, .X = X->at, .W = W->at, .b = b->at, .Y = out->at, .s = s);
    expect_values(read_back(out), expected, 8);
    free_blocks();
}

static void without_memory(void *unused) {
    (void)unused;
    Conv s = conv_of((int[]){1, 1, 1 << 30, 1 << 30, 1, 1, 1, 1, 1, 0, 0});
    kernels_fail_with(die);
    conv2d_backward_input_naive(&(struct conv2d_backward_input_args){.dY = hand_X, .s = s});
}

static void test_conv2d_backward_without_memory(void **state) {
    (void)state;
    if (SANITIZED) skip("sanitizers end a program that asks for so much");
    expect_death(1, "out of memory: 1152921504606846976 sums", without_memory, NULL);
}

static void test_conv2d_backward_by_hand(void **state) {
    Device *device = device_under_test(state);
    Conv s = hand_conv();
    const float dY[] = {1, 2, 3, 4, 5, 6, 7, 8};
    // Pixel (h,w) was right in window w (weights 2, 4 and 1, 0) and left in window w+1.
    // clang-format off
    const float expected_X[] = {
        2 * 1 + 2 + 5, 2 * 2 + 3 + 6, 2 * 3 + 4 + 7,
        4 * 1 + 3 * 2, 4 * 2 + 3 * 3, 4 * 3 + 3 * 4,
        0,             0,             0,
    };
    const float expected_W[] = {
        1 * 2 + 2 * 3 + 3 * 4, 1 * 1 + 2 * 2 + 3 * 3, 4 * 2 + 5 * 3 + 6 * 4, 4 * 1 + 5 * 2 + 6 * 3,
        1 * 6 + 2 * 7 + 3 * 8, 1 * 5 + 2 * 6 + 3 * 7, 4 * 6 + 5 * 7 + 6 * 8, 4 * 5 + 5 * 6 + 6 * 7,
    };
    // clang-format on
    const float expected_b[] = {1 + 2 + 3 + 4, 5 + 6 + 7 + 8};
    float dX[9], dW[8], db[2];
    conv2d_backward_input_naive(
        &(struct conv2d_backward_input_args){.dY = dY, .W = hand_W, .dX = dX, .s = s});
    conv2d_backward_params_naive(
        &(struct conv2d_backward_params_args){.dY = dY, .X = hand_X, .dW = dW, .db = db, .s = s});
    expect_values(dX, expected_X, 9);
    expect_values(dW, expected_W, 8);
    expect_values(db, expected_b, 2);
    Block *X = given(device, hand_X, 9), *W = given(device, hand_W, 8), *d = given(device, dY, 8);
    Block *to_X = output(device, 9, 0), *to_W = output(device, 8, 0), *to_b = output(device, 2, 0);
    launch(device, conv2d_backward_input, .dY = d->at, .W = W->at, .dX = to_X->at, .s = s);
    launch(device, conv2d_backward_params, .dY = d->at, .X = X->at, .dW = to_W->at, .db = to_b->at,
           .s = s);
    expect_values(read_back(to_X), expected_X, 9);
    expect_values(read_back(to_W), expected_W, 8);
    expect_values(read_back(to_b), expected_b, 2);
    free_blocks();
}

static void test_avg_pool2d_by_hand(void **state) {
    Device *device = device_under_test(state);
    Pool s = {1, 1, 3, 3, 2, 2, 1, 1, 2, 2}; // 2x2 windows that overlap
    const float X[] = {1, 2, 3, 4, 5, 6, 7, 8, 13}, expected_Y[] = {3, 4, 6, 8};
    const float dY[] = {4, 8, 12, 16}, expected_X[] = {1, 3, 2, 4, 10, 6, 3, 7, 4};
    float Y[4], dX[9];
    avg_pool2d_forward_naive(&(struct avg_pool2d_forward_args){X, Y, s});
    avg_pool2d_backward_naive(&(struct avg_pool2d_backward_args){dY, dX, 0, s});
    expect_values(Y, expected_Y, 4);
    expect_values(dX, expected_X, 9);
    Block *x = given(device, X, 9), *y = output(device, 4, 0), *dy = given(device, dY, 4);
    Block *dx = output(device, 9, 0);
    launch(device, avg_pool2d_forward, .X = x->at, .Y = y->at, .s = s);
    launch(device, avg_pool2d_backward, .dY = dy->at, .dX = dx->at, .s = s);
    expect_values(read_back(y), expected_Y, 4);
    expect_values(read_back(dx), expected_X, 9);
    free_blocks();
}

// Two images of two channels of two pixels. Deviations are -3, -1, 1, 3 in some order; with eps,
// the standard deviation is 4, so that all is exact.
static const float norm_X[] = {1, 3, 10, 16, 5, 7, 12, 14}, norm_mean[] = {4, 13};
static const float norm_var[] = {5, 5}, norm_eps = 11, norm_weight[] = {4, 8},
                   norm_bias[] = {1, -1};

static void test_batch_norm_forward_by_hand(void **state) {
    Device *device = device_under_test(state);
    const float expected_stats[] = {4, 13, 20, 20, 4}, halves[] = {2, 13, 2, 18, 2, 6, 13, 2, 2, 2};
    const float expected_Y[] = {-2, 0, -7, 5, 2, 4, -3, 1}, four = 4;
    float values[8];
    batch_norm_stats_naive(&(struct batch_norm_stats_args){norm_X, values, 2, 2, 2});
    expect_values(values, expected_stats, 5);
    batch_norm_forward_naive(&(struct batch_norm_forward_args){
        norm_X, norm_mean, norm_var, norm_weight, norm_bias, values, norm_eps, 2, 2, 2});
    expect_values(values, expected_Y, 8);
    Block *X = given(device, norm_X, 8), *stats = output(device, 5, 0);
    Block *of_images = given(device, halves, 10), *mean = output(device, 2, 0);
    Block *var = output(device, 2, 0), *count = output(device, 1, 0), *Y = output(device, 8, 0);
    Block *weight = given(device, norm_weight, 2), *bias = given(device, norm_bias, 2);
    launch(device, batch_norm_stats, .X = X->at, .stats = stats->at, .N = 2, .C = 2, .S = 2);
    launch(device, batch_norm_merge, .stats = of_images->at, .mean = mean->at, .var = var->at,
           .count = count->at, .k = 2, .C = 2);
    launch(device, batch_norm_forward, .X = X->at, .mean = mean->at, .var = var->at,
           .weight = weight->at, .bias = bias->at, .Y = Y->at, .eps = norm_eps, .N = 2, .C = 2,
           .S = 2);
    expect_values(read_back(stats), expected_stats, 5);
    expect_values(read_back(mean), norm_mean, 2);
    expect_values(read_back(var), norm_var, 2);
    expect_values(read_back(count), &four, 1);
    expect_values(read_back(Y), expected_Y, 8);
    free_blocks();
}

static void test_batch_norm_backward_by_hand(void **state) {
    Device *device = device_under_test(state);
    const float dY[] = {3, 0, 0, 3, 0, 6, 0, 3}, expected_sums[] = {9, 6, 2.25f, 3}, four = 4;
    // dX is once and twice dY - 9 / 4 - deviation / 4 * 2.25 / 4, in the other channel
    // dY - 6 / 4 - deviation / 4 * 3 / 4
    const float expected_dX[] = {1.171875f,  -2.109375f, -1.875f, 1.875f,
                                 -2.390625f, 3.328125f,  -2.625f, 2.625f};
    float sums[4], dX[8];
    batch_norm_backward_sums_naive(&(struct batch_norm_backward_sums_args){
        dY, norm_X, norm_mean, norm_var, sums, norm_eps, 2, 2, 2});
    expect_values(sums, expected_sums, 4);
    batch_norm_backward_input_naive(&(struct batch_norm_backward_input_args){
        dY, norm_X, norm_mean, norm_var, norm_weight, sums, &four, dX, norm_eps, 0, 2, 2, 2});
    expect_values(dX, expected_dX, 8);
    Block *X = given(device, norm_X, 8), *d = given(device, dY, 8),
          *count = given(device, &four, 1);
    Block *mean = given(device, norm_mean, 2), *var = given(device, norm_var, 2);
    Block *weight = given(device, norm_weight, 2);
    Block *to_sums = output(device, 4, 0), *to_X = output(device, 8, 0);
    launch(device, batch_norm_backward_sums, .dY = d->at, .X = X->at, .mean = mean->at,
           .var = var->at, .sums = to_sums->at, .eps = norm_eps, .N = 2, .C = 2, .S = 2);
    launch(device, batch_norm_backward_input, .dY = d->at, .X = X->at, .mean = mean->at,
           .var = var->at, .weight = weight->at, .sums = to_sums->at, .count = count->at,
           .dX = to_X->at, .eps = norm_eps, .N = 2, .C = 2, .S = 2);
    expect_values(read_back(to_sums), expected_sums, 4);
    expect_values(read_back(to_X), expected_dX, 8);
    free_blocks();
}

// Halves and quarters are exact, so nothing may be rounded.
static void test_sgd_by_hand(void **state) {
    Device *device = device_under_test(state);
    const float start[] = {1, -2, 0, 8}, gradient[] = {8, 4, -1, 0};
    const float expected[] = {0, -2.5f, .125f, 8}, zeros[] = {0, 0, 0, 0};
    Block *param = given(device, start, 4), *grad = given(device, gradient, 4);
    param->output = grad->output = true;
    launch(device, sgd, .param = param->at, .grad = grad->at, .lr = 0.5f, .batch_size = 4, .n = 4);
    assert_memory_equal(read_back(param), expected, sizeof expected);
    assert_memory_equal(read_back(grad), zeros, sizeof zeros);
    free_blocks();
}

// ---- special numbers -------------------------------------------------------------------------

static void test_relu_of_special_numbers(void **state) {
    Device *device = device_under_test(state);
    const float x[] = {NAN, 0, -0.0f, INFINITY, -INFINITY, 1e-40f, -1e-40f, 3, -3};
    const float y[] = {NAN, 0, 0, INFINITY, 0, 1e-40f, 0, 3, 0};
    const float dy[] = {1, 2, 3, 4, 5, 6, 7, NAN, NAN}, dx[] = {0, 0, 0, 4, 0, 6, 0, NAN, 0};
    Block *X = given(device, x, 9), *Y = output(device, 9, 0);
    Block *dY = given(device, dy, 9), *dX = output(device, 9, 0);
    launch(device, relu_forward, .X = X->at, .Y = Y->at, .n = 9);
    launch(device, relu_backward, .Y = Y->at, .dY = dY->at, .dX = dX->at, .n = 9);
    const float *got = read_back(Y), *got_d = read_back(dX);
    for (int i = 0; i < 9; i++) {
        assert_true(isnan(y[i]) ? isnan(got[i]) : got[i] == y[i]);
        assert_true(isnan(dx[i]) ? isnan(got_d[i]) : got_d[i] == dx[i]);
    }
    free_blocks();
}

// C = A B with a NaN (or an infinity) in one row of A or one column of B, while the other matrix is
// all zeros: 0 NaN is NaN, and it stays in its row or column.
static void check_gemm_nan(Device *device, int size, int transposed, bool in_A, float special) {
    size_t n = (size_t)size, at = (n / 2) * n + n / 3; // element (n/2, n/3), as stored
    float *zeros = xcalloc(n * n, sizeof(float)), *dirty = xcalloc(n * n, sizeof(float));
    dirty[at] = special;
    Block *A = given(device, in_A ? dirty : zeros, n * n), *C = output(device, n * n, 0);
    Block *B = given(device, in_A ? zeros : dirty, n * n);
    launch(device, gemm, .A = A->at, .B = B->at, .C = C->at, .M = size, .N = size, .K = size,
           .trans_A = transposed & 1, .trans_B = transposed >> 1);
    size_t line = in_A ? (transposed & 1 ? n / 3 : n / 2) : (transposed >> 1 ? n / 2 : n / 3);
    const float *got = read_back(C);
    for (size_t i = 0; i < n * n; i++) {
        bool expected = (in_A ? i / n : i % n) == line;
        if ((isnan(got[i]) != 0) != expected || (!expected && got[i] != 0))
            fail_msg("gemm of size %d, transposed %d, %g in %s: (%zu,%zu) is %g", size, transposed,
                     special, in_A ? "A" : "B", i / n, i % n, got[i]);
    }
    free_blocks();
    free(zeros);
    free(dirty);
}

static void test_gemm_of_nan(void **state) {
    Device *device = device_under_test(state);
    const int sizes[] = {1, 3, 5, 33, 65, 128};
    for (size_t i = 0; i < COUNT(sizes) * 16; i++)
        check_gemm_nan(device, sizes[i / 16], i & 3, i & 4, i & 8 ? INFINITY : NAN);
}

// A NaN in one pixel must reach all outputs whose window holds it, and no others.
static void test_conv2d_of_nan(void **state) {
    Device *device = device_under_test(state);
    Conv s = conv_of((int[]){2, 2, 6, 5, 3, 3, 2, 2, 1, 1, 1});
    float *zeros = xcalloc(size_X(&s) + size_W(&s), sizeof(float));
    int n = 1, c = 1, h = 3, w = 2;
    zeros[((n * s.C + c) * s.H + h) * s.W + w] = NAN;
    Block *X = given(device, zeros, size_X(&s)), *Y = output(device, size_Y(&s), 0);
    Block *W = given(device, zeros + size_X(&s), size_W(&s));
    launch(device, conv2d_forward, .X = X->at, .W = W->at, .Y = Y->at, .s = s);
    const float *got = read_back(Y);
    int reached = 0;
    for (int i = 0; i < (int)Y->n; i++) {
        int col = i % s.out_w, row = i / s.out_w % s.out_h, image = i / s.out_w / s.out_h / s.M;
        int top = row * s.stride_h - s.pad_h, left = col * s.stride_w - s.pad_w;
        bool holds =
            image == n && top <= h && h < top + s.kernel_h && left <= w && w < left + s.kernel_w;
        assert_int_equal(isnan(got[i]) != 0, holds);
        reached += holds;
    }
    assert_int_equal(reached, 3 * 2 * 2); // all channels, 2 windows down, 2 across
    free_blocks();
    free(zeros);
}

static void test_avg_pool2d_of_nan(void **state) {
    Device *device = device_under_test(state);
    Pool s = {1, 1, 4, 4, 2, 2, 2, 2, 2, 2};
    float x[16] = {0};
    x[2 * 4 + 1] = NAN;
    Block *X = given(device, x, 16), *Y = output(device, 4, 0);
    launch(device, avg_pool2d_forward, .X = X->at, .Y = Y->at, .s = s);
    const float *got = read_back(Y);
    for (int i = 0; i < 4; i++) assert_int_equal(isnan(got[i]) != 0, i == 2);
    free_blocks();
}

// A NaN in one channel makes that channel NaN and no other; so does an infinity.
static void test_batch_norm_of_nan(void **state) {
    Device *device = device_under_test(state);
    enum { N = 3, C = 4, S = 5 };
    const float zeros[C] = {0}, ones[C] = {1, 1, 1, 1}, bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2 * C; i++) {
        float x[N * C * S];
        random_floats(x, N * C * S, 1);
        x[(1 * C + i % C) * S + 2] = bad[i / C];
        Block *X = given(device, x, N * C * S), *Y = output(device, N * C * S, 0);
        Block *stats = output(device, 2 * C + 1, 0), *mean = output(device, C, 0);
        Block *var = output(device, C, 0), *count = output(device, 1, 0);
        Block *running_mean = output(device, C, 1), *running_var = output(device, C, 1);
        Block *weight = given(device, ones, C), *bias = given(device, zeros, C);
        launch(device, batch_norm_stats, .X = X->at, .stats = stats->at, .N = N, .C = C, .S = S);
        launch(device, batch_norm_merge, .stats = stats->at, .mean = mean->at, .var = var->at,
               .count = count->at, .running_mean = running_mean->at, .running_var = running_var->at,
               .momentum = 0.1f, .k = 1, .C = C);
        launch(device, batch_norm_forward, .X = X->at, .mean = mean->at, .var = var->at,
               .weight = weight->at, .bias = bias->at, .Y = Y->at, .eps = 1e-5f, .N = N, .C = C,
               .S = S);
        const float *y = read_back(Y), *v = read_back(running_var);
        for (int j = 0; j < N * C * S; j++) assert_int_equal(isnan(y[j]) != 0, j / S % C == i % C);
        for (int c = 0; c < C; c++) assert_int_equal(isnan(v[c]) != 0, c == i % C);
        free_blocks();
    }
}

// A variance is never negative, or its root could be NaN. That of equal numbers is as good as zero.
static void test_batch_norm_of_equal_numbers(void **state) {
    Device *device = device_under_test(state);
    const float values[] = {0, 0.1f, -1.0f / 3, 10000.1f, 1e-20f, 123456.7f};
    const int sizes[] = {1, 3, 7, 30, 333, 10007, 100003}; // a mean of many is off by many bits
    for (size_t i = 0; i < COUNT(values) * COUNT(sizes); i++) {
        int n = sizes[i / COUNT(values)];
        float x = values[i % COUNT(values)], *same = xmalloc(sizeof(float) * (size_t)n * 3);
        for (int j = 0; j < 3 * n; j++) same[j] = x;
        Block *X = given(device, same, (size_t)n * 3), *stats = output(device, 3, 0);
        launch(device, batch_norm_stats, .X = X->at, .stats = stats->at, .N = 3, .C = 1, .S = n);
        const float *got = read_back(stats);
        assert_true(fabsf(got[0] - x) <= 1.2e-7f * fabsf(x));
        assert_true(got[1] >= 0 && sqrt(got[1] / (3 * n)) <= 1e-6 * fabsf(x));
        free_blocks();
        free(same);
    }
}

// ---- batch normalisation over several devices ------------------------------------------------

enum { NORM_N = 6, NORM_C = 3, NORM_S = 5, NORM_IMAGE = NORM_C * NORM_S };

// The place of pixel i of NORM_N * NORM_S of channel c.
static int place_in_channel(int c, int i) {
    return (i / NORM_S * NORM_C + c) * NORM_S + i % NORM_S;
}

// The sum of dY times the normalised X, as a function of X alone: its mean and variance included.
static double norm_loss(const double *X, const float *dY, const float *weight, const float *bias) {
    const int n = NORM_N * NORM_S;
    double loss = 0;
    for (int c = 0; c < NORM_C; c++) {
        double mean = 0, var = 0;
        for (int i = 0; i < n; i++) mean += X[place_in_channel(c, i)] / n;
        for (int i = 0; i < n; i++) {
            double off = X[place_in_channel(c, i)] - mean;
            var += off * off / n;
        }
        for (int i = 0; i < n; i++) {
            int at = place_in_channel(c, i);
            loss += dY[at] * (weight[c] * (X[at] - mean) / sqrt(var + EPS) + bias[c]);
        }
    }
    return loss;
}

// The rows are cut as if each part were a device's; each part is normalised with all rows'
// statistics.
static void check_batch_norm_of_parts(Device *device, int k, const int *rows) {
    Block *X = input(device, NORM_N * NORM_IMAGE), *dY = input(device, X->n);
    Block *weight = input(device, NORM_C), *sums = output(device, 2 * NORM_C, 0);
    Block *stats = output(device, (size_t)k * (2 * NORM_C + 1), 0),
          *mean = output(device, NORM_C, 0);
    Block *var = output(device, NORM_C, 0), *count = output(device, 1, 0);
    Block *own = output(device, 2 * NORM_C, 0), *dX = output(device, X->n, 0);
    for (int i = 0, at = 0; i < k; at += rows[i++] * NORM_IMAGE)
        launch(device, batch_norm_stats, .X = X->at + at, .stats = stats->at + i * (2 * NORM_C + 1),
               .N = rows[i], .C = NORM_C, .S = NORM_S);
    launch(device, batch_norm_merge, .stats = stats->at, .mean = mean->at, .var = var->at,
           .count = count->at, .k = k, .C = NORM_C);
    launch(device, fill, .x = sums->at, .value = 0, .n = sums->n);
    for (int i = 0, at = 0; i < k; at += rows[i++] * NORM_IMAGE) {
        launch(device, batch_norm_backward_sums, .dY = dY->at + at, .X = X->at + at,
               .mean = mean->at, .var = var->at, .sums = own->at, .eps = EPS, .N = rows[i],
               .C = NORM_C, .S = NORM_S);
        launch(device, add, .y = sums->at, .x = own->at, .n = sums->n);
    }
    for (int i = 0, at = 0; i < k; at += rows[i++] * NORM_IMAGE)
        launch(device, batch_norm_backward_input, .dY = dY->at + at, .X = X->at + at,
               .mean = mean->at, .var = var->at, .weight = weight->at, .sums = sums->at,
               .count = count->at, .dX = dX->at + at, .eps = EPS, .N = rows[i], .C = NORM_C,
               .S = NORM_S);

    const double step = 1e-4;
    const float bias[NORM_C] = {0};
    double *expected = doubles(X->n), *values = doubles(X->n);
    for (size_t i = 0; i < X->n; i++) values[i] = X->values[i];
    for (size_t i = 0; i < X->n; i++) {
        values[i] = X->values[i] + step;
        expected[i] = norm_loss(values, dY->values, weight->values, bias);
        values[i] = X->values[i] - step;
        expected[i] -= norm_loss(values, dY->values, weight->values, bias);
        expected[i] /= 2 * step;
        values[i] = X->values[i];
    }
    free(values);
    check(dX, expected, 1e-6, "the gradient of batch_norm over %d devices", k);
    free_blocks();
}

static void test_batch_norm_of_several_devices(void **state) {
    Device *device = device_under_test(state);
    check_batch_norm_of_parts(device, 1, (int[]){6});
    check_batch_norm_of_parts(device, 2, (int[]){3, 3});
    check_batch_norm_of_parts(device, 3, (int[]){1, 0, 5});
    check_batch_norm_of_parts(device, 4, (int[]){0, 4, 1, 1});
}

static void test_sum_of_nan(void **state) {
    Device *device = device_under_test(state);
    float x[1000] = {0};
    for (int i = 0; i < 1000; i += 333) {
        x[i] = NAN;
        Block *X = given(device, x, 1000), *out = output(device, 1, 0);
        launch(device, sum_forward, .x = X->at, .out = out->at, .n = 1000);
        assert_true(isnan(read_back(out)[0]));
        free_blocks();
        x[i] = 0;
    }
}

// Far apart logits: the loss is their difference, and neither overflows nor is lost.
static void test_cross_entropy_of_extremes(void **state) {
    Device *device = device_under_test(state);
    const float big = 1e4f;
    // clang-format off
    const float x[] = {
        80, -80, -80,
        -80, 80, -80,
        big, -big, 0,
        -big, 0, big,
        0, 0, 0,
        big, big, big,
    };
    const float y[] = {0, 0, 0, 0, 2, 1};
    const double losses[] = {0, 160, 0, 2e4, log(3), log(3)}, third = 1.0 / 3;
    const double probs[] = {
        1, 0, 0,
        0, 1, 0,
        1, 0, 0,
        0, 0, 1,
        third, third, third,
        third, third, third,
    };
    // clang-format on
    Block *X = given(device, x, 18), *labels_ = given(device, y, 6);
    Block *out = output(device, 6, 0), *soft = output(device, 18, 0);
    launch(device, cross_entropy_forward, .logits = X->at, .labels = labels_->at, .losses = out->at,
           .probs = soft->at, .rows = 6, .classes = 3);
    assert_all_close(read_back(out), losses, 6, ROUNDED, "losses");
    assert_all_close(read_back(soft), probs, 18, ROUNDED, "probs");
    free_blocks();
}

// A NaN anywhere in a row makes that row's loss and probabilities NaN, and no other row's.
static void test_cross_entropy_of_nan(void **state) {
    Device *device = device_under_test(state);
    enum { CLASSES = 70 };
    float x[2 * CLASSES] = {0}, y[2] = {3, 4};
    const int places[] = {0, 1, 3, 31, 32, 69};
    for (size_t p = 0; p < COUNT(places); p++) {
        x[5] = 100; // the largest is not the NaN
        x[places[p]] = NAN;
        Block *X = given(device, x, 2 * CLASSES), *labels_ = given(device, y, 2);
        Block *losses = output(device, 2, 0), *probs = output(device, 2 * CLASSES, 0);
        launch(device, cross_entropy_forward, .logits = X->at, .labels = labels_->at,
               .losses = losses->at, .probs = probs->at, .rows = 2, .classes = CLASSES);
        const float *loss = read_back(losses), *prob = read_back(probs);
        assert_true(isnan(loss[0]) && fabs(loss[1] - log(CLASSES)) < 1e-5);
        for (int i = 0; i < 2 * CLASSES; i++) assert_int_equal(isnan(prob[i]) != 0, i < CLASSES);
        free_blocks();
        x[places[p]] = 0;
    }
}

// A label that is no class: the row's loss is NaN, which stops the training; nothing is read
// outside.
static void test_cross_entropy_of_wrong_labels(void **state) {
    Device *device = device_under_test(state);
    const float x[3 * 4] = {0}, wrong[] = {-1, 4, 1e30f, -1e30f, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const float y[3] = {2, wrong[i], 0};
        Block *X = given(device, x, 12), *labels_ = given(device, y, 3);
        Block *losses = output(device, 3, 0), *probs = output(device, 12, 0);
        launch(device, cross_entropy_forward, .logits = X->at, .labels = labels_->at,
               .losses = losses->at, .probs = probs->at, .rows = 3, .classes = 4);
        const float *loss = read_back(losses);
        assert_true(isnan(loss[1]) && fabs(loss[0] - log(4)) < 1e-5 &&
                    fabs(loss[2] - log(4)) < 1e-5);
        free_blocks();
    }
}

static void test_count_correct_of_ties_and_nan(void **state) {
    Device *device = device_under_test(state);
    const float big = INFINITY;
    const struct {
        float row[4], label;
        int correct;
    } cases[] = {
        {{1, 3, 3, 2}, 1, 1},          {{1, 3, 3, 2}, 2, 0}, // a tie goes to the first
        {{5, 5, 5, 5}, 0, 1},          {{5, 5, 5, 5}, 3, 0},
        {{0, 0, 0, 0}, -1, 0},         {{0, 0, 0, 0}, 4, 0},       // no such class
        {{0, -0.0f, -1, -1}, 0, 1},    {{-0.0f, 0, -1, -1}, 1, 0}, // 0 and -0 are equal
        {{NAN, 3, 1, 1}, 1, 0},        {{1, 3, 1, NAN}, 1, 0}, // a row with a NaN is not correct
        {{NAN, 3, 1, 1}, 0, 0},        {{NAN, NAN, NAN, NAN}, 0, 0},
        {{-big, -big, -big, 0}, 3, 1}, {{-big, -big, -big, -big}, 0, 1},
        {{big, 1, 2, 3}, 0, 1},        {{big, big, 2, 3}, 1, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const float seven = 7; // counts of several minibatches are added up
        Block *X = given(device, cases[i].row, 4), *y = given(device, &cases[i].label, 1);
        Block *count = given(device, &seven, 1);
        count->output = true;
        launch(device, count_correct, .logits = X->at, .labels = y->at, .count = count->at,
               .rows = 1, .classes = 4);
        if (read_back(count)[0] != (float)(7 + cases[i].correct)) fail_msg("case %zu is wrong", i);
        free_blocks();
    }
}

// ---- main ------------------------------------------------------------------------------------

#define ENTRY(name) ON_BOTH(test_##name),

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kernel_is_tested),
        ON_BOTH(test_gemm_by_hand),
        ON_BOTH(test_conv2d_forward_by_hand),
        ON_BOTH(test_conv2d_backward_by_hand),
        cmocka_unit_test(test_conv2d_backward_without_memory),
        ON_BOTH(test_avg_pool2d_by_hand),
        ON_BOTH(test_batch_norm_forward_by_hand),
        ON_BOTH(test_batch_norm_backward_by_hand),
        ON_BOTH(test_sgd_by_hand),
        TESTED(ENTRY) // each has its comma
        ON_BOTH(test_relu_of_special_numbers),
        ON_BOTH(test_gemm_of_nan),
        ON_BOTH(test_conv2d_of_nan),
        ON_BOTH(test_avg_pool2d_of_nan),
        ON_BOTH(test_batch_norm_of_nan),
        ON_BOTH(test_batch_norm_of_equal_numbers),
        ON_BOTH(test_batch_norm_of_several_devices),
        ON_BOTH(test_sum_of_nan),
        ON_BOTH(test_cross_entropy_of_extremes),
        ON_BOTH(test_cross_entropy_of_nan),
        ON_BOTH(test_cross_entropy_of_wrong_labels),
        ON_BOTH(test_count_correct_of_ties_and_nan),
        ON_BOTH(test_same_bits_run_after_run),
        UNLESS_SIMULATED(test_same_bits_for_any_number_of_threads),
        UNLESS_SIMULATED(test_same_bits_of_large_convolutions),
        UNLESS_SIMULATED(test_error_of_winograd),
        UNLESS_SIMULATED(test_winograd_is_used),
        cmocka_unit_test(test_best_instruction_set_is_used),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    devices_close();
    free(record.bytes);
    return failed;
}
