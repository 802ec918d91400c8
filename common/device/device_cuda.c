// device_cuda.c: a GPU, or a share of one: CUDA streams with their own cuBLAS handles and memory.
//
// The host thread puts work on the streams and goes on; the GPUs run it. All calls come from that
// one thread. CUDA keeps a "current GPU" per host thread, so each function here first sets it.
#include "backend.h"
#include "common/base/platform.h"
#include "common/base/error.h"
#include "kernels/cuda/cuda.h"
#include "memory.h"
#include "spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The size of a piece of a copy by way of the host. (Tests compile with small ones.)
#ifndef PIECE_BYTES
#define PIECE_BYTES (4 << 20)
#endif

enum { PIECES = 2 }; // one is filled while the other is emptied

// Pinned host memory for a piece of a copy on its way to another GPU.
typedef struct Piece {
    void *memory;
    Event emptied; // when it may be filled again
} Piece;

// Work between two timed events, while a trace is recorded.
typedef struct TimedWork {
    TraceSpan span;
    cudaEvent_t start, end;
} TimedWork;

// A CUDA event, and the ticket whose point in the stream it marks.
typedef struct Mark {
    uint64_t ticket;
    cudaEvent_t event;
} Mark;

typedef struct Stream {
    CudaLane lane;
    uint64_t tickets;   // given out so far
    Mark *marks;        // which are not known to be reached, in the order of their tickets
    cudaEvent_t *spare; // events that mark nothing any more
    int num_marks, num_spare;
    size_t max_marks, max_spare;
    bool recording; // a graph, which starts after ticket `before_graph`
    uint64_t before_graph;
    Piece pieces[PIECES];
    cudaEvent_t trace_start; // reached at trace_started, a time of the host's clock
    double trace_started;
    TimedWork *timed;
    int num_timed;
} Stream;

static Stream *stream_of(const Queue *queue) { return queue->work; }

// Makes the GPU of the queue's device the current one.
static Stream *use(const Queue *queue) {
    CUDA_CHECK(cudaSetDevice(queue->device->hardware));
    return queue->work;
}

// ---- opening and closing ---------------------------------------------------------------------

static int cuda_count(const char **why) {
    int count = 0, driver = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError(); // an error here is an answer: forget it
    *why = "";
    if (error == cudaSuccess && count > 0) return count < MAX_DEVICES ? count : MAX_DEVICES;
    // Without any driver CUDA complains about the driver's version, which would mislead.
    bool no_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
    *why = no_driver ? "no CUDA driver"
                     : cudaGetErrorString(error != cudaSuccess ? error : cudaErrorNoDevice);
    return 0;
}

static void find_paths(Queue *queue, Stream *stream, Device *const others[], int num_others);

static void *cuda_open(Queue *queue, Device *const others[], int num_others) {
    Device *device = queue->device;
    Stream *stream = xcalloc(1, sizeof *stream);
    CUDA_CHECK(cudaSetDevice(device->hardware));
    cuda_lane_open(&stream->lane, device->tf32);
    if (queue->number == COMPUTE) cuda_lane_open_blas(&stream->lane); // others seldom multiply
    memory_took_for_kernels(device, stream->lane.workspace_bytes);
    find_paths(queue, stream, others, num_others);
    return stream;
}

static void cuda_close(Queue *queue) {
    Stream *stream = use(queue);
    cuda_lane_close(&stream->lane);
    for (int i = 0; i < stream->num_marks; i++)
        CUDA_CHECK(cudaEventDestroy(stream->marks[i].event));
    for (int i = 0; i < stream->num_spare; i++) CUDA_CHECK(cudaEventDestroy(stream->spare[i]));
    for (int i = 0; i < PIECES; i++) CUDA_CHECK(cudaFreeHost(stream->pieces[i].memory));
    free(stream->marks);
    free(stream->spare);
    free(stream);
}

// ---- memory ----------------------------------------------------------------------------------

// NULL if there is no memory left, which the caller explains. Any other error is fatal.
static void *or_null(cudaError_t error, const char *what, void *memory) {
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); // does no harm to later calls: forget it
        return NULL;
    }
    cuda_check(error, what, __FILE__, __LINE__);
    return memory;
}

