// runtime.cpp: the CUDA runtime of a simulated machine.
//
// Nothing runs when it is enqueued. When the host waits for something, work is taken from the heads
// of all streams, in an order that only the queues and the events restrict and that a seed decides,
// until what the host waits for is done. So work runs as late as it may, and in strange orders.
#include "simulator.h"
#include "device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>

using namespace cudasim;

static unsigned from_environment(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    return text && *text ? (unsigned)strtoul(text, nullptr, 10) : otherwise;
}

std::mt19937 cudasim::random_choice(from_environment("CUDASIM_SEED", 1));
size_t cudasim::live;
std::vector<Work> cudasim::all_work{{0, "nothing"}};
uint64_t cudasim::clock_now;
Running cudasim::running;

// CUDA_VISIBLE_DEVICES: the machine's numbers of the GPUs that a program sees, in the order in
// which it sees them. As CUDA's, the list ends before the first word that is no GPU's number.
static std::vector<int> visible_gpus(int gpus) {
    std::vector<int> visible;
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; !list && i < gpus; i++) visible.push_back(i);
    for (const char *text = list; text;) {
        char *end;
        long gpu = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || gpu < 0 || gpu >= gpus) break;
        if (std::find(visible.begin(), visible.end(), gpu) != visible.end())
            mistake("name each GPU once", "CUDA_VISIBLE_DEVICES=%s is not simulated", list);
        visible.push_back((int)gpu);
        text = *end ? end + 1 : nullptr;
    }
    return visible;
}

static struct Machine {
    std::vector<int> visible = visible_gpus(
        (int)std::min<unsigned>(from_environment("CUDASIM_GPUS", 3), CUDASIM_MAX_GPUS));
    int gpus = (int)visible.size();
    CudasimPeers peers = CUDASIM_PEERS;
    int current = 0;
    pid_t process = 0;                         // that used it first
    unsigned favourite = 0;                    // see run_until()
    std::set<std::pair<int, int>> access = {}; // from GPU, to GPU
    cudaError_t last_error = cudaSuccess, sticky = cudaSuccess;
    int capability = (int)from_environment("CUDASIM_CAPABILITY", 80);
    std::map<std::pair<int, const void *>, size_t> shared = {}; // dynamic, of (GPU, kernel)
} machine;

int cudasim::current_gpu() { return machine.current; }
int cudasim::machines_number_of(int gpu) { return machine.visible[(size_t)gpu]; }
bool cudasim::can_reach(int gpu, int other) { return machine.access.count({gpu, other}) > 0; }

// ---- errors, and failures on demand ----------------------------------------------------------

struct Calls {
    int made = 0, fail_at = 0, error = 0;
};
static std::map<std::string, Calls> calls;

static std::mutex calls_mutex; // those of NCCL may come from two threads

int cudasim::injected(const char *function) {
    std::lock_guard<std::mutex> lock(calls_mutex);
    Calls &c = calls[function];
    return ++c.made == c.fail_at ? c.error : 0;
}

static cudaError_t result(cudaError_t error) {
    if (error != cudaSuccess) machine.last_error = error;
    return error;
}

// Each function begins so, or with `return enter(__func__) ?: ...`: the rest, if this is no error.
// A GPU that failed fails for ever, and after a fork() CUDA works in the parent only.
static bool inside_host_function;
static cudaError_t enter(const char *function) {
    cudaError_t error = (cudaError_t)injected(function);
    if (inside_host_function)
        mistake("let the function hand over what is to be enqueued",
                "%s called by a function that a stream runs", function);
    if (machine.process == 0) machine.process = getpid();
    if (machine.process != getpid()) error = cudaErrorInitializationError;
    return result(error != cudaSuccess ? error : machine.sticky);
}
#define ENTER()                                                                                    \
    if (cudaError_t error_ = enter(__func__)) return error_

