// nccl.c: see nccl.h. All of NCCL that this project uses is in this file.
//
// Its communicators are of the kind that never keeps the host waiting (`blocking` is 0): a call may
// return "in progress", and we ask until it is done, with a deadline. So a rank that does not come
// while they are opened, or whose host is gone, ends the job with a message and not with a hang.
#include "nccl.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/range.h"
#include "kernels/cuda/cuda.h"
#include "process_group.h"
#include "watch.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(ncclUniqueId) == NCCL_ID_BYTES, "as nccl.h says");

// ## The library

#define SONAME "libnccl.so.2"

// The functions we use, by the names that they have in the library.
#define NCCL_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(ncclGetVersion)                                                                       \
    FUNCTION(ncclGetUniqueId)                                                                      \
    FUNCTION(ncclCommInitRankConfig)                                                               \
    FUNCTION(ncclCommFinalize)                                                                     \
    FUNCTION(ncclCommDestroy)                                                                      \
    FUNCTION(ncclCommAbort)                                                                        \
    FUNCTION(ncclCommGetAsyncError)                                                                \
    FUNCTION(ncclGetErrorString)                                                                   \
    FUNCTION(ncclGetLastError)                                                                     \
    FUNCTION(ncclGroupStart)                                                                       \
    FUNCTION(ncclGroupEnd)                                                                         \
    FUNCTION(ncclAllReduce)                                                                        \
    FUNCTION(ncclBroadcast)                                                                        \
    FUNCTION(ncclReduce)                                                                           \
    FUNCTION(ncclReduceScatter)                                                                    \
    FUNCTION(ncclAllGather)

static struct {
#define NCCL_POINTER(name) __typeof__(&name) name;
    NCCL_FUNCTIONS(NCCL_POINTER)
#undef NCCL_POINTER
} nccl;

// Returns why there is none; NULL: it is there. Where dlopen() looks is said in cublas_load.cu.
static const char *load(void) {
    static char why[200];
    static void *library;
    if (library) return NULL;
    void *opened = dlopen(SONAME, RTLD_LAZY | RTLD_LOCAL);
    if (!opened) {
        snprintf(why, sizeof why, "it cannot be loaded: %s", dlerror());
        return why;
    }
#define NCCL_FIND(name)                                                                            \
    nccl.name = (__typeof__(&name))dlsym(opened, #name);                                           \
    if (!nccl.name) return SONAME " has no " #name ": it is older than 2.14";
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    library = opened;
    return NULL;
}

// ## What this process offers

// Its computer's kernel has a number that no other has, in whatever container we are.
static void name_computer(char name[], size_t size) {
    name[0] = '\0';
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(name, (int)size, file)) name[0] = '\0';
    if (file) fclose(file);
    name[strcspn(name, "\n")] = '\0';
    if (!name[0]) gethostname(name, size - 1);
}

char *nccl_offer(Device *const devices[], int n) {
    enum { NAME = 160 };
    char computer[128] = "", bus[32];
    int version = 0;
    for (int i = 0; i < n; i++)
        if (device_gpu(devices[i]) < 0) return xprintf("!%s is no GPU", device_name(devices[i]));
    const char *why = load();
    if (why) return xprintf("!%s", why);
    if (nccl.ncclGetVersion(&version) != ncclSuccess) return xstrdup("!it has no version");
    name_computer(computer, sizeof computer);
    size_t size = 64 + NAME * (size_t)n;
    char *offer = xmalloc(size);
    // (Of 2.14 and later ones: 22809 is 2.28.9.)
    int used =
        snprintf(offer, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    for (int i = 0; i < n; i++) {
        CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, device_gpu(devices[i])));
        used += snprintf(offer + used, size - (size_t)used, " %s/%s", computer, bus);
    }
    return offer;
}

// ## The groups that are open
//
// The host thread enqueues, the watch's thread asks for errors and aborts. Only one of them calls
// the library at a time.

struct NcclGroup {
    int n, first, all; // devices of this process: first .. first + n-1 of all
    ncclComm_t comms[MAX_LOCAL_DEVICES];
    cudaStream_t streams[MAX_LOCAL_DEVICES];
    NcclGroup *next;
};

static const char *me;
static double timeout;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // of these three, and of calls
static NcclGroup *groups;
static bool ending;  // somebody is about to end the job
static bool aborted; // there are no communicators any more

void nccl_begin(const char *who, double seconds) {
    me = who;
    timeout = seconds;
}

// When the job is being ended, nobody calls the library any more.
static void calls_begin(void) {
    pthread_mutex_lock(&mutex);
    while (ending || aborted) {
        pthread_mutex_unlock(&mutex);
        pause();
        pthread_mutex_lock(&mutex);
    }
}
static void calls_end(void) { pthread_mutex_unlock(&mutex); }

void nccl_abort(void) {
    pthread_mutex_lock(&mutex);
    for (NcclGroup *g = groups; g && !aborted; g = g->next)
        for (int i = 0; i < g->n; i++)
            if (g->comms[i]) nccl.ncclCommAbort(g->comms[i]);
    aborted = true;
    pthread_mutex_unlock(&mutex);
}

