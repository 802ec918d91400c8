// runtime.cpp: the CUDA runtime of a simulated machine.
//
// Nothing runs when it is enqueued. When the host waits for something, work is taken from the heads
// of all streams, in an order that only the queues and the events restrict and that a seed decides,
// until what the host waits for is done. So work runs as late as it may, and in strange orders.
#include "simulator.h"
#include "device.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unistd.h>

namespace cudasim {

Random random_choice;
size_t live;

static unsigned from_environment(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    return text && *text ? (unsigned)strtoul(text, nullptr, 10) : otherwise;
}

static struct Machine {
    int gpus = (int)std::min<unsigned>(from_environment("CUDASIM_GPUS", 3), CUDASIM_MAX_GPUS);
    CudasimPeers peers = CUDASIM_PEERS;
    int current = 0;
    pid_t process = 0;                    // that used it first
    std::set<std::pair<int, int>> access; // from GPU, to GPU
    cudaError_t last_error = cudaSuccess, sticky = cudaSuccess;
} machine;

__attribute__((constructor)) static void seed_from_environment() {
    random_choice.state = from_environment("CUDASIM_SEED", 1);
}

int current_gpu() { return machine.current; }
bool can_reach(int gpu, int other) { return machine.access.count({gpu, other}) > 0; }

// ---- errors, and failures on demand ----------------------------------------------------------

static struct Calls { int made, fail_at, error; } no_calls;
static std::map<std::string, Calls> calls;

int injected(const char *function) {
    Calls &c = calls.emplace(function, no_calls).first->second;
    return ++c.made == c.fail_at ? c.error : 0;
}

static cudaError_t result(cudaError_t error) {
    if (error != cudaSuccess) machine.last_error = error;
    return error;
}

// Each function begins so. A GPU that failed fails for ever, and after a fork() CUDA works in the
// parent only.
static cudaError_t enter(const char *function) {
    cudaError_t error = (cudaError_t)injected(function);
    if (machine.process == 0) machine.process = getpid();
    if (machine.process != getpid()) error = cudaErrorInitializationError;
    return result(error != cudaSuccess ? error : machine.sticky);
}
#define ENTER()                                                                                    \
    if (cudaError_t error_ = enter(__func__)) return error_

// ---- streams ---------------------------------------------------------------------------------

struct Point { // in a stream: an event was recorded here
    bool reached = false;
    double time = 0;
    cudaGraph_t graph = nullptr; // the one that it was recorded into, if any
};
using Points = std::shared_ptr<Point>;

struct Task { // one of these
    std::function<void()> work;
    Points wait_for, reach;
};

} // namespace cudasim

using namespace cudasim;

struct CUstream_st {
    int gpu;
    std::deque<Task> queue;
    bool of_graph = false; // lives until its queue is empty
};
struct CUevent_st {
    int gpu;
    bool timed;
    Points point; // nullptr: never recorded
};
struct CUgraph_st { // tasks, each with the number of the stream that it was enqueued on
    std::vector<cudaStream_t> streams;
    std::vector<std::pair<size_t, Task>> tasks;
};
struct CUgraphExec_st : CUgraph_st {};

namespace cudasim {

// (Never destroyed: what a lost GPU holds when the program ends is no leak.)
static std::vector<cudaStream_t> &streams = *new std::vector<cudaStream_t>;
static CUstream_st default_streams[CUDASIM_MAX_GPUS];
static unsigned favourite;

// The stream that a call means: 0 is the default stream of the current GPU.
static cudaStream_t real(cudaStream_t stream) {
    if (stream) return stream;
    cudaStream_t the_default = &default_streams[machine.current];
    the_default->gpu = machine.current;
    if (std::find(streams.begin(), streams.end(), the_default) == streams.end())
        streams.push_back(the_default);
    return the_default;
}

int gpu_of(cudaStream_t stream) { return real(stream)->gpu; }

static cudaGraph_t capture; // what is being recorded; one at a time

static size_t number_in_capture(cudaStream_t stream) { // or the number of streams
    auto &all = capture->streams;
    return (size_t)(std::find(all.begin(), all.end(), stream) - all.begin());
}
static bool is_captured(cudaStream_t stream) {
    return capture && number_in_capture(stream) < capture->streams.size();
}

static void push(cudaStream_t stream, Task task) {
    if (is_captured(stream))
        capture->tasks.push_back({number_in_capture(stream), std::move(task)});
    else
        stream->queue.push_back(std::move(task));
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
    push(real(stream), {std::move(work), nullptr, nullptr});
}

static bool can_run(cudaStream_t stream) {
    if (stream->queue.empty()) return false;
    const Task &head = stream->queue.front();
    return !head.wait_for || head.wait_for->reached;
}

static void reach(Point &point) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    point.reached = true;
    point.time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Runs work until `done`. One stream, then those after it in the list, run for a while and the
// others starve; then another one is the favourite. More orders come about than if each step chose
// a stream.
template <class Done> static cudaError_t run_until(Done done) {
    if (capture) return result(cudaErrorStreamCaptureUnsupported); // it would wait for ever
    while (!done() && machine.sticky == cudaSuccess) {
        if (random_choice.below(8) == 0) favourite = random_choice.below(1u << 16);
        cudaStream_t chosen = nullptr;
        for (size_t i = 0; i < streams.size() && !chosen; i++)
            if (can_run(streams[(favourite + i) % streams.size()]))
                chosen = streams[(favourite + i) % streams.size()];
        if (!chosen)
            mistake("does a stream wait for an event of its own future?",
                    "all streams wait for each other");
        Task task = std::move(chosen->queue.front());
        chosen->queue.pop_front();
        if (task.work) task.work();
        if (task.reach) reach(*task.reach);
        clock_now++;
        if (chosen->of_graph && chosen->queue.empty()) {
            streams.erase(std::find(streams.begin(), streams.end(), chosen));
            delete chosen;
        }
    }
    return result(machine.sticky);
}

static cudaError_t drain(cudaStream_t stream) {
    return run_until([=] { return stream->queue.empty(); });
}

static cudaError_t drain_gpu(int gpu) {
    return run_until([=] {
        return std::all_of(streams.begin(), streams.end(),
                           [=](cudaStream_t s) { return s->gpu != gpu || s->queue.empty(); });
    });
}

static std::map<char *, size_t> pinned; // host memory: begin, bytes

static bool is_pinned(const void *memory) {
    auto after = pinned.upper_bound((char *)memory);
    return after != pinned.begin() && (char *)memory < (--after)->first + after->second;
}

} // namespace cudasim