// What has a handle; see cudasim_live().
template <class T> static cudaError_t make(T **handle, T contents) {
    *handle = new T(std::move(contents));
    live++;
    return cudaSuccess;
}
template <class T> static cudaError_t destroy(T *handle) {
    delete handle;
    live--;
    return cudaSuccess;
}

// ---- streams ---------------------------------------------------------------------------------

struct Point {            // in a stream: an event was recorded here
    unsigned capture = 0; // the number of the one that it was recorded in, if any
    bool reached = false;
    std::chrono::steady_clock::time_point time = {};
    Known known = {};
};
using PointRef = std::shared_ptr<Point>;

struct Task { // one of these
    std::function<void()> work;
    PointRef wait_for, reach;
    Known known = {}; // to the host, when it enqueued this
};

struct CUstream_st {
    int gpu;
    std::deque<Task> queue = {};
    bool of_graph = false; // lives until its queue is empty
    unsigned number = 0;
    Known known = {};
};
struct CUevent_st {
    int gpu;
    bool timed;
    PointRef point; // nullptr: never recorded
};
struct CUgraph_st {
    struct Branch {
        cudaStream_t stream; // that this was enqueued on
        std::deque<Task> tasks;
    };
    unsigned number; // of the capture
    std::vector<Branch> branches;
};
struct CUgraphExec_st : CUgraph_st {};

// (Never destroyed: what a lost GPU holds when the program ends is no leak.)
static std::vector<cudaStream_t> &streams = *new std::vector<cudaStream_t>;
static cudaStream_t default_streams[CUDASIM_MAX_GPUS];
static Known host_known;
static cudaGraph_t capture; // what is being recorded; one at a time

static void learn(Known &known, const Known &more) {
    for (unsigned i = 0; i < MAX_STREAMS; i++) known[i] = std::max(known[i], more[i]);
}

static void add_stream(cudaStream_t stream) { // with the lowest number that is free
    auto has_number = [=](cudaStream_t s) { return s->number == stream->number; };
    while (std::any_of(streams.begin(), streams.end(), has_number)) stream->number++;
    if (stream->number >= MAX_STREAMS)
        mistake("enlarge MAX_STREAMS", "more than %u streams", MAX_STREAMS);
    streams.push_back(stream);
}

static void remove_stream(cudaStream_t stream) {
    streams.erase(std::find(streams.begin(), streams.end(), stream));
}

// The stream that a call means: 0 is the default stream of the current GPU.
static cudaStream_t real(cudaStream_t stream) {
    if (stream) return stream;
    cudaStream_t &the_default = default_streams[machine.current];
    if (!the_default) add_stream(the_default = new CUstream_st{machine.current});
    return the_default;
}

int cudasim::gpu_of(cudaStream_t stream) { return real(stream)->gpu; }

// What the stream enqueues to: its own queue, or a branch of what is being recorded.
static std::deque<Task> &queue_of(cudaStream_t stream) {
    if (capture)
        for (auto &branch : capture->branches)
            if (branch.stream == stream) return branch.tasks;
    return stream->queue;
}
static bool is_captured(cudaStream_t stream) { return &queue_of(stream) != &stream->queue; }

static void push(cudaStream_t stream, std::function<void()> work, PointRef wait_for = nullptr,
                 PointRef reach = nullptr) {
    queue_of(stream).push_back({std::move(work), wait_for, reach, host_known});
}

void cudasim::enqueue(cudaStream_t stream, std::function<void()> work) {
    push(real(stream), std::move(work));
}

void cudasim::order(cudaStream_t before, cudaStream_t after) {
    if (is_captured(before) || is_captured(after))
        mistake("launch such a step without a graph", "NCCL in graphs is not simulated");
    PointRef point = std::make_shared<Point>();
    push(before, nullptr, nullptr, point);
    push(after, nullptr, point);
}

static bool can_run(cudaStream_t stream) {
    if (stream->queue.empty()) return false;
    const Task &head = stream->queue.front();
    return !head.wait_for || head.wait_for->reached;
}

