// launch.c: see group.h.
#include "group.h"

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

static char *way_out(const Launch *launch) {
    if (strcmp(launch->by, "srun") == 0)
        return xstrdup("srun --mpi=pmix (MPICH: pmi2), if srun --mpi=list has it; else let mpirun "
                       "start them from the batch script");
    return launch->by_mpi
               ? xstrdup("start it with the mpirun of the MPI that it was built with; without any, "
                         "make setup installs one")
               : xprintf("mpirun -np %d starts them; for one process alone, unset %s", launch->size,
                         launch->variable);
}

// A child that speaks if this process ends without a word (see below). 0: there is none.
// (Atomic, as a thread that dies may read it.)
static _Atomic sig_atomic_t witness;

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

void launch_have_witness(const Launch *launch, const char *host) {
    int ends[2];
    if (launch->size == 1 || pipe2(ends, O_CLOEXEC) != 0) return; // (it helps, but need not be)
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
