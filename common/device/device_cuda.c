// device_cuda.c: a GPU, or a share of one: a CUDA stream, with cuBLAS and memory of its own.
//
// The host thread puts work on the streams and goes on; the GPUs run it. All calls come from that
// one thread. CUDA keeps a "current GPU" per host thread, so each function here first says which it
// means.
#include "backend.h"
#include "common/base/error.h"
#include "common/base/clock.h"
#include "trace.h"
#include "kernels/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of a copy by way of the host. (Tests compile with small ones.)
#ifndef PIECE_BYTES
#define PIECE_BYTES (4 << 20)
#endif

enum {
    EVENTS = 256, // per device; see cuda_record()
    PIECES = 2,   // one is filled while the other is emptied
};

// Pinned host memory for a piece of a copy on its way to another GPU.
typedef struct Piece {
    void *memory;
    Event emptied; // when it may be filled again
} Piece;

// Work between two timed events, while a trace is recorded.
typedef struct TimedWork {
    const char *work, *label;
    cudaEvent_t start, end;
} TimedWork;

typedef struct Queue {
    CudaLane lane;
    cudaEvent_t events[EVENTS];
    uint64_t tickets; // given out so far; the last one is the number of the last event
    bool recording;   // a graph, which starts after ticket `before_graph`
    uint64_t before_graph;
    Piece pieces[PIECES];
    cudaEvent_t trace_start; // reached at trace_started, a time of the host's clock
    double trace_started;
    TimedWork *timed;
    int num_timed;
} Queue;

// Makes the device's GPU the current one.
static Queue *use(const Device *device) {
    CUDA_CHECK(cudaSetDevice(device->hardware));
    return device->queue;
}

// ---- opening and closing ---------------------------------------------------------------------

static int cuda_count(const char **why) {
    int count = 0, driver = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError(); // an error here is an answer; nobody is to find it later
    *why = "";
    if (error == cudaSuccess && count > 0) return count < MAX_DEVICES ? count : MAX_DEVICES;
    // Without any driver CUDA complains about the driver's version, which would mislead.
    bool no_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
    *why = no_driver ? "no CUDA driver"
                     : cudaGetErrorString(error != cudaSuccess ? error : cudaErrorNoDevice);
    return 0;
}

static void *cuda_open(Device *device) {
    Queue *queue = xcalloc(1, sizeof *queue);
    use(device);
    cuda_lane_open(&queue->lane, tf32_allowed());
    device_took_memory(device, queue->lane.workspace_bytes);
    for (int i = 0; i < EVENTS; i++)
        CUDA_CHECK(cudaEventCreateWithFlags(&queue->events[i], cudaEventDisableTiming));
    return queue;
}

static void cuda_close(Device *device) {
    Queue *queue = use(device);
    cuda_lane_close(&queue->lane);
    for (int i = 0; i < EVENTS; i++) CUDA_CHECK(cudaEventDestroy(queue->events[i]));
    for (int i = 0; i < PIECES; i++) CUDA_CHECK(cudaFreeHost(queue->pieces[i].memory));
    free(queue);
}

// A GPU has the cores it has.
static void cuda_set_threads(Device *device, int threads) { (void)device, (void)threads; }

// ---- memory ----------------------------------------------------------------------------------

// NULL when there is no memory left, which is for the caller to explain; anything else is fatal.
static void *or_null(cudaError_t error, void *memory) {
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); // does no harm to later calls: forget it
        return NULL;
    }
    CUDA_CHECK(error);
    return memory;
}

static void *cuda_alloc(Device *device, size_t bytes) {
    void *memory = NULL;
    use(device);
    cudaError_t error = cudaMalloc(&memory, bytes);
    return or_null(error, memory);
}

static void cuda_free(Device *device, void *memory) {
    use(device);
    CUDA_CHECK(cudaFree(memory));
}

// Pinned, that is never moved or paged out: only then can a GPU copy without the host's help.
// Portable: for all GPUs and not only the current one.
static void *cuda_host_alloc(size_t bytes) {
    void *memory = NULL;
    cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    return or_null(error, memory);
}

