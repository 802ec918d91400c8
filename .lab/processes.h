// processes.h: what this process has started, and what that has started, found in /proc.
#ifndef PROCESSES_H
#define PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

// What all of them have together: processes, and memory as far as it is in use.
typedef struct Use {
    int processes;
    double megabytes;
} Use;
Use use_of_ours(void);
// Kills all of them, until none is left.
void kill_ours(void);
// Whether any process of the machine is this user's.
bool user_has_processes(uid_t user);

#endif
