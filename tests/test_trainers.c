// test_trainers.c: the ways in which chapters 4, 5, 6, 8 and 9 train a network on k devices, in one
// table, and what must hold for each row: it computes what one device computes, it moves the bytes
// that its formula says, and neither late queues nor another number of threads change a bit. Then
// what each way has of its own. (Chapter 1: test_splitting.c; 7: test_servers.c.)
#include "common/data/fashion_mnist.h"
#include "common/device/graph.h"
#include "common/model/modelled_clock.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "chapters/06_data_parallel_and_ddp/dp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/08_many_machines/step.h"
#include "chapters/09_what_each_device_keeps/zero.h"
#include "cases.h"
#include "late.h"

enum { MOST = 7, BATCH = SANITIZED ? 16 : 48, PIXELS = 28 * 28 };

// ---- a minibatch -------------------------------------------------------------------------------

static Tensor images, labels; // the first of the training set, in memory of no device

typedef struct Rows {
    Tensor X, y;
} Rows;

// (Opened when they are needed, not before the first fork: a GPU's host memory is not for a child.)
static Rows rows_from(int first, int n) {
    enum { ALL = 3200 };
    if (!images.data) {
        Tensor *X, *y;
        Dataset *data = fashion_mnist_open(NULL, true, ALL);
        DataIter *iter = data_iter_new(data, ALL, false, 0);
        data_iter_first(iter, &X, &y);
        images = (Tensor){.ndim = 4, .shape = {ALL, 1, 28, 28}, .device = host()};
        labels = (Tensor){.ndim = 1, .shape = {ALL}, .device = host()};
        images.data = tensor_values(X);
        labels.data = tensor_values(y);
        data_iter_free(iter);
        dataset_free(data);
    }
    return (Rows){rows_of(&images, (Range){first, n}), rows_of(&labels, (Range){first, n})};
}

DEATHS_FIRST

// ---- split_batch and get_params ----------------------------------------------------------------

// The shards, one behind the other, are the minibatch.
TEST(split_batch_keeps_rows) {
    for (int k = 1; k <= 7; k++) {
        Device *devices[MAX_DEVICES];
        open_devices(devices, k);
        Tensor *X = RANDOM(host(), 5, 2, 3), *y = RANDOM(host(), 5), *Xs[7], *ys[7];
        float x_values[30], y_values[5];
        int row = 0;
        for (int i = 0; i < k; i++) begin_step(devices[i]);
        split_batch(X, y, devices, k, Xs, ys);
        for (int i = 0; i < k; row += Xs[i++]->shape[0]) {
            assert_ptr_equal(Xs[i]->device, devices[i]);
            assert_int_equal(Xs[i]->shape[0], ys[i]->shape[0]);
            assert_true(row + Xs[i]->shape[0] <= 5);
            tensor_read(Xs[i], x_values + 6 * row);
            tensor_read(ys[i], y_values + row);
        }
        assert_int_equal(row, 5);
        assert_memory_equal(x_values, X->data, sizeof x_values);
        assert_memory_equal(y_values, y->data, sizeof y_values);
    }
}

DIES("differ in rows", {
    Tensor *Xs[1], *ys[1];
    split_batch(RANDOM(host(), 5, 2), RANDOM(host(), 4), (Device *[]){try_gpu(0)}, 1, Xs, ys);
})

TEST(get_params_copies_and_attaches) {
    Tensor *params[LENET_PARAMS], *copy[LENET_PARAMS];
    lenet_init(params, 3);
    get_params(params, LENET_PARAMS, try_gpu(1), copy);
    for (int p = 0; p < LENET_PARAMS; p++) {
        float *grad = values_of(copy[p]->grad);
        assert_string_equal(copy[p]->name, params[p]->name);
        assert_memory_equal(values_of(copy[p]), params[p]->data, tensor_bytes(params[p]));
        for (size_t i = 0; i < numel(copy[p]); i++) assert_true(grad[i] == 0);
        assert_ptr_not_equal(copy[p]->data, params[p]->data);
    }
    free_params(params, LENET_PARAMS);
    free_params(copy, LENET_PARAMS);
}

// Begins a step of each device.
static void split(Rows rows, Device *const devices[], int k, Tensor *X[], Tensor *y[]) {
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(&rows.X, &rows.y, devices, k, X, y);
}

// ---- trainers ----------------------------------------------------------------------------------

typedef struct Trainer Trainer;

// What a way is compared on. On one device the first way of a network is what all are compared
// with.
typedef enum Network {
    FUNCTIONS = 1,  // chapter 4's LeNet,
    MODULES = 2,    // and chapter 6's
    LARGE = 4,      // the same with large minibatches
    STATISTICS = 8, // a small network with batch norm
    RESNET = 16,    // and a deep one
    ADAM = 32,      // LeNet by the stages of chapter 9, with Adam,
    ADAM_NORM = 64, // and a ResNet whose first block has no parameters
} Network;

