// test_training.c: LeNet on simulated GPUs against CPU devices, and what happens when CUDA fails.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/tensor/random.h"
#include "tests/cases.h"
#include "cudasim.h"

#include <cuda_runtime_api.h>

enum { STEPS = 3, BATCH = 9, LENET_FLOATS = 129068 };

// Bright stripes whose place depends on the class.
static void minibatch(int step, Tensor *X, Tensor *y) {
    for (int n = 0; n < BATCH; n++) {
        int label = (n * 7 + step) % 10;
        y->data[n] = (float)label;
        for (int i = 0; i < 784; i++) {
            double noise = random_uniform(9, STREAM_TEST, (uint64_t)((step * BATCH + n) * 784 + i));
            X->data[n * 784 + i] = (float)(0.3 * noise + (i / 28 / 2 == label + 2 ? 0.7 : 0.0));
        }
    }
}

static bool as_graph = true;

// The parameters after some steps on k devices of the machine as it is. In the end all is closed.
static float *train_on(int k, int steps) {
    Device *devices[MAX_DEVICES];
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    open_devices(devices, k);
    lenet_init(params, 1);
    for (int p = 0; p < LENET_PARAMS; p++) // far enough from zero that they move
        for (size_t i = 0; i < numel(params[p]); i++) params[p]->data[i] *= p == 0 ? 30.0f : 8.0f;
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    Tensor *X = tensor_new(host(), BATCH, 1, 28, 28), *y = tensor_new(host(), BATCH);
    for (int step = 0; step < steps; step++) {
        synchronize_host_reads();
        minibatch(step, X, y);
        (as_graph ? train_batch_as_graph : train_batch)(X, y, device_params, devices, k, 0.2f,
                                                        losses);
    }
    size_t n;
    float *trained = values_of_all(device_params[0], LENET_PARAMS, &n);
    assert_int_equal(n, LENET_FLOATS);
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    tensor_free(X);
    tensor_free(y);
    devices_close();
    return trained;
}

static float *train_on_gpus(int gpus, int k, unsigned seed, CudasimPeers peers) {
    cudasim_machine(gpus, seed, peers);
    devices_init(BACKEND_CUDA, 1);
    float *trained = train_on(k, STEPS);
    assert_int_equal(cudasim_live(), 0); // all that was made was freed
    return trained;
}

// ---- failures --------------------------------------------------------------------------------

typedef struct Failure {
    const char *function;
    int error;
    const char *words;
    int n; // which call fails
} Failure;

static void train_and_fail(void *failure) {
    const Failure *f = failure;
    cudasim_machine(2, 1, CUDASIM_PEERS);
    cudasim_fail(f->function, f->n, f->error);
    devices_init(BACKEND_CUDA, 1);
    free(train_on(2, STEPS)); // the second one is recorded, the third one replayed
}

// (It forks: before there are CPU devices, which are threads.)
TEST(failures_end_the_program_with_a_message) {
    static Failure failures[] = {
        {"cudaGetDeviceCount", cudaErrorInsufficientDriver, "no GPU to compute on", 1},
        {"cudaSetDevice", cudaErrorInvalidDevice, "invalid device ordinal", 1},
        {"cudaStreamCreateWithFlags", cudaErrorMemoryAllocation, "cudaStreamCreateWithFlags", 2},
        {"cudaEventCreateWithFlags", cudaErrorMemoryAllocation, "cudaEventCreateWithFlags", 30},
        {"cudaMalloc", cudaErrorMemoryAllocation, "out of memory", 1},
        {"cudaMalloc", cudaErrorMemoryAllocation, "out of memory", 20},
        {"cudaMalloc", cudaErrorLaunchFailure, "cudaMalloc: unspecified", 20},
        {"cudaHostAlloc", cudaErrorMemoryAllocation, "out of memory on host", 1},
        {"cudaHostAlloc", cudaErrorLaunchFailure, "cudaHostAlloc: unspecified", 1},
        {"cudaMemcpyAsync", cudaErrorInvalidValue, "cudaMemcpyAsync", 12},
        {"cudaMemcpyPeerAsync", cudaErrorInvalidValue, "cudaMemcpyPeerAsync", 5},
        {"cudaEventRecord", cudaErrorLaunchFailure, "cudaEventRecord", 9},
        {"cudaEventQuery", cudaErrorLaunchFailure, "cudaEventQuery: unspecified", 9},
        {"cudaStreamWaitEvent", cudaErrorLaunchFailure, "cudaStreamWaitEvent", 9},
        {"cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture", 1},
        {"cudaStreamEndCapture", cudaErrorStreamCaptureUnjoined, "cudaStreamEndCapture", 1},
        {"cudaGraphInstantiateWithFlags", cudaErrorMemoryAllocation,
         "cudaGraphInstantiateWithFlags", 1},
        {"cudaGraphLaunch", cudaErrorLaunchFailure, "cudaGraphLaunch", 1},
        {"cudaGraphLaunch", cudaErrorLaunchFailure, "cudaGraphLaunch", 2},
        {"cudaGraphDestroy", cudaErrorInvalidValue, "cudaGraphDestroy", 1},
        {"cudaGraphExecDestroy", cudaErrorInvalidValue, "cudaGraphExecDestroy", 1},
        {"launch", cudaErrorNoKernelImageForDevice, "kernel fill: ", 1},
        {"launch", cudaErrorNoKernelImageForDevice, "built for other GPUs", 40},
        {"kernel", cudaErrorIllegalAddress, "an illegal memory access", 1},
        {"kernel", cudaErrorIllegalAddress, "compute-sanitizer", 40},
        {"dlopen", 1, "cannot load cuBLAS", 1},
        {"dlsym", 1, "has no cublasCreate_v2", 1},
        {"cublasCreate", 3, "the resource allocation failed", 2},
        {"cublasSetWorkspace", 7, "cublasSetWorkspace_v2", 2},
        {"cublasSgemm", 13, "failed to launch on the GPU", 4},
    };
    for (size_t i = 0; i < COUNT(failures); i++)
        expect_death(1, failures[i].words, train_and_fail, &failures[i]);
}