// ---- devices and errors ----------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int *version) {
    *version = 12000;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
    ENTER();
    *count = machine.gpus;
    return result(machine.gpus ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
    ENTER();
    if (device < 0 || device >= machine.gpus) return result(cudaErrorInvalidDevice);
    machine.current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    ENTER();
    *device = machine.current;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    ENTER();
    *value = 8; // an Ampere GPU
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    ENTER();
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

static const char *words_for(cudaError_t error, bool name) {
#define WORDS(number, value, text)                                                                 \
    if (error == number) return name ? #number : text;
    CUDASIM_ERRORS(WORDS)
    return "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t error) { return words_for(error, true); }
const char *cudaGetErrorString(cudaError_t error) { return words_for(error, false); }

// ---- memory ----------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    ENTER();
    *memory = nullptr;
    if (capture) return result(cudaErrorStreamCaptureUnsupported);
    if (bytes == 0) return cudaSuccess;
    Allocation *a = allocate(machine.current, bytes);
    if (!a) return result(cudaErrorMemoryAllocation);
    *memory = a->begin;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    ENTER();
    if (!memory) return cudaSuccess;
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
    if (capture) return result(cudaErrorStreamCaptureUnsupported);
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
    if (pinned.erase((char *)memory) == 0)
        mistake("free once what cudaHostAlloc gave", "cudaFreeHost() of %p, which it did not give",
                memory);
    free(memory);
    live--;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    ENTER();
    int gpu = gpu_of(stream);
    enqueue(stream, [=] {
        check_range("cudaMemset", gpu, memory, bytes, WRITE);
        std::vector<char> values(bytes, (char)value);
        move_bytes(memory, values.data(), bytes);
    });
    return cudaSuccess;
}
cudaError_t cudaMemset(void *memory, int value, size_t bytes) { // on the default stream
    return cudaMemsetAsync(memory, value, bytes, nullptr);
}

// A copy's two sides as they are when it runs; -1 is the host.
static void copy_now(void *dst, int dst_gpu, const void *src, int src_gpu, size_t bytes) {
    if (src_gpu >= 0) check_range("a copy", src_gpu, src, bytes, READ);
    if (dst_gpu >= 0) check_range("a copy", dst_gpu, dst, bytes, WRITE);
    move_bytes(dst, src, bytes);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    ENTER();
    const Allocation *to = allocation_at(dst), *from = allocation_at(src);
    int dst_gpu = to ? to->gpu : -1, src_gpu = from ? from->gpu : -1;
    bool to_gpu = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_gpu = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (to_gpu != (dst_gpu >= 0) || from_gpu != (src_gpu >= 0))
        mistake("the kind says where the two pointers point to", "a copy of kind %d from %s to %s",
                kind, from ? "a GPU" : "the host", to ? "a GPU" : "the host");
    if (!from && !is_pinned(src)) { // may be paged out: CUDA reads it before it returns
        std::vector<char> staged((const char *)src, (const char *)src + bytes);
        enqueue(stream, [=] { copy_now(dst, dst_gpu, staged.data(), -1, bytes); });
        return cudaSuccess;
    }
    enqueue(stream, [=] { copy_now(dst, dst_gpu, src, src_gpu, bytes); });
    return to || is_pinned(dst) ? cudaSuccess : drain(real(stream)); // and writes it before
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
    ENTER();
    cudaError_t error = cudaMemcpyAsync(dst, src, bytes, kind, nullptr);
    return error == cudaSuccess ? drain(real(nullptr)) : error;
}

// Works without peer access too: the driver then goes by way of the host.
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes, cudaStream_t stream) {
    ENTER();
    bool damaged = machine.peers == CUDASIM_DAMAGED_PEERS;
    enqueue(stream, [=] {
        copy_now(dst, dst_device, src, src_device, bytes);
        if (damaged) ((char *)dst)[bytes / 2] ^= 4;
    });
    return cudaSuccess;
}

