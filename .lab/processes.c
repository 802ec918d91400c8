// processes.c: see processes.h.
#include "processes.h"
#include "common/base/error.h"
#include "common/base/number.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Process {
    pid_t pid, parent;
    uid_t user;
    double megabytes;
    bool ours;
} Process;

static bool read_process(pid_t pid, Process *p) {
    char path[64], text[1024];
    struct stat status;
    long pages = 0;
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return false; // it has just ended
    bool known = fstat(fileno(file), &status) == 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    char *after_name = strrchr(text, ')'); // a name may have spaces and brackets in it
    if (!known || !after_name ||
        sscanf(after_name + 1,
               " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
               "%*d %*d %*u %*u %ld",
               &parent, &pages) != 2)
        return false;
    *p = (Process){.pid = pid,
                   .parent = parent,
                   .user = status.st_uid,
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
        long pid;
        if (!read_whole(entry->d_name, 1, INT_MAX, &pid)) continue;
        if (!read_process((pid_t)pid, &one)) continue;
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

Use use_of_ours(void) {
    size_t n;
    Use use = {0};
    Process *all = all_processes(&n);
    mark_ours(all, n);
    for (size_t i = 0; i < n; i++) {
        if (!all[i].ours) continue;
        use.processes++;
        use.megabytes += all[i].megabytes;
    }
    free(all);
    return use;
}

// Until none is left: one that starts others faster than they are seen here is slowed down first.
void kill_ours(void) {
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

bool user_has_processes(uid_t user) {
    size_t n;
    bool has = false;
    Process *all = all_processes(&n);
    for (size_t i = 0; i < n; i++) has = has || all[i].user == user;
    free(all);
    return has;
}
