// bounds.c: see bounds.h. What cannot be asked of the kernel without being root, the memory of a
// process and its children together, is looked at 50 times a second, and so is their number: many
// that compute would take the cores from the hand-ins that are graded beside this one.
#include "bounds.h"
#include "memory_filter.h"
#include "processes.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/number.h"
#include "common/program/interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAID_AFTER = 5 }; // seconds after which it is said what takes so long

// ---- what it says ----------------------------------------------------------------------------

typedef struct Text {
    char *bytes;
    size_t length, most; // what is beyond is dropped
    bool too_long;
} Text;

// Reads what is there; false at the end.
static bool read_some(int from, Text *text) {
    char bytes[4096];
    ssize_t n = read(from, bytes, sizeof bytes);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    if (n == 0) return false;
    size_t room = text->most - text->length, kept = (size_t)n < room ? (size_t)n : room;
    if (kept < (size_t)n) text->too_long = true;
    text->bytes = xrealloc(text->bytes, text->length + kept + 1);
    for (size_t i = 0; i < kept; i++) // a text, whatever was printed
        text->bytes[text->length + i] = bytes[i] ? bytes[i] : '?';
    text->length += kept;
    text->bytes[text->length] = '\0';
    return true;
}

static Text text_of(size_t most) { return (Text){.bytes = xstrdup(""), .most = most}; }

// ---- the command -----------------------------------------------------------------------------

typedef struct Command {
    pid_t pid;
    int printed; // -1: closed
} Command;

// Whatever else the grader has open, the report of a class among it, is not for strangers.
static void close_from(int first) {
    long file;
    DIR *open_files = opendir("/proc/self/fd");
    CHECK(open_files, "/proc must be there");
    for (struct dirent *entry; (entry = readdir(open_files));)
        if (read_whole(entry->d_name, first, INT_MAX, &file) && file != dirfd(open_files))
            close((int)file);
    closedir(open_files);
}

static _Noreturn void become(char *const argv[], int printed, bool filter) {
    int nothing = open("/dev/null", O_RDONLY);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a grader that is killed leaves nobody
    setsid();                         // it has no terminal to read from
    dup2(nothing, STDIN_FILENO);
    dup2(printed, STDOUT_FILENO);
    dup2(printed, STDERR_FILENO);
    close_from(3);
    if (filter) refuse_memory_without_owner();
    execvp(argv[0], argv);
    fprintf(stderr, "error: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static Command start(char *const argv[], bool filter) {
    int printed[2];
    CHECK(pipe2(printed, O_CLOEXEC) == 0, "no pipe could be made");
    // Whose parent has ended becomes a child of this process: nobody gets away.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    Command command = {.pid = fork(), .printed = printed[0]};
    CHECK(command.pid >= 0, "no process could be started");
    if (command.pid == 0) become(argv, printed[1], filter);
    close(printed[1]);
    return command;
}

// Waits 20 ms at most for something to read. (poll() passes over what is -1.)
static void read_what_comes(Command *command, Text *printed) {
    if (poll(&(struct pollfd){command->printed, POLLIN, 0}, 1, 20) <= 0) return;
    if (read_some(command->printed, printed)) return;
    close(command->printed);
    command->printed = -1;
}

// What is still on its way when the command has ended.
static void read_the_rest(Command *command, Text *printed) {
    int from = command->printed;
    if (from < 0) return;
    fcntl(from, F_SETFL, O_NONBLOCK);
    while (poll(&(struct pollfd){from, POLLIN, 0}, 1, 0) > 0 && !printed->too_long &&
           read_some(from, printed))
        continue;
    close(from);
}

static HowEnded wait_in_bounds(Command *command, Text *printed, Bounds bounds, int *status) {
    double began = seconds_now(), looked = 0;
    bool said = false;
    for (;;) {
        read_what_comes(command, printed);
        if (waitpid(command->pid, status, WNOHANG) == command->pid) return BY_ITSELF;
        if (printed->too_long) return TOO_LOUD;
        if (interrupted()) return TOO_SLOW; // for who waits, whatever it is
        double now = seconds_now();
        if (now - began > bounds.seconds) return TOO_SLOW;
        if (bounds.doing && !said && now - began > SAID_AFTER) {
            warn("%s: %d seconds so far; if it does not end, it is ended after %.0f", bounds.doing,
                 SAID_AFTER, bounds.seconds);
            said = true;
        }
        if (command->printed < 0) usleep(10000); // nothing to wait for any more
        if (now - looked < 0.02) continue;
        looked = now;
        Use use = use_of_ours();
        if (use.megabytes > bounds.megabytes) return TOO_LARGE;
        if (use.processes > bounds.processes) return TOO_MANY;
    }
}

Outcome run_in_bounds(char *const argv[], Bounds bounds) {
    double began = seconds_now();
    Text printed = text_of(bounds.printed);
    Command command = start(argv, bounds.strangers);
    Outcome outcome = {0};
    int status = 0;
    outcome.how = wait_in_bounds(&command, &printed, bounds, &status);
    kill_ours();
    if (interrupted()) {
        clean_up_before_dying();
        exit(EXIT_INTERRUPTED);
    }
    read_the_rest(&command, &printed);
    outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    outcome.printed = printed.bytes;
    outcome.seconds = seconds_now() - began;
    return outcome;
}

void outcome_free(Outcome *outcome) { free(outcome->printed); }
