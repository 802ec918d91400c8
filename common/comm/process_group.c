// process_group.c: see process_group.h. The algorithms are in collectives.c.
#include "process_group.h"

#include "common/base/cores.h"
#include "common/base/error.h"
#include "group.h"
#include "launch.h"
#include "watch.h"

#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static struct {
    ProcessGroup *all;    // NULL: not initialized
    Wire *host, *watched; // of the ranks on this host; for watch.c
    Launch launch;
    double timeout;
    char **host_names; // of each rank
    int *host_numbers; // of each rank, from 0
    int num_hosts, local_rank, local_size;
    const char *why; // these devices
    Device *devices[MAX_LOCAL_DEVICES];
    float *stages[MAX_LOCAL_DEVICES]; // host memory for what GPUs exchange
    size_t stage_floats;
    int num_groups; // that there ever were
    char note[WHAT_LENGTH], me[32];
    char *why_no_nccl;   // NULL: there is
    char *who;           // "rank 2 on node7"
    DistTraffic traffic; // of the thread that communicates, but for when its queue is empty
} world;

static ProcessGroup *or_all(const ProcessGroup *group) {
    CHECK(world.all, "dist_init_process_group() comes first");
    return group ? (ProcessGroup *)group : world.all;
}

bool dist_is_mpi_available(void) { return transport_is_mpi; }
bool dist_is_nccl_available(void) { return nccl_is_built; }
bool dist_is_initialized(void) { return world.all; }
int dist_get_rank(void) { return or_all(NULL)->rank; }
int dist_get_world_size(void) { return or_all(NULL)->size; }
int dist_num_devices(void) { return or_all(NULL)->size * or_all(NULL)->devices; }
int dist_local_devices(void) { return or_all(NULL)->devices; }
Device *dist_device(int i) { return world.devices[i]; }
Device *const *dist_devices(void) { return world.devices; }
int dist_num_hosts(void) { return world.num_hosts; }
int dist_host_of(int rank) { return world.host_numbers[rank]; }
const char *dist_host_name(int rank) { return world.host_names[rank]; }
int dist_local_rank(void) { return world.local_rank; }
int dist_local_size(void) { return world.local_size; }
int group_rank(const ProcessGroup *group) { return or_all(group)->rank; }
int group_size(const ProcessGroup *group) { return or_all(group)->size; }

bool dist_hosts_are_equal(void) {
    int *ranks = xcalloc((size_t)world.num_hosts, sizeof *ranks);
    bool equal = true;
    for (int r = 0; r < world.all->size; r++) ranks[world.host_numbers[r]]++;
    for (int h = 1; h < world.num_hosts; h++) equal = equal && ranks[h] == ranks[0];
    free(ranks);
    return equal;
}

void dist_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(world.note, sizeof world.note, format, args);
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

static Queue *queue_of_all(void) { return comm_queue(world.devices[0]); }

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
    memcpy(work->why, world.note, sizeof work->why);
    queue_call(queue_of_all(), carry_out, work);
}

static bool on_cpu(const Device *device) { return strncmp(device_name(device), "cpu", 3) == 0; }

// Without NCCL, GPUs exchange what is in host memory: there and back again, on their own queues.
static float *stage_of(int i, size_t n) {
    if (n > world.stage_floats) {
        synchronize_all();
        for (int d = 0; d < world.all->devices; d++) {
            device_free(host(), world.stages[d]);
            world.stages[d] = device_alloc(host(), n * sizeof(float));
        }
        world.stage_floats = n;
    }
    return world.stages[i];
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
        CHECK(data[i]->device == world.devices[i], "data[i] is on device i of this process");
        CHECK(same_shape(data[i], data[0]), "all have one shape");
        CHECK(has_values(data[i]->device), "devices without values have nothing to exchange");
    }
}