static void cuda_host_free(void *memory) { CUDA_CHECK(cudaFreeHost(memory)); }

// ---- trace -----------------------------------------------------------------------------------
//
// A GPU runs work long after the host has enqueued it, and has no clock in common with the host or
// with other GPUs. So each piece of work lies between two events of its stream, whose distance from
// a third one is asked for at the end: trace_start, recorded on an idle stream, which reaches it at
// once, when the host's clock shows trace_started.

static cudaEvent_t timed_event(Queue *queue) {
    cudaEvent_t event;
    CUDA_CHECK(cudaEventCreate(&event)); // of the kind that is timed
    CUDA_CHECK(cudaEventRecord(event, queue->lane.stream));
    return event;
}

static void cuda_trace_begin(Device *device) {
    Queue *queue = use(device);
    queue->trace_start = timed_event(queue);
    CUDA_CHECK(cudaEventSynchronize(queue->trace_start));
    queue->trace_started = seconds_now();
}

static void time_start(Device *device, const char *work) {
    const char *label = trace_label_now();
    Queue *queue = use(device);
    // The second: opened while a trace is recorded.
    if (!label || !queue->trace_start || queue->recording) return;
    queue->timed = xrealloc(queue->timed, sizeof(TimedWork) * (size_t)(queue->num_timed + 1));
    queue->timed[queue->num_timed++] =
        (TimedWork){.work = work, .label = label, .start = timed_event(queue)};
}

static void time_end(Device *device) {
    if (!trace_label_now()) return;
    Queue *queue = use(device);
    if (queue->trace_start && !queue->recording)
        queue->timed[queue->num_timed - 1].end = timed_event(queue);
}

static double seconds_between(cudaEvent_t start, cudaEvent_t end) {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    return 1e-3 * (double)milliseconds;
}

static void cuda_trace_end(Device *device) {
    Queue *queue = use(device);
    if (!queue->trace_start) return;
    for (int i = 0; i < queue->num_timed; i++) {
        TimedWork *t = &queue->timed[i];
        double start = queue->trace_started + seconds_between(queue->trace_start, t->start);
        trace_add(device, t->work, t->label, start, start + seconds_between(t->start, t->end));
        CUDA_CHECK(cudaEventDestroy(t->start));
        CUDA_CHECK(cudaEventDestroy(t->end));
    }
    CUDA_CHECK(cudaEventDestroy(queue->trace_start));
    free(queue->timed);
    queue->trace_start = NULL;
    queue->timed = NULL;
    queue->num_timed = 0;
}

// ---- kernels and events ----------------------------------------------------------------------

static void cuda_launch(Device *device, KernelId kernel, const void *args, size_t size) {
    (void)size; // the kernel's parameters are copied into the launch itself
    Queue *queue = use(device);
    size_t scratch = queue->lane.scratch_bytes;
    time_start(device, kernel_name(kernel));
    cuda_kernels[kernel](&queue->lane, args);
    time_end(device);
    if (queue->lane.scratch_bytes == scratch) return;
    // The kernel asked for more scratch memory than there was, and got some at another address.
    device_took_memory(device, queue->lane.scratch_bytes - scratch);
    if (scratch) device_freed_memory();
}

// Ticket t is marked by CUDA event t % EVENTS, so an event is recorded again and again. Who then
// waits for an old ticket waits for a newer point of that queue, at which the old one has been
// reached too. That is longer than needed but never for ever: one host thread issues all the work,
// so what is waited for was always issued before the wait.
static cudaEvent_t event_of(Event event) {
    return ((Queue *)event.device->queue)->events[event.ticket % EVENTS];
}

static uint64_t cuda_record(Device *device) {
    Queue *queue = use(device);
    Event event = {device, ++queue->tickets}; // from 1: 0 means "never"
    CUDA_CHECK(cudaEventRecord(event_of(event), queue->lane.stream));
    return event.ticket;
}

// Then the graph's launch waits for it, once for all of the graph's work.
static bool is_before_graph(Event event) {
    const Queue *queue = event.device->queue;
    return queue->recording && event.ticket <= queue->before_graph;
}