typedef struct Way {
    const char *name;
    int networks;
    void (*open)(Trainer *t);
    void (*step)(Trainer *t, Rows rows, float lr);
    void (*close)(Trainer *t);
    Traffic (*bytes)(const Trainer *t, int i, int rows); // of device i in a step, by the formula
    DdpOptions ddp;
    int parts;         // of minibatches, only the last of which DDP exchanges; 0: one
    DpGathers gathers; // of DataParallel
    Stage stage;       // of chapter 9
    bool recompute;
    int buckets;                                  // that there must be; 0: any number
    enum { ALL_BITS, CPU_BITS, OTHER_BITS } bits; // whether they are those of the first way
} Way;

struct Trainer {
    const Way *way;
    int k, parts;
    Device *devices[MAX_COMPUTING];
    Module *net; // NULL in chapter 4
    Tensor *params[MAX_COMPUTING][LENET_PARAMS];
    int num_params;
    Ddp *ddp;
    Dp *dp;
    Zero *zero;
    DataParallel concise;
    struct Overlap *exercise;
    Tensor *losses[MAX_COMPUTING];
    int num_losses;
    double loss; // of the parts before
};

// Starts far enough from zero that the parameters move.
static void open_functions(Trainer *t) {
    Tensor *params[LENET_PARAMS];
    lenet_init(params, 1);
    t->num_params = LENET_PARAMS;
    for (int p = 0; p < LENET_PARAMS; p++)
        for (size_t i = 0; i < numel(params[p]); i++) params[p]->data[i] *= p == 0 ? 30.0f : 8.0f;
    for (int i = 0; i < t->k; i++) get_params(params, LENET_PARAMS, t->devices[i], t->params[i]);
    free_params(params, LENET_PARAMS);
}

static bool as_graph = true;
static void step_functions(Trainer *t, Rows rows, float lr) {
    (as_graph ? train_batch_as_graph : train_batch)(&rows.X, &rows.y, t->params, t->devices, t->k,
                                                    lr, t->losses);
}
static void close_functions(Trainer *t) {
    for (int i = 0; i < t->k; i++) free_params(t->params[i], LENET_PARAMS);
}
static Traffic bytes_of_functions(const Trainer *t, int i, int rows) {
    Traffic bytes = {0, 0};
    (void)rows;
    for (int p = 0; p < LENET_PARAMS; p++) {
        Traffic sum = allreduce_bytes(chosen_allreduce(), numel(t->params[i][p]), t->k, i);
        bytes.sent += sum.sent, bytes.received += sum.received;
    }
    return bytes;
}

static void open_concise(Trainer *t) {
    t->concise = data_parallel(t->net, t->devices, t->k, BN_LOCAL);
}
static void step_concise(Trainer *t, Rows rows, float lr) {
    train_step(&t->concise, &rows.X, &rows.y, lr, t->losses);
}
static void close_nothing(Trainer *t) { (void)t; }
static Traffic bytes_of_concise(const Trainer *t, int i, int rows) {
    (void)rows;
    return allreduce_bytes(chosen_allreduce(), numel(t->params[i][0]), t->k, i);
}

static void open_ddp(Trainer *t) {
    ledger_reset();
    t->ddp = ddp_new(t->net, t->devices, t->k, t->way->ddp);
    assert_int_equal(ledger_bytes_between_devices(),
                     (size_t)(t->k - 1) * (parameter_bytes(t->net) + buffer_bytes(t->net)));
    if (t->way->buckets) assert_int_equal(t->ddp->buckets.n, t->way->buckets);
}
static void step_ddp(Trainer *t, Rows rows, float lr) {
    Tensor *Xs[MOST], *ys[MOST], *y_hat[MOST];
    int n = rows.X.shape[0];
    for (int m = 0; m < t->parts; m++) {
        Range part = equal_range(n, t->parts, m);
        Rows own = {rows_of(&rows.X, part), rows_of(&rows.y, part)};
        for (int i = 0; i < t->k && m > 0; i++) t->loss += (double)item(t->losses[i]);
        split(own, t->devices, t->k, Xs, ys);
        ddp_no_sync(t->ddp, m < t->parts - 1);
        ddp_forward(t->ddp, Xs, y_hat);
        for (int i = 0; i < t->k; i++) t->losses[i] = sum(cross_entropy(y_hat[i], ys[i]));
        ddp_backward(t->ddp, t->losses);
    }
    ddp_update(t->ddp, lr, n);
}
static void close_ddp(Trainer *t) { ddp_free(t->ddp); }
static Traffic bytes_of_ddp(const Trainer *t, int i, int rows) {
    (void)rows;
    return ddp_bytes(t->ddp, i);
}

static void open_dp(Trainer *t) { t->dp = dp_new(t->net, t->devices, t->k, t->way->gathers); }
static void step_dp(Trainer *t, Rows rows, float lr) {
    t->losses[0] = dp_step(t->dp, &rows.X, &rows.y, lr);
    t->num_losses = 1;
}
static void close_dp(Trainer *t) { dp_free(t->dp); }
static Traffic bytes_of_dp(const Trainer *t, int i, int rows) {
    return dp_bytes(t->dp, i, rows, PIXELS, 10);
}

