// test_cost.c: what kernels cost (kernels/cost.c), by counting.
//
// Each kernel is written down here once more, in loops as plain as its definition in kernels.h,
// with numbers that are counted: each operation on them, and each address that they are read from
// or written to, once. kernel_cost() must know the counts from the arguments alone; and the loops
// must have the results of the kernel, so that what is counted is what it computes.
#include "test.h"

#include "common/base/error.h"
#include "common/tensor/random.h"
#include "kernels/cost.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/conv2d_plan.h"

// ---- random shapes -----------------------------------------------------------------------------

static uint64_t case_number, next_index;

static int pick(int least, int most) {
    uint64_t bits = random_bits(case_number, STREAM_TEST, next_index++);
    return least + (int)(bits % (uint64_t)(most - least + 1));
}
static bool pick_bool(void) { return pick(0, 1) == 1; }
// Often none or one: there a formula goes wrong first.
static int pick_size(void) { return pick_bool() ? pick(0, 1) : pick(2, 9); }
static int pick_few(void) { return pick_bool() ? pick(0, 1) : pick(2, 4); }
static int pick_side(void) { return pick_bool() ? pick(1, 2) : pick(3, 9); } // of an image

// ---- numbers that are counted ------------------------------------------------------------------

// An array that a kernel reads or writes.
typedef struct Operand {
    long n;
    size_t size;         // bytes of a number: of a float, or 1
    void *memory;        // for the kernel itself; its address is what the argument struct holds
    double *values;      // the same numbers for the loops here
    bool *read, *stored; // which of them the loops have used
} Operand;

enum { MAX_OPERANDS = 10 };
static Operand operands[MAX_OPERANDS];
static int num_operands;
static double flop;

static double number_in_memory(const Operand *o, long i) {
    return o->size == 1 ? ((unsigned char *)o->memory)[i] : ((float *)o->memory)[i];
}

// n whole numbers from least to most: their sums are exact, so that a comparison with 0 comes out
// the same in whatever order a kernel adds.
static void *operand(long n, size_t size, int least, int most) {
    assert_true(num_operands < MAX_OPERANDS);
    size_t count = (size_t)n + 1; // so that an empty one has an address of its own
    Operand *o = &operands[num_operands++];
    *o = (Operand){.n = n, .size = size, .memory = cpu_memory(count * size)};
    o->values = xcalloc(count, sizeof *o->values);
    o->read = xcalloc(count, sizeof *o->read);
    o->stored = xcalloc(count, sizeof *o->stored);
    for (long i = 0; i < n; i++) {
        int value = pick(least, most);
        if (size == 1)
            ((unsigned char *)o->memory)[i] = (unsigned char)value;
        else
            ((float *)o->memory)[i] = (float)value;
        o->values[i] = value;
    }
    return o->memory;
}

static float *numbers(long n) { return operand(n, sizeof(float), -4, 4); }
static float *positive(long n) { return operand(n, sizeof(float), 2, 9); } // variances, counts
static float *classes(long n, int count) { return operand(n, sizeof(float), 0, count - 1); }
static unsigned char *gates(long n) { return operand(n, 1, 0, 3); } // `pooled`

static void free_operands(void) {
    for (int i = 0; i < num_operands; i++) {
        free(operands[i].memory);
        free(operands[i].values);
        free(operands[i].read);
        free(operands[i].stored);
    }
    num_operands = 0;
}

// The operand that has this address, and which of its numbers that is.
static Operand *operand_at(const void *address, long *i) {
    for (int k = 0; k < num_operands; k++) {
        const char *first = operands[k].memory, *at = address;
        *i = at >= first ? (at - first) / (long)operands[k].size : operands[k].n;
        if (*i < operands[k].n) return &operands[k];
    }
    fail_msg("an address outside of all operands");
    return NULL;
}

static double load(const void *address) {
    long i;
    Operand *o = operand_at(address, &i);
    o->read[i] = true;
    return o->values[i];
}

static void store(void *address, double value) {
    long i;
    Operand *o = operand_at(address, &i);
    o->stored[i] = true;
    o->values[i] = value;
}

static double counted(double result) {
    flop++;
    return result;
}
static double add(double a, double b) { return counted(a + b); }
static double subtract(double a, double b) { return counted(a - b); }
static double multiply(double a, double b) { return counted(a * b); }
static double divide(double a, double b) { return counted(a / b); }
static bool is_larger(double a, double b) { return counted(a > b) != 0; }
static double exponential(double x) { return counted(exp(x)); }
static double logarithm(double x) { return counted(log(x)); }
static double root(double x) { return counted(sqrt(x)); }

// out = beta out + value
static void finish(float *out, double value, float beta) {
    store(out, beta != 0 ? add(load(out), value) : value);
}

static double *zeros(long n) { return xcalloc((size_t)n + 1, sizeof(double)); }

// Defined at the end, from the list of kernels.
static void check(KernelId kernel, const void *args);

// ---- elementwise and sums ----------------------------------------------------------------------

static void fill_definition(const void *args) {
    const struct fill_args *a = args;
    for (size_t i = 0; i < a->n; i++) store(&a->x[i], a->value);
}
static void fill_case(void) {
    int n = pick_size();
    check(KERNEL_fill, &(struct fill_args){.x = numbers(n), .value = 3, .n = (size_t)n});
}

