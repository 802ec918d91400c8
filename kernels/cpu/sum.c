// sum.c: the sum of a vector (of the losses of a minibatch, say) and its backward; and how sums
// over a minibatch are ordered.
#include "cpu.h"

// In double, in order: a few hundred numbers are not worth a parallel sum.
CPU_KERNEL(sum_forward) {
    double total = 0;
    for (size_t i = 0; i < a->n; i++) total += a->x[i];
    a->out[0] = (float)total;
}

CPU_KERNEL(sum_backward) {
    float d = a->dout[0];
    for (size_t i = 0; i < a->n; i++) a->dx[i] = a->beta != 0 ? a->dx[i] + d : d;
}

// ---- sums over a minibatch as a tree, for other kernels (cpu.h) ------------------------------

SumTree sum_tree(int rows) {
    enum { GROUP = 16 };
    SumTree tree = {.group = GROUP};
    while ((rows + tree.group - 1) / tree.group > MOST_GROUPS) tree.group *= 2;
    tree.groups = rows > tree.group ? (rows + tree.group - 1) / tree.group : 1;
    return tree;
}

SumTree sum_tree_of(int rows, int groups) {
    return groups > 0 ? (SumTree){.group = rows / groups, .groups = groups} : sum_tree(rows);
}

static void add_to(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

void store_sums(float *out, const float *sums, size_t n, float beta) {
    for (size_t i = 0; i < n; i++) out[i] = beta != 0 ? out[i] + sums[i] : sums[i];
}

void add_halves(float *parts, size_t stride, int num, size_t n) {
    if (num < 2) return;
    int half = num / 2;
    float *second = parts + (size_t)half * stride;
    add_halves(parts, stride, half, n);
    add_halves(second, stride, num - half, n);
    add_to(parts, second, n);
}