static void cuda_wait(Device *device, Event event) {
    if (event.ticket == 0 || event.device == device) return;
    if (is_before_graph(event)) return;
    CUDA_CHECK(cudaStreamWaitEvent(use(device)->lane.stream, event_of(event), 0));
}

static void cuda_host_wait(Event event) {
    if (event.ticket == 0) return;
    use(event.device);
    CUDA_CHECK(cudaEventSynchronize(event_of(event)));
}

// ---- from one GPU to another -----------------------------------------------------------------
//
// Two GPUs may reach each other over NVLink or the PCIe bus, without the host. CUDA says whether
// they can; on machines whose bus is set up wrongly it says yes and the bytes arrive damaged. So
// before the first copy a test pattern is sent and compared. Where it fails, copies go by way of
// the host.

typedef enum { UNTRIED, DIRECT, BY_HOST } Path;

// May GPU `from` reach the memory of GPU `to`?
static bool enable_peer_access(int from, int to) {
    int can = 0;
    CUDA_CHECK(cudaDeviceCanAccessPeer(&can, from, to));
    if (!can) return false;
    CUDA_CHECK(cudaSetDevice(from));
    cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
    cudaGetLastError(); // "no" is an answer, not an error
    return error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled;
}

enum { PATTERN_WORDS = 1 << 16 };

// Sends a pattern over the stream that will make the real copies. Waits for that stream.
static bool pattern_arrives(int to, int from, int gpu, cudaStream_t stream) {
    size_t bytes = PATTERN_WORDS * sizeof(uint32_t);
    uint32_t *sent = xmalloc(bytes), *received = xmalloc(bytes);
    void *here = NULL, *there = NULL;
    for (uint32_t i = 0; i < PATTERN_WORDS; i++) sent[i] = i * 2654435761u + 1;

    CUDA_CHECK(cudaSetDevice(to));
    CUDA_CHECK(cudaMalloc(&there, bytes));
    CUDA_CHECK(cudaMemset(there, 0, bytes)); // what was left there must not pass for the pattern
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaSetDevice(from));
    CUDA_CHECK(cudaMalloc(&here, bytes));
    CUDA_CHECK(cudaMemcpy(here, sent, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());

    CUDA_CHECK(cudaSetDevice(gpu));
    CUDA_CHECK(cudaMemcpyPeerAsync(there, to, here, from, bytes, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));

    CUDA_CHECK(cudaFree(here));
    CUDA_CHECK(cudaSetDevice(to));
    CUDA_CHECK(cudaMemcpy(received, there, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(there));
    bool arrived = memcmp(sent, received, bytes) == 0;
    free(sent), free(received);
    return arrived;
}

// Found out once for each pair of GPUs, direction, and side whose stream makes the copy.
static Path path_between(Device *to, Device *from, Device *device) {
    static Path paths[MAX_DEVICES][MAX_DEVICES][2];
    int a = from->hardware, b = to->hardware;
    Path *path = &paths[a][b][device == to];
    if (*path != UNTRIED) return *path;
    *path = BY_HOST;
    if (enable_peer_access(a, b) && enable_peer_access(b, a)) {
        if (pattern_arrives(b, a, device->hardware, use(device)->lane.stream))
            *path = DIRECT;
        else
            warn("bytes from GPU %d to GPU %d arrive damaged: copying by way of the host", a, b);
    }
    return *path;
}

// Piece by piece: `from` fills a piece of host memory, then `to` empties it while `from` fills the
// next.
static void copy_by_host(Device *to, char *dst, Device *from, const char *src, size_t bytes) {
    Queue *source = from->queue, *target = to->queue;
    for (size_t done = 0, i = 0; done < bytes; done += PIECE_BYTES, i++) {
        Piece *piece = &source->pieces[i % PIECES];
        size_t size = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        if (!piece->memory)
            CUDA_CHECK(cudaHostAlloc(&piece->memory, PIECE_BYTES, cudaHostAllocPortable));
        cuda_wait(from, piece->emptied);
        use(from);
        CUDA_CHECK(cudaMemcpyAsync(piece->memory, src + done, size, cudaMemcpyDeviceToHost,
                                   source->lane.stream));
        cuda_wait(to, (Event){from, cuda_record(from)});
        use(to);
        CUDA_CHECK(cudaMemcpyAsync(dst + done, piece->memory, size, cudaMemcpyHostToDevice,
                                   target->lane.stream));
        piece->emptied = (Event){to, cuda_record(to)};
    }
}

static void cuda_copy(Device *device, Device *other, void *dst, const void *src, size_t bytes,
                      bool to_other) {
    Device *to = to_other ? other : device, *from = to_other ? device : other;
    cudaStream_t stream = use(device)->lane.stream;
    if (bytes == 0) return;
    time_start(device, "copy");
    if (!to->backend)
        CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, stream));
    else if (!from->backend)
        CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, stream));
    else if (to->hardware == from->hardware)
        CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream));
    else if (path_between(to, from, device) == BY_HOST)
        copy_by_host(to, dst, from, src, bytes);
    else {
        use(device); // path_between() may have left another GPU current
        CUDA_CHECK(cudaMemcpyPeerAsync(dst, to->hardware, src, from->hardware, bytes, stream));
    }
    time_end(device);
}