static void scale_definition(const void *args) {
    const struct scale_args *a = args;
    for (size_t i = 0; i < a->n; i++) store(&a->x[i], multiply(load(&a->x[i]), a->factor));
}
static void scale_case(void) {
    int n = pick_size();
    check(KERNEL_scale, &(struct scale_args){.x = numbers(n), .factor = 3, .n = (size_t)n});
}

static void add_definition(const void *args) {
    const struct add_args *a = args;
    for (size_t i = 0; i < a->n; i++) store(&a->y[i], add(load(&a->y[i]), load(&a->x[i])));
}
static void add_case(void) {
    int n = pick_size();
    check(KERNEL_add, &(struct add_args){.y = numbers(n), .x = numbers(n), .n = (size_t)n});
}

static void add_forward_definition(const void *args) {
    const struct add_forward_args *a = args;
    for (size_t i = 0; i < a->n; i++) store(&a->Y[i], add(load(&a->A[i]), load(&a->B[i])));
}
static void add_forward_case(void) {
    int n = pick_size();
    struct add_forward_args args = {
        .A = numbers(n), .B = numbers(n), .Y = numbers(n), .n = (size_t)n};
    check(KERNEL_add_forward, &args);
}

static void add_backward_definition(const void *args) {
    const struct add_backward_args *a = args;
    for (size_t i = 0; i < a->n; i++) finish(&a->dX[i], load(&a->dY[i]), a->beta);
}
static void add_backward_case(void) {
    int n = pick_size();
    struct add_backward_args args = {
        .dY = numbers(n), .dX = numbers(n), .beta = pick_bool(), .n = (size_t)n};
    check(KERNEL_add_backward, &args);
}

static void copy_columns_definition(const void *args) {
    const struct copy_columns_args *a = args;
    for (int i = 0; i < a->rows; i++)
        for (int j = 0; j < a->cols; j++)
            store(&a->Y[i * a->Y_stride + j], load(&a->X[i * a->X_stride + j]));
}
static void copy_columns_case(void) {
    int rows = pick_size(), cols = pick_size(), of_X = cols + pick(0, 3), of_Y = cols + pick(0, 3);
    struct copy_columns_args args = {.X = numbers((long)rows * of_X),
                                     .Y = numbers((long)rows * of_Y),
                                     .rows = rows,
                                     .cols = cols,
                                     .X_stride = of_X,
                                     .Y_stride = of_Y};
    check(KERNEL_copy_columns, &args);
}

static void sum_forward_definition(const void *args) {
    const struct sum_forward_args *a = args;
    double sum = 0;
    for (size_t i = 0; i < a->n; i++) sum = add(sum, load(&a->x[i]));
    store(a->out, sum);
}
static void sum_forward_case(void) {
    int n = pick_size();
    struct sum_forward_args args = {.x = numbers(n), .out = numbers(1), .n = (size_t)n};
    check(KERNEL_sum_forward, &args);
}

static void sum_backward_definition(const void *args) {
    const struct sum_backward_args *a = args;
    for (size_t i = 0; i < a->n; i++) finish(&a->dx[i], load(a->dout), a->beta);
}
static void sum_backward_case(void) {
    int n = pick_size();
    struct sum_backward_args args = {
        .dout = numbers(1), .dx = numbers(n), .beta = pick_bool(), .n = (size_t)n};
    check(KERNEL_sum_backward, &args);
}

static void relu_forward_definition(const void *args) {
    const struct relu_forward_args *a = args;
    for (size_t i = 0; i < a->n; i++) {
        double x = load(&a->X[i]);
        store(&a->Y[i], is_larger(x, 0) ? x : 0);
    }
}
static void relu_forward_case(void) {
    int n = pick_size();
    struct relu_forward_args args = {.X = numbers(n), .Y = numbers(n), .n = (size_t)n};
    check(KERNEL_relu_forward, &args);
}

static void relu_backward_definition(const void *args) {
    const struct relu_backward_args *a = args;
    for (size_t i = 0; i < a->n; i++) {
        double dY = load(&a->dY[i]);
        finish(&a->dX[i], is_larger(load(&a->Y[i]), 0) ? dY : 0, a->beta);
    }
}
static void relu_backward_case(void) {
    int n = pick_size();
    struct relu_backward_args args = {
        .Y = numbers(n), .dY = numbers(n), .dX = numbers(n), .beta = pick_bool(), .n = (size_t)n};
    check(KERNEL_relu_backward, &args);
}

// ---- fully connected layers --------------------------------------------------------------------

static void gemm_definition(const void *args) {
    const struct gemm_args *a = args;
    for (int i = 0; i < a->M; i++)
        for (int j = 0; j < a->N; j++) {
            double sum = 0;
            for (int k = 0; k < a->K; k++) {
                double left = load(&a->A[a->trans_A ? k * a->M + i : i * a->K + k]);
                double right = load(&a->B[a->trans_B ? j * a->K + k : k * a->N + j]);
                sum = add(sum, multiply(left, right));
            }
            finish(&a->C[i * a->N + j], sum, a->beta);
        }
}
static void gemm_case(void) {
    int M = pick_size(), N = pick_size(), K = pick_size();
    struct gemm_args args = {.A = numbers((long)M * K),
                             .B = numbers((long)K * N),
                             .C = numbers((long)M * N),
                             .beta = pick_bool(),
                             .M = M,
                             .N = N,
                             .K = K,
                             .trans_A = pick_bool(),
                             .trans_B = pick_bool()};
    check(KERNEL_gemm, &args);
}