// (From where its own steps have led: moments belong to the parameters.)
static void open_stage(Trainer *t) {
    t->zero = zero_new(t->net, t->devices, t->k, t->way->stage, (AdamOptions){0});
    t->zero->recompute = t->way->recompute;
    t->num_params = 0;
}
static void step_stage(Trainer *t, Rows rows, float lr) {
    zero_train_batch(t->zero, &rows.X, &rows.y, lr / 100, t->losses);
}
static void close_stage(Trainer *t) { zero_free(t->zero); }
static Traffic bytes_of_stage(const Trainer *t, int i, int rows) {
    (void)rows;
    return zero_bytes(t->zero, i);
}

// One device, in as many parts as there are devices elsewhere.
static void open_accumulate(Trainer *t) {
    t->parts = t->k;
    t->k = 1;
    place_on(t->net, t->devices[0]);
}
static void step_accumulate(Trainer *t, Rows rows, float lr) {
    t->loss = accumulate(t->net, t->devices[0], &rows.X, &rows.y, t->parts);
    t->num_losses = 0;
    sgd_step(t->net, t->devices[0], lr, rows.X.shape[0]);
}
static Traffic no_bytes(const Trainer *t, int i, int rows) {
    (void)t, (void)i, (void)rows;
    return (Traffic){0, 0};
}

#if __has_include("chapters/06_data_parallel_and_ddp/exercises/3_overlap_in_lenet/solution.c")
#include "chapters/06_data_parallel_and_ddp/exercises/3_overlap_in_lenet/overlap.c"
#include "chapters/06_data_parallel_and_ddp/exercises/3_overlap_in_lenet/solution.c"

static void open_overlap(Trainer *t) {
    t->exercise = overlap_open(t->devices, t->k, 1);
    t->num_params = LENET_PARAMS;
    memcpy(t->params, t->exercise->params, sizeof t->params);
}
static void step_overlap(Trainer *t, Rows rows, float lr) {
    overlap_step(t->exercise, &rows.X, &rows.y, lr, t->losses);
}
static void close_overlap(Trainer *t) { overlap_close(t->exercise); }

#define EXERCISE                                                                                   \
    {"exercise 3 of chapter 6, solved", FUNCTIONS, .bits = CPU_BITS,                               \
     CALLS(overlap, close_overlap, bytes_of_functions)},
#else // students have no solution
#define EXERCISE
#endif

#define CHAPTER_4  CALLS(functions, close_functions, bytes_of_functions)
#define CONCISE    CALLS(concise, close_nothing, bytes_of_concise)
#define DDP        CALLS(ddp, close_ddp, bytes_of_ddp)
#define DP         CALLS(dp, close_dp, bytes_of_dp)
#define ACCUMULATE CALLS(accumulate, close_nothing, no_bytes)
#define STAGES     ADAM | ADAM_NORM, CALLS(stage, close_stage, bytes_of_stage)
#define CALLS(name, CLOSE, BYTES)                                                                  \
    .open = open_##name, .step = step_##name, .close = CLOSE, .bytes = BYTES

static const Way ways[] = {
    {"chapter 4", FUNCTIONS, CHAPTER_4},
    EXERCISE{"DDP, one bucket", MODULES | LARGE, DDP, .ddp.bucket_bytes = ONE_BUCKET, .buckets = 1},
    {"DDP", MODULES, DDP},
    {"DDP, buckets of 4 KB", MODULES, DDP, .ddp.bucket_bytes = 4 << 10, .buckets = 4},
    {"DDP, a bucket for each parameter", MODULES, DDP, .ddp.bucket_bytes = 1, .buckets = 8},
    {"DDP, searched", MODULES, DDP, .ddp = {.bucket_bytes = 64 << 10, .find_unused = true}},
    {"DDP in 2 parts", MODULES, DDP, .ddp.bucket_bytes = 64 << 10, .parts = 2, .bits = OTHER_BITS},
    {"DDP in 4 parts", MODULES, DDP, .ddp.bucket_bytes = 8 << 10, .parts = 4, .bits = OTHER_BITS},
    {"DDP, its own statistics", STATISTICS | RESNET, DDP, .ddp.keep_buffers = true},
    {"DDP, rank 0's statistics", STATISTICS | RESNET, DDP, .ddp.bucket_bytes = 1},
    {"DP", MODULES | STATISTICS, DP, .gathers = DP_OUTPUTS, .bits = OTHER_BITS},
    {"DP, sums", MODULES | STATISTICS, DP, .gathers = DP_SUMMED_LOSSES, .bits = OTHER_BITS},
    {"DP, means", STATISTICS, DP, .gathers = DP_MEAN_LOSSES, .bits = OTHER_BITS},
    {"chapter 5", MODULES | LARGE | STATISTICS | RESNET, CONCISE, .bits = CPU_BITS},
    {"parts on one", MODULES | LARGE | STATISTICS | RESNET, ACCUMULATE, .bits = CPU_BITS},
    {"DDP with Adam", STAGES, .stage = STAGE_DDP},
    {"DDP, recomputed", STAGES, .stage = STAGE_DDP, .recompute = true},
    {"ZeRO-1", STAGES, .stage = ZERO_1},
    {"ZeRO-1, recomputed", STAGES, .stage = ZERO_1, .recompute = true},
    {"ZeRO-2", STAGES, .stage = ZERO_2},
    {"ZeRO-2, recomputed", STAGES, .stage = ZERO_2, .recompute = true},
    {"ZeRO-3", STAGES, .stage = ZERO_3},
    {"ZeRO-3, recomputed", STAGES, .stage = ZERO_3, .recompute = true},
};

