// step.c: our half of tests/bench/bench.py, which times training steps here and in PyTorch by
// turns. Not made to be run by hand, but it can be:
//
//     printf 'run 10\nquit\n' | build/tests/bench/step lenet --batch 256 --threads 2
//     build/tests/bench/step lenet|epoch|resnet|sgemm --batch N [--threads N] [--device cpu|cuda]
//                      [--devices K] [--tf32] [--no-graph]
//     build/tests/bench/step lenet|resnet --batch N --shares N
//     build/tests/bench/step lenet|resnet --batch N --devices K --truth N
//     build/tests/bench/step lenet|resnet --batch N --devices K --overhead N
//     build/tests/bench/step about
//
// With --shares it prints which kernels N steps spend their time in; with --truth, how long N steps
// take and how long the modelled clock says that they take on this very machine (--machine this),
// with a thread for each device, and the same for each kernel of device 0; with --overhead, how
// much longer steps take while the modelled clock tells their time, the median of N times with and
// without it by turns; `about` prints the instruction set and the compiler.
//
// A line "run N" makes N training steps and prints "<seconds per step> <mean loss of the last>";
// "quit" or the end of the input ends the program. A step is what the book's train() does for a
// minibatch: copy X and y to the devices, forward, backward, update, wait. Parameters, images and
// labels are those of bench.py, so the losses of the two programs must agree; the driver checks
// that. `epoch` takes its minibatches from Fashion-MNIST, with the book's iterator. `sgemm` is no
// training: a step is our product of two large matrices, and what it prints is its operations.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/model/machine_this.h"
#include "common/tensor/nn.h"
#include "common/data/safetensors.h"
#include "common/tensor/step_graph.h"
#include "common/base/clock.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "about.h"
#include "shares.h"

enum { PIXELS = 28 * 28, RESNET_SEED = 0 };
static const float LENET_LR = 0.05f, RESNET_LR = 0.01f;

// As in bench.py: grey noise (the top byte of a multiplicative hash of the pixel's number) whose
// contrast tells the label, so that there is something to learn.
static Tensor *synthetic_images(int n) {
    float *pixels = xmalloc(sizeof(float) * (size_t)n * PIXELS);
    for (uint32_t i = 0; i < (uint32_t)n * PIXELS; i++) {
        uint32_t noise = i * 2654435761u >> 24, label = i / PIXELS % 10;
        pixels[i] = (float)(noise * (1 + label)) / 2550;
    }
    Tensor *X = tensor_new(host(), n, 1, 28, 28);
    tensor_write(X, pixels);
    free(pixels);
    return X;
}

static Tensor *synthetic_labels(int n) {
    Tensor *y = tensor_new(host(), n);
    for (int i = 0; i < n; i++) y->data[i] = (float)(i % 10);
    return y;
}

static void start_params(Device *device, Tensor *params[LENET_PARAMS]) {
    static const char *const names[] = {"W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"};
    const char *path = "tests/reference/lenet.safetensors";
    SafetensorsFile file = safetensors_open(path);
    for (int i = 0; i < LENET_PARAMS; i++) {
        const SafetensorsEntry *entry = safetensors_find(&file, names[i]);
        if (!entry) die("run tests/reference/make_reference.py again", "%s: no %s", path, names[i]);
        params[i] = tensor_of_shape(device, entry->ndim, entry->shape);
        tensor_write(params[i], entry->values);
        attach_grad(params[i]);
    }
    safetensors_close(&file);
}

// What is asked for on the command line.
typedef struct Options {
    const char *model;
    int batch, threads, devices, shares, truth, overhead;
    bool cuda;
} Options;

typedef struct Training {
    Device *devices[MAX_DEVICES];
    int k;
    Tensor *X, *y;  // the minibatch, on the host
    DataIter *iter; // where the next one comes from; NULL: it is always the same
    int epoch;
    Tensor *device_params[MAX_DEVICES][LENET_PARAMS]; // of LeNet
    DataParallel resnet;                              // net is NULL: LeNet
    Tensor *A, *B, *C;                                // of sgemm, else NULL
} Training;

enum { SIDE_ON_CPU = 1536, SIDE_ON_GPU = 8192 };

static void next_minibatch(Training *t) {
    if (!t->iter || data_iter_next(t->iter, &t->X, &t->y)) return;
    data_iter_start(t->iter, ++t->epoch);
    if (!data_iter_next(t->iter, &t->X, &t->y)) die("it has 60000 images", "no minibatches");
}