static void add_bias_forward_definition(const void *args) {
    const struct add_bias_forward_args *a = args;
    for (int i = 0; i < a->rows * a->cols; i++)
        store(&a->Y[i], add(load(&a->X[i]), load(&a->b[i % a->cols])));
}
static void add_bias_forward_case(void) {
    int rows = pick_size(), cols = pick_size();
    long n = (long)rows * cols;
    struct add_bias_forward_args args = {
        .X = numbers(n), .b = numbers(cols), .Y = numbers(n), .rows = rows, .cols = cols};
    check(KERNEL_add_bias_forward, &args);
}

static void add_bias_backward_definition(const void *args) {
    const struct add_bias_backward_args *a = args;
    for (int col = 0; col < a->cols; col++) {
        double sum = 0;
        for (int row = 0; row < a->rows; row++) sum = add(sum, load(&a->dY[row * a->cols + col]));
        finish(&a->db[col], sum, a->beta);
    }
}
static void add_bias_backward_case(void) {
    int rows = pick_size(), cols = pick_size();
    struct add_bias_backward_args args = {.dY = numbers((long)rows * cols),
                                          .db = numbers(cols),
                                          .beta = pick_bool(),
                                          .rows = rows,
                                          .cols = cols};
    check(KERNEL_add_bias_backward, &args);
}

// ---- convolution -------------------------------------------------------------------------------

typedef struct conv2d_shape Conv;

static long size_X(const Conv *s) { return (long)s->N * s->C * s->H * s->W; }
static long size_Y(const Conv *s) { return (long)s->N * s->M * s->out_h * s->out_w; }
static long size_window(const Conv *s) { return (long)s->C * s->kernel_h * s->kernel_w; }

// The output channel of pixel y of Y.
static long channel_of(const Conv *s, long y) { return y / ((long)s->out_h * s->out_w) % s->M; }

// Which pixel of X weight w of a window meets for pixel y of Y; -1 in the padding.
static long met_by(const Conv *s, long y, long w) {
    long j = y % s->out_w, i = y / s->out_w % s->out_h, n = y / s->out_w / s->out_h / s->M;
    long q = w % s->kernel_w, p = w / s->kernel_w % s->kernel_h, c = w / s->kernel_w / s->kernel_h;
    long row = i * s->stride_h + p - s->pad_h, col = j * s->stride_w + q - s->pad_w;
    bool inside = row >= 0 && row < s->H && col >= 0 && col < s->W;
    return inside ? ((n * s->C + c) * s->H + row) * s->W + col : -1;
}

static double load_padded(const float *X, long x) { return x < 0 ? 0 : load(&X[x]); }

static double pixel(const struct conv2d_forward_args *a, long y) {
    long window = size_window(&a->s), m = channel_of(&a->s, y);
    double sum = 0;
    for (long w = 0; w < window; w++) {
        double x = load_padded(a->X, met_by(&a->s, y, w));
        sum = add(sum, multiply(load(&a->W[m * window + w]), x));
    }
    return a->b ? add(sum, load(&a->b[m])) : sum;
}

// A window of two by two pixels: the first of them, in Y before pooling, and its first byte of
// `pooled`. The rows of all images are counted through, as each image has an even number.
typedef struct Window {
    long pixel, byte;
} Window;

static Window window_of(const Conv *s, long number) {
    long row = number / (s->out_w / 2), col = number % (s->out_w / 2);
    return (Window){.pixel = 2 * row * s->out_w + 2 * col, .byte = row * s->out_w + 2 * col};
}

static void pool_window(const struct conv2d_forward_args *a, long number) {
    Window window = window_of(&a->s, number);
    double sum = 0;
    for (int col = 0; col < 2; col++) {
        int bits = 0;
        for (int row = 0; row < 2; row++) {
            double value = pixel(a, window.pixel + row * a->s.out_w + col);
            bool open = is_larger(value, 0);
            bits |= open << row;
            sum = add(sum, open ? value : 0);
        }
        store(&a->pooled[window.byte + col], bits);
    }
    store(&a->Y[number], divide(sum, 4));
}

static void conv2d_forward_definition(const void *args) {
    const struct conv2d_forward_args *a = args;
    long pixels = size_Y(&a->s);
    if (a->pooled) {
        for (long i = 0; i < pixels / 4; i++) pool_window(a, i);
    } else {
        for (long y = 0; y < pixels; y++) store(&a->Y[y], pixel(a, y));
    }
}

// dY of each pixel, also where that of windows is given. To be freed.
static double *gradients(const Conv *s, const float *dY, const unsigned char *pooled) {
    long pixels = size_Y(s);
    double *d = zeros(pixels);
    for (long y = 0; y < pixels && !pooled; y++) d[y] = load(&dY[y]);
    for (long i = 0; i < pixels / 4 && pooled; i++) {
        Window window = window_of(s, i);
        double part = divide(load(&dY[i]), 4);
        for (int col = 0; col < 2; col++) {
            int bits = (int)load(&pooled[window.byte + col]);
            for (int row = 0; row < 2; row++)
                d[window.pixel + row * s->out_w + col] = bits >> row & 1 ? part : 0;
        }
    }
    return d;
}

