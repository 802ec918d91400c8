// test_zero.c: chapter 9: each stage against chapter 6's DDP, to the bit; what every device sends,
// receives and holds against the formulas; limits; and mistakes that are made on purpose.
#include "common/device/queue_observer.h"
#include "common/model/modelled_clock.h"
#include "common/tensor/arena.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/09_what_each_device_keeps/zero.h"
#include "cases.h"
#include "formula.h"

#include <time.h>

enum { MOST = 7, STEPS = 4 };
static const int ks[] = {1, 2, 3, 4, 7};
enum { SLOW_K = 3 }; // the only k where each would take long
static const float lr = 1e-3f;

// ---- networks ----------------------------------------------------------------------------------

// A ResNet of few parameters.
static Module *narrow_resnet(int num_classes) {
    return Sequential(Conv2d(1, 8, .kernel_size = 3, .padding = 1), BatchNorm2d(8), ReLU(),
                      Residual(8, 8), Residual(8, 16, .use_1x1conv = true, .strides = 2),
                      AdaptiveAvgPool2d(1, 1), Flatten(), Linear(16, num_classes));
}

static Module *resnet18_of_ten(int num_classes) { return networks[1].make(num_classes); }

typedef struct NetUnits {
    const char *title;
    Module *(*make)(int num_classes);
    int steps, num_units;
    size_t floats[11]; // of each unit
} NetUnits;

#define CONV(in, out, size)   ((out) * (in) * (size) * (size) + (out))
#define RESIDUAL(in, out)     (CONV(in, out, 3) + CONV(out, out, 3) + 4 * (out))
#define RESIDUAL_1X1(in, out) (RESIDUAL(in, out) + CONV(in, out, 1))

static const NetUnits lenet = {"LeNet", lenet_modules, STEPS, 4, {200, 25050, 102528, 1290}};
static const NetUnits narrow = {"a narrow ResNet",
                                narrow_resnet,
                                STEPS,
                                5,
                                {CONV(1, 8, 3), 16, RESIDUAL(8, 8), RESIDUAL_1X1(8, 16), 170}};
static const NetUnits resnet18_net = {"ResNet-18",
                                      resnet18_of_ten,
                                      2,
                                      11,
                                      {CONV(1, 64, 3), 128, RESIDUAL(64, 64), RESIDUAL(64, 64),
                                       RESIDUAL_1X1(64, 128), RESIDUAL(128, 128),
                                       RESIDUAL_1X1(128, 256), RESIDUAL(256, 256),
                                       RESIDUAL_1X1(256, 512), RESIDUAL(512, 512), 5130}};

static size_t all_floats(const NetUnits *kind) {
    size_t n = 0;
    for (int u = 0; u < kind->num_units; u++) n += kind->floats[u];
    return n;
}

static Module *start_of(const NetUnits *kind, const Device *device) {
    Module *net = kind->make(10);
    if (has_values(device))
        fill_network(net);
    else
        initialize_without_values(net);
    return net;
}

// ---- minibatches -------------------------------------------------------------------------------

// The second has fewer rows than seven devices.
static const int rows_of_step[STEPS] = {9, 5, 12, 12};

typedef struct Batch {
    int rows;
    Tensor *X[MOST], *y[MOST];
} Batch;

// Begins a step of each device.
static Batch batch_of(int step, Device *const devices[], int k) {
    Batch b = {.rows = rows_of_step[step]};
    Tensor *X, *y;
    formula_batch(2 * rows_of_step[step], &X, &y);
    keep(X), keep(y);
    Range rows = {step % 2 * b.rows, b.rows};
    Tensor X_step = rows_of(X, rows), y_step = rows_of(y, rows);
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(&X_step, &y_step, devices, k, b.X, b.y);
    return b;
}

// ---- a run of a stage, and what is counted in it -----------------------------------------------

typedef struct Trained {
    float *params, *buffers; // running statistics of all devices, and counts of minibatches
    size_t num_buffers;
    float losses[STEPS][MOST];
    uint64_t peak; // bytes, of the device that needs most
} Trained;

static void read_buffers(Trained *t, const Module *net, Device *const devices[], int k) {
    Counts counts = counts_of(net, false);
    Parameters all = parameters_of(net);
    t->num_buffers = buffer_bytes(net) / sizeof(float) * (size_t)k + (size_t)counts.n;
    float *at = t->buffers = keep_memory(xcalloc(t->num_buffers + 1, sizeof(float)));
    for (int i = 0; i < k; i++)
        for (int p = 0; p < all.n; p++)
            if (!all.list[p]->trained) {
                tensor_read(parameter_data(all.list[p], devices[i]), at);
                at += numel(all.list[p]->start);
            }
    for (int c = 0; c < counts.n; c++) *at++ = (float)counts.list[c].value;
    free_counts(&counts);
}

