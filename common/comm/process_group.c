// process_group.c: groups of ranks, and what they do together; see process_group.h. The algorithms
// are in collectives.c, who the ranks are in world.c, what they must agree on in agree.c.
#include "process_group.h"

#include "common/base/error.h"
#include "group.h"
#include "watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    float *stages[MAX_LOCAL_DEVICES]; // host memory for what GPUs exchange
    size_t stage_floats;
    int num_groups; // that there ever were
    char note[WHAT_LENGTH];
    char *why_no_nccl;   // NULL: there is
    char *who;           // "rank 2 on node7"
    DistTraffic traffic; // of the thread that communicates, but for when its queue is empty
} here;

int group_rank(const ProcessGroup *group) { return group_or_all(group)->rank; }
int group_size(const ProcessGroup *group) { return group_or_all(group)->size; }

void dist_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(here.note, sizeof here.note, format, args);
    va_end(args);
}

void dist_wait_patiently(bool patiently) { watch_patiently(patiently); }

// ## A collective, enqueued
//
// The queue of this process that communicates is that of its first device. What another device of
// the process has to do before and after is ordered by events.

typedef struct Work {
    CollectiveFunction *run;
    Exchange x;
    long number;
    const char *what;
    char why[WHAT_LENGTH];
} Work;

static Queue *queue_of_all(void) { return comm_queue(dist_device(0)); }

static void watch_group(const ProcessGroup *g, long number, const char *what, const char *why) {
    watch_enter(g->id, g->world_rank, g->size, number, what, why);
}

static void carry_out(void *context) {
    Work *work = context;
    watch_group(work->x.group, work->number, work->what, work->why);
    if (work->x.n > 0 || work->x.values) work->run(&work->x);
    watch_leave();
    free(work);
}

// The tags of two collectives differ, if one comes after the other or they are of different kinds:
// so messages of one are never taken for those of the other. (All numbers up to 32767 are tags.)
// Numbers are the group's own: all of a group count alike, whatever else they are in.
static int first_tag(long number, const char *what) {
    enum { TAGS = MAX_LOCAL_DEVICES * MAX_LOCAL_DEVICES, KINDS = 8, NUMBERS = 15 };
    static const char *const kinds[KINDS] = {"all_reduce", "broadcast", "reduce_scatter",
                                             "all_gather", "gather"};
    int kind = 0;
    while (kind < KINDS - 1 && kinds[kind] && strcmp(kinds[kind], what) != 0) kind++;
    return ((int)(number % NUMBERS) * KINDS + kind) * TAGS;
}

static void enqueue(const char *what, CollectiveFunction *run, Exchange x) {
    Work *work = xmalloc(sizeof *work);
    *work = (Work){.run = run, .x = x, .number = ++x.group->number, .what = what};
    work->x.tag = first_tag(work->number, what);
    memcpy(work->why, here.note, sizeof work->why);
    queue_call(queue_of_all(), carry_out, work);
}

static bool on_cpu(const Device *device) { return strncmp(device_name(device), "cpu", 3) == 0; }

// Without NCCL, GPUs exchange what is in host memory: there and back again, on their own queues.
static float *stage_of(int i, size_t n) {
    if (n > here.stage_floats) {
        synchronize_all();
        for (int d = 0; d < dist_local_devices(); d++) {
            device_free(host(), here.stages[d]);
            here.stages[d] = device_alloc(host(), n * sizeof(float));
        }
        here.stage_floats = n;
    }
    return here.stages[i];
}

static float *begin_on_device(Tensor *t, int i) {
    Queue *queue = comm_queue(t->device), *first = queue_of_all();
    float *data = t->data;
    queue_wait(queue, device_record(t->device)); // what the current queue has to do before
    if (!on_cpu(t->device)) {
        data = stage_of(i, numel(t));
        queue_copy(queue, host(), data, t->device, t->data, tensor_bytes(t));
    }
    queue_wait(first, queue_record(queue));
    return data;
}

static void end_on_device(Tensor *t, const float *data, Event done) {
    Queue *queue = comm_queue(t->device);
    queue_wait(queue, done);
    if (!on_cpu(t->device))
        queue_copy(queue, t->device, t->data, host(), data, tensor_bytes(t));
    else
        queue_uses(queue, t->data);
    device_wait(t->device, queue_record(queue));
}

static void check_tensors(const ProcessGroup *g, Tensor *const data[]) {
    for (int i = 0; i < g->devices; i++) {
        CHECK(data[i]->device == dist_device(i), "data[i] is on device i of this process");
        CHECK(same_shape(data[i], data[0]), "all have one shape");
        CHECK(has_values(data[i]->device), "devices without values have nothing to exchange");
    }
}

static void on_all_devices(const char *what, CollectiveFunction *run, ProcessGroup *group,
                           Tensor *const data[], int root) {
    ProcessGroup *g = group_or_all(group);
    Exchange x = {.group = g, .n = numel(data[0]), .root = root};
    for (int i = 0; i < g->devices; i++) x.data[i] = begin_on_device(data[i], i);
    enqueue(what, run, x);
    Event done = queue_record(queue_of_all());
    for (int i = 0; i < g->devices; i++) end_on_device(data[i], x.data[i], done);
}

