// shares.h: which kernels a training step spends its time in, and what the modelled clock says of
// each. For step.c alone, which runs the steps.
//
// The trace (common/device/trace.h) says when each kernel ran, but not on what. So each launch gets
// a label here: between device.h and the backend we put a backend of our own, which sees the
// arguments, labels the launch with their shapes, and hands it on. Kernels and layers know nothing
// of it.
#ifndef BENCH_SHARES_H
#define BENCH_SHARES_H

#include <math.h>

#include "common/device/backend.h" // to stand in for one
#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/base/statistics.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "common/program/table.h"

enum { MOST_SHARES = 512, MOST_STEPS = 99, SHAPE_TEXT = 48 };

// A kernel on one shape.
typedef struct Share {
    const char *work; // the kernel's name
    char shape[SHAPE_TEXT];
    int calls;                  // a step
    double flop, bytes;         // of a step
    double modelled;            // seconds of a step, on the modelled clock's machine
    double seconds[MOST_STEPS]; // of each step
    double median, fastest;
} Share;

static struct {
    const Backend *real;
    Share all[MOST_SHARES];
    int count, step;
} shares;

// ---- the name of a shape -----------------------------------------------------------------------

// Kernels whose shapes are not told apart by name: how much they read and write.
static void name_shape(char *text, KernelId kernel, const void *args) {
    const struct gemm_args *g = args;
    const struct conv2d_shape *s = NULL;
    if (kernel == KERNEL_conv2d_forward) s = &((const struct conv2d_forward_args *)args)->s;
    if (kernel == KERNEL_conv2d_backward_input)
        s = &((const struct conv2d_backward_input_args *)args)->s;
    if (kernel == KERNEL_conv2d_backward_params)
        s = &((const struct conv2d_backward_params_args *)args)->s;
    if (s)
        snprintf(text, SHAPE_TEXT, "%dx%d%s (%d,%d,%d)->(%d,%d,%d)", s->kernel_h, s->kernel_w,
                 s->stride_h > 1 ? "/2" : "", s->C, s->H, s->W, s->M, s->out_h, s->out_w);
    else if (kernel == KERNEL_gemm)
        snprintf(text, SHAPE_TEXT, "%dx%dx%d%s%s", g->M, g->N, g->K, g->trans_A ? " A^T" : "",
                 g->trans_B ? " B^T" : "");
    else
        snprintf(text, SHAPE_TEXT, "%.3g MB", kernel_cost(kernel, args).bytes / 1e6);
}

// ---- recording ---------------------------------------------------------------------------------

static Share *find_share(const char *work, const char *shape) {
    for (int i = 0; i < shares.count; i++)
        if (strcmp(shares.all[i].work, work) == 0 && strcmp(shares.all[i].shape, shape) == 0)
            return &shares.all[i];
    if (shares.count == MOST_SHARES) die("raise MOST_SHARES", "too many different shapes");
    Share *new = &shares.all[shares.count++];
    *new = (Share){.work = work};
    snprintf(new->shape, SHAPE_TEXT, "%s", shape);
    return new;
}

static void note(const char *work, const char *shape, double flop, double bytes, double modelled) {
    trace_label(shape);
    Share *share = find_share(work, shape);
    if (shares.step > 0) return; // every step is the same
    share->calls++;
    share->flop += flop;
    share->bytes += bytes;
    share->modelled += modelled;
}

static void noted_launch(Queue *queue, KernelId kernel, const void *args, size_t size) {
    char shape[SHAPE_TEXT];
    const Machine *m = modelled_machine();
    KernelCost cost = kernel_cost(kernel, args);
    KernelTraffic t = m ? kernel_traffic(machine_software(m), kernel, args) : (KernelTraffic){0};
    name_shape(shape, kernel, args);
    note(kernel_name(kernel), shape, cost.kind == COST_ELEMENTS ? 0 : cost.flop, cost.bytes,
         m ? t.launches * m->kernel + machine_kernel_seconds(m, t, queue->device->tf32) : 0);
    (shares.real->launch)(queue, kernel, args, size);
}

static int number_on_machine(const Device *device) {
    return device->backend ? device_id(device) : HOST_MEMORY;
}

static void noted_copy(Queue *queue, Device *to, void *dst, Device *from, const void *src,
                       size_t bytes) {
    char shape[SHAPE_TEXT];
    const Machine *m = modelled_machine();
    Link link = {0};
    if (m && to != from)
        link = machine_route(m, number_on_machine(from), number_on_machine(to)).link;
    snprintf(shape, SHAPE_TEXT, "%.3g MB", (double)bytes / 1e6);
    note("copy", shape, 0, 2.0 * (double)bytes,
         link.bandwidth > 0 ? link.latency + (double)bytes / link.bandwidth : 0);
    shares.real->copy(queue, to, dst, from, src, bytes);
}

// One step, with the time of each of this device's kernels entered. What no kernel took is the
// device's waiting, for the host or for other devices.
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
        if (spans[i].device != device) continue;
        double seconds = spans[i].end - spans[i].start;
        find_share(spans[i].work, spans[i].label)->seconds[shares.step] += seconds;
        rest -= seconds;
    }
    find_share("(between kernels)", "")->seconds[shares.step] = rest;
    free(spans);
    shares.step++;
}

// ---- the table ---------------------------------------------------------------------------------

static int worst_first(const void *a, const void *b) {
    double x = ((const Share *)a)->median, y = ((const Share *)b)->median;
    return (x < y) - (x > y);
}

// The median over the steps, because other programs disturb some of them; lines of at least that
// share of the step. What is modelled stands beside the fastest time: the figures of --machine this
// are the best of several measurements, and what a busy computer adds is not the model's.
static void print_shares(const char *title, double least) {
    double sum = 0, measured = 0, modelled = 0;
    for (int i = 0; i < shares.count; i++) {
        Share *s = &shares.all[i];
        s->median = median(s->seconds, shares.step);
        s->fastest = minimum(s->seconds, shares.step);
        sum += s->median;
        modelled += s->modelled;
        if (s->calls > 0) measured += s->fastest; // "(between kernels)" is none
    }
    qsort(shares.all, (size_t)shares.count, sizeof shares.all[0], worst_first);
    printf("\n%s: a step's kernels, worst first; medians of %d steps\n", title, shares.step);
    bool model = modelled_machine();
    Table t =
        TABLE(NULL, WORDS("kernel", 23), WORDS("shape", 32), WHOLE("calls"),
              FIXED("median", 3, .unit = "ms"), FIXED("share", 1, .unit = "%"), WHOLE("GFLOP/s"),
              FIXED("moved", 1, .unit = "GB/s"), FIXED(model ? "fastest" : NULL, 3, .unit = "ms"),
              FIXED(model ? "modelled" : NULL, 3, .unit = "ms"), FIXED(model ? "ratio" : NULL, 2));
    for (int i = 0; i < shares.count && shares.all[i].median >= least * sum; i++) {
        const Share *s = &shares.all[i];
        table_text(&t, "%s", s->work);
        table_text(&t, "%s", s->shape);
        table_numbers(&t, s->calls, s->median, s->median / sum,
                      s->flop > 0 ? s->flop / s->median / 1e9 : NAN,
                      s->flop > 0 || !s->calls ? NAN : s->bytes / s->median);
        double fastest = s->calls ? s->fastest : NAN;
        table_numbers(&t, fastest, s->modelled, s->modelled / fastest);
    }
    if (model)
        printf("all kernels: %.3f ms, modelled %.3f ms, ratio %.2f\n", 1e3 * measured,
               1e3 * modelled, modelled / measured);
}

#endif