static void assert_bytes(const Zero *z, int i, const char *what, size_t got, size_t expected) {
    if (got != expected)
        fail_msg("%s: %s of device %d of %d: %zu bytes, expected %zu", zero_stages[z->stage].name,
                 what, i, z->k, got, expected);
}

static void check_traffic(const Zero *z) {
    for (int i = 0; i < z->k; i++) {
        Traffic formula = zero_bytes(z, i), t = {0, 0};
        for (int j = 0; j < z->k; j++) {
            if (j == i) continue;
            t.sent += ledger_bytes(z->devices[i], z->devices[j]);
            t.received += ledger_bytes(z->devices[j], z->devices[i]);
        }
        assert_bytes(z, i, "sent", t.sent, formula.sent);
        assert_bytes(z, i, "received", t.received, formula.received);
    }
}

// Device i's parts of all units.
static size_t shard_floats(const NetUnits *kind, const Zero *z, int i) {
    size_t n = 0, k = (size_t)z->k, all = all_floats(kind);
    if (z->stage <= ZERO_1) return all / k + ((size_t)i < all % k);
    for (int u = 0; u < kind->num_units; u++)
        n += kind->floats[u] / k + ((size_t)i < kind->floats[u] % k);
    return n;
}

// Between steps a device has its parts, and nothing that was gathered. (Batch norm's running
// statistics and the moments are MEMORY_OTHER.) Returns the highest peak of a device.
static uint64_t check_memory(const NetUnits *kind, const Zero *z) {
    uint64_t buffers = buffer_bytes(z->net), most = 0;
    size_t all = sizeof(float) * all_floats(kind);
    for (int i = 0; i < z->k; i++) {
        const Device *d = z->devices[i];
        size_t own = sizeof(float) * shard_floats(kind, z, i);
        size_t parameters = z->stage >= ZERO_3 ? own : all, grads = z->stage >= ZERO_2 ? own : all;
        size_t moments = 2 * (z->stage >= ZERO_1 ? own : all);
        assert_bytes(z, i, "parameters", device_bytes_of(d, MEMORY_PARAMETERS), parameters);
        assert_bytes(z, i, "gradients", device_bytes_of(d, MEMORY_GRADIENTS), grads);
        assert_bytes(z, i, "moments", device_bytes_of(d, MEMORY_OTHER), moments + buffers);
        ZeroMemory m = zero_memory(z, i);
        uint64_t expected = zero_peak(&m) + arena_reserved_bytes(d) + buffers;
        if (z->ddp) expected -= m.temporary; // this is in the arena
        // What kernels take depends on the kind of device.
        uint64_t peak = device_peak_bytes(d) - device_peak_bytes_of(d, MEMORY_KERNELS);
        assert_bytes(z, i, "the peak", peak, expected);
        if (peak > most) most = peak;
    }
    return most;
}

static void check_units(const NetUnits *kind, const Zero *z) {
    bool one = z->stage <= ZERO_1;
    size_t first = 0;
    assert_int_equal(z->num_units, one ? 1 : kind->num_units);
    for (int u = 0; u < z->num_units; first += z->units[u++].floats) {
        assert_int_equal(z->units[u].first, first);
        assert_int_equal(z->units[u].floats, one ? all_floats(kind) : kind->floats[u]);
    }
}

static bool recompute; // in the trainings that follow

static Trained train_stage(const NetUnits *kind, Stage stage, Device *const devices[], int k,
                           void (*before_step)(Device *const devices[], int k)) {
    Module *net = start_of(kind, devices[0]);
    Zero *z = zero_new(net, devices, k, stage, (AdamOptions){0});
    z->recompute = recompute;
    Trained t = {0};
    check_units(kind, z);
    for (int step = 0; step < kind->steps; step++) {
        Tensor *losses[MOST];
        Batch b = batch_of(step, devices, k);
        if (before_step) before_step(devices, k);
        ledger_reset();
        zero_step(z, b.X, b.y, lr, b.rows, losses);
        check_traffic(z);
        for (int i = 0; i < k; i++) t.losses[step][i] = item(losses[i]);
    }
    t.peak = check_memory(kind, z);
    t.params = keep_memory(xmalloc(parameter_bytes(net)));
    zero_read(z, t.params);
    read_buffers(&t, net, devices, k);
    zero_free(z);
    module_free(net);
    for (int i = 0; i < k; i++) // all is free
        assert_int_equal(device_bytes(devices[i]) - device_bytes_of(devices[i], MEMORY_KERNELS),
                         arena_reserved_bytes(devices[i]));
    devices_close();
    return t;
}

// ---- bits --------------------------------------------------------------------------------------

