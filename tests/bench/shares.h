// shares.h: which kernels a training step spends its time in. For step.c alone, which runs the
// steps.
//
// The trace (common/device/trace.h) says when each kernel ran, but not on what. So each launch gets
// a label here: between device.h and the backend we put a backend of our own, which sees the
// arguments, labels the launch with their shapes, and hands it on. Kernels and layers know nothing
// of it.
#ifndef BENCH_SHARES_H
#define BENCH_SHARES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device/backend.h" // to stand in for one
#include "common/base/error.h"
#include "common/base/clock.h"
#include "common/base/statistics.h"
#include "common/device/trace.h"

enum { MOST_SHARES = 512, MOST_STEPS = 99, SHAPE_TEXT = 48 };

// A kernel on one shape, or on all its shapes together.
typedef struct Share {
    const char *work; // the kernel's name
    char shape[SHAPE_TEXT];
    int calls;                  // a step
    double flop, bytes;         // of a step
    double seconds[MOST_STEPS]; // of each step
    double median;
} Share;

static struct {
    const Backend *real;
    Share all[MOST_SHARES];
    int count, step;
} shares;

// ---- how much work it is -----------------------------------------------------------------------

// The plain sums: two operations for each product of a pixel and a weight. 0: not worth counting.
static double flop_of_conv(const struct conv2d_shape *s) {
    return 2.0 * s->N * s->M * s->out_h * s->out_w * s->C * s->kernel_h * s->kernel_w;
}

static double flop_of(KernelId kernel, const void *args) {
    const struct gemm_args *g = args;
    switch (kernel) {
    case KERNEL_gemm:
        return 2.0 * g->M * g->N * g->K;
    case KERNEL_conv2d_forward:
        return flop_of_conv(&((const struct conv2d_forward_args *)args)->s);
    case KERNEL_conv2d_backward_input:
        return flop_of_conv(&((const struct conv2d_backward_input_args *)args)->s);
    case KERNEL_conv2d_backward_params:
        return flop_of_conv(&((const struct conv2d_backward_params_args *)args)->s);
    default:
        return 0;
    }
}

// A kernel that adds to its output reads that too.
static double and_sum(float beta) { return beta != 0 ? 1 : 0; }

static double floats_of_batch_norm(KernelId kernel, const void *args) {
    const struct batch_norm_stats_args *s = args;
    const struct batch_norm_forward_args *f = args;
    const struct batch_norm_backward_sums_args *b = args;
    const struct batch_norm_backward_input_args *i = args;
    switch (kernel) {
    case KERNEL_batch_norm_stats:
        return 1.0 * s->N * s->C * s->S;
    case KERNEL_batch_norm_forward:
        return 2.0 * f->N * f->C * f->S;
    case KERNEL_batch_norm_backward_sums:
        return 2.0 * b->N * b->C * b->S;
    case KERNEL_batch_norm_backward_input:
        return (3.0 + and_sum(i->beta)) * i->N * i->C * i->S;
    default:
        return 0; // a few numbers for each channel
    }
}

static double floats_of_pool(const struct avg_pool2d_shape *s, double outputs_per_input) {
    double pixels = 1.0 * s->H * s->W * (1 + outputs_per_input) + 1.0 * s->out_h * s->out_w;
    return pixels * s->N * s->C;
}

// What a kernel of little arithmetic must read and write, each number once. 0: not worth counting.
static double floats_of(KernelId kernel, const void *args) {
    const struct add_backward_args *add = args;
    const struct relu_backward_args *relu = args;
    const struct avg_pool2d_backward_args *pool = args;
    const struct copy_columns_args *columns = args;
    const struct add_bias_forward_args *bias = args;
    const struct add_bias_backward_args *bias_back = args;
    switch (kernel) {
    case KERNEL_fill:
        return (double)((const struct fill_args *)args)->n;
    case KERNEL_scale:
        return 2.0 * (double)((const struct scale_args *)args)->n;
    case KERNEL_add:
        return 3.0 * (double)((const struct add_args *)args)->n;
    case KERNEL_add_forward:
        return 3.0 * (double)((const struct add_forward_args *)args)->n;
    case KERNEL_add_backward:
        return (2.0 + and_sum(add->beta)) * (double)add->n;
    case KERNEL_relu_forward:
        return 2.0 * (double)((const struct relu_forward_args *)args)->n;
    case KERNEL_relu_backward:
        return (3.0 + and_sum(relu->beta)) * (double)relu->n;
    case KERNEL_copy_columns:
        return 2.0 * columns->rows * columns->cols;
    case KERNEL_add_bias_forward:
        return 2.0 * bias->rows * bias->cols;
    case KERNEL_add_bias_backward:
        return 1.0 * bias_back->rows * bias_back->cols;
    case KERNEL_avg_pool2d_forward:
        return floats_of_pool(&((const struct avg_pool2d_forward_args *)args)->s, 0);
    case KERNEL_avg_pool2d_backward:
        return floats_of_pool(&pool->s, and_sum(pool->beta));
    case KERNEL_sgd:
        return 4.0 * (double)((const struct sgd_args *)args)->n;
    default:
        return floats_of_batch_norm(kernel, args);
    }
}

// ---- the name of a shape -----------------------------------------------------------------------

static void name_conv(char *text, const struct conv2d_shape *s) {
    snprintf(text, SHAPE_TEXT, "%dx%d%s (%d,%d,%d)->(%d,%d,%d)", s->kernel_h, s->kernel_w,
             s->stride_h > 1 ? "/2" : "", s->C, s->H, s->W, s->M, s->out_h, s->out_w);
}