// ---- against the CPU --------------------------------------------------------------------------

static float *expected; // of one CPU device

static int train_on_cpu(void **state) {
    (void)state;
    devices_init(BACKEND_CPU, 1);
    expected = train_on(1, STEPS);
    return 0;
}

static int forget(void **state) {
    (void)state;
    free(expected);
    return 0;
}
#define AFTER_THE_CPU(test) cmocka_unit_test_setup_teardown(test, train_on_cpu, forget)

// The order of additions, and what some steps make of it; no more.
static void assert_as_expected(float *trained, const char *where) {
    for (size_t i = 0; i < LENET_FLOATS; i++)
        if (!(fabsf(trained[i] - expected[i]) <= 1e-5f))
            fail_msg("%s: parameter %zu is %.8f, on the CPU %.8f", where, i, (double)trained[i],
                     (double)expected[i]);
    free(trained);
}

// ---- by way of the host ----------------------------------------------------------------------

// Nobody waits for a copy before all is closed. (What it was made of stays: freeing would wait.)
static void copy_and_close(void) {
    cudasim_machine(2, 1, CUDASIM_PEERS);
    devices_init(BACKEND_CUDA, 1);
    Tensor *x = tensor_new(try_gpu(0), 5000), *y = tensor_new(try_gpu(1), 5000);
    tensor_fill(x, 1);
    device_copy_after(device_record(x->device), y->device, y->data, x->data, tensor_bytes(x));
    devices_close();
}

// Which way copies go is found out once in a program: each in a child.
static void train_with_peers(void *peers) {
    int before = cudasim_calls("cudaMemcpyPeerAsync");
    assert_as_expected(train_on_gpus(3, 4, 1, *(CudasimPeers *)peers), "peers");
    fprintf(stderr, "\n%d copies to peers\n", cudasim_calls("cudaMemcpyPeerAsync") - before);
    copy_and_close();
}

TEST_AS(copies_go_by_the_host_where_peers_cannot,
        AFTER_THE_CPU(copies_go_by_the_host_where_peers_cannot)) {
    char text[8192];
    CudasimPeers peers = CUDASIM_NO_PEERS;
    assert_int_equal(run_and_listen(train_with_peers, &peers, text, sizeof text), 0);
    assert_non_null(strstr(text, "\n0 copies to peers\n") ? text
                                                          : strstr(text, "0 copies to peers\n"));
    peers = CUDASIM_DAMAGED_PEERS;
    assert_int_equal(run_and_listen(train_with_peers, &peers, text, sizeof text), 0);
    assert_non_null(strstr(text, "arrive damaged: copying by way of the host"));
    peers = CUDASIM_PEERS;
    assert_int_equal(run_and_listen(train_with_peers, &peers, text, sizeof text), 0);
    assert_null(strstr(text, "damaged"));
    assert_null(strstr(text, "\n0 copies"));
}

// No seed may change a bit, nor may graphs.
TEST_AS(gpus_compute_what_the_cpu_computes, AFTER_THE_CPU(gpus_compute_what_the_cpu_computes)) {
    static const struct {
        int gpus, k;
        const char *allreduce;
    } rows[] = {{1, 1, "star"}, {2, 2, "star"}, {4, 4, "sharded"},
                {4, 3, "tree"}, {1, 3, "ring"}, {2, 5, "star"}};
    for (size_t r = 0; r < COUNT(rows); r++) {
        choose_allreduce(rows[r].allreduce);
        float *first = train_on_gpus(rows[r].gpus, rows[r].k, 1, CUDASIM_PEERS);
        for (unsigned seed = 2; seed < 4; seed++) {
            as_graph = seed == 2;
            float *other = train_on_gpus(rows[r].gpus, rows[r].k, seed, CUDASIM_PEERS);
            assert_memory_equal(first, other, LENET_FLOATS * sizeof(float));
            free(other);
        }
        as_graph = true;
        assert_as_expected(first, rows[r].allreduce);
    }
    choose_allreduce("star");
}

int main(void) { return run_all("training", NULL, NULL); }
