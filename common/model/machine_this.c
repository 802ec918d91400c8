// machine_this.c: measures this computer, and writes down what it found as a machine file.
//
// Other programs can only make a measurement longer, so the shortest of several counts. A computer
// may be busy for a whole second, so the kernels take turns, and each is measured in every round.
// But if devices slow each other down, that belongs to the machine. Cores share caches, memory and
// sometimes arithmetic units, so devices that will compute at the same time are measured at the
// same time.
#include "common/device/backend.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/device/graph.h"
#include "common/device/trace.h"
#include "kernels/cpu/cpu.h"
#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLOATS = 1 << 23, // in each buffer that kernels work on; more than caches hold
    FEW = FLOATS / 4, // in the buffer of weights, and in the one with a bit for each pixel
    MOST_PROBES = 48,
    MOST_BUSY = 8,    // devices that are measured at the same time
    LEAST_ROUNDS = 2, // in which each probe is measured once
    REPEATS = 5,      // for what takes less than a millisecond
    COUNT = 400,      // small pieces of work in one measurement; a queue has room for them
};
static const double ALL_ROUNDS = 1.2; // seconds
// Seconds that a kernel should take. A shorter one is hard to measure, and a much longer one is
// always interrupted on a busy computer.
static const double LONG_ENOUGH = 1e-3;

// A kernel that is measured.
typedef struct Probe {
    KernelId kernel;
    _Alignas(16) unsigned char args[MAX_KERNEL_ARGS];
    size_t size; // of its arguments
    KernelCost cost;
    double seconds; // the shortest time
} Probe;

// A device and what it works on. All devices have the same probes, each in its own memory.
typedef struct Bench {
    Device *device;
    float *X, *dY, *W; // kernels read these,
    float *out;        // and write this
    unsigned char *pooled;
    Probe probes[MOST_PROBES];
    int num_probes;
} Bench;

typedef struct Benches {
    Bench *busy; // (num_busy)
    int num_busy;
    Device *other;           // copies go there; a GPU may use TF32 there
    float *copied, *on_host; // buffers on the other device and on the host
} Benches;

// ---- kernels ---------------------------------------------------------------------------------

// Ends a trace of that many pieces of work, and returns their mean seconds.
static double mean_of_trace(int expected) {
    int count;
    double sum = 0;
    TraceSpan *spans = trace_end(&count);
    CHECK(count == expected, "each piece of work has one span");
    for (int i = 0; i < count; i++) sum += spans[i].end - spans[i].start;
    free(spans);
    return sum / count;
}

static double seconds_of(Device *device, const Probe *probe) {
    trace_begin();
    queue_launch(compute_queue(device), probe->kernel, probe->args, probe->size);
    return mean_of_trace(1);
}

static Probe probe_of(KernelId kernel, const void *args, size_t size) {
    Probe probe = {.kernel = kernel, .size = size, .seconds = INFINITY};
    memcpy(probe.args, args, size);
    probe.cost = kernel_cost(kernel, args);
    return probe;
}