// ## When something goes wrong

static const char *hint_for(ncclResult_t status) {
    switch (status) {
    case ncclRemoteError:
        return "another rank has ended, or the network to it is gone: see what it says";
    case ncclUnhandledCudaError:
        return "is a GPU's memory full, or the driver older than NCCL? See nvidia-smi";
    case ncclInvalidUsage:
        return "do all ranks make the same collectives, each on a GPU of its own? NCCL_DEBUG=WARN "
               "says more";
    case ncclSystemError:
        return "is the network that NCCL chose the right one? NCCL_DEBUG=INFO says which it is, "
               "NCCL_SOCKET_IFNAME chooses another";
    default:
        return "NCCL_DEBUG=INFO in the environment says what NCCL did";
    }
}

static void describe(char text[], size_t size, const char *what, ncclResult_t status) {
    const char *detail = nccl.ncclGetLastError(NULL);
    snprintf(text, size, "NCCL on %s: %s: %s%s%s", me, what, nccl.ncclGetErrorString(status),
             detail && *detail ? ": " : "", detail ? detail : "");
    for (char *at = text; *at; at++) // it is to be one line
        if (*at == '\n') *at = at[1] ? ' ' : '\0';
}

static _Noreturn void fail(const char *what, ncclResult_t status) {
    char text[400];
    calls_begin();
    ending = true;
    describe(text, sizeof text, what, status);
    calls_end();
    watch_end_all(text, hint_for(status));
}

static _Noreturn void too_late(const char *what) {
    char text[400];
    calls_begin();
    ending = true;
    calls_end();
    snprintf(text, sizeof text, "NCCL on %s: %s is not done after %.3g s", me, what, timeout);
    watch_end_all(text, "does a rank not come, or can its host not be reached? NCCL_DEBUG=INFO "
                        "says which network NCCL uses, NCCL_SOCKET_IFNAME chooses another");
}

static bool is_wrong(ncclResult_t status) {
    return status != ncclSuccess && status != ncclInProgress;
}

// Of several: what is wrong, else what is in progress.
static ncclResult_t worse(ncclResult_t a, ncclResult_t b) {
    return is_wrong(a) || b == ncclSuccess ? a : b;
}

static ncclResult_t status_of(const NcclGroup *g) {
    ncclResult_t all = ncclSuccess;
    for (int i = 0; i < g->n; i++) {
        ncclResult_t one = ncclSuccess;
        if (!g->comms[i]) continue;
        ncclResult_t asked = nccl.ncclCommGetAsyncError(g->comms[i], &one);
        all = worse(all, worse(asked, one));
    }
    return all;
}

// (The host thread is not kept waiting by this one, nor this one by it.)
const char *nccl_error(void) {
    static char text[400];
    const char *error = NULL;
    if (pthread_mutex_trylock(&mutex) != 0) return NULL;
    for (const NcclGroup *g = groups; g && !ending && !aborted && !error; g = g->next) {
        ncclResult_t status = status_of(g);
        if (!is_wrong(status)) continue;
        describe(text, sizeof text, "while GPUs exchange", status);
        error = text;
    }
    if (error) ending = true;
    pthread_mutex_unlock(&mutex);
    return error;
}

// ## Calls, and until they are done

static void wait_a_little(int asked) {
    enum { AT_ONCE = 1000 };
    if (asked < AT_ONCE)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

// Until what was called is done: ranks are connected, or kernels are on the streams (not: they have
// run). Before that nothing may be enqueued behind it. The watch, which can name the rank that does
// not come, has the first word.
static void finish(const NcclGroup *g, const char *what, ncclResult_t status) {
    const double AFTER_THE_WATCH = 1;
    double until = seconds_now() + timeout + AFTER_THE_WATCH;
    for (int asked = 0; !is_wrong(status); asked++) {
        calls_begin();
        status = status_of(g);
        calls_end();
        if (status == ncclSuccess) return;
        if (seconds_now() > until) too_late(what);
        wait_a_little(asked);
    }
    fail(what, status);
}

void nccl_new_id(char id[NCCL_ID_BYTES]) {
    ncclUniqueId unique;
    ncclResult_t status = nccl.ncclGetUniqueId(&unique);
    if (status != ncclSuccess) fail("ncclGetUniqueId", status);
    memcpy(id, unique.internal, NCCL_ID_BYTES);
}

// (One thread that opens several communicators has to do so in a group: each waits for the others.)
static ncclResult_t start_opening(NcclGroup *g, const char id[], Device *const devices[]) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    config.blocking = 0;
    memcpy(unique.internal, id, NCCL_ID_BYTES);
    ncclResult_t status = nccl.ncclGroupStart();
    if (status != ncclSuccess) return status;
    for (int i = 0; i < g->n; i++) {
        CUDA_CHECK(cudaSetDevice(device_gpu(devices[i])));
        status = worse(status, nccl.ncclCommInitRankConfig(&g->comms[i], g->all, unique,
                                                           g->first + i, &config));
    }
    return worse(status, nccl.ncclGroupEnd());
}