static void conv2d_backward_input_definition(const void *args) {
    const struct conv2d_backward_input_args *a = args;
    const Conv *s = &a->s;
    long window = size_window(s);
    double *d = gradients(s, a->dY, a->pooled), *sums = zeros(size_X(s)), in_padding = 0;
    for (long y = 0; y < size_Y(s); y++)
        for (long w = 0; w < window; w++) {
            long x = met_by(s, y, w);
            double *sum = x < 0 ? &in_padding : &sums[x];
            *sum = add(*sum, multiply(load(&a->W[channel_of(s, y) * window + w]), d[y]));
        }
    for (long x = 0; x < size_X(s); x++) finish(&a->dX[x], sums[x], a->beta);
    free(sums);
    free(d);
}

static void conv2d_backward_params_definition(const void *args) {
    const struct conv2d_backward_params_args *a = args;
    const Conv *s = &a->s;
    long window = size_window(s);
    double *d = gradients(s, a->dY, a->pooled), *dW = zeros(s->M * window), *db = zeros(s->M);
    for (long y = 0; y < size_Y(s); y++) {
        long m = channel_of(s, y);
        for (long w = 0; w < window; w++) {
            double *sum = &dW[m * window + w];
            *sum = add(*sum, multiply(load_padded(a->X, met_by(s, y, w)), d[y]));
        }
        if (a->db) db[m] = add(db[m], d[y]);
    }
    for (long i = 0; i < s->M * window; i++) finish(&a->dW[i], dW[i], a->beta);
    for (long m = 0; m < s->M && a->db; m++) finish(&a->db[m], db[m], a->beta);
    free(db);
    free(dW);
    free(d);
}

// How many windows fit.
static int windows(int size, int pad, int kernel, int stride) {
    return (size + 2 * pad - kernel) / stride + 1;
}

static int without_rest(int n, int divisor) { return n - n % divisor; }

// Kernels larger than the stride and smaller, padding that some windows lie in as a whole, no rows
// or channels.
// pooled: with an even number of pixels each way, which may be none.
static Conv pick_conv(bool pooled) {
    Conv s = {
        .N = pick_few(), .C = pick_few(), .M = pick_few(), .H = pick_side(), .W = pick_side()};
    s.pad_h = pick(0, 2);
    s.pad_w = pick(0, 2);
    s.kernel_h = pick(1, smaller(s.H + 2 * s.pad_h, 5));
    s.kernel_w = pick(1, smaller(s.W + 2 * s.pad_w, 5));
    s.stride_h = pick(1, 3);
    s.stride_w = pick(1, 3);
    s.out_h = without_rest(windows(s.H, s.pad_h, s.kernel_h, s.stride_h), pooled ? 2 : 1);
    s.out_w = without_rest(windows(s.W, s.pad_w, s.kernel_w, s.stride_w), pooled ? 2 : 1);
    return s;
}

static void conv2d_forward_case(void) {
    bool pooled = pick_bool();
    Conv s = pick_conv(pooled);
    struct conv2d_forward_args args = {.X = numbers(size_X(&s)),
                                       .W = numbers(s.M * size_window(&s)),
                                       .b = pick_bool() ? numbers(s.M) : NULL,
                                       .Y = numbers(size_Y(&s) / (pooled ? 4 : 1)),
                                       .s = s,
                                       .pooled = pooled ? gates(size_Y(&s) / 2) : NULL};
    check(KERNEL_conv2d_forward, &args);
}

static void conv2d_backward_input_case(void) {
    bool pooled = pick_bool();
    Conv s = pick_conv(pooled);
    struct conv2d_backward_input_args args = {.dY = numbers(size_Y(&s) / (pooled ? 4 : 1)),
                                              .W = numbers(s.M * size_window(&s)),
                                              .dX = numbers(size_X(&s)),
                                              .beta = pick_bool(),
                                              .s = s,
                                              .pooled = pooled ? gates(size_Y(&s) / 2) : NULL};
    check(KERNEL_conv2d_backward_input, &args);
}

static void conv2d_backward_params_case(void) {
    bool pooled = pick_bool();
    Conv s = pick_conv(pooled);
    struct conv2d_backward_params_args args = {.dY = numbers(size_Y(&s) / (pooled ? 4 : 1)),
                                               .X = numbers(size_X(&s)),
                                               .dW = numbers(s.M * size_window(&s)),
                                               .db = pick_bool() ? numbers(s.M) : NULL,
                                               .beta = pick_bool(),
                                               .s = s,
                                               .pooled = pooled ? gates(size_Y(&s) / 2) : NULL};
    check(KERNEL_conv2d_backward_params, &args);
}

// ---- pooling -----------------------------------------------------------------------------------

typedef struct avg_pool2d_shape Pool;

static long pool_inputs(const Pool *s) { return (long)s->N * s->C * s->H * s->W; }
static long pool_outputs(const Pool *s) { return (long)s->N * s->C * s->out_h * s->out_w; }

// Pixel t of window y, as a place in X.
static long pool_pixel(const Pool *s, long y, int t) {
    long j = y % s->out_w, i = y / s->out_w % s->out_h, plane = y / s->out_w / s->out_h;
    long row = i * s->stride_h + t / s->kernel_w, col = j * s->stride_w + t % s->kernel_w;
    return (plane * s->H + row) * s->W + col;
}

static void avg_pool2d_forward_definition(const void *args) {
    const struct avg_pool2d_forward_args *a = args;
    int pixels = a->s.kernel_h * a->s.kernel_w;
    for (long y = 0; y < pool_outputs(&a->s); y++) {
        double sum = 0;
        for (int t = 0; t < pixels; t++) sum = add(sum, load(&a->X[pool_pixel(&a->s, y, t)]));
        store(&a->Y[y], divide(sum, pixels));
    }
}

