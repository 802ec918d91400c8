// nccl.cpp: the functions of NCCL that the project uses, for simulated GPUs.
//
// A rank is a GPU of this process or of another one on this machine. What ranks give each other
// lies in memory that all of them map: each has a seat there, where it leaves which call it makes,
// with what, and how far it is. So NCCL's kernels become work of a stream that waits, as theirs
// does, for the others, however long that takes, unless ncclCommAbort() ends it.
//
// It is strict where NCCL is not. Where NCCL would hang or add up nonsense, it ends the program
// with a message: ranks that make different calls or of different sizes; a device of this process
// that is missing in a group; a communicator that is used before it was asked whether the last call
// is done; collectives in two streams without an order; buffers that overlap in the wrong way.
#include "simulator.h"

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cudasim;

// ---- what all ranks share --------------------------------------------------------------------

enum What { ALL_REDUCE, BROADCAST, REDUCE, REDUCE_SCATTER, ALL_GATHER };
static const char *const names[] = {"ncclAllReduce", "ncclBroadcast", "ncclReduce",
                                    "ncclReduceScatter", "ncclAllGather"};

struct Call { // of one rank
    What what;
    size_t count;
    int root;
};

constexpr int MOST_RANKS = 16;
constexpr size_t MOST_FLOATS = (1 << 21) + 64; // of a call

struct Seat {
    std::atomic<int> taken;
    int gpu;
    Call call;                               // the newest,
    std::atomic<unsigned long> posted, done; // and the numbers of calls; the first is 1
};

struct Clique {
    std::atomic<int> ranks; // 0: nobody is here yet
    Seat seats[MOST_RANKS];
    float data[MOST_RANKS][MOST_FLOATS];
};

static std::recursive_mutex mutex; // of all that follows: the program may abort from another thread
static std::string last_error;
static int polls = 3; // see cudasim_nccl_polls()
static bool tells;    // see cudasim_nccl_tell()

struct ncclComm {
    Clique *clique;
    std::string id;
    int rank, ranks, gpu;
    std::thread::id owner = std::this_thread::get_id();
    enum { JOINING, READY, CALLING, FINALIZING, FINALIZED } state = JOINING;
    int polls_left = polls;
    ncclResult_t error = ncclSuccess;
    unsigned long called = 0; // collectives, so far
    std::atomic<bool> aborted{false};
    std::shared_ptr<struct Group> calling = nullptr; // what is in progress
    Seat &seat() const { return clique->seats[rank]; }
};
static std::vector<ncclComm_t> comms; // of this process

static ncclResult_t failed(ncclResult_t error, const char *text) {
    last_error = text;
    return error;
}

// Each function begins so: a failure on demand, and one call at a time.
#define ENTER()                                                                                    \
    std::lock_guard<std::recursive_mutex> lock(mutex);                                             \
    if (int error_ = injected(__func__)) return failed((ncclResult_t)error_, "as the test wants")

static void must_be_free(ncclComm_t comm, const char *function) {
    if (comm->aborted)
        mistake("after ncclCommAbort() there is nothing more to call", "%s() of what was aborted",
                function);
    if (comm->state != ncclComm::READY)
        mistake("ask ncclCommGetAsyncError() until it says ncclSuccess",
                "%s() while the communicator's last call is in progress", function);
}

// ---- communicators ---------------------------------------------------------------------------

ncclResult_t ncclGetVersion(int *version) {
    ENTER();
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

// The memory has no name: it is gone when nobody has it any more.
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    ENTER();
    int file = memfd_create("cudasim-nccl", 0);
    if (file < 0 || ftruncate(file, sizeof(Clique)) != 0)
        return failed(ncclSystemError, "no shared memory");
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", (int)getpid(), file);
    return ncclSuccess;
}