static void step(Training *t, Tensor *losses[]) {
    next_minibatch(t);
    if (t->resnet.net)
        train_step(&t->resnet, t->X, t->y, RESNET_LR, losses);
    else
        train_batch_as_graph(t->X, t->y, t->device_params, t->devices, t->k, LENET_LR, losses);
    synchronize_all();
}

static void run_sgemm(Training *t, int steps) {
    int n = t->A->shape[0];
    double begin = seconds_now();
    for (int i = 0; i < steps; i++)
        launch(t->devices[0], gemm, .A = t->A->data, .B = t->B->data, .C = t->C->data, .M = n,
               .N = n, .K = n);
    synchronize_all();
    printf("%.9f %.0f\n", (seconds_now() - begin) / steps, 2.0 * n * n * n);
}

static void run(Training *t, int steps) {
    Tensor *losses[MAX_DEVICES];
    double begin = seconds_now(), loss = 0;
    for (int i = 0; i < steps; i++) step(t, losses);
    double seconds = seconds_now() - begin;
    for (int i = 0; i < t->k; i++) loss += (double)item(losses[i]);
    printf("%.9f %.6f\n", seconds / steps, loss / t->X->shape[0]);
}

static Tensor *ones(Device *device, int n) {
    Tensor *t = tensor_new(device, n, n);
    tensor_fill(t, 1);
    return t;
}

static Training prepare(const Options *o) {
    Training t = {.k = o->devices};
    open_devices(t.devices, t.k);
    choose_allreduce("sharded"); // all devices at work, not the book's device 0 alone
    if (strcmp(o->model, "sgemm") == 0) {
        int n = o->cuda ? SIDE_ON_GPU : SIDE_ON_CPU;
        t.A = ones(t.devices[0], n);
        t.B = ones(t.devices[0], n);
        t.C = ones(t.devices[0], n);
        synchronize_all();
        return t;
    }
    if (strcmp(o->model, "epoch") == 0) {
        t.iter = data_iter_new(fashion_mnist_open(NULL, true, 0), o->batch, false, 0);
        data_iter_start(t.iter, 0);
    } else {
        t.X = synthetic_images(o->batch);
        t.y = synthetic_labels(o->batch);
    }
    if (strcmp(o->model, "resnet") == 0) {
        Module *net = resnet18(10, 1);
        initialize(net, RESNET_SEED);
        t.resnet = data_parallel(net, t.devices, t.k, BN_SYNC);
    } else {
        for (int i = 0; i < t.k; i++) start_params(t.devices[i], t.device_params[i]);
    }
    return t;
}

static Options parse(int argc, char *argv[]) {
    Options o = {.model = argc > 1 ? argv[1] : "", .batch = 256, .devices = 1};
    const struct {
        const char *word;
        int *number, least, most;
    } numbers[] = {
        {"--batch", &o.batch, 1, 1 << 16},         {"--threads", &o.threads, 0, 1 << 16},
        {"--devices", &o.devices, 1, MAX_DEVICES}, {"--shares", &o.shares, 0, MOST_STEPS},
        {"--truth", &o.truth, 0, MOST_STEPS},      {"--overhead", &o.overhead, 0, MOST_STEPS}};
    bool known = *o.model;
    for (int i = 2; i < argc && known; i++) {
        const char *word = argv[i];
        known = true;
        if (strcmp(word, "--tf32") == 0) {
            allow_tf32(true);
        } else if (strcmp(word, "--no-graph") == 0) {
            choose_graph("off");
        } else {
            const char *value = ++i < argc ? argv[i] : "";
            known = strcmp(word, "--device") == 0;
            if (known) o.cuda = strcmp(value, "cuda") == 0;
            for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
                if (strcmp(word, numbers[n].word) == 0) {
                    int number = *numbers[n].number = atoi(value);
                    known = number >= numbers[n].least && number <= numbers[n].most;
                }
        }
    }
    if (!known || (o.shares && o.devices > 1))
        die("see the head of tests/bench/step.c", "what is to be trained, and how?");
    return o;
}

static void one_step(void *training) {
    Tensor *losses[MAX_DEVICES];
    step(training, losses);
}

static void some_steps(Training *t, int steps) {
    for (int i = 0; i < steps; i++) one_step(t);
}

static void show_shares(Training *t, const Options *o) {
    some_steps(t, 3); // the first ones get their memory
    for (int i = 0; i < o->shares; i++) record_step(t->devices[0], one_step, t);
    print_shares(o->model, 0.005);
}

// ---- modelled against measured -----------------------------------------------------------------

