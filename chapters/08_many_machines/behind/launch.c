// launch.c: how a rank starts, and what can go wrong meanwhile; see ranks.h.
#include "behind.h"

#include "common/base/error.h"
#include "common/base/launcher.h"
#include "chapters/08_many_machines/group.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static Launch launched;
static int host_leader; // the first rank on this host

// ## What started it

static char *way_out(void) {
    if (strcmp(launched.by, "srun") == 0)
        return xstrdup("srun --mpi=pmix (MPICH: pmi2), if srun --mpi=list has it; else let mpirun "
                       "start them from the batch script");
    return launched.by_mpi
               ? xstrdup("start it with the mpirun of the MPI that it was built with; without any, "
                         "make setup installs one")
               : xprintf("mpirun -np %d starts them; for one process alone, unset %s",
                         launched.size, launched.variable);
}

// A child that speaks if this process ends without a word (see below). 0: there is none.
// (Atomic, as a thread that dies may read it.)
static _Atomic sig_atomic_t witness;

static void send_witness_away(void) {
    if (witness > 0) kill((pid_t)witness, SIGKILL);
}

// die()s if the launcher started more processes than the `found` ones, which find each other: all
// would do the same work. Rank 0 reports it; others (but not those of srun) if nobody has ended
// them since.
static void launch_check(int found) {
    const unsigned UNTIL_RANK_0_HAS_SAID_IT = 3;
    if (found >= launched.size) return;
    if (launched.rank > 0 && strcmp(launched.by, "srun") == 0) { // may go on when rank 0 has ended
        sleep(UNTIL_RANK_0_HAS_SAID_IT);
        send_witness_away();
        _exit(EXIT_FAILURE);
    }
    // (Another launcher has ended this rank by then. If not, it has a terminal of its own.)
    if (launched.rank > 0) let_another_speak(UNTIL_RANK_0_HAS_SAID_IT);
    die(way_out(),
        "%s=%d says that %s started %d processes, but each is a world of %d: all would do the same "
        "work",
        launched.variable, launched.size, launched.by, launched.size, found);
}

// ## When a rank ends without a word
//
// A process cannot report that it was killed. So each rank has a child that only waits. The pipe
// from its parent ends when the parent does, and then the child reports it. A parent that reports
// an error itself sends the child away. The launcher's signal ends ranks with their children.

// A child of what may be several threads: only calls that a handler of signals may make, too.
static _Noreturn void wait_for_the_end(int pipe_end, const char *text) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGABRT};
    char nothing;
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) signal(caught[i], SIG_DFL);
    prctl(PR_SET_NAME, "witness");
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    while (read(pipe_end, &nothing, 1) < 0 && errno == EINTR) continue;
    ssize_t written = write(STDERR_FILENO, text, strlen(text)); // at once, or lines get mixed
    _exit(written < 0);
}

// From now on, if this rank is killed or ends without a word, a line says which rank it was. Call
// it before there are threads.
static void launch_have_witness(const char *host) {
    int ends[2];
    if (launched.size == 1 || pipe2(ends, O_CLOEXEC) != 0) return; // (it helps, but need not be)
    char *text = xprintf("%s: error: rank %d on %s has ended in the middle of its work, and has "
                         "not said why\n"
                         "hint: was it killed? By the kernel, if memory was short: dmesg knows\n",
                         program_name(), launched.rank, host);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        wait_for_the_end(ends[0], text);
    }
    close(ends[0]); // the other end is closed when this process ends
    free(text);
    witness = child > 0 ? (sig_atomic_t)child : 0;
    before_dying(send_witness_away);
}

static void launch_dismiss_witness(void) {
    pid_t child = (pid_t)witness;
    if (child == 0) return;
    send_witness_away();
    witness = 0;
    waitpid(child, NULL, 0);
}

// ## Finding the others

void dist_before_flags(void) {
    const double UNTIL_RANK_0_HAS_ENDED = 3;
    launched = launch_read();
    if (launched.rank == 0) return;
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

static void meet(double timeout, const char *host) {
    static char me[32];
    static double patience;
    pthread_t impatient;
    patience = timeout;
    sem_init(&all_have_come, 0, 0);
    setenv("HWLOC_HIDE_ERRORS", "2", 0); // to MPI, a container without /sys is no error
    launch_have_witness(host);
    if (pthread_create(&impatient, NULL, give_up_waiting, &patience) != 0)
        die("raise `ulimit -u`", "cannot start the thread that waits for other ranks");
    if (launched.by_mpi) {
        find_the_others();
        host_leader = world.all.rank;
        MPI_Bcast(&host_leader, 1, MPI_INT, 0, world.host);
    } else { // started by hand: without MPI, which would want a network and files
        launch_check(1);
        world.all = group_of(MPI_COMM_NULL);
        world.host = world.watched = MPI_COMM_NULL;
        world.local_size = 1;
    }
    sem_post(&all_have_come);
    pthread_join(impatient, NULL);
    launch_check(world.all.size);
    snprintf(me, sizeof me, "rank %d", world.all.rank);
    if (world.all.size > 1) speak_as(me);
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
    int size = world.all.size, me = world.all.rank;
    double first = ranks_per_host > 0 ? me - me % ranks_per_host : host_leader;
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

bool dist_hosts_are_equal(void) {
    bool equal = true;
    for (int h = 0; h < world.num_hosts; h++) {
        int ranks = 0;
        for (int r = 0; r < world.all.size; r++) ranks += world.host_numbers[r] == h;
        equal = equal && ranks * world.num_hosts == world.all.size;
    }
    return equal;
}

void dist_init_process_group(DistOptions options) {
    char name[256] = "";
    double timeout = options.timeout > 0 ? options.timeout : 60;
    CHECK(!dist_is_initialized(), "one process group is initialized at a time");
    if (!launched.size) launched = launch_read();
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
    bool alone = world.all.comm == MPI_COMM_NULL;
    dist_barrier(NULL);
    synchronize_all();
    nccl_close(&world.all);
    watch_stop();
    free_texts(world.host_names);
    free(world.host_numbers);
    free(world.all.world_rank);
    device_free(host(), world.stage);
    free(world.why_no_nccl);
    if (!alone) MPI_Finalize();
    launch_dismiss_witness();
    speak_as(NULL);
    memset(&world, 0, sizeof world);
    launched = (Launch){0};
    host_leader = 0;
}
