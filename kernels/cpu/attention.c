// attention.c: each token of a sequence looks at all of its tokens. A head of a sequence is a few
// products of small matrices, which product() computes, and a softmax. All are so small that they
// stay in the first cache.
#include "cpu.h"
#include "fast/exponential.h"
#include "fast/product.h"

#include <math.h>

typedef struct attention_shape Shape;

// A matrix; its rows are `stride` floats apart.
typedef struct Matrix {
    float *at;
    size_t stride;
    int rows, cols;
} Matrix;

// ---- where the matrices (T,width) of a head of a sequence are -----------------------------------

enum { QUERY, KEY, VALUE };
static Matrix part_of(const float *QKV, const Shape *s, long head, int part) {
    size_t first = (size_t)(head / s->heads) * (size_t)s->T * (size_t)s->heads;
    size_t at = (first + (size_t)(head % s->heads)) * 3 + (size_t)part, width = (size_t)s->width;
    return (Matrix){(float *)QKV + at * width, (size_t)s->heads * 3 * width, s->T, s->width};
}
static Matrix output_of(const float *Y, const Shape *s, long head) {
    size_t first = (size_t)(head / s->heads) * (size_t)s->T * (size_t)s->heads;
    size_t at = first + (size_t)(head % s->heads), width = (size_t)s->width;
    return (Matrix){(float *)Y + at * width, (size_t)s->heads * width, s->T, s->width};
}
static Matrix probs_of(const float *probs, const Shape *s, long head) {
    size_t T = (size_t)s->T;
    return (Matrix){(float *)probs + (size_t)head * T * T, T, s->T, s->T};
}

// ---- products ----------------------------------------------------------------------------------

// The second matrix of a product is packed: VL columns side by side, row below row, and then the
// next VL columns. Columns beyond the last are 0.
static const float *pack(Matrix m, float *packed) {
    float *to = packed;
    for (int col = 0; col < m.cols; col += VL)
        for (int row = 0; row < m.rows; row++, to += VL)
            vec_to(to, some_at(m.at + (size_t)row * m.stride + col, m.cols - col));
    return packed;
}

// The same of the transposed matrix. Columns beyond the last repeat it.
static const float *pack_transposed(Matrix m, float *packed) {
    float *to = packed;
    for (int row = 0; row < m.rows; row += VL) {
        const float *lane[VL];
        for (int i = 0; i < VL; i++)
            lane[i] = m.at + (size_t)smaller(row + i, m.rows - 1) * m.stride;
        int col = 0;
        for (; col + 4 <= m.cols; col += 4, to += 4 * VL) {
            Vec r[4];
            load_transposed(lane, (size_t)col, r);
            UNROLL for (int i = 0; i < 4; i++) vec_to(to + i * VL, r[i]);
        }
        for (; col < m.cols; col++, to += VL)
            for (int i = 0; i < VL; i++) to[i] = lane[i][col];
    }
    return packed;
}

// C = A B, or C += A B, where A is `transposed` in memory.
static void multiply(Matrix A, bool transposed, const float *B, Matrix C, bool add) {
    int depth = transposed ? A.rows : A.cols;
    product(&(Product){.A = A.at,
                       .a_row = transposed ? 1 : A.stride,
                       .a_col = transposed ? A.stride : 1,
                       .B = B,
                       .b_block = VL * (size_t)depth,
                       .C = C.at,
                       .c_row = C.stride,
                       .c_block = VL,
                       .rows = C.rows,
                       .vectors = divide_up(C.cols, VL),
                       .depth = depth,
                       .last = C.cols % VL,
                       .add = add});
}

// What a thread needs beside its input and output.
typedef struct Scratch {
    float *packed, *unused; // a packed matrix; T numbers that nobody reads
    Matrix square;          // T rows of T numbers, in whole vectors
} Scratch;

static size_t packed_floats(const Shape *s) {
    size_t T = (size_t)s->T, width = (size_t)s->width;
    return round_to_vectors(T) * round_to_vectors(width);
}
static size_t scratch_floats(const Shape *s) {
    size_t lanes = round_to_vectors((size_t)s->T);
    return packed_floats(s) + lanes + (size_t)s->T * lanes;
}
static Scratch scratch_of(const Shape *s, float *all) {
    size_t lanes = round_to_vectors((size_t)s->T);
    float *mine = all + scratch_floats(s) * (size_t)omp_get_thread_num();
    float *unused = mine + packed_floats(s);
    return (Scratch){mine, unused, {unused + lanes, lanes, s->T, (int)lanes}};
}

