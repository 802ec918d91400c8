// test_cudasim.c: the simulator itself: it must catch each planted mistake, and let right programs
// be.
#include <float.h>
#include "common/device/device.h"
#include "tests/dies.h"
#include "cudasim.h"
#include "planted.h"

static void check(cudaError_t error) {
    if (error != cudaSuccess) fail_msg("%s", cudaGetErrorString(error));
}

// ---- planted mistakes ------------------------------------------------------------------------

static void run_planted(void *one) {
    ((const Planted *)one)->run();
    cudaDeviceSynchronize();
}

// With each seed, and each time with the right words. What the simulator says has two lines and
// ends with its status; UBSan and ASan, which see some mistakes first, say more and end with 1.
static void each_planted_mistake_is_caught(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 3; seed++)
        for (int i = 0; i < num_planted; i++) {
            char text[65536];
            cudasim_machine(3, seed, CUDASIM_PEERS);
            int status = run_and_listen(run_planted, (void *)&planted[i], text, sizeof text);
            bool said = status == 1 || (status == CUDASIM_STATUS && is_error_and_hint(text));
            if (!said || !strstr(text, planted[i].words))
                fail_msg("%s, seed %u: expected \"%s\"; got status %d and:\n%s", planted[i].name,
                         seed, planted[i].words, status, text);
        }
}

static void what_is_not_freed_is_counted(void **state) {
    (void)state;
    void *memory, *of_the_host;
    cudaStream_t stream;
    cudaEvent_t event;
    cudasim_machine(1, 1, CUDASIM_PEERS);
    check(cudaMalloc(&memory, 4));
    assert_int_equal(cudasim_live(), 1);
    check(cudaHostAlloc(&of_the_host, 4, cudaHostAllocPortable));
    assert_int_equal(cudasim_live(), 2);
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    assert_int_equal(cudasim_live(), 3);
    check(cudaEventCreate(&event));
    assert_int_equal(cudasim_live(), 4);
    check(cudaFree(memory));
    check(cudaFreeHost(of_the_host));
    check(cudaStreamDestroy(stream));
    check(cudaEventDestroy(event));
    assert_int_equal(cudasim_live(), 0);
}

static void nothing_is_allocated_in_a_capture(void **state) {
    (void)state;
    void *memory;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudasim_machine(1, 1, CUDASIM_PEERS);
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaHostAlloc(&memory, 4, 0), cudaErrorStreamCaptureUnsupported);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphDestroy(graph));
    check(cudaStreamDestroy(stream));
    assert_int_equal(cudasim_live(), 0);
}

static void use_gpu(void *error) { _exit(cudaSetDevice(0) == *(cudaError_t *)error ? 0 : 1); }

static void a_child_cannot_use_the_gpus_of_its_parent(void **state) {
    (void)state;
    char text[8192];
    cudaError_t error = cudaSuccess;
    cudasim_machine(1, 1, CUDASIM_PEERS); // that the parent has not used
    assert_int_equal(run_and_listen(use_gpu, &error, text, sizeof text), 0);
    check(cudaSetDevice(0));
    error = cudaErrorInitializationError;
    assert_int_equal(run_and_listen(use_gpu, &error, text, sizeof text), 0);
}

// ---- the order of streams --------------------------------------------------------------------

enum { WITH_EVENT = 1, WITH_EVENT_BACK = 2, WITH_SYNC = 4, ALL = 7 };

