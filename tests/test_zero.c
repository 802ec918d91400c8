// test_zero.c: chapter 9: what every device holds, against the formulas; what recomputation keeps;
// limits; and mistakes that are made on purpose. (Each stage against chapter 6's DDP, with and
// without recomputation: test_trainers.c; batch norm's statistics: test_zero_resume.c.)
#include "common/model/modelled_clock.h"
#include "common/tensor/arena.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "zero_run.h"

DEATHS_FIRST

enum { MOST = 7 };

// ---- networks ----------------------------------------------------------------------------------

static Module *resnet18_of_ten(int num_classes) { return networks[1].make(num_classes); }

typedef struct NetUnits {
    Module *(*make)(int num_classes);
    int num_units;
    size_t floats[11]; // of each unit
} NetUnits;

#define CONV(in, out, size)   ((out) * (in) * (size) * (size) + (out))
#define RESIDUAL(in, out)     (CONV(in, out, 3) + CONV(out, out, 3) + 4 * (out))
#define RESIDUAL_1X1(in, out) (RESIDUAL(in, out) + CONV(in, out, 1))

static const NetUnits kinds[] = {
    {lenet_modules, 4, {200, 25050, 102528, 1290}},
    {narrow_resnet, 5, {CONV(1, 8, 3), 16, RESIDUAL(8, 8), RESIDUAL_1X1(8, 16), 170}},
    {resnet18_of_ten,
     11,
     {CONV(1, 64, 3), 128, RESIDUAL(64, 64), RESIDUAL(64, 64), RESIDUAL_1X1(64, 128),
      RESIDUAL(128, 128), RESIDUAL_1X1(128, 256), RESIDUAL(256, 256), RESIDUAL_1X1(256, 512),
      RESIDUAL(512, 512), 5130}},
};
static const NetUnits *const resnet18_net = &kinds[2];

