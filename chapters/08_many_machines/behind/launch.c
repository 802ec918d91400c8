// launch.c: see launch.h.
#include "launch.h"

#include "common/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool is_by(const Launch *launch, const char *name) { return strcmp(launch->by, name) == 0; }

static char *way_out(const Launch *launch) {
    if (is_by(launch, "srun"))
        return xstrdup("srun --mpi=pmix (MPICH: pmi2) starts processes that find each other, if "
                       "Slurm has it (srun --mpi=list); else let mpirun start them from the batch "
                       "script");
    if (launch->by_mpi)
        return xstrdup("start it with the mpirun of the MPI that it was built with; without any, "
                       "make setup installs one");
    return xprintf("mpirun -np %d starts them; for one process alone, unset %s", launch->size,
                   launch->variable);
}

// A child that speaks if this process ends without a word (see below). 0: there is none.
static volatile sig_atomic_t witness;

static void send_witness_away(void) {
    if (witness > 0) kill((pid_t)witness, SIGKILL);
}

void launch_check(const Launch *launch, int found) {
    const unsigned UNTIL_RANK_0_HAS_SAID_IT = 3;
    if (found >= launch->size) return;
    if (launch->rank > 0) { // what srun has started may go on when rank 0 has ended
        sleep(UNTIL_RANK_0_HAS_SAID_IT);
        send_witness_away();
        _exit(EXIT_FAILURE);
    }
    die(way_out(launch),
        "%s=%d says that %s started %d processes, but each is a world of %d: all would do the same "
        "work",
        launch->variable, launch->size, launch->by, launch->size, found);
}

void launch_host_name(char name[], size_t size) {
    name[0] = name[size - 1] = '\0';
    gethostname(name, size - 1);
    name[strcspn(name, ".")] = '\0';
}

// ## When a rank ends without a word
//
// Nobody can say that he was killed. So each rank has a child that only waits: the pipe from its
// parent ends when the parent does, however that comes about, and then the child says so. What the
// parent says itself, it sends the child away for. The launcher ends the others by a signal to
// their process groups: that ends their children, too, so nothing is said of those.

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

void launch_have_witness(const Launch *launch) {
    char host[256];
    int ends[2];
    if (launch->size == 1 || pipe2(ends, O_CLOEXEC) != 0) return; // (it helps, but need not be)
    launch_host_name(host, sizeof host);
    char *text = xprintf("%s: error: rank %d on %s has ended in the middle of its work, and has "
                         "not said why\n"
                         "hint: was it killed? By the kernel, if memory was short: dmesg knows\n",
                         program_name(), launch->rank, host);
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

void launch_dismiss_witness(void) {
    pid_t child = (pid_t)witness;
    if (child == 0) return;
    send_witness_away();
    witness = 0;
    waitpid(child, NULL, 0);
}

// ## When the launcher hangs

static bool is_mpirun_or_its_daemon(pid_t process) {
    static const char *const names[] = {"mpirun",  "mpiexec", "orterun", "orted",
                                        "prterun", "prte",    "prted"};
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%ld/comm", (long)process);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    if (!fgets(name, sizeof name, file)) *name = '\0';
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static bool ends_within(pid_t process, double seconds) {
    const double STEP = 0.1;
    for (double waited = 0; waited < seconds; waited += STEP) {
        if (kill(process, 0) != 0) return true;
        nanosleep(&(struct timespec){0, (long)(STEP * 1e9)}, NULL);
    }
    return kill(process, 0) != 0;
}

// This process will be killed by the launcher, so a child stays behind: out of the launcher's
// reach, and without our files, at whose ends the launcher listens. (A child of many threads'
// process may do little; this is allowed.) The first rank of the host sees to it, the next one if
// that could not: asked twice at once, mpirun ends without removing its files.
void launch_ends_with_us(void) {
    enum { MOST_FILES = 1 << 16 };
    const double IN_ORDER = 3, ASKED = 1;     // seconds
    int before_us = launch_read().local_rank; // (-1: unknown)
    double patience = IN_ORDER + 3 * ASKED * (before_us > 0 ? before_us : 0);
    pid_t launcher = getppid();
    if (!is_mpirun_or_its_daemon(launcher) || fork() != 0) return;
    setsid();
    for (int file = 0; file < MOST_FILES; file++) close(file);
    if (ends_within(launcher, patience)) _exit(0);
    kill(launcher, SIGTERM);
    if (ends_within(launcher, ASKED)) _exit(0);
    kill(launcher, SIGTERM); // orted minds only the second
    if (!ends_within(launcher, ASKED)) kill(launcher, SIGKILL);
    _exit(0);
}
