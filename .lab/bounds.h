// bounds.h: a command that is run in bounds of time, memory, processes and output, with all that it
// starts.
#ifndef BOUNDS_H
#define BOUNDS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Bounds {
    double seconds;   // from its start
    double megabytes; // of memory, of all its processes together
    int processes;    // at once; a process's threads are one with it
    size_t printed;   // bytes on stdout and stderr together
    bool strangers;   // may have no memory that belongs to no process (memory_filter.h)
    // What this is, "04-3, part 2": it is said if it takes long. NULL: nothing is.
    const char *doing;
} Bounds;

typedef enum HowEnded { BY_ITSELF, TOO_SLOW, TOO_LARGE, TOO_MANY, TOO_LOUD } HowEnded;

typedef struct Outcome {
    HowEnded how;
    int status;     // of one that ended by itself; 128 + S: signal S ended it
    char *printed;  // what it printed, up to the bound
    double seconds; // that it took
} Outcome;

// Runs argv[0], found in PATH. The command has nothing on stdin.
// Whoever is left when the command has ended, or has left its bounds, is killed. The caller has one
// such command at a time, and no other children. Once interrupted(), the command is killed and this
// process ends, cleaned up as before_dying() has it.
Outcome run_in_bounds(char *const argv[], Bounds bounds);
void outcome_free(Outcome *outcome);

#endif
