// test_parts.c: tensor parallelism on CPUs. Devices with a part each of a transformer's layer get,
// to the bit, what one device gets.
#include "cases.h"
#include "common/tensor/transformer.h"

static Device *device;

// Columns first..first+n of each row.
static Tensor *columns(const Tensor *t, int first, int n) {
    Tensor *part = keep(tensor_new(device, t->shape[0], n));
    launch(device, copy_columns, .X = t->data + first, .Y = part->data, .rows = t->shape[0],
           .cols = n, .X_stride = t->shape[1], .Y_stride = n);
    return part;
}
static Tensor *rows(const Tensor *t, int first, int n) {
    Tensor *part = keep(tensor_new(device, n, t->shape[1]));
    device_copy(device, part->data, device, t->data + (size_t)first * (size_t)t->shape[1],
                tensor_bytes(part));
    return part;
}

static void expect_same(const Tensor *a, const Tensor *b) {
    assert_int_equal(tensor_bytes(a), tensor_bytes(b));
    assert_memory_equal(values_of(a), values_of(b), tensor_bytes(a));
}

// ---- sums of products, halves to halves ----------------------------------------------------------

static Tensor *product_of(const Tensor *A, const Tensor *B, bool trans_B, int groups) {
    Tensor *C = keep(tensor_new(device, A->shape[0], B->shape[trans_B ? 0 : 1]));
    launch(device, gemm, .A = A->data, .B = B->data, .C = C->data, .M = C->shape[0],
           .N = C->shape[1], .K = A->shape[1], .trans_B = trans_B, .groups = groups);
    return C;
}

// Of parts first..first+n, which are `size` of A's columns each.
static Tensor *sum_of(const Tensor *A, const Tensor *B, bool trans_B, int groups, int size,
                      int first, int n) {
    if (n == 1)
        return product_of(columns(A, first * size, size),
                          trans_B ? columns(B, first * size, size) : rows(B, first * size, size),
                          trans_B, groups);
    Tensor *half = sum_of(A, B, trans_B, groups, size, first, n / 2);
    Tensor *other = sum_of(A, B, trans_B, groups, size, first + n / 2, n / 2);
    launch(device, add, .y = half->data, .x = other->data, .n = numel(half));
    return half;
}

TEST(test_product_in_groups) {
    static const int sizes[][3] = {{37, 50, 64}, {37, 50, 256}, {37, 50, 192}, {300, 7, 2048}};
    (void)state;
    for (int i = 0; i < 8; i++) {
        int M = sizes[i / 2][0], N = sizes[i / 2][1], K = sizes[i / 2][2], trans_B = i % 2;
        Tensor *A = RANDOM(device, M, K);
        Tensor *B = trans_B ? RANDOM(device, N, K) : RANDOM(device, K, N);
        Tensor *whole = product_of(A, B, trans_B, 8);
        for (int k = 2; k <= 8; k *= 2)
            expect_same(sum_of(A, B, trans_B, 8 / k, K / k, 0, k), whole);
    }
}

// ---- some heads, some sequences ------------------------------------------------------------------

// attention() and its gradient, with Y as dY.
static void attend(Tensor *QKV, int tokens, int heads, Tensor **Y, Tensor **dQKV) {
    trained(QKV);
    begin_step(device);
    Tensor *out = attention(QKV, tokens, heads);
    *Y = columns(out, 0, out->shape[1]);
    backward_from(out, *Y);
    *dQKV = QKV->grad;
}

TEST(test_attention_in_parts) {
    static const int sizes[][2] = {{16, 8}, {5, 3}, {21, 20}, {300, 8}};
    enum { HEADS = 8, N = 3 };
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        int T = sizes[i][0], width = sizes[i][1];
        Tensor *QKV = RANDOM(device, N * T, HEADS * 3 * width), *Y, *dQKV, *part, *dpart;
        attend(QKV, T, HEADS, &Y, &dQKV);
        for (int heads = 1; heads < HEADS; heads *= 2) {
            attend(columns(QKV, heads * 3 * width, heads * 3 * width), T, heads, &part, &dpart);
            expect_same(part, columns(Y, heads * width, heads * width));
            expect_same(dpart, columns(dQKV, heads * 3 * width, heads * 3 * width));
        }
        attend(rows(QKV, T, T), T, HEADS, &part, &dpart);
        expect_same(part, rows(Y, T, T));
        expect_same(dpart, rows(dQKV, T, T));
    }
}

// Each token by itself, wherever it is.
TEST(test_rows_in_parts) {
    (void)state;
    Tensor *X = RANDOM(device, 1031, 21), *weight = RANDOM(device, 21), *bias = RANDOM(device, 21);
    Tensor *dX[2], *Y[2], *part[] = {X, rows(X, 1, 1029)};
    for (int i = 0; i < 2; i++) {
        begin_step(device);
        Tensor *out = gelu(layer_norm(gelu(trained(part[i])), weight, bias));
        Y[i] = columns(out, 0, 21);
        backward_from(out, Y[i]);
        dX[i] = part[i]->grad;
    }
    expect_same(Y[1], rows(Y[0], 1, 1029));
    expect_same(dX[1], rows(dX[0], 1, 1029));
}

static int setup(void **state) {
    (void)state;
    device = cpu_device(0);
    return 0;
}

int main(void) { return run_all("parts", setup, close_kept); }