// ---- streams and events ----------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    ENTER();
    if (flags != cudaStreamNonBlocking)
        mistake("use cudaStreamNonBlocking",
                "streams that wait for the default stream are not simulated");
    *stream = new CUstream_st{machine.current, {}, false};
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
    return drain(real(stream));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    ENTER();
    if (!event->point) return cudaSuccess;
    stream = real(stream);
    if (capture && event->point->graph == capture) {
        if (!is_captured(stream)) capture->streams.push_back(stream);
    } else if (event->point->graph) {
        return result(cudaErrorCapturedEvent);
    } else if (is_captured(stream)) {
        return result(cudaErrorStreamCaptureIsolation);
    }
    push(stream, {nullptr, event->point, nullptr});
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    ENTER();
    *event = new CUevent_st{machine.current, !(flags & cudaEventDisableTiming), nullptr};
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
    if (event->gpu != gpu_of(stream)) return result(cudaErrorInvalidResourceHandle);
    event->point = std::make_shared<Point>();
    if (is_captured(real(stream))) event->point->graph = capture;
    push(real(stream), {nullptr, nullptr, event->point});
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER();
    Points point = event->point;
    if (point && point->graph) return result(cudaErrorCapturedEvent);
    return run_until([=] { return !point || point->reached; });
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    ENTER();
    if (!start->timed || !end->timed || !start->point || !end->point)
        return result(cudaErrorInvalidResourceHandle);
    if (!start->point->reached || !end->point->reached) return result(cudaErrorNotReady);
    *milliseconds = (float)(1e3 * (end->point->time - start->point->time));
    return cudaSuccess;
}

// ---- graphs ----------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    ENTER();
    if (capture) return result(cudaErrorStreamCaptureUnsupported);
    capture = new CUgraph_st{{real(stream)}, {}};
    return cudaSuccess;
}

// Whether the last that each other stream did was to record an event that somebody waits for.
static bool all_joined(const CUgraph_st &graph) {
    for (size_t i = 1; i < graph.streams.size(); i++) {
        Points last;
        for (auto &[stream, task] : graph.tasks)
            if (stream == i) last = task.reach;
        if (std::none_of(graph.tasks.begin(), graph.tasks.end(), [&](auto &numbered) {
                return last && numbered.first != i && numbered.second.wait_for == last;
            }))
            return false;
    }
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    ENTER();
    if (!capture || capture->streams[0] != real(stream))
        return result(cudaErrorStreamCaptureUnsupported);
    *graph = std::exchange(capture, nullptr);
    live++;
    return result(all_joined(**graph) ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long) {
    ENTER();
    *executable = new CUgraphExec_st{*graph};
    live++;
    return cudaSuccess;
}

// Runs on streams of its own, which start after what is now on `stream` and which `stream` waits
// for: the streams it was recorded from have nothing to do with it any more.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    ENTER();
    stream = real(stream);
    Points begin = std::make_shared<Point>();
    push(stream, {nullptr, nullptr, begin});
    std::map<Points, Points> mine; // of the recorded points
    std::vector<cudaStream_t> workers;
    for (cudaStream_t from : graph->streams)
        workers.push_back(new CUstream_st{from->gpu, {{nullptr, begin, nullptr}}, true});
    for (auto &[number, task] : graph->tasks) {
        Task copy = task;
        for (Points *point : {&copy.wait_for, &copy.reach})
            if (*point) {
                Points &fresh = mine[*point];
                if (!fresh) fresh = std::make_shared<Point>();
                *point = fresh;
            }
        workers[number]->queue.push_back(copy);
    }
    for (cudaStream_t worker : workers) {
        Points end = std::make_shared<Point>();
        worker->queue.push_back({nullptr, nullptr, end});
        streams.push_back(worker);
        push(stream, {nullptr, end, nullptr});
    }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ENTER();
    delete graph;
    live--;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    ENTER();
    delete graph;
    live--;
    return cudaSuccess;
}

// ---- launches --------------------------------------------------------------------------------

void cudasim_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t stream, const CudasimWork *work) {
    std::shared_ptr<const CudasimWork> shared_work(work);
    cudaError_t error = enter("launch"), late = (cudaError_t)injected("kernel");
    size_t threads = (size_t)block.x * block.y * block.z, blocks = (size_t)grid.x * grid.y * grid.z;
    if (threads == 0 || threads > 1024 || block.z > 64 || blocks == 0 || grid.x > 0x7fffffffu ||
        grid.y > 65535 || grid.z > 65535 || shared_bytes > 48 << 10)
        error = cudaErrorInvalidConfiguration;
    int gpu = gpu_of(stream);
    if (gpu != machine.current) error = cudaErrorInvalidResourceHandle;
    if (result(error) != cudaSuccess) return;
    enqueue(stream, [=] {
        if (late != cudaSuccess)
            machine.sticky = late;
        else
            run_grid(kernel, gpu, grid, block, shared_bytes, *shared_work);
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
