// ranks.c: see ranks.h. How a process finds the others, and which device it uses. What ranks do
// together is in star.c, nccl.c and behind/.
#include "ranks.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "behind/group.h"
#include "watch.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    ProcessGroup *all;      // NULL: not initialized
    MPI_Comm host, watched; // of the ranks on this host; for the watch
    Launch launch;
    char **host_names; // of each rank; NULL: not yet known
    int *host_numbers; // of each rank
    int host_leader;   // the first rank on this host
    int num_hosts, local_rank, local_size;
    Device *device;
} world;

ProcessGroup *group_or_all(const ProcessGroup *group) {
    CHECK(world.all, "dist_init_process_group() comes first");
    return group ? (ProcessGroup *)group : world.all;
}

bool dist_is_mpi_available(void) { return MPI_VERSION > 0; } // else: common/without/mpi/mpi.h
bool dist_is_initialized(void) { return world.all; }
int dist_get_rank(void) { return group_or_all(NULL)->rank; }
int dist_get_world_size(void) { return group_or_all(NULL)->size; }
int dist_local_rank(void) { return world.local_rank; }
int dist_local_size(void) { return world.local_size; }
Device *dist_device(void) { return world.device; }
int dist_num_hosts(void) { return world.num_hosts; }
int dist_host_of(int rank) { return world.host_numbers ? world.host_numbers[rank] : 0; }
const char *dist_host_name(int rank) {
    return world.host_names ? world.host_names[rank] : "its host";
}

bool dist_hosts_are_equal(void) {
    bool equal = true;
    for (int h = 0; h < world.num_hosts; h++) {
        int ranks = 0;
        for (int r = 0; r < world.all->size; r++) ranks += world.host_numbers[r] == h;
        equal = equal && ranks * world.num_hosts == world.all->size;
    }
    return equal;
}

// ## Finding the others

void dist_before_flags(void) {
    const double UNTIL_RANK_0_HAS_ENDED = 3;
    world.launch = launch_read();
    if (world.launch.rank == 0) return;
    if (!freopen("/dev/null", "w", stdout)) die("is there no /dev?", "cannot open /dev/null");
    let_another_speak(UNTIL_RANK_0_HAS_ENDED);
}

// MPI_Init() waits for a rank that never starts for as long as the launcher lets it. This thread
// does not.
static sem_t all_have_come;

static void *give_up_waiting(void *timeout) {
    double seconds = *(double *)timeout;
    struct timespec end;
    int status;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)ceil(seconds);
    while ((status = sem_timedwait(&all_have_come, &end)) != 0 && errno == EINTR) continue;
    if (status == 0) return NULL;
    die("a rank has not started, or hosts cannot reach each other; a larger --timeout waits longer",
        "not all ranks have come together within %g s", seconds);
}

// Two threads will use MPI, one that communicates and one that watches. The communicator
// MPI_COMM_WORLD contains all ranks. `world.host` gets the ranks that share this host's memory.
static void find_the_others(void) {
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE)
        die("install an MPI that was built with threads (Debian: openmpi-bin)",
            "this MPI does not let two threads call it at once (MPI_THREAD_MULTIPLE)");
    world.all = group_of(MPI_COMM_WORLD); // asks MPI_Comm_rank() and MPI_Comm_size()
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &world.host);
    MPI_Comm_rank(world.host, &world.local_rank);
    MPI_Comm_size(world.host, &world.local_size);
    world.host_leader = world.all->rank;
    MPI_Bcast(&world.host_leader, 1, MPI_INT, 0, world.host);
    MPI_Comm_dup(MPI_COMM_WORLD, &world.watched);
}

static void meet(double timeout, const char *host) {
    static char me[32];
    static double patience;
    pthread_t impatient;
    patience = timeout;
    sem_init(&all_have_come, 0, 0);
    setenv("HWLOC_HIDE_ERRORS", "2", 0); // to MPI, a container without /sys is no error
    launch_have_witness(&world.launch, host);
    if (pthread_create(&impatient, NULL, give_up_waiting, &patience) != 0)
        die("raise `ulimit -u`", "cannot start the thread that waits for other ranks");
    if (world.launch.by_mpi) {
        find_the_others();
    } else { // started by hand: without MPI, which would want a network and files
        launch_check(&world.launch, 1);
        world.all = group_of(MPI_COMM_NULL);
        world.host = world.watched = MPI_COMM_NULL;
        world.local_size = 1;
    }
    sem_post(&all_have_come);
    pthread_join(impatient, NULL);
    launch_check(&world.launch, world.all->size);
    snprintf(me, sizeof me, "rank %d", world.all->rank);
    if (world.all->size > 1) speak_as(me);
}

