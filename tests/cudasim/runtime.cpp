// runtime.cpp: the CUDA runtime of a simulated machine.
//
// Nothing runs when it is enqueued. When the host waits for something, work is taken from the heads
// of all streams, in an order that only the queues and the events restrict and that a seed decides,
// until what the host waits for is done. So work runs as late as it may, and in strange orders.
#include "simulator.h"
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace cudasim {

Random random_choice;
size_t live;

static unsigned from_environment(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    return text && *text ? (unsigned)strtoul(text, nullptr, 10) : otherwise;
}

static CudasimPeers peers_from_environment() {
    const char *text = getenv("CUDASIM_PEERS");
    std::string peers = text ? text : "yes";
    return peers == "no"        ? CUDASIM_NO_PEERS
           : peers == "damaged" ? CUDASIM_DAMAGED_PEERS
                                : CUDASIM_PEERS;
}

static struct Machine {
    int gpus = (int)std::min<unsigned>(from_environment("CUDASIM_GPUS", 3), CUDASIM_MAX_GPUS);
    CudasimPeers peers = peers_from_environment();
    int current = 0;
    std::set<std::pair<int, int>> access; // from GPU, to GPU
    cudaError_t last_error = cudaSuccess, sticky = cudaSuccess;
} machine;

__attribute__((constructor)) static void seed_from_environment() {
    random_choice.state = from_environment("CUDASIM_SEED", 1);
}

bool can_reach(int gpu, int other) { return machine.access.count({gpu, other}) > 0; }

static cudaError_t result(cudaError_t error) {
    if (error != cudaSuccess) machine.last_error = error;
    return error;
}

// ---- failures on demand ----------------------------------------------------------------------

struct Calls {
    int made, fail_at, error;
};
static std::map<std::string, Calls> calls;

cudaError_t injected(const char *function) {
    Calls &c = calls[function];
    return ++c.made == c.fail_at ? (cudaError_t)c.error : cudaSuccess;
}

// Each function begins so. A GPU that failed fails for ever.
#define ENTER()                                                                                    \
    do {                                                                                           \
        cudaError_t error_ = injected(__func__);                                                   \
        if (error_ == cudaSuccess) error_ = machine.sticky;                                        \
        if (error_ != cudaSuccess) return result(error_);                                          \
    } while (0)

// ---- streams, events and graphs --------------------------------------------------------------

struct Graph {
    struct Node {
        std::function<void()> work;
        std::vector<size_t> after; // these nodes, which come earlier in the list
    };
    std::vector<Node> nodes;
};

// A capture, from begin to end: the graph so far, and in which streams.
struct Capture {
    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
    cudaStream_t origin;
    cudaStreamCaptureMode mode;
    bool invalid = false;
};
using Nodes = std::set<size_t>;

struct Point { // in a stream: an event was recorded here
    bool reached = false;
    double time = 0;
};

struct Task {
    std::function<void()> work;
    std::shared_ptr<Point> wait_for; // or nullptr
};

} // namespace cudasim

using namespace cudasim;

struct CUstream_st {
    int gpu;
    std::deque<Task> queue;
    unsigned priority;
    std::shared_ptr<Capture> capture; // or nullptr
    Nodes last;                       // while it is captured: the next node comes after these
};
struct CUevent_st {
    int gpu;
    bool timed;
    std::shared_ptr<Point> point; // nullptr: never recorded
    std::shared_ptr<Capture> capture;
    Nodes last;
};
struct CUgraph_st {
    std::shared_ptr<Graph> graph;
};
struct CUgraphExec_st {
    std::shared_ptr<Graph> graph;
};

