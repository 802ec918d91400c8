// world.c: who the ranks are, on which hosts, with which devices and how many threads: the start
// and the end of process_group.h. What they do together is in process_group.c.
#include "process_group.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "group.h"
#include "launch.h"
#include "watch.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    ProcessGroup *all;    // NULL: not initialized
    Wire *host, *watched; // of the ranks on this host; for watch.c
    Launch launch;
    double timeout;
    char **host_names; // of each rank; NULL: not yet known
    int *host_numbers; // of each rank, from 0; NULL: not yet known
    int num_hosts, local_rank, local_size;
    const char *why; // these devices
    Device *devices[MAX_LOCAL_DEVICES];
    char me[32]; // "rank 2"
} world;

ProcessGroup *group_or_all(const ProcessGroup *group) {
    CHECK(world.all, "dist_init_process_group() comes first");
    return group ? (ProcessGroup *)group : world.all;
}
double group_timeout(void) { return world.timeout; }
bool group_hosts_are_known(void) { return world.host_numbers; }

bool dist_is_mpi_available(void) { return transport_is_mpi; }
bool dist_is_initialized(void) { return world.all; }
int dist_get_rank(void) { return group_or_all(NULL)->rank; }
int dist_get_world_size(void) { return group_or_all(NULL)->size; }
int dist_num_devices(void) { return group_or_all(NULL)->size * group_or_all(NULL)->devices; }
int dist_local_devices(void) { return group_or_all(NULL)->devices; }
Device *dist_device(int i) { return world.devices[i]; }
Device *const *dist_devices(void) { return world.devices; }
int dist_num_hosts(void) { return world.num_hosts; }
int dist_host_of(int rank) { return world.host_numbers[rank]; }
const char *dist_host_name(int rank) {
    return world.host_names ? world.host_names[rank] : "its host";
}
int dist_local_rank(void) { return world.local_rank; }
int dist_local_size(void) { return world.local_size; }

bool dist_hosts_are_equal(void) {
    int *ranks = xcalloc((size_t)world.num_hosts, sizeof *ranks);
    bool equal = true;
    for (int r = 0; r < world.all->size; r++) ranks[world.host_numbers[r]]++;
    for (int h = 1; h < world.num_hosts; h++) equal = equal && ranks[h] == ranks[0];
    free(ranks);
    return equal;
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
                          .id = group_next_id(),
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
    group_gather("gather", &host_group, &mine, sizeof mine, all);
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
    ProcessGroup *g = group_or_all(NULL);
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
    if (!world.launch.by_mpi) launch_check(&world.launch, 1);
    world.timeout = timeout;
    launch_have_witness(&world.launch);
    watch_arrival(timeout);
    Wire *wire = transport_open(world.launch.by_mpi);
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

static void must_agree_on_number(const char *what, double number) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", number);
    dist_must_agree(what, text);
}

void dist_init_process_group(DistOptions options) {
    check_options(&options);
    open_wires(options.timeout);
    open_rank_devices(options.devices);
    name_hosts();
    must_agree_on_number("--devices-per-rank", options.devices);
    must_agree_on_number("--ranks-per-host", options.ranks_per_host);
    must_agree_on_number("--timeout", options.timeout);
    group_find_nccl();
    dist_pretend_hosts(options.ranks_per_host);
    set_num_threads(threads_of_this_rank(options.threads));
    share_cores(world.devices, options.devices);
}

void dist_destroy_process_group(void) {
    dist_barrier(NULL);
    synchronize_all();
    group_close_nccl(world.all);
    watch_stop(); // which may ask NCCL
    group_end_all(world.all);
    dist_free_texts(NULL, world.host_names);
    free(world.host_numbers);
    wire_free(world.host);
    wire_free(world.watched);
    group_free(world.all);
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
    if (strcmp(dist_chosen_all_reduce(), "nccl") == 0)
        printf("  (GPUs exchange by NCCL, which promises no order of additions: the last digits of "
               "sums may differ from those of one process)\n");
    dist_free_texts(NULL, of);
    free(version);
    free(mine);
}