static size_t all_floats(const NetUnits *kind) {
    size_t n = 0;
    for (int u = 0; u < kind->num_units; u++) n += kind->floats[u];
    return n;
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

// ---- bytes of memory, on devices without values, which count alike -------------------------------

static void assert_bytes(const Zero *z, int i, const char *what, size_t got, size_t expected) {
    if (got != expected)
        fail_msg("%s: %s of device %d of %d: %zu bytes, expected %zu", zero_stages[z->stage].name,
                 what, i, z->k, got, expected);
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

static Zero *zero_on(Device *devices[], int k, Module *net, Stage stage) {
    for (int i = 0; i < k; i++) devices[i] = model_device(i);
    initialize_without_values(net);
    return zero_new(net, devices, k, stage, (AdamOptions){0});
}

// Steps with so many rows. Returns the most that a device needs.
static uint64_t count(const NetUnits *kind, Stage stage, int k, int rows, bool recompute) {
    Device *devices[MOST];
    Tensor *losses[MOST];
    devices_init(BACKEND_CPU, 1); // (or a line could say that there is no GPU)
    const Tensor X = {.ndim = 4, .shape = {rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {rows}, .device = host()};
    Module *net = kind->make(10);
    Zero *z = zero_on(devices, k, net, stage);
    z->recompute = recompute;
    check_units(kind, z);
    for (int step = 0; step < 3; step++) {
        size_t before = arena_reserved_bytes(devices[0]);
        zero_train_batch(z, &X, &y, lr, losses);
        if (step > 0) assert_int_equal(arena_reserved_bytes(devices[0]), before);
    }
    uint64_t peak = check_memory(kind, z);
    zero_free(z);
    module_free(net);
    for (int i = 0; i < k; i++) // all is free
        assert_int_equal(device_bytes(devices[i]), arena_reserved_bytes(devices[i]));
    devices_close();
    return peak;
}

// With all of ResNet-18, each stage needs less than the one before it, and less with recomputation.
TEST_UNLESS_SIMULATED(memory_is_what_the_formulas_say) {
    for (size_t n = 0; n < COUNT(kinds); n++)
        for (int k = 1; k <= MOST; k++) {
            uint64_t before = UINT64_MAX;
            for (Stage stage = STAGE_DDP; stage < NUM_STAGES; stage++) {
                uint64_t peak = count(&kinds[n], stage, k, 64 * k - 1, false);
                uint64_t recomputed = count(&kinds[n], stage, k, 64 * k - 1, true);
                if (&kinds[n] != resnet18_net) continue;
                assert_true(recomputed < peak);
                if (k >= 4) assert_true(peak < before);
                before = peak;
            }
        }
}

static uint64_t count_four(Stage stage) { return count(resnet18_net, stage, 4, 12, false); }

static void count_with(Stage stage, uint64_t limit) {
    devices_limit_memory((double)limit);
    count_four(stage);
}

// What ZeRO-3 needs is enough for it, and a byte less is not. The others need more.
TEST_UNLESS_SIMULATED(test_limit) {
    count_with(ZERO_3, count_four(ZERO_3));
    devices_limit_memory(INFINITY);
}
DIES("more --memory", count_with(ZERO_3, count_four(ZERO_3) - 1))
DIES("for parameters", count_with(ZERO_2, count_four(ZERO_3)))
DIES("for gradients", count_with(ZERO_1, count_four(ZERO_3)))
DIES("for tensors", count_with(STAGE_DDP, count_four(ZERO_3)))

// ---- what recomputation keeps --------------------------------------------------------------------

enum { ROWS = 10 };

// Floats of an image in the output of each of the narrow ResNet's blocks.
static const size_t kept_floats[] = {8 * 28 * 28, 8 * 28 * 28, 8 * 28 * 28, 16, 10};

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// A step's forward pass; X becomes its result.
static Run forward_recomputing(void **state, int k) {
    Run r = begin(state, narrow_resnet, ZERO_1, k);
    r.z->recompute = true;
    give_rows(0, ROWS, r.devices, k, r.X, r.y);
    forward_unit(r.z, 0, r.X);
    return r;
}

// The minibatch and the output of each block, and nothing else. After the backward pass, nothing is
// lent any more: not even the output, of the last block.
TEST_ON_BOTH(test_kept) {
    bool slow = SIMULATED && strcmp(*state, "cpu") != 0;
    for (int k = 1; k <= (slow ? 1 : 4); k++) {
        Run r = forward_recomputing(state, k);
        for (int i = 0; i < k; i++) {
            size_t rows = (size_t)equal_range(ROWS, k, i).count;
            size_t bytes = aligned(4 * rows * 28 * 28) + aligned(4 * rows);
            for (size_t b = 0; b < COUNT(kept_floats); b++)
                bytes += aligned(4 * rows * kept_floats[b]);
            Device *d = r.devices[i]; // what is lent, and where the arena is
            assert_int_equal(arena_position(d).step_bytes + arena_position(d).most_lent, bytes);
            assert_int_equal(tape_length(d), COUNT(kept_floats));
        }
        for (int i = 0; i < k; i++) r.losses[i] = sum(cross_entropy(r.X[i], r.y[i]));
        backward_all(r.losses, k);
        for (int i = 0; i < k; i++) assert_false(arena_give_back(r.devices[i], r.X[i]->data));
        end(&r);
    }
}

DIES("needs backward_all()", {
    Run r = forward_recomputing(NULL, 1);
    backward(sum(cross_entropy(r.X[0], r.y[0])));
})
// A block that overwrites its input, which is needed again.
DIES("cannot be overwritten, its values are needed for gradients", {
    Run r = begin(NULL, narrow_resnet, ZERO_1, 1);
    r.z->recompute = true;
    give_rows(0, ROWS, r.devices, 1, r.X, r.y);
    Tensor *X = r.X[0];
    forward_unit(r.z, 0, r.X);
    relu_(X);
})

// ---- mistakes ----------------------------------------------------------------------------------

// They are made on devices without values, where no kernel crashes before the message.
DIES("7 devices cannot share the 6 parameters from 1.weight on", {
    Device *devices[7];
    zero_on(devices, 7, Sequential(Flatten(), Linear(2, 2)), ZERO_3);
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
    Tensor *X[2], *y[2], *losses[2];
    Zero *z = zero_on(devices, 2, narrow_resnet(10), ZERO_3);
    give_rows(0, ROWS, devices, 2, X, y);
    if (mistake == SHORT) z->shards[UNIT][1].own->shape[0]--;
    if (mistake == SHORT || mistake == NOT_FREED_AT_THE_END) {
        Tensor *t = parameter_data(find_parameter(z->net, "0.weight"), devices[1]);
        if (mistake == NOT_FREED_AT_THE_END) when_grad_is_final(t, gather_again, z);
        zero_step(z, X, y, lr, ROWS, losses);
        return;
    }
    forward_with(z, mistake, X);
    unshard(z, UNIT); // as the backward pass will
}

DIES("3.conv1.weight is not gathered on model:0", make_mistake(TOO_EARLY))
DIES("3.conv1.weight is not gathered on model:0", make_mistake(BEFORE_ITS_KERNELS))
DIES("3.conv1.weight is gathered already", make_mistake(NOT_FREED))
DIES("3.conv1.weight is still gathered on model:0 at the end", make_mistake(NOT_FREED_AT_THE_END))
DIES("3.conv1.weight is gathered already", make_mistake(TWICE))
DIES("part 1 has 599 floats, not 600", make_mistake(SHORT))

int main(void) { return run_all("zero", NULL, close_kept); }