namespace cudasim {

static std::vector<cudaStream_t> streams;
static CUstream_st default_streams[CUDASIM_MAX_GPUS];

int gpu_of(cudaStream_t stream) { return stream->gpu; }

static double seconds_now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The stream that a call means: 0 is the default stream of the current GPU.
static cudaStream_t real(cudaStream_t stream) {
    if (stream) return stream;
    cudaStream_t the_default = &default_streams[machine.current];
    the_default->gpu = machine.current;
    if (std::find(streams.begin(), streams.end(), the_default) == streams.end())
        streams.push_back(the_default);
    return the_default;
}

static bool can_run(cudaStream_t stream) {
    if (stream->queue.empty()) return false;
    const Task &head = stream->queue.front();
    return !head.wait_for || head.wait_for->reached;
}

// Runs work until `done`. The stream of the highest priority runs for a while and the others
// starve, then the priorities are dealt anew: more orders come about than if each step chose a
// stream.
template <class Done> static cudaError_t run_until(Done done) {
    while (!done() && machine.sticky == cudaSuccess) {
        if (random_choice.below(16) == 0)
            for (cudaStream_t stream : streams) stream->priority = random_choice.below(1u << 31);
        cudaStream_t best = nullptr;
        for (cudaStream_t stream : streams)
            if (can_run(stream) && (!best || stream->priority > best->priority)) best = stream;
        if (!best)
            mistake("does a stream wait for an event of its own future?",
                    "all streams wait for each other");
        Task task = std::move(best->queue.front());
        best->queue.pop_front();
        if (task.work) task.work();
        clock_now++;
    }
    return result(machine.sticky);
}

static bool is_empty(cudaStream_t stream) { return stream->queue.empty(); }

static cudaError_t drain(cudaStream_t stream) {
    return run_until([=] { return is_empty(stream); });
}

static cudaError_t drain_gpu(int gpu) {
    return run_until([=] {
        return std::all_of(streams.begin(), streams.end(),
                           [=](cudaStream_t s) { return s->gpu != gpu || is_empty(s); });
    });
}

// What must not be called while a stream is captured makes the capture useless.
static cudaError_t refuse_capture(const std::shared_ptr<Capture> &capture) {
    capture->invalid = true;
    return result(cudaErrorStreamCaptureUnsupported);
}

// Some calls (those that allocate, free or wait) may do hidden work on any stream.
#define NOT_DURING_CAPTURE()                                                                       \
    do {                                                                                           \
        for (cudaStream_t stream_ : streams)                                                       \
            if (stream_->capture && stream_->capture->mode != cudaStreamCaptureModeRelaxed)        \
                return refuse_capture(stream_->capture);                                           \
    } while (0)

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
    if (!stream->capture) {
        stream->queue.push_back({std::move(work), nullptr});
        return cudaSuccess;
    }
    if (stream->capture->invalid) return result(cudaErrorStreamCaptureInvalidated);
    std::vector<Graph::Node> &nodes = stream->capture->graph->nodes;
    nodes.push_back({std::move(work), {stream->last.begin(), stream->last.end()}});
    stream->last = {nodes.size() - 1};
    return cudaSuccess;
}

// In any order in which each node comes after those that it depends on.
static void run_graph(const Graph &graph) {
    std::vector<bool> done(graph.nodes.size());
    for (size_t count = 0; count < graph.nodes.size(); count++) {
        std::vector<size_t> ready;
        for (size_t i = 0; i < graph.nodes.size(); i++) {
            const std::vector<size_t> &after = graph.nodes[i].after;
            if (!done[i] &&
                std::all_of(after.begin(), after.end(), [&](size_t j) { return done[j]; }))
                ready.push_back(i);
        }
        size_t chosen = ready[random_choice.below((unsigned)ready.size())];
        graph.nodes[chosen].work();
        done[chosen] = true;
        clock_now++;
    }
}

// ---- host memory -----------------------------------------------------------------------------

static std::map<char *, size_t> pinned; // begin, bytes

static bool is_pinned(const void *memory) {
    auto after = pinned.upper_bound((char *)memory);
    return after != pinned.begin() && (char *)memory < (--after)->first + after->second;
}

} // namespace cudasim

