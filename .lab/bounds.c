// bounds.c: see bounds.h. What cannot be asked of the kernel without being root, the memory of a
// process and its children together, is looked at 50 times a second.
#include "bounds.h"
#include "common/base/clock.h"
#include "common/base/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_OPEN = 4096 }; // files that this process may have

// ---- who is there ----------------------------------------------------------------------------

typedef struct Process {
    pid_t pid, parent;
    double megabytes;
    bool ours;
} Process;

static bool read_process(const char *pid, Process *p) {
    char path[64], text[1024];
    long pages = 0;
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return false; // it has just ended
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    char *after_name = strrchr(text, ')'); // a name may have spaces and brackets in it
    if (!after_name || sscanf(after_name + 1,
                              " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                              "%*d %*d %*u %*u %ld",
                              &parent, &pages) != 2)
        return false;
    *p = (Process){.pid = atoi(pid),
                   .parent = parent,
                   .megabytes = (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6};
    return true;
}

// All processes there are. free() them.
static Process *all_processes(size_t *count) {
    Process *all = NULL, one;
    size_t n = 0, room = 0;
    DIR *folder = opendir("/proc");
    CHECK(folder, "/proc must be there");
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
        if (!read_process(entry->d_name, &one)) continue;
        if (n == room) all = xgrow(all, room = 2 * room + 64, sizeof *all);
        all[n++] = one;
    }
    closedir(folder);
    *count = n;
    return all;
}

// Marks what this process has started, and what that has started: children come after parents only
// mostly, so until no more are found.
static void mark_ours(Process *all, size_t n) {
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            bool parent_ours = all[i].parent == getpid();
            for (size_t j = 0; j < n && !parent_ours; j++)
                parent_ours = all[j].ours && all[j].pid == all[i].parent;
            if (all[i].ours || !parent_ours) continue;
            all[i].ours = true;
            more = true;
        }
    }
}

static double megabytes_of_ours(void) {
    size_t n;
    double megabytes = 0;
    Process *all = all_processes(&n);
    mark_ours(all, n);
    for (size_t i = 0; i < n; i++)
        if (all[i].ours) megabytes += all[i].megabytes;
    free(all);
    return megabytes;
}

// Until none is left: one that starts others faster than they are seen here is slowed down first.
static void kill_ours(void) {
    for (bool left = true; left;) {
        size_t n;
        Process *all = all_processes(&n);
        mark_ours(all, n);
        left = false;
        for (size_t i = 0; i < n; i++)
            if (all[i].ours) kill(all[i].pid, SIGSTOP);
        for (size_t i = 0; i < n; i++)
            if (all[i].ours) left = kill(all[i].pid, SIGKILL) == 0 || left;
        free(all);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        if (left) usleep(2000);
    }
}

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
    int printed, socket; // -1: closed
} Command;

static _Noreturn void become(char *const argv[], int printed, int socket) {
    int nothing = open("/dev/null", O_RDONLY);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a grader that is killed leaves nobody
    setsid();                         // it has no terminal to read from
    dup2(nothing, STDIN_FILENO);
    dup2(printed, STDOUT_FILENO);
    dup2(printed, STDERR_FILENO);
    if (socket >= 0) {
        dup2(socket, 3);
        fcntl(3, F_SETFD, 0); // (if it was 3, nothing was copied)
    }
    // Whatever else the grader has open, the report of a class among it, is not for strangers.
    for (int file = socket >= 0 ? 4 : 3; file < MOST_OPEN; file++) close(file);
    execvp(argv[0], argv);
    fprintf(stderr, "error: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static Command start(char *const argv[], const char *secret) {
    int printed[2], sockets[2] = {-1, -1};
    CHECK(pipe2(printed, O_CLOEXEC) == 0, "no pipe could be made");
    if (secret) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0,
              "no socket could be made");
        dprintf(sockets[0], "%s\n", secret);
    }
    // Whose parent has ended becomes a child of this process: nobody gets away.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    Command command = {.pid = fork(), .printed = printed[0], .socket = sockets[0]};
    CHECK(command.pid >= 0, "no process could be started");
    if (command.pid == 0) become(argv, printed[1], sockets[1]);
    close(printed[1]);
    if (secret) close(sockets[1]);
    return command;
}

// Waits 20 ms at most for something to read. (poll() passes over what is -1.)
static void read_what_comes(Command *command, Text *printed, Text *told) {
    struct pollfd from[] = {{command->printed, POLLIN, 0}, {command->socket, POLLIN, 0}};
    if (poll(from, 2, 20) <= 0) return;
    if (from[0].revents && !read_some(command->printed, printed)) {
        close(command->printed);
        command->printed = -1;
    }
    if (from[1].revents && !read_some(command->socket, told)) {
        close(command->socket);
        command->socket = -1;
    }
}

// What is still on its way when the command has ended.
static void read_the_rest(Command *command, Text *printed, Text *told) {
    int from[] = {command->printed, command->socket};
    Text *to[] = {printed, told};
    for (int i = 0; i < 2; i++) {
        if (from[i] < 0) continue;
        fcntl(from[i], F_SETFL, O_NONBLOCK);
        while (poll(&(struct pollfd){from[i], POLLIN, 0}, 1, 0) > 0 && !to[i]->too_long &&
               read_some(from[i], to[i]))
            continue;
        close(from[i]);
    }
}

static HowEnded wait_in_bounds(Command *command, Text *printed, Text *told, Bounds bounds,
                               int *status) {
    double began = seconds_now(), looked = 0;
    for (;;) {
        read_what_comes(command, printed, told);
        if (waitpid(command->pid, status, WNOHANG) == command->pid) return BY_ITSELF;
        if (printed->too_long) return TOO_LOUD;
        double now = seconds_now();
        if (now - began > bounds.seconds) return TOO_SLOW;
        if (command->printed < 0) usleep(10000); // nothing to wait for any more
        if (now - looked < 0.02) continue;
        looked = now;
        if (megabytes_of_ours() > bounds.megabytes) return TOO_LARGE;
    }
}

Outcome run_in_bounds(char *const argv[], const char *secret, Bounds bounds) {
    double began = seconds_now();
    Text printed = text_of(bounds.printed), told = text_of(1 << 14);
    Command command = start(argv, secret);
    Outcome outcome = {0};
    int status = 0;
    outcome.how = wait_in_bounds(&command, &printed, &told, bounds, &status);
    kill_ours();
    read_the_rest(&command, &printed, &told);
    outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    outcome.printed = printed.bytes;
    outcome.told = told.bytes;
    outcome.seconds = seconds_now() - began;
    return outcome;
}

void outcome_free(Outcome *outcome) {
    free(outcome->printed);
    free(outcome->told);
}