static Module *net_with_buffers(int classes) {
    return Sequential(BatchNorm2d(1), Flatten(), Linear(PIXELS, classes));
}

static Module *resnet_of_pooled(int classes) {
    return Sequential(AvgPool2d(2), Conv2d(1, 8, .kernel_size = 3, .padding = 1), BatchNorm2d(8),
                      ReLU(), Residual(8, 8), Residual(8, 16, .use_1x1conv = true, .strides = 2),
                      AdaptiveAvgPool2d(1, 1), Flatten(), Linear(16, classes));
}

static Trainer trainer_new(Device *const devices[], int k, const Way *way, Network network) {
    Trainer t = {.way = way, .k = k, .parts = way->parts ? way->parts : 1, .num_params = 1};
    memcpy(t.devices, devices, sizeof *devices * (size_t)k);
    if (network != FUNCTIONS) {
        t.net = network == RESNET       ? narrow_resnet18(10)
                : network == STATISTICS ? net_with_buffers(10)
                : network == ADAM_NORM  ? resnet_of_pooled(10)
                                        : lenet_modules(10);
        initialize(t.net, 1);
    }
    way->open(&t);
    for (int i = 0; i < t.k && t.net && !t.zero; i++)
        t.params[i][0] = flat_parameters(t.net, devices[i]).data;
    return t;
}

static void trainer_free(Trainer *t) {
    synchronize_all();
    t->way->close(t);
    if (t->net) module_free(t->net);
}

static void take_step(Trainer *t, Rows rows, float lr) {
    t->loss = 0;
    t->num_losses = t->k;
    t->way->step(t, rows, lr);
}

static double loss_of(const Trainer *t) {
    double loss = t->loss;
    for (int i = 0; i < t->num_losses; i++) loss += (double)item(t->losses[i]);
    return loss;
}

// All parameters, one behind the other: the same bits on all devices. (DP's replicas get them in
// the next step.)
static float *params_of_all(const Trainer *t, size_t *n) {
    float *first = NULL;
    if (t->zero) {
        *n = parameter_bytes(t->net) / sizeof *first;
        first = keep_memory(xmalloc(parameter_bytes(t->net)));
        zero_read(t->zero, first);
    }
    for (int i = 0; i < (t->dp ? 1 : t->zero ? 0 : t->k); i++) {
        float *values = keep_memory(values_of_all(t->params[i], t->num_params, n));
        if (i == 0) first = values;
        assert_memory_equal(values, first, *n * sizeof *values);
    }
    return first;
}

// ---- each step is that of one device, and moves what the formula says --------------------------

// Images and labels travel once.
static size_t loaded(const Trainer *t, int i, int n) {
    size_t rows = 0;
    for (int m = 0; m < t->parts; m++)
        rows += (size_t)equal_range(equal_range(n, t->parts, m).count, t->k, i).count;
    return (t->dp ? (i == 0 ? (size_t)n : 0) : rows) * (PIXELS + 1) * sizeof(float);
}

static void check_traffic(const Trainer *t, int n) {
    for (int i = 0; i < t->k; i++) {
        Traffic expected = t->way->bytes(t, i, n);
        size_t sent = 0, received = 0;
        for (int j = 0; j < t->k; j++)
            if (j != i) {
                sent += ledger_bytes(t->devices[i], t->devices[j]);
                received += ledger_bytes(t->devices[j], t->devices[i]);
            }
        if (sent != expected.sent || received != expected.received ||
            ledger_bytes(host(), t->devices[i]) != loaded(t, i, n))
            fail_msg("%s, %s, %d rows: device %d of %d has sent %zu bytes, by the formula %zu, "
                     "and received %zu, %zu",
                     t->way->name, chosen_allreduce()->name, n, i, t->k, sent, expected.sent,
                     received, expected.received);
    }
}

// One step from these parameters. Returns those after it.
static float *step_from(Trainer *t, const float *before, Rows rows, double *loss) {
    const float lr = 0.1f;
    size_t n;
    for (int i = 0; i < t->k; i++) {
        const float *from = before;
        for (int p = 0; p < t->num_params; from += numel(t->params[i][p++]))
            tensor_write(t->params[i][p], from);
    }
    synchronize_all();
    ledger_reset();
    take_step(t, rows, lr);
    synchronize_all();
    check_traffic(t, rows.X.shape[0]);
    *loss = loss_of(t);
    return params_of_all(t, &n);
}

