// platform_posix.c: what platform.h declares, on Linux.
#include "platform.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h> // PATH_MAX
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

extern char **environ;

// ---- threads ------------------------------------------------------------------------------------

const bool has_threads = true;

Thread thread_start(void *(*work)(void *argument), void *argument) {
    pthread_t thread;
    return pthread_create(&thread, NULL, work, argument) == 0 ? (Thread)thread : 0;
}
void thread_join(Thread thread) { pthread_join((pthread_t)thread, NULL); }

// (On Linux, PTHREAD_MUTEX_INITIALIZER and PTHREAD_COND_INITIALIZER are zeros.)
_Static_assert(sizeof(pthread_mutex_t) <= sizeof(Mutex), "Mutex is too small");
_Static_assert(sizeof(pthread_cond_t) <= sizeof(Condition), "Condition is too small");
static pthread_mutex_t *lock_of(Mutex *mutex) { return (pthread_mutex_t *)mutex; }
static pthread_cond_t *signal_of(Condition *condition) { return (pthread_cond_t *)condition; }

void mutex_lock(Mutex *mutex) { pthread_mutex_lock(lock_of(mutex)); }
void mutex_unlock(Mutex *mutex) { pthread_mutex_unlock(lock_of(mutex)); }
void condition_wait(Condition *c, Mutex *mutex) { pthread_cond_wait(signal_of(c), lock_of(mutex)); }
void condition_wake_one(Condition *condition) { pthread_cond_signal(signal_of(condition)); }
void condition_wake_all(Condition *condition) { pthread_cond_broadcast(signal_of(condition)); }

void sleep_seconds(double seconds) {
    time_t whole = (time_t)seconds;
    nanosleep(&(struct timespec){whole, (long)((seconds - (double)whole) * 1e9)}, NULL);
}

// ---- other processes ----------------------------------------------------------------------------

const bool has_processes = true;

// Processes that were started and have not ended. A signal handler may read them at any time.
enum { MOST_PROCESSES = 8 };
static atomic_int started[MOST_PROCESSES]; // 0: a free place

static void replace(Process old, Process new) {
    for (int i = 0; i < MOST_PROCESSES; i++) {
        int expected = old;
        if (atomic_compare_exchange_strong(&started[i], &expected, new)) return;
    }
    CHECK(old, "make MOST_PROCESSES larger");
}

// A process that is being started is not among them yet. Meanwhile, signals wait in the thread that
// starts it, and a handler in another thread waits here.
static atomic_bool starting;

static sigset_t hold_signals(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    starting = true;
    return before;
}