static Clique *map_clique(const char *path) {
    int file = open(path, O_RDWR);
    if (file < 0) return nullptr;
    void *memory = mmap(nullptr, sizeof(Clique), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : (Clique *)memory;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
    ENTER();
    if (!comm || ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks ||
        config->size != sizeof *config || config->magic != 0xcafebeef)
        return failed(ncclInvalidArgument, "an argument of ncclCommInitRankConfig()");
    if (config->blocking != 0)
        mistake("config.blocking = 0", "communicators that wait are not simulated");
    Clique *clique = map_clique(id.internal);
    if (!clique) return failed(ncclSystemError, "nobody is at this id");
    int nobody = 0;
    if (!clique->ranks.compare_exchange_strong(nobody, ranks) && nobody != ranks)
        return failed(ncclInvalidArgument, "ranks do not agree on how many they are");
    *comm = new ncclComm{clique, id.internal, rank, ranks, current_gpu()};
    (*comm)->seat().gpu = machines_number_of(current_gpu());
    if ((*comm)->seat().taken.exchange(1)) return failed(ncclInvalidUsage, "one rank, twice");
    comms.push_back(*comm);
    live++;
    return ncclInProgress;
}

static ncclResult_t joined(const ncclComm *comm) {
    const Seat *seats = comm->clique->seats;
    for (int r = 0; r < comm->ranks; r++)
        if (!seats[r].taken) return ncclInProgress;
    for (int r = 0; r < comm->ranks; r++) // (all are of one machine)
        for (int other = 0; other < r; other++)
            if (seats[r].gpu == seats[other].gpu)
                return failed(ncclInvalidUsage, "Duplicate GPU detected");
    return ncclSuccess;
}

// Ends only what runs: the process is about to end, and work may still look at it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    ENTER();
    if (comm->aborted) mistake("once is enough", "ncclCommAbort() of what was aborted");
    comm->aborted = true;
    if (tells) fprintf(stderr, "cudasim: rank %d of %d aborted\n", comm->rank, comm->ranks);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    ENTER();
    must_be_free(comm, __func__);
    comm->state = ncclComm::FINALIZING;
    comm->polls_left = polls;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    ENTER();
    if (comm->state != ncclComm::FINALIZED)
        mistake("ncclCommFinalize() comes first, and ncclCommGetAsyncError() until it is done",
                "ncclCommDestroy() of a communicator that was not finalized");
    comms.erase(std::find(comms.begin(), comms.end(), comm));
    munmap(comm->clique, sizeof(Clique));
    delete comm;
    live--;
    return ncclInProgress; // as NCCL says of communicators that do not wait
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return texts[result];
}
const char *ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

// ---- collectives, as they run ----------------------------------------------------------------

struct Local { // a rank of this process, in one call
    ncclComm_t comm;
    Call call;
    unsigned long number;
    const float *send;
    float *receive;
    cudaStream_t stream;

    size_t sent() const { // floats
        bool gives = call.what != BROADCAST || comm->rank == call.root;
        return !gives ? 0 : call.what == REDUCE_SCATTER ? call.count * comm->ranks : call.count;
    }
    size_t received() const {
        bool gets = call.what != REDUCE || comm->rank == call.root;
        return !gets ? 0 : call.what == ALL_GATHER ? call.count * comm->ranks : call.count;
    }
};
using Locals = std::vector<Local>; // those of one call

// Waits until it holds for all ranks. False: aborted.
template <class Holds> static bool wait_for_all(const ncclComm *comm, Holds holds) {
    for (int r = 0; r < comm->ranks; r++)
        while (!holds(comm->clique->seats[r])) {
            if (comm->aborted) return false;
            usleep(20);
        }
    return !comm->aborted;
}

static std::string text_of(const Call &call) {
    return std::string(names[call.what]) + " of " + std::to_string(call.count) + " numbers" +
           (call.what == BROADCAST || call.what == REDUCE ? ", root " + std::to_string(call.root)
                                                          : "");
}

static void check_that_all_call_the_same(const ncclComm *comm) {
    const Call &first = comm->clique->seats[0].call;
    for (int r = 1; r < comm->ranks; r++) {
        const Call &other = comm->clique->seats[r].call;
        if (first.what != other.what || first.count != other.count || first.root != other.root)
            mistake("all ranks have to make the same calls in the same order",
                    "NCCL's rank 0 calls %s, its rank %d %s", text_of(first).c_str(), r,
                    text_of(other).c_str());
    }
}

// In an order that nobody promises, but the same for all.
static float sum_at(const Local &l, size_t i) {
    int ranks = l.comm->ranks, first = (int)(l.number % ranks);
    float sum = l.comm->clique->data[first][i];
    for (int turn = 1; turn < ranks; turn++)
        sum += l.comm->clique->data[(first + ranks - turn) % ranks][i];
    return sum;
}

