// start_ranks.c: see start_ranks.h.
#include "start_ranks.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/launcher.h"
#include "common/program/facts.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char *case_of(int argc, char *argv[]) {
    set_program_name(argv[0]);
    if (argc == 3 && strcmp(argv[1], "--case") == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // whatever ends mpirun ends its ranks
        return argv[2];
    }
    Launch launch = launch_read();
    if (launch.size > 1)
        die_usage("start it by hand, without a launcher: it starts its ranks itself",
                  "%s started this exercise as %d processes", launch.by, launch.size);
    return NULL;
}

// ## Starting

static char *own_path(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) die("is there no /proc?", "this program does not find itself");
    path[length] = '\0';
    return xstrdup(path);
}

// .make/ranks.sh in one of the folders above the program's: so it is found from anywhere.
static char *ranks_script(void) {
    char *folder = own_path();
    for (char *slash; (slash = strrchr(folder, '/'));) {
        *slash = '\0';
        char *path = xprintf("%s/.make/ranks.sh", folder);
        if (access(path, R_OK) == 0) {
            free(folder);
            return path;
        }
        free(path);
    }
    free(folder);
    return xstrdup(".make/ranks.sh");
}

// In the child. If this program is killed, whatever the way, mpirun is told to end, and ends its
// ranks: nothing is left that computes on.
static _Noreturn void become_ranks(int output, char *arguments[]) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(STDIN_FILENO);                         // mpirun would read what is meant for this program
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // of a build with sanitizers: MPI leaves memory
    execvp(arguments[0], arguments);
    _exit(127);
}

static pid_t start(int k, const char *case_name, int *output) {
    int ends[2];
    char ranks[16], *script = ranks_script(), *self = own_path();
    char *arguments[] = {"sh", script, ranks, self, "--case", (char *)case_name, NULL};
    snprintf(ranks, sizeof ranks, "%d", k);
    fflush(NULL);
    if (pipe(ends) != 0) die("close other programs", "no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) die("close other programs", "no second process: %s", strerror(errno));
    if (child == 0) {
        close(ends[0]);
        become_ranks(ends[1], arguments);
    }
    close(ends[1]);
    *output = ends[0];
    free(script);
    free(self);
    return child;
}

// ## Waiting

// Reads on until the other end is closed; false: it is not, at that time.
static bool read_until(int output, char *said, size_t size, double time) {
    size_t length = 0;
    char rest[4096];
    for (double left; (left = time - seconds_now()) > 0;) {
        struct pollfd there = {.fd = output, .events = POLLIN};
        if (poll(&there, 1, (int)(left * 1e3) + 1) <= 0) continue;
        size_t room = size - 1 - length;
        ssize_t n = read(output, room > 0 ? said + length : rest, room > 0 ? room : sizeof rest);
        if (n == 0) return true;
        if (n > 0 && room > 0) length += (size_t)n;
        said[length] = '\0';
    }
    return false;
}

// mpirun is asked to end, and ends its ranks; if it does not, it is killed.
static void end(pid_t mpirun, int output) {
    const double PATIENCE = 5;
    char ignored[1];
    kill(mpirun, SIGTERM);
    if (!read_until(output, ignored, sizeof ignored, seconds_now() + PATIENCE))
        kill(mpirun, SIGKILL);
}

// How many programs want each core of this computer now, 1 to 20: waits are so much longer.
static double crowd(void) {
    int running = 0;
    FILE *file = fopen("/proc/loadavg", "r");
    if (file && fscanf(file, "%*f %*f %*f %d", &running) != 1) running = 0;
    if (file) fclose(file);
    return fmin(fmax(running / (double)num_cores(), 1), 20);
}

double patience_of_ranks(void) {
    const char *text = getenv("PATIENCE");
    return text ? atof(text) : 1;
}

int run_as_ranks(int k, const char *case_name, char *said, size_t size, double deadline) {
    int output, status;
    char patience[16];
    snprintf(patience, sizeof patience, "%.1f", crowd());
    setenv("PATIENCE", patience, 1);
    deadline *= patience_of_ranks();
    pid_t mpirun = start(k, case_name, &output);
    said[0] = '\0';
    bool in_time = read_until(output, said, size, seconds_now() + deadline);
    if (!in_time) end(mpirun, output);
    close(output);
    while (waitpid(mpirun, &status, 0) < 0)
        if (errno != EINTR) die("try again", "mpirun was lost: %s", strerror(errno));
    char *missing = said_after(said, "ranks.sh: error: ");
    if (missing) die("make setup installs MPI", "%s", missing);
    if (!in_time) return STATUS_TOO_LATE;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// ## Cases

void begin_section(int section) {
    facts_go_on(getenv("FACTS"));
    printf("section: %d\n", section);
    fflush(stdout);
}

static int last_section(const char *said) {
    int section = -1;
    for (const char *at = said; (at = strstr(at, "section: ")); at++)
        section = atoi(at + strlen("section: "));
    return section;
}

static _Noreturn void no_ranks(const char *said) {
    char *error = said_after(said, "error: ");
    fprintf(stderr,
            "%s: error: ranks do not come together on this machine: %s\n"
            "hint: does its own name lead to it (/etc/hosts), and do the chapter's runs work?\n",
            program_name(), error ? error : "mpirun has ended, or it took too long");
    exit(STATUS_MACHINE);
}

// (On a very busy machine ranks do not find each other in time: that is no fault of your part, so
// they are started once more, and then given up.)
void run_sections(int k, int first, int end, double deadline,
                  void (*lost)(int section, const char *said)) {
    static char said[SAID_BYTES];
    setenv("FACTS", facts_pass_on(), 1);
    for (int next = first, tries = 0; next < end;) {
        char name[16];
        snprintf(name, sizeof name, "%d", next);
        if (run_as_ranks(k, name, said, sizeof said, deadline) == EXIT_SUCCESS) return;
        int section = last_section(said);
        if (section >= 0 && lost) lost(section, said);
        tries = section < 0 ? tries + 1 : 0;
        next = section < 0 ? next : section + 1;
        if (tries == 2) no_ranks(said);
    }
}

// ## What they have said

char *said_after(const char *said, const char *begin) {
    const char *at = strstr(said, begin);
    if (!at) return NULL;
    at += strlen(begin);
    return xprintf("%.*s", (int)strcspn(at, "\r\n"), at);
}