#define PROBE(kernel, ...)                                                                         \
    probe_of(KERNEL_##kernel, &(struct kernel##_args){__VA_ARGS__}, sizeof(struct kernel##_args))

static void add_probe(Bench *b, Probe probe) {
    CHECK(b->num_probes < MOST_PROBES, "raise MOST_PROBES");
    b->probes[b->num_probes++] = probe;
}

// Whether the device is done so soon that a larger probe is better. (The first launch does not
// count, because it allocates memory.)
static bool is_short(const Bench *b, Probe probe) {
    seconds_of(b->device, &probe);
    return seconds_of(b->device, &probe) < LONG_ENOUGH;
}

static Probe product(const Bench *b, int n) {
    return PROBE(gemm, .A = b->X, .B = b->dY, .C = b->out, .M = n, .N = n, .K = n);
}

// Layers as in real networks, which have many pixels at the beginning and many channels at the end.
// N is the smallest number of images to measure.
static const struct {
    struct conv2d_shape s;
    bool pooled;
} layers[] = {
    {{4, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1, 28, 28}, false},  // FORM_3X3, many pixels
    {{16, 256, 7, 7, 256, 3, 3, 1, 1, 1, 1, 7, 7}, false},   // FORM_3X3, many channels
    {{32, 32, 12, 12, 64, 5, 5, 1, 1, 0, 0, 8, 8}, true},    // FORM_LARGE
    {{4, 64, 28, 28, 128, 3, 3, 2, 2, 1, 1, 14, 14}, false}, // FORM_PLAIN, many pixels
    {{16, 256, 7, 7, 512, 3, 3, 2, 2, 1, 1, 4, 4}, false},   // FORM_PLAIN, many channels
    {{64, 1, 28, 28, 32, 3, 3, 1, 1, 0, 0, 26, 26}, true},   // FORM_THIN
};
enum { NUM_LAYERS = sizeof layers / sizeof layers[0] };

static Probe convolution(const Bench *b, int layer, ConvolutionPass pass, int images) {
    struct conv2d_shape s = layers[layer].s;
    unsigned char *pooled = layers[layer].pooled ? b->pooled : NULL;
    s.N = images;
    if (pass == PASS_FORWARD)
        return PROBE(conv2d_forward, .X = b->X, .W = b->W, .Y = b->out, .s = s, .pooled = pooled);
    if (pass == PASS_INPUT)
        return PROBE(conv2d_backward_input, .dY = b->dY, .W = b->W, .dX = b->out, .s = s,
                     .pooled = pooled);
    return PROBE(conv2d_backward_params, .dY = b->dY, .X = b->X, .dW = b->out, .s = s,
                 .pooled = pooled);
}

// What a network with batch norm does between convolutions.
static void add_elements(Bench *b) {
    enum { C = 64, S = 32 * 32, N = FLOATS / (C * S) };
    float *stats = b->W; // one buffer serves as all statistics of the C channels
    add_probe(b, PROBE(add, .x = b->X, .y = b->out, .n = FLOATS));
    add_probe(b, PROBE(batch_norm_stats, .X = b->X, .stats = b->out, .N = N, .C = C, .S = S));
    add_probe(b, PROBE(batch_norm_forward, .X = b->X, .mean = stats, .var = stats, .weight = stats,
                       .bias = stats, .Y = b->out, .eps = 1, .N = N, .C = C, .S = S));
    add_probe(b, PROBE(batch_norm_backward_sums, .dY = b->dY, .X = b->X, .mean = stats,
                       .var = stats, .sums = b->out, .eps = 1, .N = N, .C = C, .S = S));
    add_probe(b, PROBE(batch_norm_backward_input, .dY = b->dY, .X = b->X, .mean = stats,
                       .var = stats, .weight = stats, .sums = stats, .count = stats, .dX = b->out,
                       .eps = 1, .N = N, .C = C, .S = S));
    add_probe(b, PROBE(relu_forward, .X = b->X, .Y = b->out, .n = FLOATS));
    add_probe(b, PROBE(relu_backward, .Y = b->X, .dY = b->dY, .dX = b->out, .n = FLOATS));
}

// Probes that are large enough to keep the first device busy for a while. The product comes first.
static void add_probes(const Benches *all) {
    const Bench *first = all->busy;
    int rows = 384, most_rows = 2048, images[NUM_LAYERS];
    while (rows < most_rows && is_short(first, product(first, rows))) rows *= 2;
    for (int i = 0; i < NUM_LAYERS; i++) {
        const struct conv2d_shape *s = &layers[i].s;
        int X = s->C * s->H * s->W, Y = s->M * s->out_h * s->out_w, most = FLOATS / (X > Y ? X : Y);
        images[i] = s->N;
        while (2 * images[i] <= most &&
               is_short(first, convolution(first, i, PASS_FORWARD, images[i])))
            images[i] *= 2;
    }
    for (Bench *b = all->busy; b < all->busy + all->num_busy; b++) {
        add_probe(b, product(b, rows));
        for (int i = 0; i < NUM_LAYERS; i++)
            for (int pass = 0; pass < NUM_PASSES; pass++)
                add_probe(b, convolution(b, i, (ConvolutionPass)pass, images[i]));
        add_elements(b);
    }
}

static void measure_probes(const Benches *all) {
    double begin = seconds_now();
    Bench *first = &all->busy[0];
    for (int round = 0; round < LEAST_ROUNDS || seconds_now() - begin < ALL_ROUNDS; round++)
        for (int p = 0; p < first->num_probes; p++) { // by all devices at the same time
            trace_begin();
            for (int i = 0; i < all->num_busy; i++) {
                const Probe *probe = &all->busy[i].probes[p];
                queue_launch(compute_queue(all->busy[i].device), probe->kernel, probe->args,
                             probe->size);
            }
            first->probes[p].seconds = fmin(first->probes[p].seconds, mean_of_trace(all->num_busy));
        }
}

// ---- small things ----------------------------------------------------------------------------
//
// How long does the host need to enqueue a kernel that has nothing to do, and how long does the
// device need to run it? To keep the two times apart, the device is held up until the host is done.

static void wait_for_host(void *host_is_busy) {
    mutex_lock(host_is_busy);
    mutex_unlock(host_is_busy);
}

typedef void Enqueue(const Benches *all);
static void enqueue_kernel(const Benches *all) {
    launch(all->busy->device, fill, .x = all->busy->out, .value = 0, .n = 1);
}
static void enqueue_copy(const Benches *all) {
    Device *from = all->busy->device;
    queue_copy(compute_queue(from), all->other, all->copied, from, all->busy->X, sizeof(float));
}
static void enqueue_read(const Benches *all) {
    Device *to = all->busy->device;
    queue_copy(compute_queue(to), to, all->busy->out, host(), all->on_host, sizeof(float));
}

// Seconds for one such piece of work.
typedef struct Small {
    double host, device;
} Small;

static Small faster(Small a, Small b) {
    return (Small){fmin(a.host, b.host), fmin(a.device, b.device)};
}

static Small once(const Benches *all, Enqueue *enqueue) {
    Device *device = all->busy->device;
    Mutex host_is_busy = {{0}};
    mutex_lock(&host_is_busy);
    queue_call(compute_queue(device), wait_for_host, &host_is_busy);
    double begin = seconds_now();
    for (int i = 0; i < COUNT; i++) enqueue(all);
    double enqueued = seconds_now();
    mutex_unlock(&host_is_busy);
    synchronize(device);
    double done = fmax(seconds_now(), enqueued + 1e-9); // never 0, however coarse the clock is
    return (Small){(enqueued - begin) / COUNT, (done - enqueued) / COUNT};
}

static Small small(const Benches *all, Enqueue *enqueue) {
    Small best = once(all, enqueue);
    for (int i = 0; i < REPEATS; i++) best = faster(best, once(all, enqueue));
    return best;
}

// The same with all kernels in one graph. Here the host's seconds are for the whole graph, and the
// device's are for each kernel.
static Small in_graph(const Benches *all) {
    Device *device = all->busy->device;
    graph_begin(&device, 1);
    for (int i = 0; i < COUNT; i++) enqueue_kernel(all);
    Graph *graph = graph_end();
    Small best = {INFINITY, INFINITY};
    for (int i = 0; i < REPEATS; i++) {
        double begin = seconds_now();
        graph_launch(graph);
        double enqueued = seconds_now();
        synchronize(device);
        best = faster(best, (Small){enqueued - begin, (seconds_now() - begin) / COUNT});
    }
    graph_free(graph);
    return best;
}

// Bytes per second of large copies.
static double copy_rate(Device *to, void *dst, Device *from, const void *src) {
    double best = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        trace_begin();
        queue_copy(compute_queue(to), to, dst, from, src, sizeof(float) * FLOATS);
        best = fmin(best, mean_of_trace(1));
    }
    return sizeof(float) * FLOATS / best;
}