static void *cuda_alloc(Device *device, size_t bytes) {
    void *memory = NULL;
    CUDA_CHECK(cudaSetDevice(device->hardware));
    cudaError_t error = cudaMalloc(&memory, bytes);
    return or_null(error, "cudaMalloc", memory);
}

static void cuda_free(Device *device, void *memory) {
    CUDA_CHECK(cudaSetDevice(device->hardware));
    CUDA_CHECK(cudaFree(memory));
}

static double cuda_memory(const Device *device) {
    size_t unused, all;
    CUDA_CHECK(cudaSetDevice(device->hardware));
    CUDA_CHECK(cudaMemGetInfo(&unused, &all));
    return (double)all;
}

static char *cuda_kind(const Device *device) {
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device->hardware));
    return xprintf("%s%s", properties.name, device->tf32 ? " with TF32" : "");
}

// Pinned memory is never moved or paged out, so a GPU can copy it without the host's help. Portable
// means for all GPUs, not only the current one.
static void *cuda_host_alloc(size_t bytes) {
    void *memory = NULL;
    cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    return or_null(error, "cudaHostAlloc", memory);
}

static void cuda_host_free(void *memory) { CUDA_CHECK(cudaFreeHost(memory)); }

// ---- trace -----------------------------------------------------------------------------------
//
// A GPU runs work long after the host has enqueued it, and shares no clock with the host or with
// other GPUs. So each piece of work lies between two events of its stream. At the end CUDA says how
// far they are from a third one, trace_start. That one was recorded on an idle stream, which
// reached it at once, when the host's clock showed trace_started.

static cudaEvent_t timed_event(const Stream *stream) {
    cudaEvent_t event;
    CUDA_CHECK(cudaEventCreate(&event)); // of the kind that is timed
    CUDA_CHECK(cudaEventRecord(event, stream->lane.stream));
    return event;
}

static void cuda_trace_begin(Queue *queue) {
    Stream *stream = use(queue);
    stream->trace_start = timed_event(stream);
    CUDA_CHECK(cudaEventSynchronize(stream->trace_start));
    stream->trace_started = seconds_now();
}

// Returns whether the work is recorded.
static bool time_start(Queue *queue, TraceSpan span) {
    Stream *stream = use(queue);
    if (!span.label || !stream->trace_start || stream->recording) return false;
    stream->timed = xgrow(stream->timed, (size_t)(stream->num_timed + 1), sizeof(TimedWork));
    stream->timed[stream->num_timed++] = (TimedWork){.span = span, .start = timed_event(stream)};
    return true;
}

static void time_end(Queue *queue, bool timed) {
    Stream *stream = use(queue);
    if (timed) stream->timed[stream->num_timed - 1].end = timed_event(stream);
}

static double seconds_between(cudaEvent_t start, cudaEvent_t end) {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    return 1e-3 * (double)milliseconds;
}

static void cuda_trace_end(Queue *queue) {
    Stream *stream = use(queue);
    if (!stream->trace_start) return;
    for (int i = 0; i < stream->num_timed; i++) {
        TimedWork *t = &stream->timed[i];
        t->span.start = stream->trace_started + seconds_between(stream->trace_start, t->start);
        t->span.end = t->span.start + seconds_between(t->start, t->end);
        trace_add(&t->span);
        CUDA_CHECK(cudaEventDestroy(t->start));
        CUDA_CHECK(cudaEventDestroy(t->end));
    }
    CUDA_CHECK(cudaEventDestroy(stream->trace_start));
    free(stream->timed);
    stream->trace_start = NULL;
    stream->timed = NULL;
    stream->num_timed = 0;
}

// ---- kernels ---------------------------------------------------------------------------------

static void cuda_launch(Queue *queue, KernelId kernel, const void *args, size_t size) {
    (void)size; // the kernel's parameters are copied into the launch itself
    Stream *stream = use(queue);
    CudaLane before = stream->lane;
    bool timed = time_start(queue, trace_span(queue, kernel_name(kernel)));
    cuda_kernels[kernel](&stream->lane, args);
    time_end(queue, timed);
    memory_took_for_kernels(queue->device, stream->lane.workspace_bytes - before.workspace_bytes);
    if (stream->lane.scratch_bytes == before.scratch_bytes) return;
    // The kernel asked for more scratch memory than there was, and got some at another address.
    memory_took_for_kernels(queue->device, stream->lane.scratch_bytes - before.scratch_bytes);
    if (before.scratch_bytes) queue->device->scratch_frees++;
}