static bool same(const float *a, const float *b) { return memcmp(a, b, sizeof *a) == 0; }

static void assert_same(const NetUnits *kind, Stage stage, int k, const Trained *got,
                        const Trained *expected) {
    for (int step = 0; step < kind->steps; step++)
        for (int i = 0; i < k; i++)
            if (!same(&got->losses[step][i], &expected->losses[step][i]))
                fail_msg("%s, %s: step %d: the loss of device %d of %d is %.9g, not %.9g",
                         kind->title, zero_stages[stage].name, step, i, k,
                         (double)got->losses[step][i], (double)expected->losses[step][i]);
    for (size_t p = 0; p < all_floats(kind); p++)
        if (!same(&got->params[p], &expected->params[p]))
            fail_msg("%s, %s on %d devices: parameter %zu is %.9g, not %.9g", kind->title,
                     zero_stages[stage].name, k, p, (double)got->params[p],
                     (double)expected->params[p]);
}

// All stages, without and (with_recomputation) with recomputation. DDP is chapter 6's, with an Adam
// on each device. (What they train: test_zero_reference.c.)
static void check_bits(void **state, const NetUnits *kind, int k, bool with_recomputation) {
    Device *devices[MOST];
    Trained ddp;
    for (int run = 0; run < NUM_STAGES * (1 + with_recomputation); run++) {
        Stage stage = (Stage)(run % NUM_STAGES);
        recompute = run >= NUM_STAGES;
        devices_under_test(state, k, devices);
        Trained got = train_stage(kind, stage, devices, k, NULL);
        if (run == 0) ddp = got;
        assert_same(kind, stage, k, &got, &ddp);
        assert_memory_equal(got.buffers, ddp.buffers, sizeof(float) * ddp.num_buffers);
    }
    recompute = false;
    assert_true(isfinite(ddp.losses[kind->steps - 1][0]));
    free_kept();
}

static void test_lenet(void **state) {
    bool slow = SIMULATED && strcmp(*state, "cpu") != 0;
    for (size_t j = 0; j < COUNT(ks); j++)
        if (!SANITIZED || ks[j] == SLOW_K) check_bits(state, &lenet, ks[j], !slow);
}
static void test_narrow_resnet(void **state) {
    for (size_t j = 0; j < COUNT(ks); j++) check_bits(state, &narrow, ks[j], true);
}
static void test_resnet18(void **state) {
    for (size_t j = 0; j < COUNT(ks); j++)
        if (!SANITIZED || ks[j] == SLOW_K) check_bits(state, &resnet18_net, ks[j], ks[j] == SLOW_K);
}

// ---- a limit, and queues that are late ---------------------------------------------------------

static struct timespec a_little = {0, 300000}, longer = {0, 5000000};

static void sleep_so_long(void *duration) { nanosleep(duration, NULL); }

// What is sent arrives late,
static void be_late(Queue *queue, const Device *to, const void *dst, const Device *from,
                    size_t bytes) {
    (void)to, (void)dst, (void)from, (void)bytes;
    queue_call(queue, sleep_so_long, &a_little);
}
static const QueueObserver late = {.copy = be_late};

// and some devices begin a step late.
static void begin_late(Device *const devices[], int k) {
    for (int i = 0; i < k; i += 2) queue_call(compute_queue(devices[i]), sleep_so_long, &longer);
}

// With the memory that a stage needs it computes the same, whatever waits for what.
static void test_late_queues(void **state) {
    enum { K = 3 };
    Device *devices[K];
    for (int network = 0; network < 3; network++) {
        const NetUnits *kind = network ? &narrow : &lenet;
        recompute = network == 2;
        for (Stage stage = ZERO_1; stage < NUM_STAGES; stage++) {
            devices_under_test(state, K, devices);
            Trained expected = train_stage(kind, stage, devices, K, NULL);
            devices_limit_memory((double)expected.peak);
            devices_under_test(state, K, devices);
            queue_observe(&late);
            Trained got = train_stage(kind, stage, devices, K, begin_late);
            queue_unobserve(&late);
            devices_limit_memory(INFINITY);
            assert_same(kind, stage, K, &got, &expected);
        }
    }
    recompute = false;
    free_kept();
}

// ---- ResNet-18 on devices without values, which count alike --------------------------------------

static Trained count(const NetUnits *kind, Stage stage, int k) {
    Device *devices[MOST];
    devices_init(BACKEND_CPU, 1); // (or a line could say that there is no GPU)
    for (int i = 0; i < k; i++) devices[i] = model_device(i);
    Trained t = train_stage(kind, stage, devices, k, NULL);
    free_kept();
    return t;
}