static void take_result(const Local &l) {
    const ncclComm *comm = l.comm;
    const auto &data = comm->clique->data;
    std::vector<float> result(l.received());
    size_t first = l.call.what == REDUCE_SCATTER ? comm->rank * l.call.count : 0;
    for (size_t i = 0; i < result.size(); i++)
        result[i] = l.call.what == BROADCAST    ? data[l.call.root][i]
                    : l.call.what == ALL_GATHER ? data[i / l.call.count][i % l.call.count]
                                                : sum_at(l, first + i);
    check_range(names[l.call.what], comm->gpu, l.receive, result.size() * sizeof(float), WRITE);
    move_bytes(l.receive, result.data(), result.size() * sizeof(float));
}

static void give(const Local &l) {
    Seat &seat = l.comm->seat();
    size_t bytes = l.sent() * sizeof(float);
    check_range(names[l.call.what], l.comm->gpu, l.send, bytes, READ);
    move_bytes(l.comm->clique->data[l.comm->rank], l.send, bytes);
    seat.call = l.call;
    seat.posted = l.number;
}

// One call, of all ranks of this process.
static void run(const Locals &locals) {
    const ncclComm *comm = locals[0].comm;
    unsigned long number = locals[0].number;
    if (comm->seat().done != number - 1 && !comm->aborted)
        mistake("put them on one stream, or an event between them",
                "two collectives of a communicator in two streams without an order");
    if (!wait_for_all(comm, [=](const Seat &s) { return s.done >= number - 1; })) return;
    for (const Local &l : locals) give(l);
    if (!wait_for_all(comm, [=](const Seat &s) { return s.posted >= number; })) return;
    check_that_all_call_the_same(comm);
    for (const Local &l : locals) take_result(l);
    for (const Local &l : locals) l.comm->seat().done = number;
}

// ---- groups ----------------------------------------------------------------------------------

// The calls between ncclGroupStart() and ncclGroupEnd(). They are put onto the streams when the
// program asks for the last time whether they are: then, and not before, it may go on.
struct Group {
    std::vector<Locals> calls;
    bool issued = false;
    void add(const Local &local);
    void issue();
};
static int depth;
static std::shared_ptr<Group> open_group;

void Group::add(const Local &local) {
    for (Locals &locals : calls)
        if (locals[0].comm->id == local.comm->id && locals[0].number == local.number) {
            locals.push_back(local);
            return;
        }
    calls.push_back({local});
}

static void check_that_none_is_missing(const Locals &locals) {
    size_t here = 0;
    for (ncclComm_t comm : comms) here += comm->id == locals[0].comm->id;
    if (locals.size() != here)
        mistake("put the calls for all devices of a process between ncclGroupStart() and "
                "ncclGroupEnd()",
                "%s for %zu of this process's %zu devices", names[locals[0].call.what],
                locals.size(), here);
}

// The first one's stream does the work of all, after what is on theirs, and they wait for it.
void Group::issue() {
    if (issued) return;
    issued = true;
    for (const Locals &locals : calls) {
        cudaStream_t first = locals[0].stream;
        check_that_none_is_missing(locals);
        for (const Local &l : locals)
            if (l.stream != first) order(l.stream, first);
        enqueue(first, [=] { run(locals); });
        for (const Local &l : locals)
            if (l.stream != first) order(first, l.stream);
    }
}