static void on_all_devices(const char *what, CollectiveFunction *run, ProcessGroup *group,
                           Tensor *const data[], int root) {
    ProcessGroup *g = or_all(group);
    Exchange x = {.group = g, .n = numel(data[0]), .root = root};
    for (int i = 0; i < g->devices; i++) x.data[i] = begin_on_device(data[i], i);
    enqueue(what, run, x);
    Event done = queue_record(queue_of_all());
    for (int i = 0; i < g->devices; i++) end_on_device(data[i], x.data[i], done);
}

// The host waits for what it has enqueued.
static void gather(const char *what, const ProcessGroup *group, const void *mine, size_t bytes,
                   void *all) {
    enqueue(what, gather_bytes,
            (Exchange){.group = or_all(group), .n = bytes, .values = (void *)mine, .all = all});
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
    memcpy(work->why, world.note, sizeof work->why);
    queue_call(queue_of_all(), enter, work);
}

// From now on there is something to be watched.
static void begin_nccl(void) {
    if (world.who) return;
    world.who = xprintf("rank %d on %s", world.all->rank, world.host_names[world.all->rank]);
    nccl_begin(world.who, world.timeout);
    watch_library(nccl_error, nccl_abort);
}

// A group's communicators are opened when it first needs them: all of it come here together.
static void open_nccl(ProcessGroup *g) {
    char id[NCCL_ID_BYTES] = "", *ids = xmalloc((size_t)g->size * sizeof id);
    begin_nccl();
    if (g->rank == 0) nccl_new_id(id);
    gather("nccl_id", g, id, sizeof id, ids); // after it, the queue is empty
    watch_group(g, ++g->number, "nccl_init", world.note);
    g->nccl = nccl_open(ids, world.devices, g->devices, g->rank * g->devices, g->size * g->devices);
    watch_leave();
    free(ids);
}

static void close_nccl(ProcessGroup *g) {
    if (!g->nccl) return;
    watch_group(g, ++g->number, "nccl_finalize", world.note);
    nccl_close(g->nccl);
    watch_leave();
    g->nccl = NULL;
}

static void on_all_gpus(const char *what, NcclFunction *run, ProcessGroup *group,
                        Tensor *const data[], int root) {
    ProcessGroup *g = or_all(group);
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
    if (world.why_no_nccl)
        die("leave the choice to the program: GPUs then exchange through host memory",
            "no NCCL: %s", world.why_no_nccl);
}

void dist_choose_all_reduce(const char *name) {
    for (int s = 0; s < NUM_SUMS; s++)
        if (strcmp(sums[s].name, name) == 0) {
            choice = s;
            if (s == NCCL && world.all) must_have_nccl();
            return;
        }
    die("there are star, sharded, ring, tree, mpi and nccl", "there is no all_reduce '%s'", name);
}

static int chosen(void) {
    if (choice != NOBODY_DID) return choice;
    return world.all && dist_num_devices() > 1 && !world.why_no_nccl ? NCCL : STAR;
}
const char *dist_chosen_all_reduce(void) { return sums[chosen()].name; }
bool dist_order_is_fixed(void) { return chosen() != MPI && chosen() != NCCL; }
const char *dist_why_no_nccl(void) { return world.why_no_nccl; }

static void collective(const char *what, CollectiveFunction *run, NcclFunction *by_nccl,
                       ProcessGroup *group, Tensor *const data[], int root) {
    check_tensors(or_all(group), data);
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
    char one = 1, *all = xmalloc((size_t)or_all(group)->size);
    gather("barrier", group, &one, 1, all);
    free(all);
}

void dist_gather(ProcessGroup *group, const double mine[], int n, double all[]) {
    gather("gather", group, mine, sizeof *mine * (size_t)n, all);
}

void dist_sum(ProcessGroup *group, double values[], int n) {
    int size = or_all(group)->size;
    double *all = xmalloc(sizeof *all * (size_t)(size * n));
    dist_gather(group, values, n, all);
    for (int i = 0; i < n; i++) values[i] = 0;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) values[i] += all[r * n + i];
    free(all);
}