// ---- the whole -------------------------------------------------------------------------------

int devices_that_fit(int threads) {
    if (num_gpus() > 0) return num_gpus();
    return threads < num_threads() ? num_threads() / threads : 1;
}

static float *buffer(Device *device, size_t n) {
    return device_alloc_for(device, sizeof(float) * n, MEMORY_OTHER);
}

// (CPUs compute slowly with numbers that are nearly 0, so inputs are neither 0 nor small.)
static float *filled(Device *device, size_t n, float value) {
    float *x = buffer(device, n);
    launch(device, fill, .x = x, .value = value, .n = n);
    return x;
}

// GPUs do not slow each other down, so only one of them is busy.
static Benches open_benches(int threads, int busy) {
    Benches all = {.num_busy = num_gpus() > 0 ? 1 : busy < MOST_BUSY ? busy : MOST_BUSY};
    all.busy = xcalloc((size_t)all.num_busy, sizeof *all.busy);
    for (int i = 0; i < all.num_busy; i++) {
        Bench *b = &all.busy[i];
        b->device = try_gpu(i);
        if (num_gpus() == 0) device_set_threads(b->device, threads);
        b->X = filled(b->device, FLOATS, 0.5f);
        b->dY = filled(b->device, FLOATS, 0.25f);
        b->W = filled(b->device, FEW, 0.125f);
        b->out = filled(b->device, FLOATS, 0);
        b->pooled = (unsigned char *)filled(b->device, FEW, 0);
    }
    allow_tf32(true);
    all.other = try_gpu(all.num_busy);
    allow_tf32(false);
    all.copied = buffer(all.other, FLOATS);
    all.on_host = buffer(host(), FLOATS);
    memset(all.on_host, 0, sizeof(float) * FLOATS);
    add_probes(&all);
    return all;
}