static inline bool is_large(const Shape *s) {
    return (size_t)s->N * (size_t)s->heads * (size_t)s->T * (size_t)(s->T + s->width) >
           PARALLEL_FLOATS;
}

// ---- forward -----------------------------------------------------------------------------------

// scores has a column for each query, so that a vector has VL queries, and no sum runs across it.
// The largest score is subtracted, as in cross_entropy.c.
static void softmax(Matrix scores, float scale, Matrix probs, float *unused) {
    int T = scores.rows;
    for (int first = 0; first < T; first += VL) {
        float *column = scores.at + first, *lane[VL];
        Vec largest = vec_at(column), total = {0};
        for (int j = 1; j < T; j++)
            largest = most_of(largest, vec_at(column + (size_t)j * scores.stride));
        for (int j = 0; j < T; j++) {
            float *score = column + (size_t)j * scores.stride;
            Vec e = exp_of((vec_at(score) - largest) * scale);
            total += e;
            vec_to(score, e);
        }
        Vec inverse = 1 / total;
        for (int i = 0; i < VL; i++)
            lane[i] = first + i < T ? probs.at + (size_t)(first + i) * probs.stride : unused;
        int j = 0;
        for (; j + 4 <= T; j += 4, column += 4 * scores.stride) {
            Vec r[4];
            UNROLL for (int i = 0; i < 4; i++) r[i] =
                vec_at(column + (size_t)i * scores.stride) * inverse;
            store_transposed(r, lane, (size_t)j, false);
        }
        for (; j < T; j++, column += scores.stride) {
            vec_to(column, vec_at(column) * inverse);
            for (int i = 0; i < VL; i++) lane[i][j] = column[i];
        }
    }
}

CPU_KERNEL(attention_forward) {
    const Shape *s = &a->s;
    float *all = cpu_scratch(lane, sizeof(float) * scratch_floats(s) * (size_t)lane->threads);
    float scale = 1 / sqrtf((float)s->width);
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (is_large(s))
    for (long head = 0; head < (long)s->N * s->heads; head++) {
        Scratch mine = scratch_of(s, all);
        Matrix q = part_of(a->QKV, s, head, QUERY), k = part_of(a->QKV, s, head, KEY);
        Matrix v = part_of(a->QKV, s, head, VALUE), probs = probs_of(a->probs, s, head);
        multiply(k, false, pack_transposed(q, mine.packed), mine.square, false);
        softmax(mine.square, scale, probs, mine.unused);
        multiply(probs, false, pack(v, mine.packed), output_of(a->Y, s, head), false);
    }
}

// ---- backward ----------------------------------------------------------------------------------

// The gradient of the scores takes the place of that of probs.
static void softmax_backward(Matrix probs, float scale, Matrix d) {
    int T = probs.rows;
    for (int i = 0; i < T; i++) {
        const float *restrict p = probs.at + (size_t)i * probs.stride;
        float *restrict dp = d.at + (size_t)i * d.stride;
        Vec totals = {0};
        int j = 0;
        for (; j + VL <= T; j += VL) totals += vec_at(p + j) * vec_at(dp + j);
        float total = total_of(totals);
        for (; j < T; j++) total += p[j] * dp[j];
        for (j = 0; j < T; j++) dp[j] = p[j] * (dp[j] - total) * scale;
    }
}

CPU_KERNEL(attention_backward) {
    const Shape *s = &a->s;
    float *all = cpu_scratch(lane, sizeof(float) * scratch_floats(s) * (size_t)lane->threads);
    float scale = 1 / sqrtf((float)s->width);
    bool add = a->beta != 0;
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (is_large(s))
    for (long head = 0; head < (long)s->N * s->heads; head++) {
        Scratch mine = scratch_of(s, all);
        Matrix q = part_of(a->QKV, s, head, QUERY), k = part_of(a->QKV, s, head, KEY);
        Matrix v = part_of(a->QKV, s, head, VALUE), probs = probs_of(a->probs, s, head);
        Matrix dY = output_of(a->dY, s, head), d = mine.square;
        multiply(dY, false, pack_transposed(v, mine.packed), d, false);
        softmax_backward(probs, scale, d);
        d.cols = s->T;
        multiply(d, false, pack(k, mine.packed), part_of(a->dQKV, s, head, QUERY), add);
        multiply(d, true, pack(q, mine.packed), part_of(a->dQKV, s, head, KEY), add);
        multiply(probs, true, pack(dY, mine.packed), part_of(a->dQKV, s, head, VALUE), add);
    }
}