static void release_signals(const sigset_t *before) {
    starting = false;
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void end_processes(void) {
    for (int ms = 0; starting && ms < 5000; ms++) poll(NULL, 0, 1);
    for (int i = 0; i < MOST_PROCESSES; i++) {
        Process process = atomic_load(&started[i]);
        if (process) process_kill(process);
    }
}

__attribute__((constructor)) static void end_when_dying(void) { clean_up_with(end_processes); }

Process process_start(char *const arguments[], bool silent) {
    pid_t process;
    posix_spawnattr_t own_group;
    posix_spawn_file_actions_t output;
    posix_spawnattr_init(&own_group);
    posix_spawnattr_setflags(&own_group, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    sigset_t mask = hold_signals();
    posix_spawnattr_setsigmask(&own_group, &mask);
    posix_spawn_file_actions_init(&output);
    for (int file = STDOUT_FILENO; silent && file <= STDERR_FILENO; file++)
        posix_spawn_file_actions_addopen(&output, file, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(&process, arguments[0], &output, &own_group, arguments, environ);
    posix_spawn_file_actions_destroy(&output);
    posix_spawnattr_destroy(&own_group);
    if (!failed) replace(0, process);
    release_signals(&mask);
    return failed ? 0 : process;
}

// (What is still in a buffer would be written by the child once more.)
static pid_t fork_flushed(void) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "no second process could be started");
    for (int i = 0; i < MOST_PROCESSES && child == 0; i++) started[i] = 0; // they are the parent's
    return child;
}

Process process_fork(void (*run)(const void *with), const void *with) {
    sigset_t mask = hold_signals();
    pid_t child = fork_flushed();
    setpgid(child, child); // in both, as either may be first; 0 is the child itself
    if (child > 0) replace(0, child);
    release_signals(&mask);
    if (child > 0) return child;
    run(with);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

bool process_has_ended(Process process, int *status) {
    int raw;
    pid_t ended = waitpid(process, &raw, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    replace(process, 0);
    *status = ended < 0 ? -SIGKILL : WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw);
    return true;
}

double process_seconds(Process process) {
    clockid_t its_clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(process, &its_clock) == 0) clock_gettime(its_clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void process_kill(Process process) {
    bool has_group = kill(-process, SIGKILL) == 0;
    if (!has_group && waitpid(process, NULL, WNOHANG) == 0) kill(process, SIGKILL); // not yet
    waitpid(process, NULL, 0);
    replace(process, 0);
}

int try_in_child(void (*what)(void *with), void *with) {
    pid_t child = fork_flushed();
    if (child == 0) {
        dup2(STDOUT_FILENO, STDERR_FILENO); // the message belongs to what is shown
        what(with);
        _exit(EXIT_SUCCESS);
    }
    int status;
    pid_t ended = waitpid(child, &status, 0);
    CHECK(ended == child, "the child process was lost");
    CHECK(WIFEXITED(status), "the child process crashed");
    return WEXITSTATUS(status);
}

void file_permit(const char *path, unsigned mode) { chmod(path, mode); }

// ---- this computer ------------------------------------------------------------------------------

static cpu_set_t in_sight; // when the program was started

// Must run before libraries are initialized, as OpenMP may put this thread on one core.
static void look_at_cores(void) { sched_getaffinity(0, sizeof in_sight, &in_sight); }
__attribute__((section(".preinit_array"), used)) static void (*look_first)(void) = look_at_cores;

int cores_in_sight(void) {
    if (CPU_COUNT(&in_sight) == 0) look_at_cores(); // (without glibc)
    int cores = CPU_COUNT(&in_sight);
    if (cores == 0) cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores;
}

void stay_on_core(int core) {
    cpu_set_t set = in_sight;
    for (int cpu = 0, n = 0; core >= 0 && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &in_sight) && n++ != core) CPU_CLR(cpu, &set);
    sched_setaffinity(0, sizeof set, &set); // may fail
}

double computer_memory(void) {
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

int terminal_columns(void) {
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    return size.ws_col;
}

char *path_of_program(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return NULL;
    path[length] = '\0';
    return xstrdup(path);
}

// A core remembers where few pages are (in its TLB), so larger pages let it reach more memory.
void *memory_new(size_t bytes) {
    enum { LARGE_PAGE = 2 << 20 };
    void *memory = NULL;
    bool large = bytes >= LARGE_PAGE;
    if (posix_memalign(&memory, large ? LARGE_PAGE : 64, bytes) != 0) return NULL;
    if (large) madvise(memory, bytes, MADV_HUGEPAGE); // may fail
    return memory;
}

// ---- OpenMP's variables -------------------------------------------------------------------------
//
// OpenMP's library reads them before any code of ours runs. A program that needs other values sets
// them and starts itself again.

#if defined(_OPENMP) && defined(__GLIBC__)
// share_cores() decides how many threads there are and on which cores. With these variables OpenMP
// would put the first thread of every device on the first core.
static const char *const placing[] = {"OMP_PROC_BIND", "OMP_PLACES",    "GOMP_CPU_AFFINITY",
                                      "KMP_AFFINITY",  "KMP_HW_SUBSET", "OMP_DYNAMIC"};

// The user wants the cores of all places together.
static void run_on_all_places(void) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int place = 0; place < omp_get_num_places(); place++) {
        int n = omp_get_place_num_procs(place);
        int *numbers = xmalloc(sizeof *numbers * (size_t)(n + 1));
        omp_get_place_proc_ids(place, numbers);
        for (int i = 0; i < n; i++) CPU_SET((size_t)numbers[i], &cores);
        free(numbers);
    }
    CPU_AND(&cores, &cores, &in_sight);
    if (CPU_COUNT(&cores) > 0) in_sight = cores;
    stay_on_core(-1);
}

// OpenMP's threads spin while they wait for each other. If another program is busy, they keep the
// thread that they wait for from its core, and a run takes up to 20 times as long. With
// OMP_WAIT_POLICY=passive they sleep, but waking up takes longer than many of LeNet's kernels. So
// they spin 3000 times before that: LeNet's step was a quarter shorter with 1000 turns on two idle
// cores, and another 3 % with 3000. Beside a busy program the number makes no difference. The
// user's own settings stay.
__attribute__((constructor)) static void set_openmps_variables(int argc, char *argv[]) {
    (void)argc;
    bool placed = false, may_spin = !getenv("OMP_WAIT_POLICY");
    for (size_t i = 0; i < sizeof placing / sizeof *placing; i++)
        placed = placed || getenv(placing[i]);
    if (placed) run_on_all_places();
    for (size_t i = 0; i < sizeof placing / sizeof *placing; i++) unsetenv(placing[i]);
    if (may_spin) {
        setenv("OMP_WAIT_POLICY", "passive", 1);
        setenv("GOMP_SPINCOUNT", "3000", 0);
    }
    char *path = placed || may_spin ? path_of_program() : NULL;
    if (path) execv(path, argv); // if that fails, this one goes on
    free(path);
}
#endif