static void avg_pool2d_backward_definition(const void *args) {
    const struct avg_pool2d_backward_args *a = args;
    int pixels = a->s.kernel_h * a->s.kernel_w;
    double *sums = zeros(pool_inputs(&a->s));
    for (long y = 0; y < pool_outputs(&a->s); y++) {
        double part = divide(load(&a->dY[y]), pixels);
        for (int t = 0; t < pixels; t++) {
            double *sum = &sums[pool_pixel(&a->s, y, t)];
            *sum = add(*sum, part);
        }
    }
    for (long x = 0; x < pool_inputs(&a->s); x++) finish(&a->dX[x], sums[x], a->beta);
    free(sums);
}

// Windows that overlap, that touch, and that leave pixels out, between them and at the rim.
static Pool pick_pool(void) {
    Pool s = {.N = pick_few(), .C = pick_few(), .H = pick_side(), .W = pick_side()};
    s.kernel_h = pick(1, smaller(s.H, 3));
    s.kernel_w = pick(1, smaller(s.W, 3));
    s.stride_h = pick(1, 4);
    s.stride_w = pick(1, 4);
    s.out_h = windows(s.H, 0, s.kernel_h, s.stride_h);
    s.out_w = windows(s.W, 0, s.kernel_w, s.stride_w);
    return s;
}

static void avg_pool2d_forward_case(void) {
    Pool s = pick_pool();
    struct avg_pool2d_forward_args args = {
        .X = numbers(pool_inputs(&s)), .Y = numbers(pool_outputs(&s)), .s = s};
    check(KERNEL_avg_pool2d_forward, &args);
}

static void avg_pool2d_backward_case(void) {
    Pool s = pick_pool();
    struct avg_pool2d_backward_args args = {.dY = numbers(pool_outputs(&s)),
                                            .dX = numbers(pool_inputs(&s)),
                                            .beta = pick_bool(),
                                            .s = s};
    check(KERNEL_avg_pool2d_backward, &args);
}

// ---- batch normalisation -----------------------------------------------------------------------

// Where number i of channel c is, of all N S in the channel.
static long channel_number(int C, int S, int c, int i) {
    return ((long)(i / S) * C + c) * S + i % S;
}

static double deviation(double var, float eps) { return root(add(var, eps)); }

static void batch_norm_stats_definition(const void *args) {
    const struct batch_norm_stats_args *a = args;
    int count = a->N * a->S;
    for (int c = 0; c < a->C; c++) {
        double sum = 0, M2 = 0;
        for (int i = 0; i < count; i++)
            sum = add(sum, load(&a->X[channel_number(a->C, a->S, c, i)]));
        double mean = count > 0 ? divide(sum, count) : 0;
        for (int i = 0; i < count; i++) {
            double d = subtract(load(&a->X[channel_number(a->C, a->S, c, i)]), mean);
            M2 = add(M2, multiply(d, d));
        }
        store(&a->stats[c], mean);
        store(&a->stats[a->C + c], M2);
    }
    store(&a->stats[2 * a->C], count);
}
static void batch_norm_stats_case(void) {
    int N = pick_size(), C = pick_size(), S = pick_size();
    struct batch_norm_stats_args args = {
        .X = numbers((long)N * C * S), .stats = numbers(2 * C + 1), .N = N, .C = C, .S = S};
    check(KERNEL_batch_norm_stats, &args);
}

// A channel's mean and M2 of some rows so far and one more device's.
static void merge(double *mean, double *M2, const float *stats, int C, double before, double part) {
    double delta = subtract(load(&stats[0]), *mean);
    double between = multiply(multiply(multiply(delta, delta), before), part);
    *mean = add(*mean, multiply(delta, part));
    *M2 = add(add(*M2, load(&stats[C])), between);
}

static void update_running(const struct batch_norm_merge_args *a, const double *mean,
                           const double *M2, double count) {
    if (!a->running_mean && !a->running_var) return;
    double keep = subtract(1, a->momentum);
    double without_bias = a->running_var ? subtract(count, 1) : 0;
    for (int c = 0; c < a->C; c++) {
        if (a->running_mean)
            store(&a->running_mean[c],
                  add(multiply(keep, load(&a->running_mean[c])), multiply(a->momentum, mean[c])));
        if (a->running_var)
            store(&a->running_var[c], add(multiply(keep, load(&a->running_var[c])),
                                          multiply(a->momentum, divide(M2[c], without_bias))));
    }
}

static void batch_norm_merge_definition(const void *args) {
    const struct batch_norm_merge_args *a = args;
    double count = 0, *mean = zeros(a->C), *M2 = zeros(a->C);
    for (int i = 0; i < a->k; i++) {
        const float *stats = a->stats + i * (2 * a->C + 1);
        double before = count, more = load(&stats[2 * a->C]);
        count = add(before, more);
        double part = divide(more, count);
        for (int c = 0; c < a->C; c++) merge(&mean[c], &M2[c], stats + c, a->C, before, part);
    }
    for (int c = 0; c < a->C; c++) {
        store(&a->mean[c], mean[c]);
        store(&a->var[c], divide(M2[c], count));
    }
    store(a->count, count);
    update_running(a, mean, M2, count);
    free(M2);
    free(mean);
}
static void batch_norm_merge_case(void) {
    int k = pick(1, 5), C = pick_size();
    struct batch_norm_merge_args args = {.stats = positive((long)k * (2 * C + 1)),
                                         .mean = numbers(C),
                                         .var = numbers(C),
                                         .count = numbers(1),
                                         .running_mean = pick_bool() ? numbers(C) : NULL,
                                         .running_var = pick_bool() ? numbers(C) : NULL,
                                         .momentum = 0.25f,
                                         .k = k,
                                         .C = C};
    check(KERNEL_batch_norm_merge, &args);
}