static void cuda_call(Queue *queue, void (*function)(void *context), void *context) {
    Stream *stream = use(queue);
    bool timed = time_start(queue, trace_span(queue, "call"));
    CUDA_CHECK(cudaLaunchHostFunc(stream->lane.stream, function, context));
    time_end(queue, timed);
}

static void *cuda_native(Queue *queue) { return stream_of(queue)->lane.stream; }

// ---- events ----------------------------------------------------------------------------------
//
// Each ticket is marked by its own CUDA event until it is known to be reached. Only then is the
// event recorded again, for another ticket. (If a fixed number of events were used in turns, a wait
// for an old ticket would be a wait for a newer one.) A ticket without a mark has been reached.

static Mark *mark_of(Event event) {
    Stream *stream = stream_of(event.queue);
    for (int low = 0, high = stream->num_marks; low < high;) {
        int middle = (low + high) / 2;
        Mark *mark = &stream->marks[middle];
        if (mark->ticket == event.ticket) return mark;
        if (mark->ticket < event.ticket)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool is_reached(cudaEvent_t event) {
    cudaError_t error = cudaEventQuery(event);
    if (error == cudaErrorNotReady) {
        cudaGetLastError(); // this was an answer: forget it
        return false;
    }
    cuda_check(error, "cudaEventQuery", __FILE__, __LINE__);
    return true;
}

// The first `n` marks are reached, so their events are free for other tickets.
static void drop_marks(Stream *stream, int n) {
    for (int i = 0; i < n; i++) stream->spare[stream->num_spare++] = stream->marks[i].event;
    stream->num_marks -= n;
    memmove(stream->marks, stream->marks + n, sizeof(Mark) * (size_t)stream->num_marks);
}

static cudaEvent_t spare_event(Stream *stream) {
    cudaEvent_t event;
    // (In a graph nothing is reached before its launch, and asking is an error.)
    if (stream->num_spare == 0 && !stream->recording) {
        int n = 0; // a stream reaches its marks in their order
        while (n < stream->num_marks && is_reached(stream->marks[n].event)) n++;
        drop_marks(stream, n);
    }
    if (stream->num_spare > 0) return stream->spare[--stream->num_spare];
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static uint64_t cuda_record(Queue *queue) {
    Stream *stream = use(queue);
    size_t n = (size_t)stream->num_marks; // once reached, they are all spare
    stream->marks = xroom(stream->marks, n, &stream->max_marks, sizeof(Mark));
    stream->spare = xroom(stream->spare, n, &stream->max_spare, sizeof(cudaEvent_t));
    Mark mark = {.ticket = ++stream->tickets, .event = spare_event(stream)};
    CUDA_CHECK(cudaEventRecord(mark.event, stream->lane.stream));
    stream->marks[stream->num_marks++] = mark;
    return mark.ticket;
}

static Event event_now(Queue *queue) {
    return (Event){.queue = queue, .ticket = cuda_record(queue)};
}

static void cuda_wait(Queue *queue, Event event) {
    if (event.ticket == 0 || event.queue == queue) return;
    // What came before a graph is waited for by its launch, once for all of the graph's work.
    const Stream *other = stream_of(event.queue);
    if (other->recording && event.ticket <= other->before_graph) return;
    const Mark *mark = mark_of(event);
    if (mark) CUDA_CHECK(cudaStreamWaitEvent(use(queue)->lane.stream, mark->event, 0));
}

static bool cuda_reached(Event event) {
    const Mark *mark = mark_of(event);
    use(event.queue);
    return !mark || is_reached(mark->event);
}

static void cuda_host_wait(Event event) {
    const Mark *mark = mark_of(event);
    if (!mark) return;
    Stream *stream = use(event.queue);
    CUDA_CHECK(cudaEventSynchronize(mark->event));
    drop_marks(stream, (int)(mark - stream->marks) + 1);
}

// ---- from one GPU to another -----------------------------------------------------------------
//
// Two GPUs may reach each other over NVLink or the PCIe bus, without the host. CUDA says whether
// they can. But on machines whose bus is set up wrongly it says yes, and the bytes arrive damaged.
// So a test pattern is sent and compared before the first copy. If it does not arrive, copies go by
// way of the host.

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

// Sends a pattern over the stream that will make the real copies. Waits for that stream.
static bool pattern_arrives(int to, int from, int gpu, cudaStream_t stream) {
    enum { WORDS = 1 << 16 };
    size_t bytes = WORDS * sizeof(uint32_t);
    uint32_t *sent = xmalloc(bytes), *received = xmalloc(bytes);
    void *here = NULL, *there = NULL;
    for (uint32_t i = 0; i < WORDS; i++) sent[i] = i * 2654435761u + 1;

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
    free(sent);
    free(received);
    return arrived;
}

// For each pair of GPUs, direction, and side whose stream makes the copy.
static Path paths[MAX_COMPUTING][MAX_COMPUTING][2];

static Path find_path(int from, int to, int gpu, cudaStream_t stream) {
    if (!enable_peer_access(from, to) || !enable_peer_access(to, from)) return BY_HOST;
    if (pattern_arrives(to, from, gpu, stream)) return DIRECT;
    warn("bytes from GPU %d to GPU %d arrive damaged: copying by way of the host", from, to);
    return BY_HOST;
}

static void find_pieces(Stream *stream) {
    for (int i = 0; i < PIECES; i++)
        if (!stream->pieces[i].memory)
            CUDA_CHECK(
                cudaHostAlloc(&stream->pieces[i].memory, PIECE_BYTES, cudaHostAllocPortable));
}

// Both ways between two GPUs, by a stream of the first.
static bool reaches(int here, int there, const Stream *stream) {
    Path *out = &paths[here][there][0], *in = &paths[there][here][1];
    if (*out == UNTRIED) *out = find_path(here, there, here, stream->lane.stream);
    if (*in == UNTRIED) *in = find_path(there, here, here, stream->lane.stream);
    return *out == DIRECT && *in == DIRECT;
}

// Prepares all that a copy may need before the first one, because neither the test pattern nor
// allocating the host's memory may be part of what is measured.
static void find_paths(Queue *queue, Stream *stream, Device *const others[], int num_others) {
    int here = queue->device->hardware;
    for (int i = 0; i < num_others; i++) {
        int there = others[i]->hardware;
        if (here == there) continue;
        Stream *other = stream_of(others[i]->queues[COMPUTE]);
        bool one_way = reaches(here, there, stream), other_way = reaches(there, here, other);
        if (one_way && other_way) continue;
        find_pieces(stream);
        find_pieces(other);
    }
    use(queue); // the current GPU may be another one now
}

// Piece by piece, `from` fills a piece of host memory, then `to` empties it while `from` fills the
// next. One side's queue is the one that makes the copy. The other side's has the same number if it
// is open. If the caller has not ordered the two (see device_copy_after()), the other queue first
// waits for all that the copy comes after, and at the end the copy's queue waits for the other.
static void copy_by_host(Queue *queue, Device *to, char *dst, Device *from, const char *src,
                         size_t bytes) {
    Device *far = queue->device == to ? from : to;
    bool second = queue->number != COMPUTE && far->queues[queue->number];
    Queue *other = far->queues[second ? queue->number : COMPUTE];
    Queue *source = queue->device == to ? other : queue;
    Queue *target = queue->device == to ? queue : other;
    bool ordered = queue == target && queue->number == COMPUTE;
    if (!ordered) cuda_wait(other, event_now(queue));
    for (size_t done = 0, i = 0; done < bytes; done += PIECE_BYTES, i++) {
        Piece *piece = &stream_of(source)->pieces[i % PIECES];
        size_t size = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        cuda_wait(source, piece->emptied);
        CUDA_CHECK(cudaMemcpyAsync(piece->memory, src + done, size, cudaMemcpyDeviceToHost,
                                   use(source)->lane.stream));
        cuda_wait(target, event_now(source));
        CUDA_CHECK(cudaMemcpyAsync(dst + done, piece->memory, size, cudaMemcpyHostToDevice,
                                   use(target)->lane.stream));
        piece->emptied = event_now(target);
    }
    if (!ordered) cuda_wait(queue, event_now(other));
}

static void cuda_copy(Queue *queue, Device *to, void *dst, Device *from, const void *src,
                      size_t bytes) {
    cudaStream_t stream = use(queue)->lane.stream;
    bool timed = time_start(queue, trace_copy(queue, to, from, bytes));
    if (!to->backend)
        CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, stream));
    else if (!from->backend)
        CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, stream));
    else if (to->hardware == from->hardware)
        CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream));
    else if (paths[from->hardware][to->hardware][queue->device == to] == BY_HOST)
        copy_by_host(queue, to, dst, from, src, bytes);
    else
        CUDA_CHECK(cudaMemcpyPeerAsync(dst, to->hardware, src, from->hardware, bytes, stream));
    time_end(queue, timed);
}