// In a ring, the order of additions depends on where a number is. GPUs do not promise that a part's
// sums over its rows are a rank's. On two devices, DP's chain adds the same two numbers.
static bool has_bits_of_first_way(const Trainer *t, Network network) {
    bool cpu = device_gpu(t->devices[0]) < 0;
    const char *allreduce = chosen_allreduce()->name;
    if (strcmp(allreduce, "ring") == 0 && network != FUNCTIONS) return false;
    if (t->dp && t->k == 2 && network == MODULES) return true;
    if (t->way->bits == CPU_BITS) return cpu && strcmp(allreduce, "tree") != 0;
    return t->way->bits == ALL_BITS;
}

// Step after step, each from the parameters that one device has come to. (LeNet has thousands of
// ReLUs, and sooner or later a last digit decides on which side of zero one of them is.) With batch
// norm, each device normalizes its own rows, and the steps are others.
static void check_ways(Device *const devices[], int k, Network network, const int rows[]) {
    Trainer trainers[COUNT(ways)], one = {.way = NULL};
    int num = 0, first_row = 0;
    double expected, loss, first_loss = 0;
    size_t n;
    for (size_t w = 0; w < COUNT(ways); w++) {
        if (!(ways[w].networks & network)) continue;
        if (num == 0) one = trainer_new(devices, 1, &ways[w], network);
        trainers[num++] = trainer_new(devices, k, &ways[w], network);
    }
    for (int step = 0; rows[step] > 0; first_row += 50, step++, free_kept()) {
        Rows minibatch = rows_from(first_row, rows[step]);
        const float *before = params_of_all(&one, &n), *first = NULL;
        const float *after = step_from(&one, before, minibatch, &expected);
        assert_true(isfinite(expected));
        assert_memory_not_equal(after, before, n * sizeof *after);
        for (int w = 0; w < num; w++) {
            const Way *way = trainers[w].way;
            const float *got = step_from(&trainers[w], before, minibatch, &loss);
            double apart = relative_difference(got, after, before, n);
            if (network < STATISTICS &&
                (!(apart <= 1e-5) || !(fabs(loss - expected) <= 1e-5 * expected)))
                fail_msg("%s on %d devices, %d rows: parameters differ by %g of what they "
                         "learned, the loss is %.9g, expected %.9g",
                         way->name, k, rows[step], apart, loss, expected);
            if (w == 0) first = got, first_loss = loss;
            if (has_bits_of_first_way(&trainers[w], network) &&
                (memcmp(got, first, n * sizeof *got) != 0 ||
                 (network >= ADAM && loss != first_loss)))
                fail_msg("%s on %d devices, %s, %d rows: other bits than %s", way->name, k,
                         chosen_allreduce()->name, rows[step], trainers[0].way->name);
        }
    }
    for (int w = 0; w < num; w++) trainer_free(&trainers[w]);
    trainer_free(&one);
}

// In the end minibatches do not divide, and seven devices have rows for five.
TEST_ON_BOTH(k_devices_compute_what_one_computes) {
    enum { SMALL = FUNCTIONS | MODULES | STATISTICS };
    const struct {
        const char *allreduce;
        int networks, ks[5];
    } runs[] = {{"star", SMALL, {2, 3, 1, 4, 7}},
                {"sharded", SMALL, {4}},
                {"ring", SMALL, {3, 4, 7}},
                {"tree", SMALL, {4}},
                {"sharded", ADAM | ADAM_NORM, {3, 2, 1, 4, 7}}};
    static const int rows[] = {BATCH, 13, BATCH, 5, 0}, large[] = {250, 256, 3000, 31, 0};
    static const int few_rows[] = {9, 5, 0};
    Device *devices[MOST];
    devices_under_test(state, MOST, devices);
    bool slow = SANITIZED, slower = SIMULATED && device_gpu(devices[0]) >= 0;
    for (size_t r = 0; r < COUNT(runs); r++)
        for (int j = 0; j < 5 && runs[r].ks[j] && (j < 2 || !slow); j++) {
            choose_allreduce(runs[r].allreduce);
            for (int network = FUNCTIONS; network <= ADAM_NORM; network *= 2)
                if (runs[r].networks & network && (runs[r].ks[j] < 4 || !slower) &&
                    (network != ADAM_NORM || !SIMULATED))
                    check_ways(devices, runs[r].ks[j], (Network)network, slower ? few_rows : rows);
        }
    choose_allreduce("star");
    if (!slow) check_ways(devices, 4, LARGE, large);
    if (!slow) check_ways(devices, 4, RESNET, (const int[]){64, 64, 64, 0});
}

// ---- where k CPU devices train LeNet to the bits of one -----------------------------------------
//
// Exactly what chapters/running_it.md and kernels/cpu/cpu.h promise. (GPUs add up in orders of
// their own; so these are CPU devices, whatever the machine has.)