// ---- devices ---------------------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
    ENTER();
    *count = machine.gpus;
    return result(machine.gpus ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int *device) {
    ENTER();
    *device = machine.current;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    ENTER();
    if (device < 0 || device >= machine.gpus) return result(cudaErrorInvalidDevice);
    machine.current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    ENTER();
    if (device < 0 || device >= machine.gpus) return result(cudaErrorInvalidDevice);
    *properties = {"simulated GPU", (size_t)16 << 30, 48 << 10, 9, 0, 1, 1024, 32};
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    ENTER();
    NOT_DURING_CAPTURE();
    return drain_gpu(machine.current);
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER();
    *can = device != peer && machine.peers != CUDASIM_NO_PEERS;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
    ENTER();
    if (machine.peers == CUDASIM_NO_PEERS) return result(cudaErrorPeerAccessUnsupported);
    bool is_new = machine.access.insert({machine.current, peer}).second;
    return result(is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = machine.last_error;
    machine.last_error = machine.sticky;
    return error;
}
cudaError_t cudaPeekAtLastError(void) { return machine.last_error; }

#define NAME(name, number, text)                                                                   \
    case name:                                                                                     \
        return #name;
#define TEXT(name, number, text)                                                                   \
    case name:                                                                                     \
        return text;
const char *cudaGetErrorName(cudaError_t error) {
    switch (error) { CUDASIM_ERRORS(NAME) }
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t error) {
    switch (error) { CUDASIM_ERRORS(TEXT) }
    return "unrecognized error code";
}

// ---- memory ----------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    ENTER();
    NOT_DURING_CAPTURE();
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    Allocation *a = allocate(machine.current, bytes);
    if (!a) return result(cudaErrorMemoryAllocation);
    *memory = a->begin;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    ENTER();
    if (!memory) return cudaSuccess;
    NOT_DURING_CAPTURE();
    Allocation *a = allocation_at(memory);
    if (!a || a->begin != memory || a->freed)
        mistake("free once what cudaMalloc gave", "cudaFree() of %p, which is no living allocation",
                memory);
    cudaError_t error = drain_gpu(a->gpu);
    release(a);
    return error;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    ENTER();
    NOT_DURING_CAPTURE();
    *memory = malloc(bytes);
    if (!*memory) return result(cudaErrorMemoryAllocation);
    memset(*memory, 0xff, bytes); // NaN
    pinned[(char *)*memory] = bytes;
    live++;
    return cudaSuccess;
}

// Work that still reads or writes it is the caller's mistake, which AddressSanitizer reports.
cudaError_t cudaFreeHost(void *memory) {
    ENTER();
    if (!memory) return cudaSuccess;
    NOT_DURING_CAPTURE();
    if (pinned.erase((char *)memory) == 0)
        mistake("free once what cudaHostAlloc gave", "cudaFreeHost() of %p, which it did not give",
                memory);
    free(memory);
    live--;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    ENTER();
    *unused = *total = (size_t)16 << 30;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    ENTER();
    int gpu = real(stream)->gpu;
    return enqueue(real(stream), [=] {
        check_range("cudaMemset", gpu, memory, bytes, WRITE);
        std::vector<char> values(bytes, (char)value);
        move_bytes(memory, values.data(), bytes);
    });
}

// On the default stream, and the host goes on.
cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    ENTER();
    NOT_DURING_CAPTURE();
    return cudaMemsetAsync(memory, value, bytes, nullptr);
}