// ---- graphs ----------------------------------------------------------------------------------
//
// CUDA records ("captures") what is enqueued on the first device's stream, and on each stream that
// waits for an event of a recorded stream. So all other streams wait for the first one at the
// beginning, and it waits for all of them at the end.

// All queues of the devices but the first one's compute queue. Returns how many.
static int other_queues(Device *const devices[], int k, Queue *queues[]) {
    int n = 0;
    for (int i = 0; i < k; i++)
        for (int q = 0; q < QUEUES; q++)
            if (devices[i]->queues[q] && (i > 0 || q != COMPUTE))
                queues[n++] = devices[i]->queues[q];
    return n;
}

// The first stream waits for all work that is now on the others.
static void join(Device *const devices[], int k) {
    Queue *others[QUEUES * MAX_DEVICES], *first = devices[0]->queues[COMPUTE];
    int n = other_queues(devices, k, others);
    for (int i = 0; i < n; i++) cuda_wait(first, event_now(others[i]));
}

// The others wait for all work that is now on the first stream.
static void fork_from_first(Device *const devices[], int k) {
    Queue *others[QUEUES * MAX_DEVICES], *first = devices[0]->queues[COMPUTE];
    int n = other_queues(devices, k, others);
    Event event = event_now(first);
    for (int i = 0; i < n; i++) cuda_wait(others[i], event);
}