// An epoch with minibatches of `batch` of `images` images.
typedef struct Epoch {
    int k, batch, images;
    const char *allreduce;
} Epoch;

static const float *after_epoch(Epoch e, int threads, size_t *n) {
    Device *devices[MAX_COMPUTING];
    devices_close();
    devices_init(BACKEND_CPU, threads);
    choose_allreduce(e.allreduce);
    for (int i = 0; i < e.k; i++) devices[i] = cpu_device(i);
    share_cores(devices, e.k);
    Trainer t = trainer_new(devices, e.k, &ways[0], FUNCTIONS);
    for (int first = 0; first < e.images; first += e.batch) {
        int left = e.images - first;
        take_step(&t, rows_from(first, left < e.batch ? left : e.batch), 0.2f);
        synchronize_all();
    }
    const float *params = params_of_all(&t, n);
    trainer_free(&t);
    return params;
}

// One device with one core, k devices with three. All that is promised is a size of minibatches: a
// multiple of 16 k, at most 512, the last as well.
TEST_UNLESS_SIMULATED(trained_as_by_one_device) {
    static const Epoch table[] = {
        {2, 32, 96, "all"},           {2, 160, 320 + 64, "all"}, // five groups each
        {2, 256, 512 + 96, "star"},                              // 60000 images leave 96 too
        {2, 480, 480 + 352, "star"},  {2, 512, 512 + 32, "star"},
        {4, 192, 192 + 64, "tree"}, // three groups each, then one
        {4, 448, 448 + 320, "tree"},  {8, 128, 256, "tree"},
        {8, 384, 384 + 128, "tree"},  {16, 256, 512, "tree"},
        {16, 512, 512 + 256, "tree"}, {32, 512, 1024, "tree"}};
    for (const Epoch *row = table; row < table + COUNT(table); row++, free_kept()) {
        size_t n;
        const float *one = after_epoch((Epoch){1, row->batch, row->images, "star"}, 1, &n);
        for (int a = 0; a < NUM_ALLREDUCES; a++) {
            Epoch e = *row;
            e.allreduce = allreduces[a].name;
            if (strcmp(row->allreduce, "all") && strcmp(row->allreduce, e.allreduce)) continue;
            if (memcmp(one, after_epoch(e, 3, &n), n * sizeof *one) != 0)
                fail_msg("k = %d, --allreduce %s, %d images in minibatches of %d: not the bits of "
                         "one device",
                         e.k, e.allreduce, e.images, e.batch);
        }
    }
    choose_allreduce("star");
    devices_close();
}

// ---- late queues, and other threads ------------------------------------------------------------

// Where three steps lead between which the host does not wait. Queues are late if memory is
// limited; else `most_memory` becomes what they need.
static float *enqueued(const Way *way, Network network, Device *const devices[], int k, bool lately,
                       size_t *n, double *most_memory) {
    if (lately) devices_limit_memory(*most_memory);
    Trainer t = trainer_new(devices, k, way, network);
    queues_are_late(lately);
    for (int step = 0; step < 3; step++) {
        if (lately) begin_late(devices, k);
        take_step(&t, rows_from(BATCH * step, step == 1 ? 7 : BATCH), 0.1f);
    }
    queues_are_late(false);
    float *values = params_of_all(&t, n);
    trainer_free(&t);
    devices_limit_memory(INFINITY);
    for (int i = 0; i < k && !lately; i++)
        *most_memory =
            fmax(*most_memory, (double)(device_peak_bytes(devices[i]) -
                                        device_peak_bytes_of(devices[i], MEMORY_KERNELS)));
    return values;
}

TEST_ON_BOTH_UNLESS_SIMULATED(waiting_and_threads_do_not_change_bits) {
    enum { K = 3 };
    Device *devices[K];
    bool cpu = strcmp(*state, "cpu") == 0;
    devices_close();
    as_graph = false;
    for (size_t w = 0; w < COUNT(ways); w++)
        for (int network = FUNCTIONS; network <= ADAM_NORM; network *= 2) {
            if (!(ways[w].networks & network) || network == LARGE || network == RESNET) continue;
            size_t n, m;
            double needed = 0;
            choose_allreduce(w % 2 ? "star" : "ring");
            if (cpu) devices_init(BACKEND_CPU, 1);
            devices_under_test(state, K, devices);
            const float *calm =
                enqueued(&ways[w], (Network)network, devices, K, false, &n, &needed);
            devices_close();
            if (cpu) devices_init(BACKEND_CPU, 4 + 3 * (w % 2));
            devices_under_test(state, K, devices);
            const float *lately =
                enqueued(&ways[w], (Network)network, devices, K, true, &m, &needed);
            if (n != m || memcmp(calm, lately, n * sizeof *calm) != 0)
                fail_msg("%s: late queues or more threads change bits", ways[w].name);
            free_kept();
            devices_close();
        }
    as_graph = true;
    choose_allreduce("star");
}

// ---- the same, as graphs -----------------------------------------------------------------------

enum { VARIED_STEPS = 18 };