// ## Its device

static void open_device(void) {
    int gpus = num_gpus(); // that this process sees
    world.device = try_gpu(gpus > 0 ? world.local_rank % gpus : 0);
}

// With CUDA_VISIBLE_DEVICES=2,3 a process sees two GPUs of its host, as numbers 0 and 1. Their
// names are "2" and "3" (or the GPUs' identifiers), and two ranks of a host with the same name
// share a GPU. (One that is named in two ways is not noticed here. NCCL refuses it.)
static bool shares_gpu(void) {
    enum { LONGEST = 64 };
    char name[LONGEST] = "", *all = xcalloc((size_t)world.local_size, LONGEST);
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");
    int number = device_gpu(world.device), same = 0;
    for (int g = 0; seen && g < number; g++) seen += strcspn(seen, ",") + 1;
    if (number >= 0 && seen) snprintf(name, sizeof name, "%.*s", (int)strcspn(seen, ","), seen);
    if (number >= 0 && !seen) snprintf(name, sizeof name, "%d", number);
    if (world.local_size > 1)
        MPI_Allgather(name, LONGEST, MPI_BYTE, all, LONGEST, MPI_BYTE, world.host);
    for (int r = 0; r < world.local_size; r++) same += strcmp(all + LONGEST * r, name) == 0;
    free(all);
    return number >= 0 && same > 1;
}

// Two ranks share cores if both may run on one of them. (mpirun may have bound each rank to cores.)
static int threads_of_this_rank(void) {
    cpu_set_t mine, both, *all = xmalloc(sizeof *all * (size_t)world.local_size);
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    all[0] = mine;
    if (world.local_size > 1)
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, world.host);
    int sharing = 0;
    for (int r = 0; r < world.local_size; r++) {
        CPU_AND(&both, &mine, &all[r]);
        sharing += CPU_COUNT(&both) > 0;
    }
    free(all);
    int threads = num_threads() / (sharing > 0 ? sharing : 1);
    return threads > 0 ? threads : 1;
}

// All ranks know the first rank of every other one's host: with that, hosts are numbered.
void dist_pretend_hosts(int ranks_per_host) {
    int size = world.all->size, me = world.all->rank;
    double first = ranks_per_host > 0 ? me - me % ranks_per_host : world.host_leader;
    double *firsts = xmalloc(sizeof *firsts * (size_t)size);
    int *numbers = xmalloc(sizeof *numbers * (size_t)size);
    dist_gather(NULL, &first, 1, firsts);
    world.num_hosts = world.local_rank = world.local_size = 0;
    for (int r = 0; r < size; r++) {
        numbers[r] = (int)firsts[r] == r ? world.num_hosts++ : numbers[(int)firsts[r]];
        world.local_rank += firsts[r] == first && r < me;
        world.local_size += firsts[r] == first;
    }
    free(firsts);
    free(world.host_numbers);
    world.host_numbers = numbers;
}

void dist_init_process_group(DistOptions options) {
    char name[256] = "";
    double timeout = options.timeout > 0 ? options.timeout : 60;
    CHECK(!world.all, "one process group is initialized at a time");
    if (!world.launch.size) world.launch = launch_read();
    gethostname(name, sizeof name - 1);
    name[strcspn(name, ".")] = '\0';
    meet(timeout, name);
    set_num_threads(options.threads > 0 ? options.threads : threads_of_this_rank());
    open_device();
    share_cores(&world.device, 1);
    world.host_names = gather_texts(name);
    watch_start(world.watched, (const char *const *)world.host_names, timeout);
    find_nccl(shares_gpu());
    dist_pretend_hosts(options.ranks_per_host);
}

void dist_destroy_process_group(void) {
    bool alone = world.all->comm == MPI_COMM_NULL;
    dist_barrier(NULL);
    synchronize_all();
    nccl_close(world.all);
    watch_stop();
    free_texts(world.host_names);
    free(world.host_numbers);
    group_free(world.all);
    if (!alone) MPI_Finalize();
    launch_dismiss_witness();
    speak_as(NULL);
    memset(&world, 0, sizeof world);
}