static void close_benches(Benches *all) {
    for (int i = 0; i < all->num_busy; i++) {
        Bench *b = &all->busy[i];
        float *buffers[] = {b->X, b->dY, b->W, b->out, (float *)b->pooled};
        for (int f = 0; f < 5; f++) device_free(b->device, buffers[f]);
    }
    device_free(all->other, all->copied);
    device_free(host(), all->on_host);
    free(all->busy);
    devices_close();
    ledger_reset(); // these copies were not the program's
}

// FLOP per second of all probes of a kind together; for COST_ELEMENTS, bytes per second. If a form
// is given (>= 0), only convolutions of this form and pass count.
static double rate(const Bench *b, CostKind kind, int form, int pass) {
    double work = 0, seconds = 0;
    for (const Probe *p = b->probes; p < b->probes + b->num_probes; p++) {
        bool same = form < 0 || ((int)p->cost.form == form && (int)p->cost.pass == pass);
        if (p->cost.kind != kind || !same) continue;
        work += kind == COST_ELEMENTS ? p->cost.bytes : p->cost.flop;
        seconds += p->seconds;
    }
    return work / seconds;
}

static void write_kernels(FILE *out, const Benches *all) {
    static const char *const forms[NUM_FORMS] = {"3x3", "large", "plain", "thin"};
    const Bench *b = all->busy;
    double peak = rate(b, COST_PRODUCT, -1, -1), bandwidth = 0;
    for (const Probe *p = b->probes; p < b->probes + b->num_probes; p++)
        if (p->cost.kind == COST_ELEMENTS) bandwidth = fmax(bandwidth, p->cost.bytes / p->seconds);
    fprintf(out,
            "fp32              %.4g GFLOP/s # of a product of matrices: the peak is not known\n",
            peak / 1e9);
    if (num_gpus() > 0) {
        double seconds = INFINITY;
        for (int i = 0; i < REPEATS; i++)
            seconds = fmin(seconds, seconds_of(all->other, &b->probes[0]));
        fprintf(out, "tf32              %.4g GFLOP/s\n", b->probes[0].cost.flop / seconds / 1e9);
    }
    fprintf(out, "product           100 %%\n");
    fprintf(out, "convolution       %.4g %%     # all of the following\n",
            100 * rate(b, COST_CONVOLUTION, -1, -1) / peak);
    for (int form = 0; form < NUM_FORMS; form++) {
        fprintf(out, "convolution_%-5s", forms[form]);
        for (int pass = 0; pass < NUM_PASSES; pass++)
            fprintf(out, " %.4g %%", 100 * rate(b, COST_CONVOLUTION, form, pass) / peak);
        fprintf(out, "\n");
    }
    fprintf(out, "elements          %.4g %%     # batch norm, ReLU and addition together\n",
            100 * rate(b, COST_ELEMENTS, -1, -1) / bandwidth);
    fprintf(out, "memory_bandwidth  %.4g GB/s   # the fastest of these\n", bandwidth / 1e9);
}