static void batch_norm_forward_definition(const void *args) {
    const struct batch_norm_forward_args *a = args;
    int count = a->N * a->S;
    for (int c = 0; c < a->C && count > 0; c++) {
        double mean = load(&a->mean[c]), sigma = deviation(load(&a->var[c]), a->eps);
        for (int i = 0; i < count; i++) {
            long at = channel_number(a->C, a->S, c, i);
            double xhat = divide(subtract(load(&a->X[at]), mean), sigma);
            store(&a->Y[at], add(multiply(load(&a->weight[c]), xhat), load(&a->bias[c])));
        }
    }
}
static void batch_norm_forward_case(void) {
    int N = pick_size(), C = pick_size(), S = pick_size();
    struct batch_norm_forward_args args = {.X = numbers((long)N * C * S),
                                           .mean = numbers(C),
                                           .var = positive(C),
                                           .weight = numbers(C),
                                           .bias = numbers(C),
                                           .Y = numbers((long)N * C * S),
                                           .eps = 0.5f,
                                           .N = N,
                                           .C = C,
                                           .S = S};
    check(KERNEL_batch_norm_forward, &args);
}

static void batch_norm_backward_sums_definition(const void *args) {
    const struct batch_norm_backward_sums_args *a = args;
    int count = a->N * a->S;
    for (int c = 0; c < a->C; c++) {
        double sum = 0, of_products = 0, mean = 0, sigma = 1;
        if (count > 0) {
            mean = load(&a->mean[c]);
            sigma = deviation(load(&a->var[c]), a->eps);
        }
        for (int i = 0; i < count; i++) {
            long at = channel_number(a->C, a->S, c, i);
            double dY = load(&a->dY[at]), xhat = divide(subtract(load(&a->X[at]), mean), sigma);
            sum = add(sum, dY);
            of_products = add(of_products, multiply(dY, xhat));
        }
        store(&a->sums[c], sum);
        store(&a->sums[a->C + c], of_products);
    }
}
static void batch_norm_backward_sums_case(void) {
    int N = pick_size(), C = pick_size(), S = pick_size();
    struct batch_norm_backward_sums_args args = {.dY = numbers((long)N * C * S),
                                                 .X = numbers((long)N * C * S),
                                                 .mean = numbers(C),
                                                 .var = positive(C),
                                                 .sums = numbers(2 * C),
                                                 .eps = 0.5f,
                                                 .N = N,
                                                 .C = C,
                                                 .S = S};
    check(KERNEL_batch_norm_backward_sums, &args);
}

// Of a channel: mean and var are constants, or depend on X.
static void input_of_constants(const struct batch_norm_backward_input_args *a, int c) {
    double scale = divide(load(&a->weight[c]), deviation(load(&a->var[c]), a->eps));
    for (int i = 0; i < a->N * a->S; i++) {
        long at = channel_number(a->C, a->S, c, i);
        finish(&a->dX[at], multiply(scale, load(&a->dY[at])), a->beta);
    }
}
static void input_of_moments(const struct batch_norm_backward_input_args *a, int c) {
    double sigma = deviation(load(&a->var[c]), a->eps), scale = divide(load(&a->weight[c]), sigma);
    double count = load(a->count), mean = load(&a->mean[c]);
    double mean_dY = divide(load(&a->sums[c]), count);
    double mean_product = divide(load(&a->sums[a->C + c]), count);
    for (int i = 0; i < a->N * a->S; i++) {
        long at = channel_number(a->C, a->S, c, i);
        double xhat = divide(subtract(load(&a->X[at]), mean), sigma);
        double d = subtract(subtract(load(&a->dY[at]), mean_dY), multiply(xhat, mean_product));
        finish(&a->dX[at], multiply(scale, d), a->beta);
    }
}
static void batch_norm_backward_input_definition(const void *args) {
    const struct batch_norm_backward_input_args *a = args;
    for (int c = 0; c < a->C && a->N * a->S > 0; c++) {
        if (a->sums)
            input_of_moments(a, c);
        else
            input_of_constants(a, c);
    }
}
static void batch_norm_backward_input_case(void) {
    int N = pick_size(), C = pick_size(), S = pick_size();
    struct batch_norm_backward_input_args args = {.dY = numbers((long)N * C * S),
                                                  .X = numbers((long)N * C * S),
                                                  .mean = numbers(C),
                                                  .var = positive(C),
                                                  .weight = numbers(C),
                                                  .sums = pick_bool() ? numbers(2 * C) : NULL,
                                                  .count = positive(1),
                                                  .dX = numbers((long)N * C * S),
                                                  .eps = 0.5f,
                                                  .beta = pick_bool(),
                                                  .N = N,
                                                  .C = C,
                                                  .S = S};
    check(KERNEL_batch_norm_backward_input, &args);
}

// ---- loss, accuracy, update --------------------------------------------------------------------

enum { MAX_CLASSES = 8 };

static int largest_of(const float *row, int count) {
    double largest = -INFINITY;
    int first = 0;
    for (int c = 0; c < count; c++) {
        double value = load(&row[c]);
        if (!is_larger(value, largest)) continue;
        largest = value;
        first = c;
    }
    return first;
}