// A step is run, then recorded, then replayed, unless it differs from all that were recorded: in
// rows, learning rate or allreduce. (Star and ring add up three devices in different orders. The
// table of graphs has room for four.)
static const int varied_rows[VARIED_STEPS] = {9, 9, 9, 5, 9, 5, 5, 20, 9,
                                              9, 9, 9, 9, 9, 9, 9, 9,  9};

// Operations outside of the steps: LeNet without gradients, and a convolution that needs more
// scratch memory than all of LeNet's. Returns whether scratch memory has moved.
static bool evaluate(Trainer *t) {
    MemoryStamp before = memory_stamp();
    set_grad_enabled(false);
    for (int i = 0; i < t->k; i++) {
        begin_step(t->devices[i]);
        Tensor *X = arena_tensor(t->devices[i], 4, (int[]){30, 1, 28, 28}, false);
        tensor_fill(X, 1);
        lenet(X, t->params[i]);
        Tensor *large = arena_tensor(t->devices[i], 4, (int[]){1, 8, 64, 64}, false),
               *W = arena_tensor(t->devices[i], 4, (int[]){32, 8, 5, 5}, false);
        tensor_fill(large, 1);
        tensor_fill(W, 1);
        conv2d(large, W, NULL);
    }
    set_grad_enabled(true);
    return !memory_still_there(before);
}

typedef struct Trajectory {
    double losses[VARIED_STEPS];
    const float *params; // at the end
    size_t n;
} Trajectory;

static Trajectory train_varied(int k, bool graph) {
    Device *devices[MOST];
    Trajectory result;
    devices_close(); // scratch memory is small again
    as_graph = graph;
    open_devices(devices, k);
    Trainer t = trainer_new(devices, k, &ways[0], FUNCTIONS);
    bool scratch_moved = false;
    for (int step = 0; step < VARIED_STEPS; step++) {
        if (step == 9 || step == 15) scratch_moved |= evaluate(&t);
        choose_allreduce(step == 12 || step >= 14 ? "ring" : "star");
        take_step(&t, rows_from(20 * step, varied_rows[step]), step == 11 ? 0.05f : 0.2f);
        // What is made later in the step must not get the memory of what is still in use. (This
        // is more than all that 20 rows need.)
        for (int i = 0; i < k; i++)
            tensor_fill(arena_tensor(devices[i], 1, (int[]){1 << 18}, false), NAN);
        result.losses[step] = loss_of(&t);
        synchronize_all();
    }
    assert_true(scratch_moved);
    choose_allreduce("star");
    as_graph = true;
    result.params = params_of_all(&t, &result.n);
    trainer_free(&t);
    return result;
}

TEST(graphs_do_not_change_bits) {
    if (!has_graphs(try_gpu(0))) skip("no GPU");
    for (int k = 1; k <= 3; k += 2) {
        Trajectory on = train_varied(k, true), off = train_varied(k, false);
        assert_memory_equal(on.losses, off.losses, sizeof on.losses);
        assert_memory_equal(on.params, off.params, on.n * sizeof(float));
    }
}

// ---- what each way has of its own --------------------------------------------------------------

// Sums are right, and so is a mean of means if shards are equal; else it is not.
TEST_ON_BOTH(mean_of_means) {
    Device *devices[2];
    size_t n;
    devices_under_test(state, 2, devices);
    for (int unequal = 0; unequal < 2; unequal++) {
        const float *right = NULL;
        for (DpGathers gathers = DP_OUTPUTS; gathers <= DP_SUMMED_LOSSES; gathers++) {
            const Way way = {"", MODULES, DP, .gathers = gathers};
            Trainer t = trainer_new(devices, 2, &way, MODULES);
            const float *before = params_of_all(&t, &n);
            take_step(&t, rows_from(0, unequal ? 3 : BATCH), 1); // 3: 2 and 1
            const float *after = params_of_all(&t, &n);
            if (!right) right = after;
            double apart = relative_difference(after, right, before, n);
            bool wrong = unequal && gathers == DP_MEAN_LOSSES;
            assert_true(wrong ? apart > 0.1 && isfinite(apart) : apart < 1e-5);
            trainer_free(&t);
        }
    }
    free_kept();
}

// What device 0 of DP has seen is kept; the others' running statistics are lost. So they are those
// of one device that is given the first half only.
TEST_ON_BOTH(dp_keeps_buffers_of_the_first) {
    const Way way = {"", STATISTICS, DP, .gathers = DP_SUMMED_LOSSES};
    Device *devices[2];
    const float *values[2];
    devices_under_test(state, 2, devices);
    for (int k = 1; k <= 2; k++) {
        Trainer t = trainer_new(devices, k, &way, STATISTICS);
        take_step(&t, rows_from(0, 4 * k), 0);
        assert_int_equal(buffer_bytes(t.net), 2 * sizeof(float));
        values[k - 1] = values_of(flat_parameters(t.net, devices[0]).buffers);
        trainer_free(&t);
    }
    assert_true(values[0][0] != 0);
    assert_memory_equal(values[0], values[1], 2 * sizeof(float));
    free_kept();
}

