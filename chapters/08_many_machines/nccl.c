// nccl.c: GPUs that exchange by NVIDIA's NCCL, which knows NVLink, PCIe and the network.
//
// The library is loaded while the program runs, so a program starts where there is none. All that
// we use of it is declared here, as in its header.
//
// A collective of NCCL is a kernel on a stream. It waits on the GPU, for ever, until all ranks have
// enqueued it, so the watch looks after it (watch.h). NCCL promises no order of additions:
// compare its sums with a tolerance.
//
// Source: nccl.h of NCCL 2.14; NCCL's user guide, "Creating a Communicator";
// llm.c's llmc/zero.cuh does it the same way.
#include "behind/group.h"

#include "common/base/error.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef void *Comm, *Stream;
typedef struct UniqueId {
    char internal[128];
} UniqueId;
enum { SUCCESS = 0, FLOAT32 = 7, SUM = 0 };

static struct {
    int (*GetUniqueId)(UniqueId *id);
    int (*CommInitRank)(Comm *comm, int ranks, UniqueId id, int rank);
    int (*CommDestroy)(Comm comm);
    const char *(*GetErrorString)(int status);
    int (*AllReduce)(const void *send, void *receive, size_t n, int type, int op, Comm, Stream);
    int (*Broadcast)(const void *send, void *receive, size_t n, int type, int root, Comm, Stream);
} nccl;

const char *nccl_obstacle(void) {
    static const struct {
        const char *name;
        void *pointer;
    } functions[] = {
        {"ncclGetUniqueId", &nccl.GetUniqueId}, {"ncclCommInitRank", &nccl.CommInitRank},
        {"ncclCommDestroy", &nccl.CommDestroy}, {"ncclGetErrorString", &nccl.GetErrorString},
        {"ncclAllReduce", &nccl.AllReduce},     {"ncclBroadcast", &nccl.Broadcast},
    };
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (!library) return "libnccl.so.2 cannot be loaded";
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        void *found = dlsym(library, functions[f].name);
        if (!found) return "libnccl.so.2 lacks a function";
        memcpy(functions[f].pointer, &found, sizeof found);
    }
    return NULL;
}

static void check(int status, const char *what) {
    if (status != SUCCESS)
        die("NCCL_DEBUG=INFO in the environment says what NCCL did; --collective sharded does "
            "without it",
            "%s: %s", what, nccl.GetErrorString(status));
}

// One rank makes an id, and MPI brings it to the others. Then all open the communicator together.
static void open_communicator(ProcessGroup *g) {
    UniqueId id = {{0}}, *ids = xmalloc(sizeof id * (size_t)g->size);
    if (g->rank == 0) check(nccl.GetUniqueId(&id), "ncclGetUniqueId");
    group_gather("nccl_id", g, &id, sizeof id, ids);
    enqueue_enter(g, "nccl_init");
    check(nccl.CommInitRank(&g->nccl, g->size, ids[0], g->rank), "ncclCommInitRank");
    enqueue_leave();
    free(ids);
}

void nccl_close(ProcessGroup *g) {
    if (g->nccl) check(nccl.CommDestroy(g->nccl), "ncclCommDestroy");
    g->nccl = NULL;
}

// ## A sum, behind an event
//
// Backward's kernels are on the compute stream. The sum goes to a second stream, where it waits for
// an event after these kernels, and what comes next on the compute stream waits for the sum.
void behind_an_event(const char *what, NcclCollective *call, ProcessGroup *g, Tensor *t, int root) {
    Queue *queue = comm_queue(t->device);
    if (numel(t) == 0 || g->size == 1) return;
    queue_wait(queue, device_record(t->device)); // (this also makes the GPU the current one)
    if (!g->nccl) open_communicator(g);
    enqueue_enter(g, what);
    check(call(g, t->data, numel(t), root, queue_native(queue)), what);
    enqueue_leave();
    queue_uses(queue, t->data);
    device_wait(t->device, queue_record(queue));
}

int nccl_all_reduce(ProcessGroup *g, float *data, size_t n, int root, void *stream) {
    (void)root;
    return nccl.AllReduce(data, data, n, FLOAT32, SUM, g->nccl, stream);
}

int nccl_broadcast(ProcessGroup *g, float *data, size_t n, int root, void *stream) {
    return nccl.Broadcast(data, data, n, FLOAT32, root, g->nccl, stream);
}