static void tell_time_of_this_machine(const Options *o) {
    BackendChoice backend = o->cuda ? BACKEND_CUDA : BACKEND_CPU;
    modelled_clock_start(NULL); // the devices measured are more than a machine before may have
    devices_init(backend, o->threads);
    char *text = machine_this(1, o->devices); // closes the devices
    modelled_clock_start(machine_parse("this", text));
    free(text);
    devices_init(backend, o->threads);
    set_threads_per_device(1);
}

// --machine this keeps the fastest time of each kernel, so it is compared with the fastest of some
// steps; the median step, which has all that a busy computer adds, is shown beside it. How fast a
// shared computer can be changes within seconds, by half and more: hence several rounds, each with
// a measurement of the machine just before its steps.
static void show_truth(const Options *o) {
    enum { ROUNDS = 7 };
    double to_fastest[ROUNDS], to_median[ROUNDS], measured[MOST_STEPS], modelled[MOST_STEPS];
    if (o->devices > devices_that_fit(1))
        printf("%d devices share the cores for %d: modelled time is that of cores of their own\n",
               o->devices, devices_that_fit(1));
    printf("%s, %d device%s\n%-8s%14s%14s%14s%16s%16s\n", o->model, o->devices,
           o->devices == 1 ? "" : "s", "round", "fastest ms", "median ms", "modelled ms",
           "/ fastest step", "/ median step");
    for (int i = 0; i < ROUNDS; i++) {
        tell_time_of_this_machine(o);
        Training t = prepare(o);
        some_steps(&t, 3); // the first ones get their memory
        for (int step = 0; step < o->truth; step++) {
            double begin = seconds_now(), modelled_begin = modelled_seconds();
            one_step(&t);
            measured[step] = seconds_now() - begin;
            modelled[step] = modelled_seconds() - modelled_begin;
        }
        double fastest = minimum(measured, o->truth), middle = median(measured, o->truth),
               told = median(modelled, o->truth);
        to_fastest[i] = told / fastest;
        to_median[i] = told / middle;
        printf("%-8d%14.3f%14.3f%14.3f%16.2f%16.2f\n", i + 1, 1e3 * fastest, 1e3 * middle,
               1e3 * told, to_fastest[i], to_median[i]);
        for (int step = 0; i == ROUNDS - 1 && step < o->truth; step++)
            record_step(t.devices[0], one_step, &t);
    }
    printf("%-50s%16.2f%16.2f\n\n", "median", median(to_fastest, ROUNDS),
           median(to_median, ROUNDS));
    print_shares(o->model, 0.005);
}

// The time of all cores for this program, which other programs disturb less than that on the wall.
static double seconds_of_cores(Training *t, const Machine *machine) {
    struct timespec begin, end;
    modelled_clock_start(machine);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    some_steps(t, 5);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

static void show_overhead(Training *t, const Options *o) {
    const Machine *machine = machine_find("dgx-a100");
    double ratios[MOST_STEPS];
    some_steps(t, 5); // the first ones get their memory
    for (int i = 0; i < o->overhead; i++) {
        bool first = i % 2 == 0; // who goes first changes, too
        double a = seconds_of_cores(t, first ? machine : NULL);
        double b = seconds_of_cores(t, first ? NULL : machine);
        ratios[i] = first ? a / b : b / a;
    }
    Quartiles q = quartiles(ratios, o->overhead);
    printf("%s, %d device%s: with the modelled clock a step takes %.3f times the cores' time "
           "(quartiles %.3f and %.3f)\n",
           o->model, t->k, t->k == 1 ? "" : "s", q.median, q.low, q.high);
}

// Does what the lines of the input ask for.
static void obey(Training *training) {
    char line[64];
    int steps;
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (sscanf(line, "run %d", &steps) != 1 || steps < 1)
            die("the lines are \"run N\" and \"quit\"", "unknown line: %.*s",
                (int)strcspn(line, "\n"), line);
        if (training->A)
            run_sgemm(training, steps);
        else
            run(training, steps);
        fflush(stdout); // the driver is waiting for this line
    }
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    Options options = parse(argc, argv);
    if (strcmp(options.model, "about") == 0) {
        printf("%s\n%s\n", isa_name(), COMPILER);
        return 0;
    }
    devices_init(options.cuda ? BACKEND_CUDA : BACKEND_CPU, options.threads);
    if (options.truth) {
        show_truth(&options);
        devices_close();
        return 0;
    }
    Training training = prepare(&options);
    if (options.overhead)
        show_overhead(&training, &options);
    else if (options.shares)
        show_shares(&training, &options);
    else
        obey(&training);
    devices_close();
    return 0;
}
