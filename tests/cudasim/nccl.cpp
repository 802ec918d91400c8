// nccl.cpp: the functions of NCCL that the project uses, for simulated GPUs.
//
// A process has one rank, a GPU; the others are processes on this machine. What ranks give each
// other is in memory that all of them map: each has a seat there, where it leaves which call it
// makes, with what, and how far it is. So NCCL's kernels become work of a stream that waits, as
// theirs does, for the others, however long that takes.
//
// It is strict where NCCL is not. Where NCCL would hang or add up nonsense, it ends the program
// with a message: ranks that make different calls or calls of different sizes; collectives in two
// streams without an order; another GPU's memory.
#include "simulator.h"

#include <nccl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace cudasim;

// ---- what all ranks share --------------------------------------------------------------------

enum What { ALL_REDUCE, BROADCAST };
static const char *const names[] = {"ncclAllReduce", "ncclBroadcast"};

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
    Seat seats[MOST_RANKS];
    float data[MOST_RANKS][MOST_FLOATS];
};

struct ncclComm {
    Clique *clique;
    int rank, ranks, gpu;
    unsigned long called = 0; // collectives, so far
    Seat &seat() const { return clique->seats[rank]; }
};

// A failure on demand.
#define ENTER()                                                                                    \
    if (int error_ = injected(__func__)) return (ncclResult_t)error_

// ---- communicators ---------------------------------------------------------------------------

// The memory has no name: it is gone when no process maps it any more.
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    ENTER();
    int file = memfd_create("cudasim-nccl", 0);
    if (file < 0 || ftruncate(file, sizeof(Clique)) != 0) return ncclSystemError;
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

// Waits until all ranks are here.
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
    ENTER();
    if (ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks) return ncclInvalidArgument;
    Clique *clique = map_clique(id.internal);
    if (!clique) return ncclSystemError;
    *comm = new ncclComm{clique, rank, ranks, current_gpu()};
    (*comm)->seat().gpu = machines_number_of(current_gpu());
    if ((*comm)->seat().taken.exchange(1)) return ncclInvalidUsage;
    live++;
    const Seat *seats = clique->seats;
    for (int r = 0; r < ranks; r++)
        while (!seats[r].taken) usleep(20);
    for (int r = 0; r < ranks; r++)
        if (r != rank && seats[r].gpu == seats[rank].gpu) return ncclInvalidUsage;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    ENTER();
    munmap(comm->clique, sizeof(Clique));
    delete comm;
    live--;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {"no error",       "unhandled cuda error", "system error",
                                        "internal error", "invalid argument",     "invalid usage",
                                        "remote error"};
    return texts[result];
}

// ---- collectives, as they run ----------------------------------------------------------------

struct Local { // this process's rank, in one call
    ncclComm_t comm;
    Call call;
    unsigned long number;
    const float *send;
    float *receive;
    cudaStream_t stream;
};

template <class Holds> static void wait_for_all(const ncclComm *comm, Holds holds) {
    for (int r = 0; r < comm->ranks; r++)
        while (!holds(comm->clique->seats[r])) usleep(20);
}

static std::string text_of(const Call &call) {
    return std::string(names[call.what]) + " of " + std::to_string(call.count) + " numbers" +
           (call.what == ALL_REDUCE ? "" : ", root " + std::to_string(call.root));
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
    std::vector<float> result(l.call.count);
    for (size_t i = 0; i < result.size(); i++)
        result[i] = l.call.what == BROADCAST ? l.comm->clique->data[l.call.root][i] : sum_at(l, i);
    check_range(names[l.call.what], l.comm->gpu, l.receive, result.size() * sizeof(float), WRITE);
    move_bytes(l.receive, result.data(), result.size() * sizeof(float));
}

static void run(const Local &l) {
    Seat &seat = l.comm->seat();
    size_t bytes = l.call.count * sizeof(float);
    if (seat.done != l.number - 1)
        mistake("put them on one stream, or an event between them",
                "two collectives of a communicator in two streams without an order");
    wait_for_all(l.comm, [=](const Seat &s) { return s.done >= l.number - 1; });
    check_range(names[l.call.what], l.comm->gpu, l.send, bytes, READ);
    move_bytes(l.comm->clique->data[l.comm->rank], l.send, bytes);
    seat.call = l.call;
    seat.posted = l.number;
    wait_for_all(l.comm, [=](const Seat &s) { return s.posted >= l.number; });
    check_that_all_call_the_same(l.comm);
    take_result(l);
    seat.done = l.number;
}

// ---- calls -----------------------------------------------------------------------------------

static ncclResult_t call(What what, const void *send, void *receive, size_t count,
                         ncclDataType_t type, int op, int root, ncclComm_t comm,
                         cudaStream_t stream) {
    Local local{comm,  {what, count, root}, comm->called + 1, (const float *)send, (float *)receive,
                stream};
    if (type != ncclFloat || op != ncclSum || root < 0 || root >= comm->ranks || count == 0 ||
        count > MOST_FLOATS)
        return ncclInvalidArgument;
    comm->called++;
    enqueue(stream, [=] { run(local); });
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

// ---- loading it ------------------------------------------------------------------------------

void *cudasim::nccl_function(const char *name) {
#define FUNCTION(function)                                                                         \
    { #function, (void *)function }
    static const std::map<std::string, void *> functions{
        FUNCTION(ncclGetUniqueId),    FUNCTION(ncclCommInitRank), FUNCTION(ncclCommDestroy),
        FUNCTION(ncclGetErrorString), FUNCTION(ncclAllReduce),    FUNCTION(ncclBroadcast)};
    auto found = functions.find(name);
    return found == functions.end() ? nullptr : found->second;
}