// "" for kernels whose shapes are not told apart by name, but by how much they read and write.
static void name_shape(char *text, KernelId kernel, const void *args) {
    const struct gemm_args *g = args;
    double floats = floats_of(kernel, args);
    switch (kernel) {
    case KERNEL_gemm:
        snprintf(text, SHAPE_TEXT, "%dx%dx%d%s%s", g->M, g->N, g->K, g->trans_A ? " A^T" : "",
                 g->trans_B ? " B^T" : "");
        return;
    case KERNEL_conv2d_forward:
        name_conv(text, &((const struct conv2d_forward_args *)args)->s);
        return;
    case KERNEL_conv2d_backward_input:
        name_conv(text, &((const struct conv2d_backward_input_args *)args)->s);
        return;
    case KERNEL_conv2d_backward_params:
        name_conv(text, &((const struct conv2d_backward_params_args *)args)->s);
        return;
    default:
        snprintf(text, SHAPE_TEXT, "%.3g MB", floats * sizeof(float) / 1e6);
    }
}

// ---- recording ---------------------------------------------------------------------------------

static Share *find_share(Share *list, int *count, const char *work, const char *shape) {
    for (int i = 0; i < *count; i++)
        if (strcmp(list[i].work, work) == 0 && strcmp(list[i].shape, shape) == 0) return &list[i];
    if (*count == MOST_SHARES) die("raise MOST_SHARES", "too many different shapes");
    Share *new = &list[(*count)++];
    *new = (Share){.work = work};
    snprintf(new->shape, SHAPE_TEXT, "%s", shape);
    return new;
}

static void note(const char *work, const char *shape, double flop, double bytes) {
    trace_label(shape);
    Share *share = find_share(shares.all, &shares.count, work, shape);
    if (shares.step > 0) return; // every step is the same
    share->calls++;
    share->flop += flop;
    share->bytes += bytes;
}

static void noted_launch(Queue *queue, KernelId kernel, const void *args, size_t size) {
    char shape[SHAPE_TEXT];
    name_shape(shape, kernel, args);
    note(kernel_name(kernel), shape, flop_of(kernel, args),
         floats_of(kernel, args) * sizeof(float));
    (shares.real->launch)(queue, kernel, args, size);
}

static void noted_copy(Queue *queue, Device *to, void *dst, Device *from, const void *src,
                       size_t bytes) {
    char shape[SHAPE_TEXT];
    snprintf(shape, SHAPE_TEXT, "%.3g MB", (double)bytes / 1e6);
    note("copy", shape, 0, 2.0 * (double)bytes);
    shares.real->copy(queue, to, dst, from, src, bytes);
}

// One step, with each kernel's time entered. What no kernel took is the device's waiting.
static void record_step(Device *device, void (*step)(void *), void *argument) {
    static Backend noting;
    shares.real = device->backend;
    noting = *shares.real;
    noting.launch = noted_launch;
    noting.copy = noted_copy;
    int count;
    device->backend = &noting;
    trace_begin();
    double begin = seconds_now(), rest;
    step(argument);
    rest = seconds_now() - begin;
    TraceSpan *spans = trace_end(&count);
    device->backend = shares.real;
    for (int i = 0; i < count; i++) {
        double seconds = spans[i].end - spans[i].start;
        find_share(shares.all, &shares.count, spans[i].work, spans[i].label)
            ->seconds[shares.step] += seconds;
        rest -= seconds;
    }
    find_share(shares.all, &shares.count, "(between kernels)", "")->seconds[shares.step] = rest;
    free(spans);
    shares.step++;
}

// ---- the tables --------------------------------------------------------------------------------

static int worst_first(const void *a, const void *b) {
    double x = ((const Share *)a)->median, y = ((const Share *)b)->median;
    return (x < y) - (x > y);
}

// The median over the steps, because other programs disturb some of them. Returns their sum.
static double sort_shares(Share *list, int count, int steps) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        list[i].median = median(list[i].seconds, steps);
        sum += list[i].median;
    }
    qsort(list, (size_t)count, sizeof *list, worst_first);
    return sum;
}

// All shapes of a kernel in one.
static int by_kernel(Share *kernels) {
    int count = 0;
    for (int i = 0; i < shares.count; i++) {
        const Share *from = &shares.all[i];
        Share *to = find_share(kernels, &count, from->work, "");
        to->calls += from->calls;
        to->flop += from->flop;
        to->bytes += from->bytes;
        for (int step = 0; step < shares.step; step++) to->seconds[step] += from->seconds[step];
    }
    return count;
}

// Lines of at least that share of the step.
static void print_shares(Share *list, int count, int steps, double least) {
    double sum = sort_shares(list, count, steps);
    for (int i = 0; i < count && list[i].median >= least * sum; i++) {
        const Share *s = &list[i];
        printf("%-24s%-34s%6d%10.3f%8.1f%%", s->work, s->shape, s->calls, 1e3 * s->median,
               100 * s->median / sum);
        if (s->flop > 0)
            printf("%10.0f\n", s->flop / s->median / 1e9);
        else if (s->bytes > 0)
            printf("%20.1f\n", s->bytes / s->median / 1e9);
        else
            printf("\n");
    }
}

static void print_all_shares(const char *title) {
    static Share kernels[MOST_SHARES];
    printf("%s: a step's kernels, worst first; the median of %d steps\n", title, shares.step);
    printf("%-24s%-34s%6s%10s%9s%10s%10s\n", "kernel", "", "calls", "ms", "share", "GFLOP/s",
           "GB/s");
    print_shares(kernels, by_kernel(kernels), shares.step, 0);
    printf("\nby shape, down to 1%%\n");
    print_shares(shares.all, shares.count, shares.step, 0.01);
}

#endif
