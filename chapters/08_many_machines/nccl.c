// nccl.c: GPUs that exchange by NVIDIA's NCCL, which knows NVLink, PCIe and the network.
//
// The library is loaded while the program runs. What we use of it is declared as in its header. An
// NCCL collective is a kernel that waits on the GPU, with no time limit, until all ranks have
// enqueued it. NCCL promises no order of additions. Source: nccl.h of NCCL 2.14; NCCL's user guide,
// "Creating a Communicator"; llm.c's llmc/zero.cuh.
#include "group.h"

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
        die("NCCL_DEBUG=INFO in the environment says what NCCL did; --backend cpu does "
            "without it",
            "%s: %s", what, nccl.GetErrorString(status));
}

// Rank 0 creates an id, and MPI sends it to the others. Then all open the communicator together.
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

// For the watch. Waiting for the tensor's event has made its GPU the current one, as NCCL wants it.
static void begin(const char *what, ProcessGroup *g) {
    if (!g->nccl) open_communicator(g);
    enqueue_enter(g, what);
}

// The tensor's memory is in use until what has been enqueued by now is done.
static void end(Queue *queue, const Tensor *t) {
    enqueue_leave();
    queue_uses(queue, t->data);
}

void nccl_all_reduce(ProcessGroup *g, Tensor *t) {
    Queue *second = comm_queue(t->device);        // a second stream of this GPU
    queue_wait(second, device_record(t->device)); // the sum waits for backward's kernels
    begin("all_reduce", g);
    int error = nccl.AllReduce(t->data, t->data, numel(t), FLOAT32, SUM, g->nccl,
                               queue_native(second)); // only enqueued: the CPU does not wait
    check(error, "ncclAllReduce");
    end(second, t);
    device_wait(t->device, queue_record(second)); // the update waits for the sum
}

void nccl_broadcast(ProcessGroup *g, Tensor *t, int root) { // in the same way
    Queue *second = comm_queue(t->device);
    queue_wait(second, device_record(t->device));
    begin("broadcast", g);
    check(nccl.Broadcast(t->data, t->data, numel(t), FLOAT32, root, g->nccl, queue_native(second)),
          "ncclBroadcast");
    end(second, t);
    device_wait(t->device, queue_record(second));
}
