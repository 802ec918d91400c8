// definitions.h: each kernel once more, in loops as plain as its definition in kernels.h, in
// double, with numbers that are counted: each operation on them, and each address that they are
// read from or written to. For test_kernels.c, which compares kernels and kernel_cost() with it.
#pragma once

#include "common/base/error.h"
#include "kernels/cost.h"
#include "test.h"

// ---- numbers that are counted ------------------------------------------------------------------

// The memory that all arguments point into, and which of its bytes numbers were read from, and
// stored to.
static struct Counted {
    const char *memory;
    size_t bytes;
    bool *read, *stored;
    long flop;
} counted;

// Of a large convolution, which channels of the result are computed: each so-manieth. The others
// stay as they are.
static int every = 1;

static void note(bool *marks, const void *address) {
    size_t at = (size_t)((const char *)address - counted.memory);
    if (at >= counted.bytes) fail_msg("an address outside of all operands");
    marks[at] = true;
}
static double load(const float *at) {
    note(counted.read, at);
    return *at;
}
static int load_byte(const unsigned char *at) {
    note(counted.read, at);
    return *at;
}
static void store(float *at, double value) {
    note(counted.stored, at);
    *at = (float)value;
}
static void store_byte(unsigned char *at, int value) {
    note(counted.stored, at);
    *at = (unsigned char)value;
}

static double count(double result) {
    counted.flop++;
    return result;
}
static double add(double a, double b) { return count(a + b); }
static double subtract(double a, double b) { return count(a - b); }
static double multiply(double a, double b) { return count(a * b); }
static double divide(double a, double b) { return count(a / b); }
static double divide_or_0(double a, double b) { return count(b > 0 ? a / b : 0); }
static bool is_larger(double a, double b) { return count(a > b) != 0; }

// out = beta out + value
static void finish(float *out, double value, float beta) {
    store(out, beta != 0 ? add(load(out), value) : value);
}

static double *zeros(long n) { return xcalloc((size_t)n + 1, sizeof(double)); }

#define DEFINITION(name)                                                                           \
    static void name##_loops(const struct name##_args *a);                                         \
    static void name##_definition(const void *args) { name##_loops(args); }                        \
    static void name##_loops(const struct name##_args *a)

// ---- elementwise and sums ----------------------------------------------------------------------

static double gated(double x, double gate) { return is_larger(gate, 0) ? x : 0; }

#define FOR_EACH_I(name, statement)                                                                \
    DEFINITION(name) {                                                                             \
        for (size_t i = 0; i < a->n; i++) statement;                                               \
    }
FOR_EACH_I(fill, store(&a->x[i], a->value))
FOR_EACH_I(scale, store(&a->x[i], multiply(load(&a->x[i]), a->factor)))
FOR_EACH_I(add, store(&a->y[i], add(load(&a->y[i]), load(&a->x[i]))))
FOR_EACH_I(add_forward, store(&a->Y[i], add(load(&a->A[i]), load(&a->B[i]))))
FOR_EACH_I(add_backward, finish(&a->dX[i], load(&a->dY[i]), a->beta))
FOR_EACH_I(sum_backward, finish(&a->dx[i], load(a->dout), a->beta))
FOR_EACH_I(relu_forward,
           store(&a->Y[i], is_larger(0, load(&a->X[i])) ? 0 : load(&a->X[i]))) // NaN stays
FOR_EACH_I(relu_backward, finish(&a->dX[i], gated(load(&a->dY[i]), load(&a->Y[i])), a->beta))

DEFINITION(copy_columns) {
    for (int i = 0; i < a->rows; i++)
        for (int j = 0; j < a->cols; j++)
            store(&a->Y[i * a->Y_stride + j], load(&a->X[i * a->X_stride + j]));
}
DEFINITION(sum_forward) {
    double sum = 0;
    for (size_t i = 0; i < a->n; i++) sum = add(sum, load(&a->x[i]));
    store(a->out, sum);
}