// A copy's two sides as they are when it runs; -1 is the host.
static std::function<void()> copy_work(void *dst, int dst_gpu, const void *src, int src_gpu,
                                       size_t bytes, bool damaged) {
    return [=] {
        if (src_gpu >= 0) check_range("a copy", src_gpu, src, bytes, READ);
        if (dst_gpu >= 0) check_range("a copy", dst_gpu, dst, bytes, WRITE);
        move_bytes(dst, src, bytes);
        if (damaged) ((char *)dst)[bytes / 2] ^= 4;
    };
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    ENTER();
    stream = real(stream);
    const Allocation *to = allocation_at(dst), *from = allocation_at(src);
    int dst_gpu = to ? to->gpu : -1, src_gpu = from ? from->gpu : -1;
    bool right = kind == cudaMemcpyHostToDevice   ? to && !from
                 : kind == cudaMemcpyDeviceToHost ? !to && from
                                                  : kind == cudaMemcpyDeviceToDevice && to && from;
    if (!right && kind != cudaMemcpyDefault)
        mistake("the kind says where the two pointers point to", "a copy of kind %d from %s to %s",
                kind, from ? "a GPU" : "the host", to ? "a GPU" : "the host");
    bool in_any_order = (to || is_pinned(dst)) && (from || is_pinned(src));
    if (in_any_order) return enqueue(stream, copy_work(dst, dst_gpu, src, src_gpu, bytes, false));
    // Memory that may be paged out: CUDA reads it before it returns, and writes it before it
    // returns.
    if (stream->capture) return refuse_capture(stream->capture);
    if (from) {
        enqueue(stream, copy_work(dst, dst_gpu, src, src_gpu, bytes, false));
        return drain(stream);
    }
    std::vector<char> staged((const char *)src, (const char *)src + bytes);
    return enqueue(stream,
                   [=] { copy_work(dst, dst_gpu, staged.data(), src_gpu, bytes, false)(); });
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
    ENTER();
    NOT_DURING_CAPTURE();
    cudaError_t error = cudaMemcpyAsync(dst, src, bytes, kind, nullptr);
    return error == cudaSuccess ? drain(real(nullptr)) : error;
}

// Works without peer access too: the driver then goes by way of the host.
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes, cudaStream_t stream) {
    ENTER();
    bool damaged = machine.peers == CUDASIM_DAMAGED_PEERS;
    return enqueue(real(stream), copy_work(dst, dst_device, src, src_device, bytes, damaged));
}

// ---- streams and events ----------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    ENTER();
    if (flags != cudaStreamNonBlocking)
        mistake("use cudaStreamNonBlocking",
                "streams that wait for the default stream are not simulated");
    *stream = new CUstream_st{machine.current, {}, random_choice.below(1u << 31), nullptr, {}};
    streams.push_back(*stream);
    live++;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    ENTER();
    cudaError_t error = drain(stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    live--;
    return error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    ENTER();
    if (real(stream)->capture) return refuse_capture(real(stream)->capture);
    NOT_DURING_CAPTURE();
    return drain(real(stream));
}
// The GPU goes on a little while the host asks.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    ENTER();
    NOT_DURING_CAPTURE();
    unsigned patience = random_choice.below(4);
    run_until([&] { return is_empty(real(stream)) || patience-- == 0; });
    return is_empty(real(stream)) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    ENTER();
    *event =
        new CUevent_st{machine.current, !(flags & cudaEventDisableTiming), nullptr, nullptr, {}};
    live++;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    ENTER();
    delete event;
    live--;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ENTER();
    stream = real(stream);
    if (event->gpu != stream->gpu) return result(cudaErrorInvalidResourceHandle);
    event->capture = stream->capture;
    event->last = stream->last;
    if (stream->capture) return cudaSuccess;
    std::shared_ptr<Point> point = event->point = std::make_shared<Point>();
    return enqueue(stream, [point] { *point = {true, seconds_now()}; });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    ENTER();
    stream = real(stream);
    if (event->capture) { // the stream joins the event's capture
        if (stream->capture && stream->capture != event->capture)
            return result(cudaErrorStreamCaptureIsolation);
        stream->capture = event->capture;
        stream->last.insert(event->last.begin(), event->last.end());
    } else if (stream->capture) {
        stream->capture->invalid = true;
        return result(cudaErrorStreamCaptureIsolation);
    } else if (event->point) {
        stream->queue.push_back({nullptr, event->point});
    }
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER();
    if (event->capture) return event->capture->invalid = true, result(cudaErrorCapturedEvent);
    NOT_DURING_CAPTURE();
    std::shared_ptr<Point> point = event->point;
    return run_until([=] { return !point || point->reached; });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    ENTER();
    NOT_DURING_CAPTURE();
    unsigned patience = random_choice.below(4);
    std::shared_ptr<Point> point = event->point;
    run_until([&] { return !point || point->reached || patience-- == 0; });
    return !point || point->reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    ENTER();
    if (!start->timed || !end->timed || !start->point || !end->point)
        return result(cudaErrorInvalidResourceHandle);
    if (!start->point->reached || !end->point->reached) return result(cudaErrorNotReady);
    *milliseconds = (float)(1e3 * (end->point->time - start->point->time));
    return cudaSuccess;
}