// First their lengths, then as many bytes of each as the longest has.
char **dist_gather_texts(ProcessGroup *group, const char *mine) {
    int size = or_all(group)->size;
    double length = (double)strlen(mine), longest = 0;
    double *lengths = xmalloc(sizeof *lengths * (size_t)size);
    dist_gather(group, &length, 1, lengths);
    for (int r = 0; r < size; r++) longest = fmax(longest, lengths[r]);
    size_t room = (size_t)longest + 1;
    char *padded = xcalloc(1, room), *all = xmalloc(room * (size_t)size);
    char **texts = xmalloc(sizeof *texts * (size_t)size);
    memcpy(padded, mine, strlen(mine));
    gather("gather", group, padded, room, all);
    for (int r = 0; r < size; r++) texts[r] = xstrdup(all + room * (size_t)r);
    free(all);
    free(padded);
    free(lengths);
    return texts;
}

void dist_free_texts(ProcessGroup *group, char **texts) {
    for (int r = 0; r < or_all(group)->size; r++) free(texts[r]);
    free(texts);
}

// (What all find is said by rank 0: let_another_speak().)
void dist_must_agree(const char *what, const char *value) {
    char **values = dist_gather_texts(NULL, value);
    for (int r = 1; r < world.all->size; r++)
        if (strcmp(values[r], values[0]) != 0)
            die("start all ranks with the same program, the same flags and the same data",
                "rank %d on %s has %s %s, rank 0 has %s", r,
                world.host_names ? world.host_names[r] : "its host", what, values[r], values[0]);
    dist_free_texts(NULL, values);
}

void dist_must_agree_on_program(void) {
    unsigned char bytes[1 << 16];
    uLong sum = crc32(0, NULL, 0);
    FILE *program = fopen("/proc/self/exe", "rb");
    if (!program) return;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, program)) > 0;)
        sum = crc32(sum, bytes, (uInt)n);
    fclose(program);
    char text[32];
    snprintf(text, sizeof text, "%08lx", sum);
    dist_must_agree("a program with the checksum", text);
}

// ## Groups

static ProcessGroup *group_on(Wire *wire, int id) {
    ProcessGroup *g = xcalloc(1, sizeof *g);
    g->id = id;
    g->wire = wire;
    g->rank = wire_rank(wire);
    g->size = wire_size(wire);
    g->devices = world.all ? world.all->devices : 0;
    double mine = g->rank, *all = xmalloc(sizeof *all * (size_t)g->size);
    if (world.all) {
        mine = world.all->rank;
        dist_gather(g, &mine, 1, all);
    }
    int *ranks = xmalloc(sizeof *ranks * (size_t)g->size);
    for (int r = 0; r < g->size; r++) ranks[r] = world.all ? (int)all[r] : r;
    g->world_rank = ranks;
    free(all);
    return g;
}

ProcessGroup *dist_new_group(int colour) {
    CHECK(colour >= 0, "a group has a colour from 0 on");
    synchronize_all();
    return group_on(wire_split(or_all(NULL)->wire, colour), ++world.num_groups);
}

static void free_group(ProcessGroup *group) {
    for (int i = 0; i < MAX_LOCAL_DEVICES; i++) free(group->place[i]);
    free(group->world_rank);
    free(group);
}

void dist_free_group(ProcessGroup *group) {
    if (!group) return;
    synchronize_all();
    close_nccl(group);
    wire_free(group->wire);
    free_group(group);
}

// ## What was sent

void count_traffic(const ProcessGroup *group, int to, size_t bytes) {
    world.traffic.messages++;
    world.traffic.bytes += bytes;
    if (!world.host_numbers || !group->world_rank) return; // it is not yet known who is where
    int me = world.all->rank, other = group->world_rank[to];
    if (world.host_numbers[me] != world.host_numbers[other]) world.traffic.bytes_to_hosts += bytes;
}

DistTraffic dist_traffic(void) {
    synchronize_all();
    return world.traffic;
}
void dist_reset_traffic(void) {
    synchronize_all();
    world.traffic = (DistTraffic){0};
}

// ## The start