// ---- graphs ----------------------------------------------------------------------------------
//
// CUDA records ("captures") what is enqueued on the first device's stream, and on each stream that
// waits for an event of a stream that is recorded. So the first stream is what all others wait for
// at the begin, and what waits for all of them at the end.

// All of the others' work so far comes before what is next on the first one's stream.
static void join(Device *const devices[], int k) {
    for (int i = 1; i < k; i++) cuda_wait(devices[0], (Event){devices[i], cuda_record(devices[i])});
}
// What is on the first one's stream so far comes before what is next on the others'.
static void fork_from_first(Device *const devices[], int k) {
    Event event = {devices[0], cuda_record(devices[0])};
    for (int i = 1; i < k; i++) cuda_wait(devices[i], event);
}

static void cuda_graph_begin(Device *const devices[], int k) {
    for (int i = 0; i < k; i++) {
        Queue *queue = devices[i]->queue;
        queue->before_graph = queue->tickets;
        queue->recording = true;
    }
    CUDA_CHECK(
        cudaStreamBeginCapture(use(devices[0])->lane.stream, cudaStreamCaptureModeThreadLocal));
    fork_from_first(devices, k);
}

static void *cuda_graph_end(Device *const devices[], int k) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    join(devices, k);
    CUDA_CHECK(cudaStreamEndCapture(use(devices[0])->lane.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    // Events that were recorded into the graph mean nothing outside of it. See event_of(): a newer
    // point of the queue does for any older ticket.
    for (int i = 0; i < k; i++) {
        Queue *queue = use(devices[i]);
        queue->recording = false;
        for (int event = 0; event < EVENTS; event++)
            CUDA_CHECK(cudaEventRecord(queue->events[event], queue->lane.stream));
    }
    return executable;
}

static void cuda_graph_launch(void *graph, Device *const devices[], int k) {
    join(devices, k);
    CUDA_CHECK(cudaGraphLaunch(graph, use(devices[0])->lane.stream));
    fork_from_first(devices, k);
}

static void cuda_graph_free(void *graph) { CUDA_CHECK(cudaGraphExecDestroy(graph)); }

const Backend *cuda_backend(void) {
    static const Backend backend = {
        .name = "cuda",
        .count = cuda_count,
        .open = cuda_open,
        .close = cuda_close,
        .set_threads = cuda_set_threads,
        .alloc = cuda_alloc,
        .free = cuda_free,
        .host_alloc = cuda_host_alloc,
        .host_free = cuda_host_free,
        .launch = cuda_launch,
        .copy = cuda_copy,
        .record = cuda_record,
        .wait = cuda_wait,
        .host_wait = cuda_host_wait,
        .graph_begin = cuda_graph_begin,
        .graph_end = cuda_graph_end,
        .graph_launch = cuda_graph_launch,
        .graph_free = cuda_graph_free,
        .trace_begin = cuda_trace_begin,
        .trace_end = cuda_trace_end,
    };
    return &backend;
}