static void write_launches(FILE *out, const Benches *all) {
    bool graphs = has_graphs(all->busy->device);
    Small kernel = small(all, enqueue_kernel), graph = graphs ? in_graph(all) : kernel;
    const char *why = graphs ? "" : "   # as a kernel: there are no graphs here";
    fprintf(out, "kernel            %.4g us     # of %d that do nothing, one after the other\n",
            1e6 * kernel.device, COUNT);
    fprintf(out, "launch            %.4g us     # of the host, for one of these\n",
            1e6 * kernel.host);
    fprintf(out, "graph_launch      %.4g us%s\n", 1e6 * graph.host, why);
    fprintf(out, "graph_kernel      %.4g us%s\n", 1e6 * graph.device, why);
    fprintf(out, "framework         10 us      # not measured: as PyTorch in the file dgx-a100\n");
}

static void write_links(FILE *out, const Benches *all, int devices) {
    const Bench *b = all->busy;
    const char *how = "# 32 MB; 4 B, one after the other";
    if (devices > 1)
        fprintf(out, "link              switch %.4g GB/s %.4g us  %s\n",
                copy_rate(all->other, all->copied, b->device, b->X) / 1e9,
                1e6 * small(all, enqueue_copy).device, how);
    fprintf(out, "host_link         %.4g GB/s %.4g us  %s\n",
            copy_rate(b->device, b->out, host(), all->on_host) / 1e9,
            1e6 * small(all, enqueue_read).device, how);
}

char *machine_this(int threads, int devices) {
    CHECK(threads > 0, "a device has one core at least");
    int fit = devices_that_fit(threads), busy = devices > 0 && devices < fit ? devices : fit;
    if (devices < fit) devices = fit;
    Benches all = open_benches(threads, busy);
    const Device *device = all.busy->device;
    bool gpu = num_gpus() > 0;
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out) die("close other programs", "out of memory");
    measure_probes(&all);
    fprintf(out,
            "# What each field means is said in common/model/machine.h. The best of several "
            "measurements,\n# of %d device%s at the same time.\n",
            all.num_busy, all.num_busy == 1 ? "" : "s");
    fprintf(out, "about             this computer, measured: ");
    if (gpu)
        fprintf(out, "GPUs\n");
    else
        fprintf(out, "%s, %d thread%s a device\n", cpu_instruction_set()->what, threads,
                threads == 1 ? "" : "s");
    fprintf(out, "devices           %d          # %d of them with %s of their own\n", devices, fit,
            gpu ? "a GPU" : "cores");
    fprintf(out, "memory            %.4g GB%s\n",
            device->backend->memory(device) / (gpu ? 1 : fit) / 1e9,
            gpu ? "" : "   # their share of this computer's");
    write_kernels(out, &all);
    write_launches(out, &all);
    write_links(out, &all, devices);
    fclose(out);
    close_benches(&all);
    return text;
}