// Gives the work its number and its time, and says what it knows.
static void begin_work(cudaStream_t stream) {
    static Known last; // work of each stream
    last[stream->number] = stream->known[stream->number] = (unsigned)all_work.size();
    clock_now = all_work.size() * WORK_TICKS;
    all_work.push_back({stream->number, ""});
    running = {};
    running.known = stream->known;
    running.work_began = running.block_began = running.block_met = clock_now;
    uint64_t first_unknown = all_work.size() - 1;
    for (unsigned i = 0; i < MAX_STREAMS; i++)
        if (running.known[i] < last[i])
            first_unknown = std::min<uint64_t>(first_unknown, running.known[i] + 1);
    running.all_known_until = first_unknown * WORK_TICKS;
}

static void run_next(cudaStream_t stream) {
    Task task = std::move(stream->queue.front());
    stream->queue.pop_front();
    learn(stream->known, task.known);
    if (task.wait_for) learn(stream->known, task.wait_for->known);
    if (task.work) {
        begin_work(stream);
        task.work();
    }
    if (task.reach) {
        task.reach->reached = true;
        task.reach->time = std::chrono::steady_clock::now();
        task.reach->known = stream->known;
    }
    if (stream->of_graph && stream->queue.empty()) {
        remove_stream(stream);
        delete stream;
    }
}

// Runs work until `done`. One stream, then those after it in the list, run for a while and the
// others starve; then another one is the favourite. More orders come about than if each step chose
// a stream.
template <class Done> static cudaError_t run_until(Done done) {
    if (capture) return result(cudaErrorStreamCaptureUnsupported); // it would wait for ever
    while (!done() && machine.sticky == cudaSuccess) {
        if (random_choice() % 8 == 0) machine.favourite = random_choice() % (1u << 16);
        size_t tried = 0, n = streams.size();
        while (tried < n && !can_run(streams[(machine.favourite + tried) % n])) tried++;
        if (tried == n)
            mistake("does a stream wait for an event of its own future?",
                    "all streams wait for each other");
        run_next(streams[(machine.favourite + tried) % n]);
    }
    return result(machine.sticky);
}