static void cross_entropy_forward_definition(const void *args) {
    const struct cross_entropy_forward_args *a = args;
    for (int row = 0; row < a->rows; row++) {
        const float *logits = a->logits + row * a->classes;
        double x[MAX_CLASSES], e[MAX_CLASSES], sum = 0;
        double largest = load(&logits[largest_of(logits, a->classes)]);
        for (int c = 0; c < a->classes; c++) {
            x[c] = subtract(load(&logits[c]), largest);
            e[c] = exponential(x[c]);
            sum = add(sum, e[c]);
        }
        for (int c = 0; c < a->classes; c++)
            store(&a->probs[row * a->classes + c], divide(e[c], sum));
        store(&a->losses[row], subtract(logarithm(sum), x[(int)load(&a->labels[row])]));
    }
}
static void cross_entropy_forward_case(void) {
    int rows = pick_size(), count = pick(1, MAX_CLASSES);
    long n = (long)rows * count;
    struct cross_entropy_forward_args args = {.logits = numbers(n),
                                              .labels = classes(rows, count),
                                              .losses = numbers(rows),
                                              .probs = numbers(n),
                                              .rows = rows,
                                              .classes = count};
    check(KERNEL_cross_entropy_forward, &args);
}

static void cross_entropy_backward_definition(const void *args) {
    const struct cross_entropy_backward_args *a = args;
    for (int i = 0; i < a->rows * a->classes; i++) {
        int row = i / a->classes, onehot = i % a->classes == (int)load(&a->labels[row]);
        double d = multiply(load(&a->dlosses[row]), subtract(load(&a->probs[i]), onehot));
        finish(&a->dlogits[i], d, a->beta);
    }
}
static void cross_entropy_backward_case(void) {
    int rows = pick_size(), count = pick(1, MAX_CLASSES);
    long n = (long)rows * count;
    struct cross_entropy_backward_args args = {.probs = numbers(n),
                                               .labels = classes(rows, count),
                                               .dlosses = numbers(rows),
                                               .dlogits = numbers(n),
                                               .beta = pick_bool(),
                                               .rows = rows,
                                               .classes = count};
    check(KERNEL_cross_entropy_backward, &args);
}

static void count_correct_definition(const void *args) {
    const struct count_correct_args *a = args;
    int correct = 0;
    for (int row = 0; row < a->rows; row++)
        correct += largest_of(a->logits + row * a->classes, a->classes) == load(&a->labels[row]);
    store(a->count, add(load(a->count), correct));
}
static void count_correct_case(void) {
    int rows = pick_size(), count = pick(1, MAX_CLASSES);
    struct count_correct_args args = {.logits = numbers((long)rows * count),
                                      .labels = classes(rows, count),
                                      .count = numbers(1),
                                      .rows = rows,
                                      .classes = count};
    check(KERNEL_count_correct, &args);
}

static void sgd_definition(const void *args) {
    const struct sgd_args *a = args;
    double rate = a->n > 0 ? divide(a->lr, a->batch_size) : 0;
    for (size_t i = 0; i < a->n; i++) {
        store(&a->param[i], subtract(load(&a->param[i]), multiply(rate, load(&a->grad[i]))));
        store(&a->grad[i], 0);
    }
}
static void sgd_case(void) {
    int n = pick_size();
    struct sgd_args args = {
        .param = numbers(n), .grad = numbers(n), .lr = 0.5f, .batch_size = 4, .n = (size_t)n};
    check(KERNEL_sgd, &args);
}

static void adam_definition(const void *args) {
    const struct adam_args *a = args;
    if (a->n == 0) return;
    double per_row = divide(1, a->batch_size), scale = divide(1, a->root);
    double rest1 = subtract(1, a->beta1), rest2 = subtract(1, a->beta2);
    for (size_t i = 0; i < a->n; i++) {
        double g = multiply(load(&a->grad[i]), per_row);
        double mean = add(multiply(a->beta1, load(&a->mean[i])), multiply(rest1, g));
        double square =
            add(multiply(a->beta2, load(&a->square[i])), multiply(multiply(rest2, g), g));
        store(&a->mean[i], mean);
        store(&a->square[i], square);
        double below = add(multiply(root(square), scale), a->eps);
        store(&a->param[i], subtract(load(&a->param[i]), divide(multiply(a->rate, mean), below)));
        store(&a->grad[i], 0);
    }
}
static void adam_case(void) {
    int n = pick_size();
    struct adam_args args = {.param = numbers(n),
                             .grad = numbers(n),
                             .mean = numbers(n),
                             .square = positive(n),
                             .rate = 0.5f,
                             .root = 0.25f,
                             .beta1 = 0.5f,
                             .beta2 = 0.75f,
                             .eps = 1,
                             .batch_size = 4,
                             .n = (size_t)n};
    check(KERNEL_adam, &args);
}

// ---- all of them -------------------------------------------------------------------------------

// A kernel that is not defined above, or of which there is no case, does not compile here.
typedef struct Counted {
    void (*definition)(const void *args);
    void (*random_case)(void);
} Counted;
static Counted kernels[NUM_KERNELS] = {
#define ENTRY(name) [KERNEL_##name] = {name##_definition, name##_case},
    KERNELS(ENTRY)
#undef ENTRY
};

static CpuLane lane = {.threads = 1};