// Rank 0's buffers go to all if the forward before was synchronised.
TEST_ON_BOTH(ddp_sends_buffers_after_a_synchronised_forward) {
    const bool no_sync[] = {true, true, false, false}, crosses[] = {true, false, false, true};
    const Way way = {"", STATISTICS, DDP, .ddp.bucket_bytes = 1};
    Device *devices[4];
    Tensor *X[4], *y[4], *y_hat[4];
    devices_under_test(state, 4, devices);
    Trainer t = trainer_new(devices, 4, &way, STATISTICS);
    take_step(&t, rows_from(0, 8), 0.1f);
    for (int f = 0; f < 4; f++) {
        split(rows_from(0, 8), devices, 4, X, y);
        ddp_no_sync(t.ddp, no_sync[f]);
        synchronize_all();
        ledger_reset();
        ddp_forward(t.ddp, X, y_hat);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), crosses[f] ? 3 * buffer_bytes(t.net) : 0);
    }
    trainer_free(&t);
}

// A loss of the first layer alone, on k ranks, with find_unused: its update is one device's, and
// the other parameters stay as they are, to the bit.
TEST_ON_BOTH(unused_parameters_stay) {
    const Way way = {"", MODULES, DDP, .ddp = {.bucket_bytes = 4096, .find_unused = true}};
    const size_t first = 20 * 9 + 20; // weight and bias
    Device *devices[2];
    Tensor *X[2], *y[2], *losses[2];
    const float *before = NULL, *after[3];
    size_t n;
    devices_under_test(state, 2, devices);
    for (int k = 1; k <= 2; k++) {
        Trainer t = trainer_new(devices, k, &way, MODULES);
        before = params_of_all(&t, &n);
        split(rows_from(0, 8), devices, k, X, y);
        for (int i = 0; i < k; i++) {
            Tensor *W = parameter_data(find_parameter(t.net, "0.weight"), devices[i]);
            Tensor *b = parameter_data(find_parameter(t.net, "0.bias"), devices[i]);
            losses[i] = sum(conv2d(X[i], W, b));
        }
        ddp_backward(t.ddp, losses);
        ddp_update(t.ddp, 0.1f, 8);
        after[k] = params_of_all(&t, &n);
        assert_memory_equal(after[k] + first, before + first, (n - first) * sizeof(float));
        trainer_free(&t);
    }
    assert_true(relative_difference(after[2], after[1], before, first) < 1e-5);
}

// ---- mistakes ----------------------------------------------------------------------------------

enum { EARLY, OTHER_ORDER, UNUSED };

static void (*ddps_hook)(Tensor *t, void *arrival);

static void call_twice(Tensor *t, void *arrival) {
    ddps_hook(t, arrival);
    ddps_hook(t, arrival);
}

static void count_twice(Tensor *t) {
    ddps_hook = t->grad_final;
    when_grad_is_final(t, call_twice, t->grad_final_context);
}

static void swap_buckets(Tensor **a, Tensor **b) {
    Tensor *first = *a;
    *a = *b;
    *b = first;
}

static void make_mistake(int which) {
    Device *devices[2] = {model_device(0), model_device(1)};
    const Rows rows = {{.ndim = 4, .shape = {8, 1, 28, 28}, .device = host()},
                       {.ndim = 1, .shape = {8}, .device = host()}};
    const Way way = {"", MODULES, DDP, .ddp.bucket_bytes = 8 << 10};
    Tensor *X[2], *y[2], *y_hat[2], *losses[2];
    Trainer t = trainer_new(devices, 2, &way, MODULES);
    if (which == EARLY) // bucket 1 begins with 3.weight
        count_twice(parameter_data(find_parameter(t.net, "3.weight"), devices[1]));
    if (which == OTHER_ORDER) swap_buckets(&t.ddp->ranks[1][0].grads, &t.ddp->ranks[1][1].grads);
    split(rows, devices, 2, X, y);
    ddp_forward(t.ddp, X, y_hat);
    for (int i = 0; i < 2; i++) {
        losses[i] = sum(cross_entropy(y_hat[i], y[i]));
        // a loss of something else, in which the last layer's parameters have no part
        if (which == UNUSED) {
            begin_step(devices[i]);
            Tensor *W = parameter_data(find_parameter(t.net, "0.weight"), devices[i]);
            losses[i] = sum(relu(reshape_to(W, 4, (const int[]){20, 1, 3, 3})));
        }
    }
    ddp_backward(t.ddp, losses);
}
DIES("bucket 1 of rank 1 is sent before the gradient of", make_mistake(EARLY))
DIES("rank 0 is at bucket 0, rank 1 at bucket 1", make_mistake(OTHER_ORDER))
DIES("the parameter 0.bias got no gradient on rank 0", make_mistake(UNUSED))

static int close_all(void **state) {
    free(images.data);
    free(labels.data);
    return close_kept(state);
}

int main(void) { return run_all("trainers", NULL, close_all); }
