// test_memory.c: what a device's memory is for, and a limit on it, on devices of all kinds.
#include "cases.h"

#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/model/modelled_clock.h"
#include "common/tensor/autograd.h"

enum { MOST = 4, ROWS = 8, PARAMS = 4 * 129068 }; // bytes of LeNet's parameters

static BackendChoice kinds[] = {BACKEND_CPU, BACKEND_MODEL, BACKEND_CUDA};
static size_t num_kinds;

static void open_gpus(void *unused) {
    (void)unused;
    devices_init(BACKEND_CUDA, 1);
}

// (In a child: a GPU cannot be used on both sides of a fork.)
static int count_kinds(void **state) {
    (void)state;
    char text[1000];
    num_kinds = run_and_listen(open_gpus, NULL, text, sizeof text) == 0 ? 3 : 2;
    return 0;
}

typedef struct Replicas {
    Tensor *start[LENET_PARAMS], *on[MOST][LENET_PARAMS];
    Device *devices[MOST];
    int k;
} Replicas;

static void place(Replicas *r, BackendChoice kind, int k) {
    modelled_clock_start(machine_find("dgx-a100"));
    devices_init(kind, 1);
    r->k = k;
    open_devices(r->devices, k);
    lenet_init(r->start, 1);
    for (int i = 0; i < k; i++) get_params(r->start, LENET_PARAMS, r->devices[i], r->on[i]);
}

static void step(Replicas *r) {
    Tensor *X = RANDOM(host(), r->k * ROWS, 1, 28, 28), *y = keep(tensor_new(host(), r->k * ROWS));
    Tensor *losses[MOST];
    tensor_fill(y, 3);
    train_batch(X, y, r->on, r->devices, r->k, 0.1f, losses);
    synchronize_all();
}

static void take_away(Replicas *r) {
    free_params(r->start, LENET_PARAMS);
    for (int i = 0; i < r->k; i++) free_params(r->on[i], LENET_PARAMS);
    free_kept();
    devices_close();
}

// What a program asks for is the same on devices of all kinds.
static uint64_t asked_for(const Device *device) {
    return device_peak_bytes(device) - device_peak_bytes_of(device, MEMORY_KERNELS);
}

// ---- the limit ---------------------------------------------------------------------------------

static void step_with_a_byte_too_few(void *kind) {
    Replicas r;
    place(&r, *(BackendChoice *)kind, 1);
    step(&r);
    double needed = (double)asked_for(r.devices[0]);
    take_away(&r);
    devices_limit_memory(needed);
    place(&r, *(BackendChoice *)kind, 1);
    step(&r);
    take_away(&r);
    devices_limit_memory(needed - 1);
    place(&r, *(BackendChoice *)kind, 1);
    step(&r);
}

// Comes first: this process opens no device before its children have.
TEST(what_is_needed_is_enough_and_a_byte_less_is_not) {
    for (size_t i = 0; i < num_kinds; i++) {
        expect_death(1,
                     " are in use: 516,272 for parameters, 516,272 for gradients, 16,777,216 for "
                     "activations",
                     step_with_a_byte_too_few, &kinds[i]);
        expect_death(1, "more --memory", step_with_a_byte_too_few, &kinds[i]);
    }
}

TEST(the_host_has_no_limit) {
    devices_init(BACKEND_CPU, 1);
    devices_limit_memory(1e6);
    device_free(host(), device_alloc(host(), 2000000));
    devices_limit_memory(INFINITY);
    devices_close();
}

// ---- by use ------------------------------------------------------------------------------------

static void assert_bytes(const Device *device, MemoryUse use, uint64_t now, uint64_t peak) {
    assert_int_equal(device_bytes_of(device, use), now);
    assert_int_equal(device_peak_bytes_of(device, use), peak);
}

TEST(lenet_has_the_bytes_of_the_formula) {
    uint64_t needed = 0;
    for (size_t kind = 0; kind < num_kinds; kind++)
        for (int k = 1; k <= MOST; k++) {
            Replicas r;
            place(&r, kinds[kind], k);
            for (int i = 0; i < k; i++) {
                assert_bytes(r.devices[i], MEMORY_PARAMETERS, PARAMS, PARAMS);
                assert_bytes(r.devices[i], MEMORY_GRADIENTS, PARAMS, PARAMS);
                assert_bytes(r.devices[i], MEMORY_OTHER, 0, 0);
                assert_bytes(r.devices[i], MEMORY_ACTIVATIONS, 0, 0);
            }
            step(&r);
            const Device *last = r.devices[k - 1];
            uint64_t activations = device_bytes_of(last, MEMORY_ACTIVATIONS) +
                                   device_bytes_of(last, MEMORY_ACTIVATION_GRADIENTS);
            assert_int_equal(asked_for(last), 2 * PARAMS + activations);
            if (kind == 0 && k == 1) needed = asked_for(last);
            assert_int_equal(asked_for(last), needed);
            free_params(r.on[k - 1], LENET_PARAMS);
            get_params(r.start, LENET_PARAMS, r.devices[k - 1], r.on[k - 1]);
            assert_bytes(last, MEMORY_PARAMETERS, PARAMS, PARAMS);
            take_away(&r);
        }
}

// A tensor becomes a parameter by attach_grad(): then it counts as if it had been one before. A
// use's peak stays when its memory goes.
TEST(each_use_has_a_peak_of_its_own) {
    devices_init(BACKEND_CPU, 1);
    Device *device = try_gpu(0);
    Tensor *a = tensor_new(device, 1000), *b = tensor_new(device, 500);
    assert_bytes(device, MEMORY_OTHER, 6000, 6000);
    tensor_free(b);
    attach_grad(a);
    assert_bytes(device, MEMORY_OTHER, 0, 6000); // (noted when b was freed)
    assert_bytes(device, MEMORY_PARAMETERS, 4000, 4000);
    assert_bytes(device, MEMORY_GRADIENTS, 4000, 4000);
    begin_step(device);
    Tensor *activation = arena_tensor(device, 1, (int[]){10}, false);
    attach_grad(activation); // makes no parameters of the arena's memory
    assert_bytes(device, MEMORY_PARAMETERS, 4000, 4000);
    tensor_free(activation->grad);
    tensor_free(a);
    assert_bytes(device, MEMORY_PARAMETERS, 0, 4000);
    autograd_close();
    devices_close();
}

int main(void) { return run_all("memory", count_kinds, close_kept); }