ncclResult_t ncclGroupStart(void) {
    ENTER();
    if (depth++ == 0) open_group = std::make_shared<Group>();
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    ENTER();
    if (depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
    if (--depth > 0) return ncclSuccess;
    for (const Locals &locals : open_group->calls)
        for (const Local &l : locals) {
            l.comm->state = ncclComm::CALLING;
            l.comm->polls_left = polls;
            l.comm->calling = open_group;
        }
    open_group = nullptr;
    return ncclInProgress;
}

static bool overlap_is_right(const Local &l) {
    const float *send_end = l.send + l.sent(), *receive_end = l.receive + l.received();
    if (l.sent() == 0 || l.received() == 0 || l.send >= receive_end || l.receive >= send_end)
        return true; // none
    size_t own = l.comm->rank * l.call.count;
    return l.call.what == ALL_GATHER       ? l.send == l.receive + own
           : l.call.what == REDUCE_SCATTER ? l.receive == l.send + own
                                           : l.send == l.receive;
}

static ncclResult_t call(What what, const void *send, void *receive, size_t count,
                         ncclDataType_t type, int op, int root, ncclComm_t comm,
                         cudaStream_t stream) {
    if (depth == 0)
        mistake("ncclGroupStart() comes before, ncclGroupEnd() after it",
                "%s() outside of a group: calls of this kind are not simulated", names[what]);
    must_be_free(comm, names[what]);
    Local local{comm,  {what, count, root}, comm->called + 1, (const float *)send, (float *)receive,
                stream};
    if (type != ncclFloat || op != ncclSum || root < 0 || root >= comm->ranks || count == 0 ||
        std::max(local.sent(), local.received()) > MOST_FLOATS)
        return failed(ncclInvalidArgument, names[what]);
    if (gpu_of(stream) != comm->gpu)
        mistake("each communicator has a GPU, and a stream of that", "%s() on a stream of GPU %d",
                names[what], gpu_of(stream));
    if (!overlap_is_right(local))
        mistake("in place is: where the result of this rank belongs",
                "%s() whose buffers overlap in another way than in place", names[what]);
    comm->called++;
    open_group->add(local);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    ENTER();
    return call(ALL_REDUCE, send, receive, count, type, op, 0, comm, stream);
}
ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
    ENTER();
    return call(BROADCAST, send, receive, count, type, ncclSum, root, comm, stream);
}
ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    ENTER();
    return call(REDUCE, send, receive, count, type, op, root, comm, stream);
}
ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    ENTER();
    return call(REDUCE_SCATTER, send, receive, count, type, op, 0, comm, stream);
}
ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    ENTER();
    return call(ALL_GATHER, send, receive, count, type, ncclSum, 0, comm, stream);
}

// ---- is it done? -----------------------------------------------------------------------------

// Only the thread that calls moves things on: the streams are its own.
static ncclResult_t move_on(ncclComm_t comm) {
    if (polls < 0 || --comm->polls_left > 0) return ncclInProgress;
    if (comm->state == ncclComm::JOINING) {
        ncclResult_t result = joined(comm);
        if (result != ncclSuccess) return result;
    }
    bool finalizing = comm->state == ncclComm::FINALIZING;
    if (finalizing && comm->seat().done != comm->called) return ncclInProgress;
    if (comm->state == ncclComm::CALLING) comm->calling->issue();
    comm->calling = nullptr;
    comm->state = finalizing ? ncclComm::FINALIZED : ncclComm::READY;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    int wanted = injected(__func__);
    if (comm->aborted) mistake("it is gone", "ncclCommGetAsyncError() of what was aborted");
    if (wanted) comm->error = failed((ncclResult_t)wanted, "as the test wants");
    bool is_done = comm->state == ncclComm::READY || comm->state == ncclComm::FINALIZED;
    bool is_mine = comm->owner == std::this_thread::get_id();
    *error = comm->error ? comm->error : is_done ? ncclSuccess : ncclInProgress;
    if (*error == ncclInProgress && is_mine) *error = move_on(comm);
    if (*error != ncclInProgress) comm->error = *error; // what is wrong stays wrong
    return ncclSuccess;
}

// ---- for tests -------------------------------------------------------------------------------

void cudasim_nccl_polls(int n) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    polls = n;
}
void cudasim_nccl_tell(void) { tells = true; }

// ---- loading it ------------------------------------------------------------------------------

void *cudasim::nccl_function(const char *name) {
#define FUNCTION(function)                                                                         \
    { #function, (void *)function }
    static const std::map<std::string, void *> functions{
        FUNCTION(ncclGetVersion),    FUNCTION(ncclGetUniqueId),
        FUNCTION(ncclCommFinalize),  FUNCTION(ncclCommInitRankConfig),
        FUNCTION(ncclCommDestroy),   FUNCTION(ncclCommAbort),
        FUNCTION(ncclGetLastError),  FUNCTION(ncclCommGetAsyncError),
        FUNCTION(ncclGroupStart),    FUNCTION(ncclGetErrorString),
        FUNCTION(ncclGroupEnd),      FUNCTION(ncclAllReduce),
        FUNCTION(ncclBroadcast),     FUNCTION(ncclReduce),
        FUNCTION(ncclReduceScatter), FUNCTION(ncclAllGather)};
    auto found = functions.find(name);
    return found == functions.end() ? nullptr : found->second;
}