NcclGroup *nccl_open(const char id[NCCL_ID_BYTES], Device *const devices[], int n, int first,
                     int all) {
    NcclGroup *g = xcalloc(1, sizeof *g);
    g->n = n;
    g->first = first;
    g->all = all;
    for (int i = 0; i < n; i++) g->streams[i] = queue_native(comm_queue(devices[i]));
    calls_begin();
    g->next = groups;
    groups = g;
    ncclResult_t status = start_opening(g, id, devices);
    calls_end();
    finish(g, "ncclCommInitRankConfig", status);
    return g;
}

void nccl_close(NcclGroup *g) {
    ncclResult_t status = ncclSuccess;
    if (!g) return;
    calls_begin();
    for (int i = 0; i < g->n; i++) status = worse(status, nccl.ncclCommFinalize(g->comms[i]));
    calls_end();
    finish(g, "ncclCommFinalize", status);
    calls_begin();
    NcclGroup **link = &groups;
    while (*link != g) link = &(*link)->next;
    *link = g->next;
    // (What is left is done by a thread of NCCL's: nobody can ask for it any more.)
    for (int i = 0; i < g->n; i++) status = worse(status, nccl.ncclCommDestroy(g->comms[i]));
    calls_end();
    if (is_wrong(status)) fail("ncclCommDestroy", status);
    free(g);
}

// ## Collectives
//
// The calls of all devices of this process, and of all parts, are one group: one after the other
// each would wait for the rest.

static void group_begin(void) {
    calls_begin();
    ncclResult_t status = nccl.ncclGroupStart();
    if (status == ncclSuccess) return;
    calls_end();
    fail("ncclGroupStart", status);
}
static void group_end(const NcclGroup *g, const char *what, ncclResult_t status) {
    status = worse(status, nccl.ncclGroupEnd());
    calls_end();
    finish(g, what, status);
}

void nccl_all_reduce(NcclGroup *g, float *const data[], size_t n, int root) {
    (void)root;
    ncclResult_t status = ncclSuccess;
    group_begin();
    for (int i = 0; i < g->n; i++)
        status = worse(status, nccl.ncclAllReduce(data[i], data[i], n, ncclFloat, ncclSum,
                                                  g->comms[i], g->streams[i]));
    group_end(g, "ncclAllReduce", status);
}

void nccl_broadcast(NcclGroup *g, float *const data[], size_t n, int root) {
    ncclResult_t status = ncclSuccess;
    group_begin();
    for (int i = 0; i < g->n; i++)
        status = worse(status, nccl.ncclBroadcast(data[i], data[i], n, ncclFloat, root, g->comms[i],
                                                  g->streams[i]));
    group_end(g, "ncclBroadcast", status);
}

// NCCL's parts are all of one size. Where ours are not, each part is a reduction of its own, or a
// broadcast: to the device whose part it is, or from it.
typedef ncclResult_t PartFunction(const NcclGroup *g, int i, float *data, size_t n, int part);

static ncclResult_t reduce_part(const NcclGroup *g, int i, float *data, size_t n, int part) {
    return nccl.ncclReduce(data, data, n, ncclFloat, ncclSum, part, g->comms[i], g->streams[i]);
}
static ncclResult_t broadcast_part(const NcclGroup *g, int i, float *data, size_t n, int part) {
    return nccl.ncclBroadcast(data, data, n, ncclFloat, part, g->comms[i], g->streams[i]);
}

static ncclResult_t part_by_part(PartFunction *call, const NcclGroup *g, float *const data[],
                                 size_t n) {
    ncclResult_t status = ncclSuccess;
    for (int part = 0; part < g->all; part++) {
        Range r = equal_range((long)n, g->all, part);
        for (int i = 0; i < g->n && r.count > 0; i++)
            status = worse(status, call(g, i, data[i] + r.first, (size_t)r.count, part));
    }
    return status;
}

void nccl_reduce_scatter(NcclGroup *g, float *const data[], size_t n, int root) {
    (void)root;
    size_t each = n / (size_t)g->all;
    bool equal = n % (size_t)g->all == 0;
    ncclResult_t status = ncclSuccess;
    group_begin();
    for (int i = 0; i < g->n && equal; i++)
        status = worse(
            status, nccl.ncclReduceScatter(data[i], data[i] + (size_t)(g->first + i) * each, each,
                                           ncclFloat, ncclSum, g->comms[i], g->streams[i]));
    if (!equal) status = worse(status, part_by_part(reduce_part, g, data, n));
    group_end(g, equal ? "ncclReduceScatter" : "ncclReduce", status);
}

void nccl_all_gather(NcclGroup *g, float *const data[], size_t n, int root) {
    (void)root;
    size_t each = n / (size_t)g->all;
    bool equal = n % (size_t)g->all == 0;
    ncclResult_t status = ncclSuccess;
    group_begin();
    for (int i = 0; i < g->n && equal; i++)
        status = worse(status, nccl.ncclAllGather(data[i] + (size_t)(g->first + i) * each, data[i],
                                                  each, ncclFloat, g->comms[i], g->streams[i]));
    if (!equal) status = worse(status, part_by_part(broadcast_part, g, data, n));
    group_end(g, equal ? "ncclAllGather" : "ncclBroadcast", status);
}