// Two streams hand a number to and fro; what the host reads in the end.
static float play(int with, unsigned seed) {
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    float *x, *y, *result, one = 1;
    cudasim_machine(1, seed, CUDASIM_PEERS);
    check(cudaMalloc((void **)&x, sizeof *x));
    check(cudaMalloc((void **)&y, sizeof *y));
    check(cudaHostAlloc((void **)&result, sizeof *result, cudaHostAllocPortable));
    check(cudaMemcpy(x, &one, sizeof *x, cudaMemcpyHostToDevice));
    check(cudaMemcpy(y, &one, sizeof *y, cudaMemcpyHostToDevice));
    *result = 0;
    for (int i = 0; i < 2; i++) {
        check(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        check(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    }
    for (int round = 0; round < 3; round++) {
        planted_add(y, x, 1, streams[0]);
        check(cudaEventRecord(events[0], streams[0]));
        if (with & WITH_EVENT) check(cudaStreamWaitEvent(streams[1], events[0], 0));
        planted_add(x, y, 1, streams[1]);
        check(cudaEventRecord(events[1], streams[1]));
        if (with & WITH_EVENT_BACK) check(cudaStreamWaitEvent(streams[0], events[1], 0));
    }
    check(cudaMemcpyAsync(result, x, sizeof *x, cudaMemcpyDeviceToHost, streams[1]));
    if (with & WITH_SYNC) check(cudaStreamSynchronize(streams[1]));
    float answer = *result;
    for (int i = 0; i < 2; i++) {
        check(cudaStreamDestroy(streams[i]));
        check(cudaEventDestroy(events[i]));
    }
    check(cudaFree(x));
    check(cudaFree(y));
    check(cudaFreeHost(result));
    assert_int_equal(cudasim_live(), 0);
    return answer;
}

static void play_with(void *with) { play(*(int *)with, 1); }

static void a_missing_event_or_synchronisation_is_caught(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 30; seed++) assert_true(play(ALL, seed) == 21);
    for (int with = 0; with < ALL; with++) {
        char text[65536];
        const char *words =
            with & WITH_SYNC ? "what add_to in another stream has" : "use-after-poison";
        int status = run_and_listen(play_with, &with, text, sizeof text);
        if (status == 0 || !strstr(text, words))
            fail_msg("with %d: expected \"%s\", got:\n%s", with, words, text);
    }
}

// Four streams take tickets 0 to 3; the digits are who got which.
static int order_of_streams(unsigned seed) {
    cudaStream_t streams[4];
    unsigned *memory, tickets[5];
    cudasim_machine(1, seed, CUDASIM_PEERS);
    check(cudaMalloc((void **)&memory, sizeof tickets));
    check(cudaMemset(memory, 0, sizeof tickets));
    check(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) {
        check(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        planted_ticket(memory + 4, memory + i, streams[i]);
    }
    for (int i = 0; i < 4; i++) check(cudaStreamDestroy(streams[i]));
    check(cudaMemcpy(tickets, memory, sizeof tickets, cudaMemcpyDeviceToHost));
    check(cudaFree(memory));
    return (int)(tickets[0] * 1000 + tickets[1] * 100 + tickets[2] * 10 + tickets[3]);
}

// The same seed: the same order, else a failure could not be looked into.
static void the_seed_decides(void **state) {
    (void)state;
    int changes = 0;
    for (unsigned seed = 0; seed < 30; seed++) {
        int order = order_of_streams(seed);
        assert_int_equal(order_of_streams(seed), order);
        changes += order_of_streams(seed + 1) != order;
    }
    assert_true(changes > 5);
}

// ---- right programs --------------------------------------------------------------------------

static void shuffles_atomics_and_dynamic_shared_memory_work(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 10; seed++) {
        unsigned total = 0, even = 0;
        cudasim_machine(1, seed, CUDASIM_PEERS);
        planted_sums(&total, &even);
        assert_int_equal(total, 6 * 255 * 128);
        assert_int_equal(even, 6 * 128);
    }
}

static void threads_write_neighbouring_bytes(void **state) {
    (void)state;
    unsigned char bytes[32];
    cudasim_machine(1, 1, CUDASIM_PEERS);
    planted_bytes(bytes);
    for (int i = 0; i < 32; i++) assert_int_equal(bytes[i], i);
}

static void copies_come_where_a_thread_waits(void **state) {
    (void)state;
    float x[64], y[128];
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    for (unsigned seed = 0; seed < 3; seed++) {
        cudasim_machine(1, seed, CUDASIM_PEERS);
        planted_copies(y, x);
        for (int i = 0; i < 64; i++) assert_true(y[i] == x[63 - i] && y[64 + i] == 0);
    }
}

static void a_warp_multiplies_matrices(void **state) {
    (void)state;
    float A[128], B[64], D[128];
    cudasim_machine(1, 1, CUDASIM_PEERS);
    for (int i = 0; i < 128; i++) A[i] = (float)(i * 37 % 101 - 50);
    for (int i = 0; i < 64; i++) B[i] = (float)(i * 53 % 97 - 48);
    A[9] -= 0x1.8p-7f; // from -20: so little is cut off
    planted_product(D, A, B);
    for (int i = 0; i < 128; i++) {
        double sum = 0;
        for (int k = 0; k < 8; k++)
            sum += trunc((double)A[i / 8 * 8 + k]) * (double)B[k * 8 + i % 8];
        assert_true((double)D[i] == sum);
    }
}

static void tf32_is_the_nearest(void **state) {
    (void)state;
    static const struct {
        float x, rounded;
    } cases[] = {
        {0, 0},
        {1, 1},
        {0x1.001ffep0f, 0x1p0f},  // less than half of the last bit
        {0x1.002p0f, 0x1.004p0f}, // half: away from zero
        {-0x1.006p0f, -0x1.008p0f},
        {0x1.ffffp3f, 0x1p4f}, // into the next power of two
        {0x1p-149f, 0},
        {INFINITY, INFINITY},
        {FLT_MAX, INFINITY},
        {-FLT_MAX, -INFINITY},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned bits;
        memcpy(&bits, &cases[c].rounded, sizeof bits);
        assert_int_equal(planted_tf32(cases[c].x), bits);
    }
    float x;
    unsigned bits = planted_tf32(NAN);
    memcpy(&x, &bits, sizeof x);
    assert_true(isnan(x));
}

static void much_shared_memory_must_be_asked_for(void **state) {
    (void)state;
    cudasim_machine(2, 1, CUDASIM_PEERS);
    check(planted_dynamic(48 << 10, 0));
    assert_int_equal(planted_dynamic((48 << 10) + 4, 0), cudaErrorInvalidValue);
    check(planted_dynamic(100 << 10, 100 << 10));
    assert_int_equal(planted_dynamic((100 << 10) + 4, 0), cudaErrorInvalidValue);
    check(planted_dynamic(227 << 10, 227 << 10));
    assert_int_equal(planted_dynamic(4, (227 << 10) + 1), cudaErrorInvalidValue);
    check(cudaDeviceSynchronize());
    check(cudaSetDevice(1)); // each GPU has its own limits
    assert_int_equal(planted_dynamic(100 << 10, 0), cudaErrorInvalidValue);
}

static void gpus_can_be_old(void **state) {
    (void)state;
    int major[2], minor[2];
    for (int old = 0; old < 2; old++) {
        if (old) setenv("CUDASIM_CAPABILITY", "75", 1);
        cudasim_machine(1, 1, CUDASIM_PEERS);
        check(cudaDeviceGetAttribute(&major[old], cudaDevAttrComputeCapabilityMajor, 0));
        check(cudaDeviceGetAttribute(&minor[old], cudaDevAttrComputeCapabilityMinor, 0));
    }
    unsetenv("CUDASIM_CAPABILITY");
    assert_true(major[0] == 8 && minor[0] == 0 && major[1] == 7 && minor[1] == 5);
}

static void peers_share_memory_once_they_may(void **state) {
    (void)state;
    float *x, *y, values[2] = {3, 4};
    cudasim_machine(2, 1, CUDASIM_PEERS);
    check(cudaMalloc((void **)&x, sizeof *x));
    check(cudaMemcpy(x, values, sizeof *x, cudaMemcpyHostToDevice));
    check(cudaSetDevice(1));
    check(cudaMalloc((void **)&y, sizeof *y));
    check(cudaMemcpy(y, values + 1, sizeof *y, cudaMemcpyHostToDevice));
    check(cudaDeviceEnablePeerAccess(0, 0));
    assert_int_equal(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
    planted_add(y, x, 2, NULL);
    check(cudaMemcpy(values, y, sizeof *y, cudaMemcpyDeviceToHost));
    assert_true(values[0] == 10);
    check(cudaFree(x));
    check(cudaFree(y));
}

static void a_wrong_launch_is_an_error(void **state) {
    (void)state;
    cudaStream_t stream;
    float *x;
    cudasim_machine(2, 1, CUDASIM_PEERS);
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaMalloc((void **)&x, sizeof *x));
    check(cudaMemset(x, 0, sizeof *x));
    check(cudaDeviceSynchronize());
    check(cudaSetDevice(1)); // the stream is GPU 0's
    planted_add(x, x, 1, stream);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    check(cudaGetLastError());
    check(cudaSetDevice(0));
    cudasim_fail("kernel", 2, cudaErrorIllegalAddress); // the host hears of it later, and for ever
    for (int i = 0; i < 3; i++) planted_add(x, x, 1, stream);
    check(cudaGetLastError());
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaMemset(x, 0, sizeof *x), cudaErrorIllegalAddress);
}

