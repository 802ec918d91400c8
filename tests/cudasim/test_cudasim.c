// test_cudasim.c: the simulator itself: it must find a mistake of each row of README.md's table.
// (That it lets right programs be, and computes what they say, all tests on its GPUs show.)
#include "common/device/device.h"
#include "tests/cases.h"
#include "cudasim.h"
#include "planted.h"

static void check(cudaError_t error) {
    if (error != cudaSuccess) fail_msg("%s", cudaGetErrorString(error));
}

static void run_planted(void *one) {
    ((const Planted *)one)->run();
    cudaDeviceSynchronize();
}

// With each seed, and each time with the right words. What the simulator says has two lines and
// ends with its status; UBSan and ASan, which see some mistakes first, say more and end with 1.
TEST(each_planted_mistake_is_caught) {
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

// The same seed: the same thread is found, else a failure could not be looked into.
TEST(the_seed_decides) {
    char texts[6][1024]; // of seeds 0 to 2, twice
    for (unsigned i = 0; i < 6; i++) {
        cudasim_machine(1, i % 3, CUDASIM_PEERS);
        run_and_listen(run_planted, (void *)&planted[0], texts[i], sizeof texts[i]);
        if (i >= 3) assert_string_equal(texts[i], texts[i - 3]);
    }
    assert_true(strcmp(texts[0], texts[1]) != 0 || strcmp(texts[0], texts[2]) != 0);
}

TEST(what_is_not_freed_is_counted) {
    void *memory, *of_the_host;
    cudaStream_t stream;
    cudaEvent_t event;
    cudasim_machine(1, 1, CUDASIM_PEERS);
    check(cudaMalloc(&memory, 4));
    check(cudaHostAlloc(&of_the_host, 4, cudaHostAllocPortable));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaEventCreate(&event));
    assert_int_equal(cudasim_live(), 4);
    check(cudaFree(memory));
    check(cudaFreeHost(of_the_host));
    check(cudaStreamDestroy(stream));
    check(cudaEventDestroy(event));
    assert_int_equal(cudasim_live(), 0);
}

TEST(nothing_is_allocated_in_a_capture) {
    void *memory;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudasim_machine(1, 1, CUDASIM_PEERS);
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphDestroy(graph));
    check(cudaStreamDestroy(stream));
}

static void use_gpu(void *unused) {
    (void)unused;
    _exit(cudaSetDevice(0) == cudaErrorInitializationError ? 0 : 1);
}

TEST(a_child_cannot_use_the_gpus_of_its_parent) {
    char text[8192];
    cudasim_machine(1, 1, CUDASIM_PEERS);
    check(cudaSetDevice(0));
    assert_int_equal(run_and_listen(use_gpu, NULL, text, sizeof text), 0);
}

TEST(much_shared_memory_must_be_asked_for) {
    cudasim_machine(2, 1, CUDASIM_PEERS);
    check(planted_dynamic(48 << 10));
    assert_int_equal(planted_dynamic((48 << 10) + 4), cudaErrorInvalidValue);
    check(planted_dynamic_limit(100 << 10));
    check(planted_dynamic(100 << 10));
    check(cudaDeviceSynchronize());
    check(cudaSetDevice(1)); // each GPU has its own limits
    assert_int_equal(planted_dynamic(100 << 10), cudaErrorInvalidValue);
}

// As chapter 0 says.
TEST(programs_use_the_gpus_that_are_visible) {
    static const struct {
        const char *visible;  // CUDA_VISIBLE_DEVICES
        const char *names[2]; // of devices 0 and 1
    } cases[] = {
        {"2,0", {"cuda:0", "cuda:1"}},
        {"2", {"cuda:0", "cuda:0#1"}},
        {"4", {"cpu:0", "cpu:1"}},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        setenv("CUDA_VISIBLE_DEVICES", cases[c].visible, 1);
        cudasim_machine(3, 1, CUDASIM_PEERS);
        devices_init(BACKEND_AUTO, 2);
        for (int i = 0; i < 2; i++) assert_string_equal(device_name(try_gpu(i)), cases[c].names[i]);
        devices_close();
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void) { return run_all("cudasim", NULL, NULL); }
