// test_cudasim.c: the simulator itself: it must catch each planted mistake, and let right programs
// be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../dies.h"
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

// ThreadSanitizer's calls, barriers and queues: with each seed, and each time with the right words.
static void each_planted_mistake_is_caught(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 3; seed++)
        for (int i = 0; i < num_planted; i++) {
            char text[65536];
            cudasim_machine(3, seed, CUDASIM_PEERS);
            int status = run_and_listen(run_planted, (void *)&planted[i], text, sizeof text);
            bool by_asan = strcmp(planted[i].words, "use-after-poison") == 0;
            bool two_lines =
                by_asan ? status == 1 : status == CUDASIM_STATUS && is_error_and_hint(text);
            if (!two_lines || !strstr(text, planted[i].words))
                fail_msg("%s, seed %u: expected \"%s\"; got status %d and:\n%s", planted[i].name,
                         seed, planted[i].words, status, text);
        }
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

static void a_missing_event_or_synchronisation_changes_the_answer(void **state) {
    (void)state;
    for (int with = 0; with <= ALL; with++) {
        int right = 0;
        for (unsigned seed = 0; seed < 30; seed++) right += play(with, seed) == 21;
        if (with == ALL)
            assert_int_equal(right, 30);
        else
            assert_true(right < 20);
    }
}