static void start_recording(Queue *queue) {
    Stream *stream = stream_of(queue);
    stream->before_graph = stream->tickets;
    stream->recording = true;
}

// Events that were recorded into the graph mean nothing outside it.
static void end_recording(Queue *queue) {
    Stream *stream = stream_of(queue);
    stream->recording = false;
    while (stream->num_marks > 0 &&
           stream->marks[stream->num_marks - 1].ticket > stream->before_graph)
        stream->spare[stream->num_spare++] = stream->marks[--stream->num_marks].event;
}

static void cuda_graph_begin(Device *const devices[], int k) {
    Queue *others[QUEUES * MAX_DEVICES], *first = devices[0]->queues[COMPUTE];
    int n = other_queues(devices, k, others);
    start_recording(first);
    for (int i = 0; i < n; i++) start_recording(others[i]);
    CUDA_CHECK(cudaStreamBeginCapture(use(first)->lane.stream, cudaStreamCaptureModeThreadLocal));
    fork_from_first(devices, k);
}

static void *cuda_graph_end(Device *const devices[], int k) {
    Queue *others[QUEUES * MAX_DEVICES], *first = devices[0]->queues[COMPUTE];
    int n = other_queues(devices, k, others);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    join(devices, k);
    CUDA_CHECK(cudaStreamEndCapture(use(first)->lane.stream, &graph));
    CUDA_CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    end_recording(first);
    for (int i = 0; i < n; i++) end_recording(others[i]);
    return executable;
}

static void cuda_graph_launch(void *graph, Device *const devices[], int k) {
    join(devices, k);
    CUDA_CHECK(cudaGraphLaunch(graph, use(devices[0]->queues[COMPUTE])->lane.stream));
    fork_from_first(devices, k);
}

static void cuda_graph_free(void *graph) { CUDA_CHECK(cudaGraphExecDestroy(graph)); }

const Backend *cuda_backend(void) {
    static const Backend backend = {
        .name = "cuda",
        .count = cuda_count,
        .open = cuda_open,
        .close = cuda_close,
        .alloc = cuda_alloc,
        .free = cuda_free,
        .memory = cuda_memory,
        .kind = cuda_kind,
        .host_alloc = cuda_host_alloc,
        .host_free = cuda_host_free,
        .launch = cuda_launch,
        .copy = cuda_copy,
        .call = cuda_call,
        .native = cuda_native,
        .record = cuda_record,
        .wait = cuda_wait,
        .reached = cuda_reached,
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
