// processes.h: what this process has started, and what that has started, found in /proc.
#ifndef PROCESSES_H
#define PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

// The memory of all of them together, as far as it is in use.
double megabytes_of_ours(void);
// Kills all of them, until none is left.
void kill_ours(void);
// Whether any process of the machine is this user's.
bool user_has_processes(uid_t user);

#endif