CASE(test_resnet18_is_counted) {
    for (size_t j = 0; j < COUNT(ks); j++) {
        uint64_t before = UINT64_MAX;
        for (Stage stage = STAGE_DDP; stage < NUM_STAGES; stage++) {
            uint64_t peak = count(&resnet18_net, stage, ks[j]).peak;
            if (ks[j] >= 4) assert_true(peak < before);
            before = peak;
        }
    }
}

static void count_with(Stage stage, uint64_t limit) {
    devices_limit_memory((double)limit);
    count(&resnet18_net, stage, 4);
}

// What ZeRO-3 needs is enough for it, and a byte less is not. The others need more.
CASE(test_limit) {
    count_with(ZERO_3, count(&resnet18_net, ZERO_3, 4).peak);
    devices_limit_memory(INFINITY);
}
DIES("more --memory", count_with(ZERO_3, count(&resnet18_net, ZERO_3, 4).peak - 1))
DIES("for parameters", count_with(ZERO_2, count(&resnet18_net, ZERO_3, 4).peak))
DIES("for gradients", count_with(ZERO_1, count(&resnet18_net, ZERO_3, 4).peak))
DIES("for tensors", count_with(STAGE_DDP, count(&resnet18_net, ZERO_3, 4).peak))

// ---- mistakes ----------------------------------------------------------------------------------

// They are made on devices without values, where no kernel crashes before the message.
static Zero *zero_on(Device *devices[], int k, Module *net) {
    for (int i = 0; i < k; i++) devices[i] = model_device(i);
    return zero_new(net, devices, k, ZERO_3, (AdamOptions){0});
}

DIES("7 devices cannot share the 6 parameters from 1.weight on", {
    Device *devices[7];
    Module *net = Sequential(Flatten(), Linear(2, 2));
    initialize(net, 0);
    zero_on(devices, 7, net);
})

typedef enum Mistake {
    TOO_EARLY,
    BEFORE_ITS_KERNELS,
    NOT_FREED,
    NOT_FREED_AT_THE_END,
    TWICE,
    SHORT
} Mistake;

enum { UNIT = 2 }; // where it is made

// The forward pass of zero3_step() with a mistake.
static void forward_with(Zero *z, Mistake mistake, Tensor *Y[]) {
    unshard(z, 0);
    for (int u = 0; u < z->num_units; u++) {
        bool here = u == UNIT;
        unshard(z, u + 1);
        if (here && mistake == TWICE) unshard(z, u);
        if (here && mistake == TOO_EARLY) reshard(z, u);
        wait_for_parameters(z, u);
        if (here && mistake == BEFORE_ITS_KERNELS) reshard(z, u);
        forward_unit(z, u, Y);
        if (!here || mistake != NOT_FREED) reshard(z, u);
    }
}

// A gradient of the first unit is final, so the third has been freed.
static void gather_again(Tensor *t, void *z) {
    (void)t;
    unshard(z, UNIT);
}

static void make_mistake(Mistake mistake) {
    Device *devices[2];
    Tensor *losses[2];
    Zero *z = zero_on(devices, 2, start_of(&narrow, model_device(0)));
    Batch b = batch_of(0, devices, 2);
    if (mistake == SHORT) z->shards[UNIT][1].own->shape[0]--;
    if (mistake == SHORT || mistake == NOT_FREED_AT_THE_END) {
        Tensor *t = parameter_data(find_parameter(z->net, "0.weight"), devices[1]);
        if (mistake == NOT_FREED_AT_THE_END) when_grad_is_final(t, gather_again, z);
        zero_step(z, b.X, b.y, lr, b.rows, losses);
        return;
    }
    forward_with(z, mistake, b.X);
    unshard(z, UNIT); // as the backward pass will
}

DIES("3.conv1.weight is not gathered on model:0", make_mistake(TOO_EARLY))
DIES("3.conv1.weight is not gathered on model:0", make_mistake(BEFORE_ITS_KERNELS))
DIES("3.conv1.weight is gathered already", make_mistake(NOT_FREED))
DIES("3.conv1.weight is still gathered on model:0 at the end", make_mistake(NOT_FREED_AT_THE_END))
DIES("3.conv1.weight is gathered already", make_mistake(TWICE))
DIES("part 1 has 599 floats, not 600", make_mistake(SHORT))

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        UNLESS_SIMULATED(expect_deaths),
        UNLESS_SIMULATED(test_limit),
        UNLESS_SIMULATED(test_resnet18_is_counted),
        ON_BOTH(test_lenet),
        ON_BOTH_UNLESS_SIMULATED(test_narrow_resnet),
        ON_BOTH_UNLESS_SIMULATED(test_resnet18),
        ON_BOTH_UNLESS_SIMULATED(test_late_queues),
    };
    choose_allreduce("sharded");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_kept();
    devices_close();
    return failed;
}