// ---- which GPUs a program sees -----------------------------------------------------------------

// On a machine with three GPUs, the machine's number of a device's GPU; -1 if it is on none.
static int number_of_gpu(Device *device) {
    char bus[32];
    unsigned number;
    if (device_gpu(device) < 0) return -1;
    check(cudaDeviceGetPCIBusId(bus, sizeof bus, device_gpu(device)));
    assert_int_equal(sscanf(bus, "0000:%x:", &number), 1);
    return (int)number - 0x17;
}

static void programs_use_the_gpus_that_are_visible(void **state) {
    (void)state;
    static const struct {
        const char *visible; // CUDA_VISIBLE_DEVICES; NULL: not set
        int gpus;
        const char *names[2]; // of devices 0 and 1, and where they are
        int numbers[2];
    } cases[] = {
        {NULL, 3, {"cuda:0", "cuda:1"}, {0, 1}},  {"1", 1, {"cuda:0", "cuda:0#1"}, {1, 1}},
        {"1,0", 2, {"cuda:0", "cuda:1"}, {1, 0}}, {"2,0,3,1", 2, {"cuda:0", "cuda:1"}, {2, 0}},
        {"", 0, {"cpu:0", "cpu:1"}, {-1, -1}},    {"-1", 0, {"cpu:0", "cpu:1"}, {-1, -1}},
        {"3,0", 0, {"cpu:0", "cpu:1"}, {-1, -1}}, {"nonsense", 0, {"cpu:0", "cpu:1"}, {-1, -1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (cases[c].visible) setenv("CUDA_VISIBLE_DEVICES", cases[c].visible, 1);
        cudasim_machine(3, 1, CUDASIM_PEERS);
        devices_init(BACKEND_AUTO, 2);
        assert_int_equal(num_gpus(), cases[c].gpus);
        for (int i = 0; i < 2; i++) {
            assert_string_equal(device_name(try_gpu(i)), cases[c].names[i]);
            assert_int_equal(number_of_gpu(try_gpu(i)), cases[c].numbers[i]);
        }
        devices_close();
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_planted_mistake_is_caught),
        cmocka_unit_test(what_is_not_freed_is_counted),
        cmocka_unit_test(nothing_is_allocated_in_a_capture),
        cmocka_unit_test(a_child_cannot_use_the_gpus_of_its_parent),
        cmocka_unit_test(a_missing_event_or_synchronisation_is_caught),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(shuffles_atomics_and_dynamic_shared_memory_work),
        cmocka_unit_test(threads_write_neighbouring_bytes),
        cmocka_unit_test(copies_come_where_a_thread_waits),
        cmocka_unit_test(a_warp_multiplies_matrices),
        cmocka_unit_test(tf32_is_the_nearest),
        cmocka_unit_test(much_shared_memory_must_be_asked_for),
        cmocka_unit_test(gpus_can_be_old),
        cmocka_unit_test(peers_share_memory_once_they_may),
        cmocka_unit_test(programs_use_the_gpus_that_are_visible),
        cmocka_unit_test(a_wrong_launch_is_an_error), // the last: that GPU is lost
    };
    return cmocka_run_group_tests_name("cudasim", tests, NULL, NULL);
}