// A rank's standard output goes nowhere, unless it is rank 0.
void dist_before_flags(void) {
    const double UNTIL_RANK_0_HAS_ENDED = 3;
    world.launch = launch_read();
    if (world.launch.rank == 0) return;
    if (!freopen("/dev/null", "w", stdout)) die("is there no /dev?", "cannot open /dev/null");
    let_another_speak(UNTIL_RANK_0_HAS_ENDED);
}

// For the start: who they are is not known yet.
static ProcessGroup ranks_of_host(void) {
    return (ProcessGroup){.wire = world.host,
                          .id = ++world.num_groups,
                          .rank = wire_rank(world.host),
                          .size = wire_size(world.host)};
}

// Whose cores are these? Two ranks share them if both may use one of them. (mpirun may have bound
// each rank to cores of its own, or to none. All ask, whatever they were told: the others do, too.)
static int threads_of_this_rank(int asked_for) {
    cpu_set_t mine, *all, both;
    CPU_ZERO(&mine);
    bool known = sched_getaffinity(0, sizeof mine, &mine) == 0;
    all = xmalloc(sizeof *all * (size_t)wire_size(world.host));
    ProcessGroup host_group = ranks_of_host();
    gather("gather", &host_group, &mine, sizeof mine, all);
    int sharing = 0;
    for (int r = 0; r < host_group.size; r++) {
        CPU_AND(&both, &mine, &all[r]);
        if (CPU_COUNT(&both) > 0) sharing++;
    }
    free(all);
    if (asked_for > 0) return asked_for;
    if (!known) return num_threads();
    int threads = num_threads() / (sharing > 0 ? sharing : 1);
    return threads > 0 ? threads : 1;
}

// Ranks of one host, numbered by the host's first rank.
void dist_pretend_hosts(int ranks_per_host) {
    ProcessGroup *g = or_all(NULL);
    double first = g->rank, *firsts = xmalloc(sizeof *firsts * (size_t)g->size);
    double *of_host = xmalloc(sizeof *of_host * (size_t)wire_size(world.host));
    ProcessGroup host_group = ranks_of_host();
    dist_gather(&host_group, &first, 1, of_host);
    first = ranks_per_host > 0 ? g->rank - g->rank % ranks_per_host : of_host[0];
    dist_gather(NULL, &first, 1, firsts);
    free(world.host_numbers);
    world.host_numbers = xmalloc(sizeof *world.host_numbers * (size_t)g->size);
    world.num_hosts = world.local_rank = world.local_size = 0;
    for (int r = 0; r < g->size; r++) {
        bool is_first = (int)firsts[r] == r;
        world.host_numbers[r] = is_first ? world.num_hosts++ : world.host_numbers[(int)firsts[r]];
        if (firsts[r] == first) {
            world.local_size++;
            if (r < g->rank) world.local_rank++;
        }
    }
    free(firsts);
    free(of_host);
}

// Which GPUs: see process_group.h.
static int first_device_here(int devices) {
    int gpus = num_gpus(), local = wire_rank(world.host), ranks = wire_size(world.host);
    world.why = "CPU devices, the cores shared";
    if (gpus == 0) return 0;
    if (gpus >= ranks * devices) {
        world.why = "all GPUs of the host are seen: each rank takes those of its local rank";
        return local * devices;
    }
    if (gpus >= devices && getenv("CUDA_VISIBLE_DEVICES")) {
        world.why = "CUDA_VISIBLE_DEVICES shows each rank its own GPUs";
        return 0;
    }
    world.why = "fewer GPUs than devices: ranks share them";
    return local * devices % gpus;
}

static void check_options(DistOptions *o) {
    if (o->devices == 0) o->devices = 1;
    if (o->timeout <= 0) o->timeout = 60;
    CHECK(o->devices >= 1 && o->devices <= MAX_LOCAL_DEVICES, "1 to 16 devices of one process");
    CHECK(!world.all, "one process group is initialized at a time");
}