// The host waits for what it has enqueued.
void group_gather(const char *what, const ProcessGroup *group, const void *mine, size_t bytes,
                  void *all) {
    enqueue(
        what, gather_bytes,
        (Exchange){.group = group_or_all(group), .n = bytes, .values = (void *)mine, .all = all});
    event_synchronize(queue_record(queue_of_all()));
}

// ## The same by NCCL
//
// Each device does its own part, on its communication queue. For the watch, the first device's
// queue says when it enters a collective and when it has left it; nobody goes on before that.

static void enter(void *context) {
    Work *work = context;
    watch_group(work->x.group, work->number, work->what, work->why);
    free(work);
}
static void leave(void *unused) {
    (void)unused;
    watch_leave();
}

static void enqueue_enter(ProcessGroup *g, const char *what) {
    Work *work = xmalloc(sizeof *work);
    *work = (Work){.x.group = g, .number = ++g->number, .what = what};
    memcpy(work->why, here.note, sizeof work->why);
    queue_call(queue_of_all(), enter, work);
}

// From now on there is something to be watched.
static void begin_nccl(void) {
    if (here.who) return;
    here.who = xprintf("rank %d on %s", dist_get_rank(), dist_host_name(dist_get_rank()));
    nccl_begin(here.who, group_timeout());
    watch_library(nccl_error, nccl_abort);
}

// A group's communicators are opened when it first needs them: all of it come here together.
static void open_nccl(ProcessGroup *g) {
    char id[NCCL_ID_BYTES] = "", *ids = xmalloc((size_t)g->size * sizeof id);
    begin_nccl();
    if (g->rank == 0) nccl_new_id(id);
    group_gather("nccl_id", g, id, sizeof id, ids); // after it, the queue is empty
    watch_group(g, ++g->number, "nccl_init", here.note);
    g->nccl =
        nccl_open(ids, dist_devices(), g->devices, g->rank * g->devices, g->size * g->devices);
    watch_leave();
    free(ids);
}

void group_close_nccl(ProcessGroup *g) {
    if (!g->nccl) return;
    watch_group(g, ++g->number, "nccl_finalize", here.note);
    nccl_close(g->nccl);
    watch_leave();
    g->nccl = NULL;
}

static void on_all_gpus(const char *what, NcclFunction *run, ProcessGroup *group,
                        Tensor *const data[], int root) {
    ProcessGroup *g = group_or_all(group);
    float *values[MAX_LOCAL_DEVICES];
    size_t n = numel(data[0]);
    if (n == 0 || g->size * g->devices == 1) return;
    if (!g->nccl) open_nccl(g);
    for (int i = 0; i < g->devices; i++) {
        values[i] = data[i]->data;
        queue_wait(comm_queue(data[i]->device), device_record(data[i]->device));
    }
    enqueue_enter(g, what);
    run(g->nccl, values, n, root * g->devices);
    queue_call(queue_of_all(), leave, NULL);
    Event left = queue_record(queue_of_all());
    for (int i = 0; i < g->devices; i++) {
        Queue *queue = comm_queue(data[i]->device);
        queue_wait(queue, left);
        queue_uses(queue, data[i]->data);
        device_wait(data[i]->device, queue_record(queue));
    }
}

// ## The collectives

static const struct {
    const char *name;
    CollectiveFunction *run;
} sums[] = {{"star", all_reduce_star}, {"sharded", all_reduce_sharded}, {"ring", all_reduce_ring},
            {"tree", all_reduce_tree}, {"mpi", all_reduce_library},     {"nccl", NULL}};
enum { NUM_SUMS = sizeof sums / sizeof sums[0], STAR = 0, MPI = 4, NCCL = 5, NOBODY_DID = -1 };
static int choice = NOBODY_DID;

static void must_have_nccl(void) {
    if (here.why_no_nccl)
        die("leave the choice to the program: GPUs then exchange through host memory",
            "no NCCL: %s", here.why_no_nccl);
}

void dist_choose_all_reduce(const char *name) {
    for (int s = 0; s < NUM_SUMS; s++)
        if (strcmp(sums[s].name, name) == 0) {
            choice = s;
            if (s == NCCL && dist_is_initialized()) must_have_nccl();
            return;
        }
    die("there are star, sharded, ring, tree, mpi and nccl", "there is no all_reduce '%s'", name);
}

static int chosen(void) {
    if (choice != NOBODY_DID) return choice;
    return dist_is_initialized() && dist_num_devices() > 1 && !here.why_no_nccl ? NCCL : STAR;
}
const char *dist_chosen_all_reduce(void) { return sums[chosen()].name; }
bool dist_order_is_fixed(void) { return chosen() != MPI && chosen() != NCCL; }
const char *dist_why_no_nccl(void) { return here.why_no_nccl; }