// ---- fully connected layers --------------------------------------------------------------------

DEFINITION(gemm) {
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

static int at_least_1(int parts) { return parts > 0 ? parts : 1; }

DEFINITION(add_bias_forward) {
    for (int i = 0; i < a->rows * a->cols; i++) {
        int part = i / a->cols % at_least_1(a->parts);
        store(&a->Y[i], add(load(&a->X[i]), load(&a->b[part * a->cols + i % a->cols])));
    }
}
DEFINITION(add_bias_backward) {
    int parts = at_least_1(a->parts);
    for (int i = 0; i < parts * a->cols; i++) {
        double sum = 0;
        for (int row = i / a->cols; row < a->rows; row += parts)
            sum = add(sum, load(&a->dY[row * a->cols + i % a->cols]));
        finish(&a->db[i], sum, a->beta);
    }
}

// ---- convolution -------------------------------------------------------------------------------

typedef struct conv2d_shape Conv;

static long size_X(const Conv *s) { return (long)s->N * s->C * s->H * s->W; }
static long size_Y(const Conv *s) { return (long)s->N * s->M * s->out_h * s->out_w; }
static long size_window(const Conv *s) { return (long)s->C * s->kernel_h * s->kernel_w; }
static long size_W(const Conv *s) { return s->M * size_window(s); }
static long channel_of(const Conv *s, long y) { return y / ((long)s->out_h * s->out_w) % s->M; }

// A convolution consists of products: pixel y of Y has weight w times pixel x of X, which is 0 in
// the padding. Forward and both backward passes add them up, as seen from Y, X and W; `dY` is NULL
// forward. The padding's sum, of X, comes after all others.
static double *sums_of(ConvolutionPass pass, const Conv *s, const float *X, const float *W,
                       const double *dY) {
    double *sums = zeros(pass == PASS_FORWARD ? size_Y(s)
                         : pass == PASS_INPUT ? size_X(s)
                                              : size_W(s));
    int step_m = pass == PASS_INPUT ? 1 : every, step_c = pass == PASS_INPUT ? every : 1;
    for (long y = 0; y < size_Y(s); y++) {
        long j = y % s->out_w, i = y / s->out_w % s->out_h, m = channel_of(s, y);
        long n = y / s->out_w / s->out_h / s->M;
        if (m % step_m != 0) continue;
        for (int c = 0; c < s->C; c += step_c)
            for (int p = 0; p < s->kernel_h; p++)
                for (int q = 0; q < s->kernel_w; q++) {
                    long h = i * s->stride_h + p - s->pad_h, v = j * s->stride_w + q - s->pad_w;
                    bool inside = h >= 0 && h < s->H && v >= 0 && v < s->W;
                    long x = inside ? ((n * s->C + c) * s->H + h) * s->W + v : size_X(s);
                    long w = ((m * s->C + c) * s->kernel_h + p) * s->kernel_w + q;
                    double left = dY ? dY[y] : load(&W[w]);
                    double right = pass == PASS_INPUT ? load(&W[w]) : inside ? load(&X[x]) : 0;
                    double *sum = &sums[pass == PASS_FORWARD ? y : pass == PASS_INPUT ? x : w];
                    *sum = add(*sum, multiply(left, right));
                }
    }
    return sums;
}

// Of pixel y of Y before pooling: its window of two by two, and its bit of `pooled`. (The rows of
// all images are counted through, as each image has an even number.)
typedef struct Gate {
    long window, byte, bit;
} Gate;

static Gate gate_of(const Conv *s, long y) {
    long row = y / s->out_w, byte = row / 2 * s->out_w + y % s->out_w;
    return (Gate){.window = byte / 2, .byte = byte, .bit = row % 2};
}

DEFINITION(conv2d_forward) {
    const Conv *s = &a->s;
    double *Y = sums_of(PASS_FORWARD, s, a->X, a->W, NULL), *pools = zeros(size_Y(s) / 4);
    for (long y = 0; y < size_Y(s); y++) {
        if (channel_of(s, y) % every != 0) continue;
        if (a->b) Y[y] = add(Y[y], load(&a->b[channel_of(s, y)]));
        if (!a->pooled) store(&a->Y[y], Y[y]);
        if (!a->pooled) continue;
        Gate gate = gate_of(s, y);
        bool open = is_larger(Y[y], 0);
        store_byte(&a->pooled[gate.byte], gate.bit ? a->pooled[gate.byte] | open << 1 : open);
        pools[gate.window] = add(pools[gate.window], open ? Y[y] : 0);
    }
    for (long i = 0; i < size_Y(s) / 4 && a->pooled; i++) store(&a->Y[i], divide(pools[i], 4));
    free(pools);
    free(Y);
}

// dY of each pixel, also where that of windows is given: a quarter. To be freed.
static double *gradients(const Conv *s, const float *dY, const unsigned char *pooled) {
    double *d = zeros(size_Y(s));
    for (long y = 0; y < size_Y(s); y++) {
        Gate gate = gate_of(s, y);
        if (!pooled)
            d[y] = load(&dY[y]);
        else if (load_byte(&pooled[gate.byte]) >> gate.bit & 1)
            d[y] = load(&dY[gate.window]) / 4;
        else
            load(&dY[gate.window]);
    }
    if (pooled) counted.flop += size_Y(s) / 4;
    return d;
}

DEFINITION(conv2d_backward_input) {
    const Conv *s = &a->s;
    double *dY = gradients(s, a->dY, a->pooled), *dX = sums_of(PASS_INPUT, s, NULL, a->W, dY);
    for (long x = 0; x < size_X(s); x++)
        if (x / ((long)s->H * s->W) % s->C % every == 0) finish(&a->dX[x], dX[x], a->beta);
    free(dX);
    free(dY);
}

DEFINITION(conv2d_backward_params) {
    const Conv *s = &a->s;
    double *dY = gradients(s, a->dY, a->pooled), *dW = sums_of(PASS_PARAMS, s, a->X, NULL, dY);
    double *db = zeros(s->M);
    for (long w = 0; w < size_W(s); w++)
        if (w / size_window(s) % every == 0) finish(&a->dW[w], dW[w], a->beta);
    for (long y = 0; y < size_Y(s) && a->db; y++) {
        double *sum = &db[channel_of(s, y)];
        *sum = add(*sum, dY[y]);
    }
    for (long m = 0; m < s->M && a->db; m++) finish(&a->db[m], db[m], a->beta);
    free(db);
    free(dW);
    free(dY);
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

DEFINITION(avg_pool2d_forward) {
    int pixels = a->s.kernel_h * a->s.kernel_w;
    for (long y = 0; y < pool_outputs(&a->s); y++) {
        double sum = 0;
        for (int t = 0; t < pixels; t++) sum = add(sum, load(&a->X[pool_pixel(&a->s, y, t)]));
        store(&a->Y[y], divide(sum, pixels));
    }
}
DEFINITION(avg_pool2d_backward) {
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

// ---- batch normalisation -----------------------------------------------------------------------

// Where number i of channel c is, of all N S in the channel.
static long channel_number(int C, int S, int c, int i) {
    return ((long)(i / S) * C + c) * S + i % S;
}

static double deviation(const float *var, float eps) { return count(sqrt(add(load(var), eps))); }

DEFINITION(batch_norm_stats) {
    int n = a->N * a->S;
    for (int c = 0; c < a->C; c++) {
        double sum = 0, M2 = 0;
        for (int i = 0; i < n; i++) sum = add(sum, load(&a->X[channel_number(a->C, a->S, c, i)]));
        double mean = n > 0 ? divide(sum, n) : 0;
        for (int i = 0; i < n; i++) {
            double d = subtract(load(&a->X[channel_number(a->C, a->S, c, i)]), mean);
            M2 = add(M2, multiply(d, d));
        }
        store(&a->stats[c], mean);
        store(&a->stats[a->C + c], M2);
    }
    store(&a->stats[2 * a->C], n);
}

// A channel's mean and M2 of some rows so far and one more device's.
static void merge(double *mean, double *M2, const float *stats, int C, double before, double part) {
    double delta = subtract(load(&stats[0]), *mean);
    double between = multiply(multiply(multiply(delta, delta), before), part);
    *mean = add(*mean, multiply(delta, part));
    *M2 = add(add(*M2, load(&stats[C])), between);
}

// One running value; it stays as it is if there are too few numbers.
static void move(float *running, const struct batch_norm_merge_args *a, double keep, double value,
                 bool enough) {
    double old = load(running), moved = add(multiply(keep, old), multiply(a->momentum, value));
    store(running, enough ? moved : old);
}

DEFINITION(batch_norm_merge) {
    double n = 0, *mean = zeros(a->C), *M2 = zeros(a->C);
    for (int i = 0; i < a->k; i++) {
        const float *stats = a->stats + i * (2 * a->C + 1);
        double before = n, more = load(&stats[2 * a->C]);
        n = add(before, more);
        double part = divide_or_0(more, n);
        for (int c = 0; c < a->C; c++) merge(&mean[c], &M2[c], stats + c, a->C, before, part);
    }
    double keep = a->running_mean || a->running_var ? subtract(1, a->momentum) : 0;
    double without_bias = a->running_var ? subtract(n, 1) : 0;
    for (int c = 0; c < a->C; c++) {
        store(&a->mean[c], mean[c]);
        store(&a->var[c], divide_or_0(M2[c], n));
        if (a->running_mean) move(&a->running_mean[c], a, keep, mean[c], n > 0);
        if (a->running_var)
            move(&a->running_var[c], a, keep, divide_or_0(M2[c], without_bias), n > 1);
    }
    store(a->count, n);
    free(M2);
    free(mean);
}

DEFINITION(batch_norm_forward) {
    for (int c = 0; c < a->C && a->N * a->S > 0; c++) {
        double mean = load(&a->mean[c]), sigma = deviation(&a->var[c], a->eps);
        for (int i = 0; i < a->N * a->S; i++) {
            long at = channel_number(a->C, a->S, c, i);
            double xhat = divide(subtract(load(&a->X[at]), mean), sigma);
            store(&a->Y[at], add(multiply(load(&a->weight[c]), xhat), load(&a->bias[c])));
        }
    }
}

DEFINITION(batch_norm_backward_sums) {
    int n = a->N * a->S;
    for (int c = 0; c < a->C; c++) {
        double sum = 0, of_products = 0, mean = n > 0 ? load(&a->mean[c]) : 0;
        double sigma = n > 0 ? deviation(&a->var[c], a->eps) : 1;
        for (int i = 0; i < n; i++) {
            long at = channel_number(a->C, a->S, c, i);
            double dY = load(&a->dY[at]), xhat = divide(subtract(load(&a->X[at]), mean), sigma);
            sum = add(sum, dY);
            of_products = add(of_products, multiply(dY, xhat));
        }
        store(&a->sums[c], sum);
        store(&a->sums[a->C + c], of_products);
    }
}

// mean and var depend on X, or are constants.
DEFINITION(batch_norm_backward_input) {
    for (int c = 0; c < a->C && a->N * a->S > 0; c++) {
        double sigma = deviation(&a->var[c], a->eps), scale = divide(load(&a->weight[c]), sigma);
        double mean = a->sums ? load(&a->mean[c]) : 0;
        double mean_dY = a->sums ? divide(load(&a->sums[c]), load(a->count)) : 0;
        double mean_product = a->sums ? divide(load(&a->sums[a->C + c]), load(a->count)) : 0;
        for (int i = 0; i < a->N * a->S; i++) {
            long at = channel_number(a->C, a->S, c, i);
            double d = load(&a->dY[at]);
            if (a->sums) {
                double xhat = divide(subtract(load(&a->X[at]), mean), sigma);
                d = subtract(subtract(d, mean_dY), multiply(xhat, mean_product));
            }
            finish(&a->dX[at], multiply(scale, d), a->beta);
        }
    }
}

// ---- transformers ------------------------------------------------------------------------------

DEFINITION(layer_norm_forward) {
    double *d = zeros(a->cols);
    for (int row = 0; row < a->rows; row++) {
        const float *X = a->X + row * a->cols;
        double sum = 0, squares = 0;
        for (int j = 0; j < a->cols; j++) sum = add(sum, load(&X[j]));
        double mean = divide(sum, a->cols);
        for (int j = 0; j < a->cols; j++) {
            d[j] = subtract(load(&X[j]), mean);
            squares = add(squares, multiply(d[j], d[j]));
        }
        double inverse = divide(1, count(sqrt(add(divide(squares, a->cols), a->eps))));
        for (int j = 0; j < a->cols; j++)
            store(&a->Y[row * a->cols + j],
                  add(multiply(load(&a->weight[j]), multiply(d[j], inverse)), load(&a->bias[j])));
        store(&a->stats[2 * row], mean);
        store(&a->stats[2 * row + 1], inverse);
    }
    free(d);
}

DEFINITION(layer_norm_backward_input) {
    double *g = zeros(a->cols), *xhat = zeros(a->cols);
    for (int row = 0; row < a->rows; row++) {
        double mean = load(&a->stats[2 * row]), inverse = load(&a->stats[2 * row + 1]);
        double sum = 0, of_products = 0;
        for (int j = 0, i = row * a->cols; j < a->cols; j++, i++) {
            g[j] = multiply(load(&a->weight[j]), load(&a->dY[i]));
            xhat[j] = multiply(subtract(load(&a->X[i]), mean), inverse);
            sum = add(sum, g[j]);
            of_products = add(of_products, multiply(g[j], xhat[j]));
        }
        double mean_g = divide(sum, a->cols), mean_product = divide(of_products, a->cols);
        for (int j = 0; j < a->cols; j++) {
            double d = subtract(subtract(g[j], mean_g), multiply(xhat[j], mean_product));
            finish(&a->dX[row * a->cols + j], multiply(d, inverse), a->beta);
        }
    }
    free(xhat);
    free(g);
}

DEFINITION(layer_norm_backward_params) {
    for (int j = 0; j < a->cols; j++) {
        double sum = 0, of_products = 0;
        for (int row = 0; row < a->rows; row++) {
            double dY = load(&a->dY[row * a->cols + j]);
            double d = subtract(load(&a->X[row * a->cols + j]), load(&a->stats[2 * row]));
            of_products = add(of_products, multiply(dY, multiply(d, load(&a->stats[2 * row + 1]))));
            sum = add(sum, dY);
        }
        finish(&a->dweight[j], of_products, a->beta);
        finish(&a->dbias[j], sum, a->beta);
    }
}

// The normal distribution, and its derivative.
static double probability_below(double x) {
    return multiply(add(1, count(erf(multiply(x, sqrt(0.5))))), 0.5);
}
static double density(double x) {
    return multiply(count(exp(multiply(multiply(x, x), -0.5))), 1 / sqrt(2 * acos(-1)));
}

FOR_EACH_I(gelu_forward,
           store(&a->Y[i], multiply(load(&a->X[i]), probability_below(load(&a->X[i])))))
DEFINITION(gelu_backward) {
    for (size_t i = 0; i < a->n; i++) {
        double x = load(&a->X[i]), slope = add(probability_below(x), multiply(x, density(x)));
        finish(&a->dX[i], multiply(load(&a->dY[i]), slope), a->beta);
    }
}

DEFINITION(patches) {
    int across = a->W / a->side, down = a->H / a->side, pixels = a->side * a->side;
    for (int i = 0; i < a->N * a->C * a->H * a->W; i++) {
        int token = i / (a->C * pixels), channel = i / pixels % a->C;
        int n = token / (across * down), square = token % (across * down);
        int y = square / across * a->side + i % pixels / a->side;
        int x = square % across * a->side + i % a->side;
        store(&a->Y[i], load(&a->X[((n * a->C + channel) * a->H + y) * a->W + x]));
    }
}

typedef struct attention_shape Attention;

// Where token t of a head begins in Y, of all N heads; three times this in QKV.
static long token_at(const Attention *s, int head, int t) {
    return (((long)(head / s->heads) * s->T + t) * s->heads + head % s->heads) * s->width;
}

static double dot(const float *x, const float *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum = add(sum, multiply(load(&x[i]), load(&y[i])));
    return sum;
}

static void softmax(double *scores, int n) {
    double largest = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++)
        if (is_larger(scores[j], largest)) largest = scores[j];
    for (int j = 0; j < n; j++) {
        scores[j] = count(exp(subtract(scores[j], largest)));
        sum = add(sum, scores[j]);
    }
    for (int j = 0; j < n; j++) scores[j] = divide(scores[j], sum);
}

DEFINITION(attention_forward) {
    const Attention *s = &a->s;
    double *probs = zeros(s->T), root = s->N * s->heads * s->T > 0 ? count(sqrt(s->width)) : 0;
    for (int row = 0; row < s->N * s->heads * s->T; row++) {
        int head = row / s->T;
        long i = token_at(s, head, row % s->T), k = s->width, v = 2 * s->width;
        for (int j = 0; j < s->T; j++) {
            const float *key = a->QKV + 3 * token_at(s, head, j) + k;
            probs[j] = divide(dot(a->QKV + 3 * i, key, s->width), root);
        }
        softmax(probs, s->T);
        for (int j = 0; j < s->T; j++) store(&a->probs[row * s->T + j], probs[j]);
        for (int d = 0; d < s->width; d++) {
            double sum = 0;
            for (int j = 0; j < s->T; j++)
                sum = add(sum, multiply(probs[j], load(&a->QKV[3 * token_at(s, head, j) + v + d])));
            store(&a->Y[i + d], sum);
        }
    }
    free(probs);
}

// The gradients of a head's scores, to be freed.
static double *score_gradients(const struct attention_backward_args *a, int head, double root) {
    int T = a->s.T, width = a->s.width;
    double *d = zeros((long)T * T);
    for (int i = 0; i < T; i++) {
        const float *probs = a->probs + (head * T + i) * T, *dY = a->dY + token_at(&a->s, head, i);
        double sum = 0, *row = d + i * T;
        for (int j = 0; j < T; j++) {
            row[j] = dot(dY, a->QKV + 3 * token_at(&a->s, head, j) + 2 * width, width);
            sum = add(sum, multiply(load(&probs[j]), row[j]));
        }
        for (int j = 0; j < T; j++)
            row[j] = divide(multiply(load(&probs[j]), subtract(row[j], sum)), root);
    }
    return d;
}

DEFINITION(attention_backward) {
    const Attention *s = &a->s;
    int T = s->T, width = s->width;
    double root = s->N * s->heads * T > 0 ? count(sqrt(width)) : 0;
    for (int head = 0; head < s->N * s->heads; head++) {
        double *dS = score_gradients(a, head, root);
        for (int i = 0; i < T * width; i++) {
            int t = i / width, d = i % width;
            double dq = 0, dk = 0, dv = 0;
            for (int u = 0; u < T; u++) {
                long other = token_at(s, head, u);
                const float *q = a->QKV + 3 * other, *k = q + width;
                dq = add(dq, multiply(dS[t * T + u], load(&k[d])));
                dk = add(dk, multiply(dS[u * T + t], load(&q[d])));
                dv = add(
                    dv, multiply(load(&a->probs[(head * T + u) * T + t]), load(&a->dY[other + d])));
            }
            float *to = a->dQKV + 3 * token_at(s, head, t) + d;
            finish(to, dq, a->beta);
            finish(to + width, dk, a->beta);
            finish(to + 2 * width, dv, a->beta);
        }
        free(dS);
    }
}

// ---- loss, accuracy, update --------------------------------------------------------------------

static int largest_of(const float *row, int classes) {
    double largest = -INFINITY;
    int first = 0;
    for (int c = 0; c < classes; c++) {
        double value = load(&row[c]);
        if (!is_larger(value, largest)) continue;
        largest = value;
        first = c;
    }
    return first;
}

// The class that a label names, or -1.
static int class_of(const float *label, int classes) {
    double value = load(label);
    return value >= 0 && value < classes ? (int)value : -1;
}

DEFINITION(cross_entropy_forward) {
    double *e = zeros(a->classes);
    for (int row = 0; row < a->rows; row++) {
        const float *logits = a->logits + row * a->classes;
        double largest = load(&logits[largest_of(logits, a->classes)]), sum = 0;
        double at_label = NAN;
        for (int c = 0; c < a->classes; c++) {
            double x = subtract(load(&logits[c]), largest);
            if (c == class_of(&a->labels[row], a->classes)) at_label = x;
            e[c] = count(exp(x));
            sum = add(sum, e[c]);
        }
        for (int c = 0; c < a->classes; c++)
            store(&a->probs[row * a->classes + c], divide(e[c], sum));
        store(&a->losses[row], subtract(count(log(sum)), at_label));
    }
    free(e);
}
DEFINITION(cross_entropy_backward) {
    for (int i = 0; i < a->rows * a->classes; i++) {
        int row = i / a->classes;
        int onehot = i % a->classes == class_of(&a->labels[row], a->classes);
        double d = multiply(load(&a->dlosses[row]), subtract(load(&a->probs[i]), onehot));
        finish(&a->dlogits[i], d, a->beta);
    }
}
DEFINITION(count_correct) {
    int correct = 0;
    for (int row = 0; row < a->rows; row++) {
        const float *logits = a->logits + row * a->classes;
        bool has_nan = false;
        for (int c = 0; c < a->classes; c++) has_nan |= isnan(logits[c]) != 0;
        int largest = largest_of(logits, a->classes), label = class_of(&a->labels[row], a->classes);
        correct += largest == label && !has_nan;
    }
    store(a->count, add(load(a->count), correct));
}
DEFINITION(sgd) {
    double rate = a->n > 0 ? divide(a->lr, a->batch_size) : 0;
    for (size_t i = 0; i < a->n; i++) {
        store(&a->param[i], subtract(load(&a->param[i]), multiply(rate, load(&a->grad[i]))));
        store(&a->grad[i], 0);
    }
}
DEFINITION(adam) {
    if (a->n == 0) return;
    double per_row = divide(1, a->batch_size), scale = divide(1, a->root);
    double rest1 = subtract(1, a->beta1), rest2 = subtract(1, a->beta2);
    for (size_t i = 0; i < a->n; i++) {
        double g = multiply(load(&a->grad[i]), per_row);
        double mean = add(multiply(a->beta1, load(&a->mean[i])), multiply(rest1, g));
        double old = multiply(a->beta2, load(&a->square[i]));
        double square = add(old, multiply(multiply(rest2, g), g));
        store(&a->mean[i], mean);
        store(&a->square[i], square);
        double below = add(multiply(count(sqrt(square)), scale), a->eps);
        store(&a->param[i], subtract(load(&a->param[i]), divide(multiply(a->rate, mean), below)));
        store(&a->grad[i], 0);
    }
}