// Until the queues of these streams are empty; then the host knows what they have done.
template <class Which> static cudaError_t drain(Which which) {
    cudaError_t error = run_until([=] {
        return std::all_of(streams.begin(), streams.end(),
                           [=](cudaStream_t s) { return !which(s) || s->queue.empty(); });
    });
    for (cudaStream_t stream : streams)
        if (which(stream)) learn(host_known, stream->known);
    return error;
}
static cudaError_t drain_stream(cudaStream_t stream) {
    return drain([=](cudaStream_t s) { return s == stream; });
}
static cudaError_t drain_gpu(int gpu) {
    return drain([=](cudaStream_t s) { return s->gpu == gpu; });
}

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
cudaError_t cudaDeviceSynchronize(void) { return enter(__func__) ?: drain_gpu(machine.current); }
cudaError_t cudaGetDevice(int *device) {
    ENTER();
    *device = machine.current;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    ENTER();
    *value = attribute == cudaDevAttrComputeCapabilityMajor   ? machine.capability / 10
             : attribute == cudaDevAttrComputeCapabilityMinor ? machine.capability % 10
                                                              : (int)MOST_SHARED_BYTES;
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *) {
    ENTER();
    attributes->ptxVersion = machine.capability;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    strcpy(properties->name, "simulated GPU");
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *all) {
    ENTER();
    *unused = *all = (size_t)16 << 30;
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER();
    *can = device != peer && machine.peers != CUDASIM_NO_PEERS;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
    ENTER();
    if (peer < 0 || peer >= machine.gpus || peer == machine.current)
        return result(cudaErrorInvalidDevice);
    if (machine.peers == CUDASIM_NO_PEERS) return result(cudaErrorPeerAccessUnsupported);
    bool is_new = machine.access.insert({machine.current, peer}).second;
    return result(is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaGetLastError(void) { return std::exchange(machine.last_error, machine.sticky); }

#define WORDS(name, number, text) {number, {#name, text}},
static const std::map<int, std::pair<const char *, const char *>> words{CUDASIM_ERRORS(WORDS)};
const char *cudaGetErrorName(cudaError_t error) { return words.at(error).first; }
const char *cudaGetErrorString(cudaError_t error) { return words.at(error).second; }

// ---- memory ----------------------------------------------------------------------------------

static cudaError_t allocate_on(int gpu, void **memory, size_t bytes) {
    *memory = nullptr;
    if (capture) return result(cudaErrorStreamCaptureUnsupported);
    if (bytes == 0) return cudaSuccess;
    Allocation *a = allocate(gpu, bytes);
    if (!a) return result(cudaErrorMemoryAllocation);
    *memory = a->begin;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    return enter(__func__) ?: allocate_on(machine.current, memory, bytes);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    ENTER();
    cudaError_t error = allocate_on(HOST, memory, bytes);
    if (*memory) memset(*memory, 0xff, bytes); // NaN
    return error;
}

// Work that still uses it is the caller's mistake; but cudaFree() waits for the work of its GPU.
static cudaError_t free_on(bool host, void *memory) {
    if (!memory) return cudaSuccess;
    if (capture && !host) return result(cudaErrorStreamCaptureUnsupported);
    Allocation *a = allocation_at(memory);
    if (!a || a->begin != memory || a->freed || (a->gpu == HOST) != host)
        mistake(host ? "free once what cudaHostAlloc gave" : "free once what cudaMalloc gave",
                "cudaFree%s() of %p, which is no living allocation", host ? "Host" : "", memory);
    cudaError_t error = host ? cudaSuccess : drain_gpu(a->gpu);
    release(a);
    return error;
}
cudaError_t cudaFree(void *memory) { return enter(__func__) ?: free_on(false, memory); }
cudaError_t cudaFreeHost(void *memory) { return enter(__func__) ?: free_on(true, memory); }

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    ENTER();
    int gpu = gpu_of(stream);
    enqueue(stream, [=] {
        check_range("cudaMemset", gpu, memory, bytes, WRITE);
        move_bytes(memory, std::vector<char>(bytes, (char)value).data(), bytes);
    });
    return cudaSuccess;
}
cudaError_t cudaMemset(void *memory, int value, size_t bytes) { // on the default stream
    return cudaMemsetAsync(memory, value, bytes, nullptr);
}

constexpr int PAGEABLE = -1; // memory of the host that is not pinned

// A copy's two sides as they are when it runs.
static void copy_now(void *dst, int dst_gpu, const void *src, int src_gpu, size_t bytes) {
    if (src_gpu != PAGEABLE) check_range("a copy", src_gpu, src, bytes, READ);
    if (dst_gpu != PAGEABLE) check_range("a copy", dst_gpu, dst, bytes, WRITE);
    move_bytes(dst, src, bytes);
}

static int owner_of(const void *memory) {
    const Allocation *a = allocation_at(memory);
    return a ? a->gpu : PAGEABLE;
}
static bool is_gpu(int owner) { return owner >= 0 && owner < HOST; }

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    ENTER();
    int to = owner_of(dst), from = owner_of(src);
    if (is_gpu(to) != (kind & 1) || is_gpu(from) != kind >> 1)
        mistake("the kind says where the two pointers point to", "a copy of kind %d from %s to %s",
                kind, is_gpu(from) ? "a GPU" : "the host", is_gpu(to) ? "a GPU" : "the host");
    if (from == PAGEABLE) { // may be paged out: CUDA reads it before it returns
        std::vector<char> staged((const char *)src, (const char *)src + bytes);
        enqueue(stream, [=] { copy_now(dst, to, staged.data(), PAGEABLE, bytes); });
        return cudaSuccess;
    }
    // Until the copy has run, the host must not look. (One in a graph has not even begun.)
    bool closed = to == HOST && !is_captured(real(stream));
    if (closed) let_host_touch(dst, bytes, false);
    enqueue(stream, [=] {
        copy_now(dst, to, src, from, bytes);
        if (closed) let_host_touch(dst, bytes, true);
    });
    return to == PAGEABLE ? drain_stream(real(stream)) : cudaSuccess; // and writes it before
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
    return enter(__func__) ?: cudaMemcpyAsync(dst, src, bytes, kind, nullptr)
                           ?: drain_stream(real(nullptr));
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
    make(stream, CUstream_st{machine.current});
    add_stream(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    ENTER();
    cudaError_t error = drain_stream(stream);
    remove_stream(stream);
    destroy(stream);
    return error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return enter(__func__) ?: drain_stream(real(stream));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    ENTER();
    PointRef point = event->point;
    stream = real(stream);
    if (!point) return cudaSuccess;
    if (point->capture && !(capture && point->capture == capture->number))
        return result(cudaErrorCapturedEvent);
    if (is_captured(stream) && !point->capture) return result(cudaErrorStreamCaptureIsolation);
    if (point->capture && !is_captured(stream)) capture->branches.push_back({stream, {}});
    push(stream, nullptr, point);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return enter(__func__)
               ?: make(event, {machine.current, !(flags & cudaEventDisableTiming), nullptr});
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return enter(__func__) ?: destroy(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ENTER();
    stream = real(stream);
    if (event->gpu != stream->gpu) return result(cudaErrorInvalidResourceHandle);
    event->point = std::make_shared<Point>();
    if (is_captured(stream)) event->point->capture = capture->number;
    push(stream, nullptr, nullptr, event->point);
    return cudaSuccess;
}
// To ask moves nothing; but who asks again and again must not ask for ever.
cudaError_t cudaEventQuery(cudaEvent_t event) {
    ENTER();
    static int asked;
    PointRef point = event->point;
    if (!point) return cudaSuccess;
    if (point->capture || capture) return result(cudaErrorCapturedEvent);
    bool done = ++asked % 5000 != 0 || point->reached;
    run_until([&] { return std::exchange(done, true); });
    if (machine.sticky != cudaSuccess) return result(machine.sticky);
    if (!point->reached) return result(cudaErrorNotReady);
    learn(host_known, point->known);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ENTER();
    PointRef point = event->point;
    if (!point) return cudaSuccess;
    if (point->capture) return result(cudaErrorCapturedEvent);
    cudaError_t error = run_until([=] { return point->reached; });
    learn(host_known, point->known);
    return error;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    ENTER();
    if (!start->timed || !end->timed || !start->point || !end->point)
        return result(cudaErrorInvalidResourceHandle);
    if (!start->point->reached || !end->point->reached) return result(cudaErrorNotReady);
    std::chrono::duration<float, std::milli> between = end->point->time - start->point->time;
    *milliseconds = between.count();
    return cudaSuccess;
}

// ---- graphs ----------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    ENTER();
    static unsigned captures;
    if (capture) return result(cudaErrorStreamCaptureUnsupported);
    return make(&capture, {++captures, {{real(stream), {}}}});
}

// Whether the last that each other stream did was to record an event that another one waits for.
static bool all_joined(const CUgraph_st &graph) {
    std::set<PointRef> waited_for;
    for (auto &branch : graph.branches)
        for (auto &task : branch.tasks) waited_for.insert(task.wait_for);
    return std::all_of(graph.branches.begin() + 1, graph.branches.end(), [&](auto &branch) {
        return branch.tasks.back().reach && waited_for.count(branch.tasks.back().reach);
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    ENTER();
    if (!capture || capture->branches[0].stream != real(stream))
        return result(cudaErrorStreamCaptureUnsupported);
    *graph = std::exchange(capture, nullptr);
    return result(all_joined(**graph) ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long) {
    return enter(__func__) ?: make(executable, {*graph});
}

// Runs on streams of its own, which start after what is now on `stream` and which `stream` waits
// for: the streams it was recorded from have nothing to do with it any more.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    ENTER();
    stream = real(stream);
    PointRef begin = std::make_shared<Point>();
    push(stream, nullptr, nullptr, begin);
    std::map<PointRef, PointRef> mine; // of the recorded points
    auto renew = [&](PointRef point) {
        if (point && !mine[point]) mine[point] = std::make_shared<Point>();
        return point ? mine[point] : nullptr;
    };
    for (auto &branch : graph->branches) {
        cudaStream_t worker = new CUstream_st{branch.stream->gpu, {}, true};
        PointRef end = std::make_shared<Point>();
        add_stream(worker);
        push(worker, nullptr, begin);
        for (const Task &task : branch.tasks)
            push(worker, task.work, renew(task.wait_for), renew(task.reach));
        push(worker, nullptr, nullptr, end);
        push(stream, nullptr, end);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return enter(__func__) ?: destroy(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    return enter(__func__) ?: destroy(graph);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context) {
    ENTER();
    enqueue(stream, [=] {
        inside_host_function = true;
        function(context);
        inside_host_function = false;
    });
    return cudaSuccess;
}

// ---- launches --------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value) {
    ENTER();
    if (value < 0 || (size_t)value > MOST_SHARED_BYTES) return result(cudaErrorInvalidValue);
    machine.shared[{machine.current, kernel}] = (size_t)value;
    return cudaSuccess;
}

void cudasim_launch(const char *kernel, const void *function, dim3 grid, dim3 block,
                    size_t shared_bytes, cudaStream_t stream, void (*thread)(const void *arguments),
                    const void *arguments, size_t bytes) {
    cudaError_t error = enter("launch"), late = (cudaError_t)injected("kernel");
    size_t threads = (size_t)block.x * block.y * block.z, blocks = (size_t)grid.x * grid.y * grid.z;
    if (threads == 0 || threads > MAX_THREADS || block.z > 64 || blocks == 0 ||
        grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        error = cudaErrorInvalidConfiguration;
    int gpu = gpu_of(stream);
    if (shared_bytes > std::max<size_t>(48 << 10, machine.shared[{gpu, function}]))
        error = cudaErrorInvalidValue;
    if (gpu != machine.current) error = cudaErrorInvalidResourceHandle;
    if (result(error) != cudaSuccess) return;
    std::vector<char> copy((const char *)arguments, (const char *)arguments + bytes);
    enqueue(stream, [=] {
        if (late != cudaSuccess)
            machine.sticky = late;
        else
            run_grid(gpu, {kernel, grid, block, shared_bytes, [&] { thread(copy.data()); }});
    });
}

// ---- for tests -------------------------------------------------------------------------------

void cudasim_machine(int gpus, unsigned seed, CudasimPeers peers) {
    if (live)
        mistake("close the devices first",
                "another machine, while %zu things of the old one are in use", live);
    for (cudaStream_t stream : streams) delete stream; // default ones, and what a lost GPU left
    streams.clear();
    std::fill_n(default_streams, CUDASIM_MAX_GPUS, nullptr);
    std::vector<int> visible = visible_gpus(gpus);
    machine = {visible, (int)visible.size(), peers};
    random_choice.seed(seed);
}

void cudasim_fail(const char *function, int n, int error) {
    std::lock_guard<std::mutex> lock(calls_mutex);
    Calls &c = calls[function];
    c.fail_at = n == 0 ? 0 : c.made + n;
    c.error = error;
}

int cudasim_calls(const char *function) {
    std::lock_guard<std::mutex> lock(calls_mutex);
    return calls[function].made;
}

size_t cudasim_live(void) { return live; }