// The same seed: the same order, else a failure could not be looked into.
static void the_seed_decides(void **state) {
    (void)state;
    int changes = 0;
    for (unsigned seed = 0; seed < 30; seed++) {
        float first = play(WITH_SYNC, seed);
        assert_true(play(WITH_SYNC, seed) == first);
        changes += play(WITH_SYNC, seed + 1) != first;
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

// ---- graphs ----------------------------------------------------------------------------------

static struct {
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    float *x, *y;
} g;

static int open_graph(void **state) {
    (void)state;
    cudasim_machine(1, 1, CUDASIM_PEERS);
    check(cudaMalloc((void **)&g.x, sizeof *g.x));
    check(cudaMalloc((void **)&g.y, sizeof *g.y));
    for (int i = 0; i < 2; i++) {
        check(cudaStreamCreateWithFlags(&g.streams[i], cudaStreamNonBlocking));
        check(cudaEventCreateWithFlags(&g.events[i], cudaEventDisableTiming));
    }
    check(cudaStreamBeginCapture(g.streams[0], cudaStreamCaptureModeGlobal));
    return 0;
}

static int close_graph(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        check(cudaStreamDestroy(g.streams[i]));
        check(cudaEventDestroy(g.events[i]));
    }
    check(cudaFree(g.x));
    check(cudaFree(g.y));
    return cudasim_live() == 0 ? 0 : -1;
}

// y = 0, then y += x in stream 0 and x += y in stream 1, by events one after the other.
static void capture_two_streams(bool join) {
    check(cudaMemsetAsync(g.y, 0, sizeof *g.y, g.streams[0]));
    planted_add(g.y, g.x, 1, g.streams[0]);
    check(cudaEventRecord(g.events[0], g.streams[0]));
    check(cudaStreamWaitEvent(g.streams[1], g.events[0], 0));
    planted_add(g.x, g.y, 1, g.streams[1]);
    check(cudaEventRecord(g.events[1], g.streams[1]));
    if (join) check(cudaStreamWaitEvent(g.streams[0], g.events[1], 0));
}

static void a_captured_step_is_replayed(void **state) {
    (void)state;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float x = 1;
    capture_two_streams(true);
    check(cudaStreamEndCapture(g.streams[0], &graph));
    check(cudaGraphInstantiate(&exec, graph, 0));
    check(cudaGraphDestroy(graph));
    check(cudaMemcpy(g.x, &x, sizeof x, cudaMemcpyHostToDevice)); // nothing has run so far
    for (int i = 0; i < 5; i++) check(cudaGraphLaunch(exec, g.streams[1]));
    check(cudaStreamSynchronize(g.streams[1]));
    check(cudaMemcpy(&x, g.x, sizeof x, cudaMemcpyDeviceToHost));
    assert_true(x == 32);
    check(cudaGraphExecDestroy(exec));
}

static void a_stream_that_does_not_come_back_is_refused(void **state) {
    (void)state;
    cudaGraph_t graph;
    capture_two_streams(false);
    assert_int_equal(cudaStreamEndCapture(g.streams[1], &graph), cudaErrorStreamCaptureUnmatched);
    assert_int_equal(cudaStreamEndCapture(g.streams[0], &graph), cudaErrorStreamCaptureUnjoined);
}

static void what_a_capture_cannot_hold_ends_it(void **state) {
    (void)state;
    float pageable = 0;
    void *memory;
    cudaGraph_t graph;
    for (int i = 0; i < 7; i++) {
        enum cudaStreamCaptureStatus status;
        cudaError_t error =
            i == 0   ? cudaMalloc(&memory, 4)
            : i == 1 ? cudaFree(g.x)
            : i == 2 ? cudaStreamSynchronize(g.streams[0])
            : i == 3 ? cudaDeviceSynchronize()
            : i == 4 ? cudaMemcpyAsync(g.x, &pageable, 4, cudaMemcpyHostToDevice, g.streams[0])
            : i == 5 ? cudaMemcpy(&pageable, g.x, 4, cudaMemcpyDeviceToHost)
                     : cudaHostAlloc(&memory, 4, cudaHostAllocPortable);
        assert_int_equal(error, cudaErrorStreamCaptureUnsupported);
        check(cudaStreamIsCapturing(g.streams[0], &status));
        assert_int_equal(status, cudaStreamCaptureStatusInvalidated);
        assert_int_equal(cudaStreamEndCapture(g.streams[0], &graph),
                         cudaErrorStreamCaptureInvalidated);
        cudaGetLastError();
        check(cudaStreamBeginCapture(g.streams[0], cudaStreamCaptureModeGlobal));
    }
    check(cudaStreamEndCapture(g.streams[0], &graph));
    check(cudaGraphDestroy(graph));
}

// An event from before the capture is nothing that a replay could wait for.
static void a_capture_depends_on_nothing_outside(void **state) {
    (void)state;
    cudaGraph_t graph;
    check(cudaEventRecord(g.events[1], g.streams[1]));
    assert_int_equal(cudaStreamWaitEvent(g.streams[0], g.events[1], 0),
                     cudaErrorStreamCaptureIsolation);
    assert_int_equal(cudaStreamEndCapture(g.streams[0], &graph), cudaErrorStreamCaptureInvalidated);
    check(cudaStreamBeginCapture(g.streams[0], cudaStreamCaptureModeGlobal));
    check(cudaEventRecord(g.events[0], g.streams[0]));
    assert_int_equal(cudaEventSynchronize(g.events[0]), cudaErrorCapturedEvent);
    assert_int_equal(cudaStreamEndCapture(g.streams[0], &graph), cudaErrorStreamCaptureInvalidated);
}

int main(void) {
#define WITH_GRAPH(test) cmocka_unit_test_setup_teardown(test, open_graph, close_graph)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_planted_mistake_is_caught),
        cmocka_unit_test(a_missing_event_or_synchronisation_changes_the_answer),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(shuffles_atomics_and_dynamic_shared_memory_work),
        cmocka_unit_test(peers_share_memory_once_they_may),
        WITH_GRAPH(a_captured_step_is_replayed),
        WITH_GRAPH(a_stream_that_does_not_come_back_is_refused),
        WITH_GRAPH(what_a_capture_cannot_hold_ends_it),
        WITH_GRAPH(a_capture_depends_on_nothing_outside),
        cmocka_unit_test(a_wrong_launch_is_an_error), // the last: that GPU is lost
    };
    return cmocka_run_group_tests_name("cudasim", tests, NULL, NULL);
}