// ---- capture and graphs ----------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    ENTER();
    if (!stream || stream->capture) return result(cudaErrorStreamCaptureUnsupported);
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->last.clear();
    return cudaSuccess;
}

// Is each node of the graph before the end of the origin?
static bool all_joined(const Graph &graph, const Nodes &last) {
    std::vector<bool> reached(graph.nodes.size());
    for (size_t i : last) reached[i] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;)
        if (reached[i])
            for (size_t j : graph.nodes[i].after) reached[j] = true;
    return std::all_of(reached.begin(), reached.end(), [](bool r) { return r; });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    ENTER();
    *graph = nullptr;
    std::shared_ptr<Capture> capture = stream->capture;
    if (!capture || capture->origin != stream) return result(cudaErrorStreamCaptureUnmatched);
    bool joined = all_joined(*capture->graph, stream->last);
    for (cudaStream_t other : streams)
        if (other->capture == capture) other->capture = nullptr, other->last.clear();
    if (capture->invalid) return result(cudaErrorStreamCaptureInvalidated);
    if (!joined) return result(cudaErrorStreamCaptureUnjoined);
    *graph = new CUgraph_st{capture->graph};
    live++;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    ENTER();
    const std::shared_ptr<Capture> &capture = real(stream)->capture;
    *status = !capture           ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    ENTER();
    *exec = new CUgraphExec_st{graph->graph};
    live++;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    ENTER();
    std::shared_ptr<Graph> graph = exec->graph;
    if (real(stream)->capture) return refuse_capture(real(stream)->capture);
    return enqueue(real(stream), [graph] { run_graph(*graph); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    ENTER();
    delete exec;
    live--;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ENTER();
    delete graph;
    live--;
    return cudaSuccess;
}

// ---- launches --------------------------------------------------------------------------------

void cudasim_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t stream, const CudasimWork *work) {
    std::shared_ptr<const CudasimWork> shared_work(work);
    stream = real(stream);
    cudaError_t error = injected("launch"), late = injected("kernel");
    if (error == cudaSuccess) error = machine.sticky;
    size_t threads = (size_t)block.x * block.y * block.z, blocks = (size_t)grid.x * grid.y * grid.z;
    if (threads == 0 || threads > 1024 || block.z > 64 || blocks == 0 || grid.x > 0x7fffffffu ||
        grid.y > 65535 || grid.z > 65535 || shared_bytes > 48 << 10)
        error = cudaErrorInvalidConfiguration;
    if (stream->gpu != machine.current) error = cudaErrorInvalidResourceHandle;
    if (result(error) != cudaSuccess) return;
    int gpu = stream->gpu;
    enqueue(stream, [=] {
        unsigned grid_size[3] = {grid.x, grid.y, grid.z},
                 block_size[3] = {block.x, block.y, block.z};
        if (late != cudaSuccess)
            machine.sticky = late;
        else
            run_grid(kernel, gpu, grid_size, block_size, shared_bytes, *shared_work);
    });
}

// ---- for tests -------------------------------------------------------------------------------

void cudasim_machine(int gpus, unsigned seed, CudasimPeers peers) {
    if (live)
        mistake("close the devices first",
                "another machine, while %zu things of the old one are in use", live);
    streams.clear();
    machine = {};
    machine.gpus = gpus;
    machine.peers = peers;
    random_choice.state = seed;
}

void cudasim_fail(const char *function, int n, int error) {
    Calls &c = calls[function];
    c.fail_at = n == 0 ? 0 : c.made + n;
    c.error = error;
}

int cudasim_calls(const char *function) { return calls[function].made; }

size_t cudasim_live(void) { return live; }