static void open_wires(double timeout) {
    if (!world.launch.size) world.launch = launch_read();
    if (transport_is_open_mpi) launch_prepare(&world.launch);
    world.timeout = timeout;
    launch_have_witness(&world.launch);
    watch_arrival(timeout);
    Wire *wire = transport_open();
    watch_arrived();
    launch_check(&world.launch, wire_size(wire));
    snprintf(world.me, sizeof world.me, "rank %d", wire_rank(wire));
    if (wire_size(wire) > 1) speak_as(world.me);
    world.host = wire_split_hosts(wire);
    world.watched = wire_split(wire, 0);
    world.all = group_on(wire, 0);
}

// From now on there is a queue that communicates.
static void open_rank_devices(int devices) {
    int first = first_device_here(devices);
    world.all->devices = devices;
    for (int i = 0; i < devices; i++) world.devices[i] = try_gpu(first + i);
}

// Names come first: messages have them.
static void name_hosts(void) {
    char name[256];
    launch_host_name(name, sizeof name);
    world.host_names = dist_gather_texts(NULL, name);
    watch_start(world.watched, (const char *const *)world.host_names, world.timeout);
}

// One line says why GPUs do not exchange by NCCL, unless somebody has chosen something else anyway.
// (One device exchanges nothing.)
static void find_nccl(void) {
    ProcessGroup *g = world.all;
    if (dist_num_devices() == 1 && num_gpus() > 0 && choice != NCCL) return;
    char *offer = nccl_offer(world.devices, g->devices), **offers = dist_gather_texts(NULL, offer);
    world.why_no_nccl = nccl_obstacle(offers, (const char *const *)world.host_names, g->size);
    dist_free_texts(NULL, offers);
    free(offer);
    if (choice == NCCL) must_have_nccl();
    if (choice == NOBODY_DID && num_gpus() > 0 && world.why_no_nccl)
        warn("GPUs exchange through host memory, not by NCCL: %s", world.why_no_nccl);
}

static void must_agree_on_number(const char *what, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    dist_must_agree(what, text);
}

void dist_init_process_group(DistOptions options) {
    check_options(&options);
    open_wires(options.timeout);
    open_rank_devices(options.devices);
    name_hosts();
    must_agree_on_number("--devices-per-rank", options.devices);
    must_agree_on_number("--ranks-per-host", options.ranks_per_host);
    must_agree_on_number("a --timeout, in ms, of", (int)(options.timeout * 1e3));
    find_nccl();
    dist_pretend_hosts(options.ranks_per_host);
    set_num_threads(threads_of_this_rank(options.threads));
    share_cores(world.devices, options.devices);
}

void dist_destroy_process_group(void) {
    dist_barrier(NULL);
    synchronize_all();
    close_nccl(world.all);
    watch_stop();
    for (int i = 0; i < world.all->devices; i++)
        if (world.stages[i]) device_free(host(), world.stages[i]);
    dist_free_texts(NULL, world.host_names);
    free(world.host_numbers);
    free(world.why_no_nccl);
    free(world.who);
    wire_free(world.host);
    wire_free(world.watched);
    free_group(world.all);
    transport_close();
    launch_dismiss_witness();
    speak_as(NULL);
    memset(&world, 0, sizeof world);
}

// ## What rank 0 says of all

void dist_print_ranks(void) {
    char *mine = xprintf("%s, %d thread%s", device_names(world.devices, world.all->devices),
                         num_threads(), num_threads() == 1 ? "" : "s");
    char **of = dist_gather_texts(NULL, mine), *version = transport_version();
    printf("%d rank%s on %d host%s, started by %s; MPI: %s\n", world.all->size,
           world.all->size == 1 ? "" : "s", world.num_hosts, world.num_hosts == 1 ? "" : "s",
           world.launch.by ? world.launch.by : "hand", version);
    for (int r = 0; r < world.all->size; r++)
        printf("  rank %d on %s: %s\n", r, world.host_names[r], of[r]);
    printf("  (%s)\n", world.why);
    if (chosen() == NCCL)
        printf("  (GPUs exchange by NCCL, which promises no order of additions: the last digits of "
               "sums may differ from those of one process)\n");
    dist_free_texts(NULL, of);
    free(version);
    free(mine);
}