// One line says why GPUs do not exchange by NCCL, unless somebody has chosen something else anyway.
// (One device exchanges nothing.)
void group_find_nccl(void) {
    int devices = dist_local_devices(), ranks = dist_get_world_size();
    if (dist_num_devices() == 1 && num_gpus() > 0 && choice != NCCL) return;
    char *offer = nccl_offer(dist_devices(), devices), **offers = dist_gather_texts(NULL, offer);
    const char **hosts = xmalloc(sizeof *hosts * (size_t)ranks);
    for (int r = 0; r < ranks; r++) hosts[r] = dist_host_name(r);
    here.why_no_nccl = nccl_obstacle(offers, hosts, ranks);
    free(hosts);
    dist_free_texts(NULL, offers);
    free(offer);
    if (choice == NCCL) must_have_nccl();
    if (choice == NOBODY_DID && num_gpus() > 0 && here.why_no_nccl)
        warn("GPUs exchange through host memory, not by NCCL: %s", here.why_no_nccl);
}

static void collective(const char *what, CollectiveFunction *run, NcclFunction *by_nccl,
                       ProcessGroup *group, Tensor *const data[], int root) {
    check_tensors(group_or_all(group), data);
    if (chosen() == NCCL)
        on_all_gpus(what, by_nccl, group, data, root);
    else
        on_all_devices(what, run, group, data, root);
}

void dist_all_reduce(ProcessGroup *group, Tensor *const data[]) {
    collective("all_reduce", sums[chosen()].run, nccl_all_reduce, group, data, 0);
}
void dist_broadcast(ProcessGroup *group, Tensor *const data[], int root) {
    collective("broadcast", broadcast_tree, nccl_broadcast, group, data, root);
}
void dist_reduce_scatter(ProcessGroup *group, Tensor *const data[]) {
    collective("reduce_scatter", reduce_scatter_ring, nccl_reduce_scatter, group, data, 0);
}
void dist_all_gather(ProcessGroup *group, Tensor *const data[]) {
    collective("all_gather", all_gather_ring, nccl_all_gather, group, data, 0);
}

void dist_barrier(ProcessGroup *group) {
    char one = 1, *all = xmalloc((size_t)group_or_all(group)->size);
    group_gather("barrier", group, &one, 1, all);
    free(all);
}

void dist_gather(ProcessGroup *group, const double mine[], int n, double all[]) {
    group_gather("gather", group, mine, sizeof *mine * (size_t)n, all);
}

void dist_sum(ProcessGroup *group, double values[], int n) {
    int size = group_or_all(group)->size;
    double *all = xmalloc(sizeof *all * (size_t)(size * n));
    dist_gather(group, values, n, all);
    for (int i = 0; i < n; i++) values[i] = 0;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) values[i] += all[r * n + i];
    free(all);
}

// ## Groups

int group_next_id(void) { return ++here.num_groups; }

ProcessGroup *group_on(Wire *wire, int id) {
    ProcessGroup *g = xcalloc(1, sizeof *g);
    g->id = id;
    g->wire = wire;
    g->rank = wire_rank(wire);
    g->size = wire_size(wire);
    bool is_part = dist_is_initialized();
    g->devices = is_part ? dist_local_devices() : 0;
    double me = is_part ? dist_get_rank() : 0, *all = xmalloc(sizeof *all * (size_t)g->size);
    if (is_part) dist_gather(g, &me, 1, all);
    int *ranks = xmalloc(sizeof *ranks * (size_t)g->size);
    for (int r = 0; r < g->size; r++) ranks[r] = is_part ? (int)all[r] : r;
    g->world_rank = ranks;
    free(all);
    return g;
}

ProcessGroup *dist_new_group(int colour) {
    CHECK(colour >= 0, "a group has a colour from 0 on");
    synchronize_all();
    return group_on(wire_split(group_or_all(NULL)->wire, colour), group_next_id());
}

void group_free(ProcessGroup *group) {
    for (int i = 0; i < MAX_LOCAL_DEVICES; i++) free(group->place[i]);
    free(group->world_rank);
    free(group);
}

void dist_free_group(ProcessGroup *group) {
    if (!group) return;
    synchronize_all();
    group_close_nccl(group);
    wire_free(group->wire);
    group_free(group);
}

// ## What was sent

void count_traffic(const ProcessGroup *group, int to, size_t bytes) {
    here.traffic.messages++;
    here.traffic.bytes += bytes;
    if (!group_hosts_are_known() || !group->world_rank) return;
    int me = dist_get_rank(), other = group->world_rank[to];
    if (dist_host_of(me) != dist_host_of(other)) here.traffic.bytes_to_hosts += bytes;
}

DistTraffic dist_traffic(void) {
    synchronize_all();
    return here.traffic;
}
void dist_reset_traffic(void) {
    synchronize_all();
    here.traffic = (DistTraffic){0};
}

void group_end_all(ProcessGroup *all) {
    for (int i = 0; i < all->devices; i++)
        if (here.stages[i]) device_free(host(), here.stages[i]);
    free(here.why_no_nccl);
    free(here.who);
    memset(&here, 0, sizeof here);
}