static double counted_bytes(void) {
    double bytes = 0;
    for (int k = 0; k < num_operands; k++) {
        const Operand *o = &operands[k];
        for (long i = 0; i < o->n; i++) bytes += (double)o->size * (o->read[i] + o->stored[i]);
    }
    return bytes;
}

// The kernel has run, too, so its memory must hold what the loops have stored. Winograd's rounding
// is allowed; one product too few or too many of whole numbers makes a difference of 1/4 or more.
static void check_results(KernelId kernel) {
    for (int k = 0; k < num_operands; k++)
        for (long i = 0; i < operands[k].n; i++) {
            double got = number_in_memory(&operands[k], i), expected = operands[k].values[i];
            if (!(fabs(got - expected) <= 0.01))
                fail_msg("case %d of %s: number %ld of operand %d is %.9g, the loops say %.9g",
                         (int)case_number, kernel_name(kernel), i, k, got, expected);
        }
}

static CostKind kind_of(KernelId kernel) {
    switch (kernel) {
    case KERNEL_gemm:
        return COST_PRODUCT;
    case KERNEL_conv2d_forward:
    case KERNEL_conv2d_backward_input:
    case KERNEL_conv2d_backward_params:
        return COST_CONVOLUTION;
    default:
        return COST_ELEMENTS;
    }
}

static void check(KernelId kernel, const void *args) {
    flop = 0;
    kernels[kernel].definition(args);
    KernelCost cost = kernel_cost(kernel, args);
    double bytes = counted_bytes();
    assert_int_equal(cost.kind, kind_of(kernel));
    if (cost.flop != flop || cost.bytes != bytes)
        fail_msg("case %d of %s costs %.0f FLOP and %.0f bytes, but counted are %.0f and %.0f",
                 (int)case_number, kernel_name(kernel), cost.flop, cost.bytes, flop, bytes);
    cpu_instruction_set()->kernels[kernel](&lane, args);
    check_results(kernel);
    free_operands();
}

static void costs_what_is_counted(void **state) {
    const Counted *kernel = *state;
    enum { CASES = 2000 };
    for (case_number = 0; case_number < CASES; case_number++) {
        next_index = 0;
        free_operands(); // of a case that failed
        kernel->random_case();
    }
}

// ---- against published figures -----------------------------------------------------------------

static KernelCost conv_cost(int C, int side, int M, int kernel, int stride, int pad) {
    int out = windows(side, pad, kernel, stride);
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
static void as_published_for_resnet18(void **state) {
    (void)state;
    KernelCost cost = conv_cost(3, 224, 64, 7, 2, 3);
    assert_true(cost.flop == 2 * 118013952.0);
    assert_true(cost.bytes == 639744.0 + 3211264.0);
}

// All layers of AlexNet for an image of 224 x 224: 0.714 billion multiplications with an addition,
// says torchvision: "_ops" in torchvision/models/alexnet.py of github.com/pytorch/vision.
static void as_published_for_alexnet(void **state) {
    (void)state;
    const KernelCost layers[] = {conv_cost(3, 224, 64, 11, 4, 2),  conv_cost(64, 27, 192, 5, 1, 2),
                                 conv_cost(192, 13, 384, 3, 1, 1), conv_cost(384, 13, 256, 3, 1, 1),
                                 conv_cost(256, 13, 256, 3, 1, 1), linear_cost(9216, 4096),
                                 linear_cost(4096, 4096),          linear_cost(4096, 1000)};
    double sum = 0;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) sum += layers[i].flop;
    assert_true(fabs(sum / 2 - 0.714e9) <= 0.0005e9);
}

// Layers that everybody knows, and how their convolutions are told apart.
static void forms_of_convolutions(void **state) {
    (void)state;
    assert_int_equal(conv_cost(3, 32, 64, 3, 1, 1).form, FORM_THIN);    // VGG's first
    assert_int_equal(conv_cost(1, 28, 20, 5, 1, 0).form, FORM_THIN);    // LeNet's
    assert_int_equal(conv_cost(64, 28, 64, 3, 1, 1).form, FORM_3X3);    // ResNet's usual one
    assert_int_equal(conv_cost(64, 28, 128, 3, 2, 1).form, FORM_PLAIN); // the first of its blocks
    assert_int_equal(conv_cost(64, 28, 128, 1, 2, 0).form, FORM_PLAIN); // and that beside it
    assert_int_equal(conv_cost(256, 7, 64, 1, 1, 0).form, FORM_PLAIN);  // a bottleneck
    assert_int_equal(conv_cost(64, 27, 192, 5, 1, 2).form, FORM_LARGE); // AlexNet's second
    struct conv2d_backward_params_args params = {.s = {.N = 1}};
    struct conv2d_backward_input_args input = {.s = {.N = 1}};
    assert_int_equal(conv_cost(64, 28, 64, 3, 1, 1).pass, PASS_FORWARD);
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
static void traffic_of_our_convolutions(void **state) {
    (void)state;
    if (CONV_WORKSPACE < 256 << 20) { skip("chunks are small where GPUs are simulated"); }
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

static int free_lane(void **state) {
    (void)state;
    cpu_scratch_free(&lane);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_published_for_resnet18), cmocka_unit_test(as_published_for_alexnet),
        cmocka_unit_test(forms_of_convolutions), cmocka_unit_test(traffic_of_our_convolutions),
#define TEST(name) {#name, costs_what_is_counted, NULL, NULL, &kernels[KERNEL_##name]},
        KERNELS(TEST)
#undef TEST
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, free_lane);
}
