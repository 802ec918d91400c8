// sandbox.h: where what was handed in is compiled and run, by bubblewrap (bwrap): it sees the
// system's programs and libraries, the project's headers and library, and one folder of its own;
// all of it read-only but that folder while it is compiled, one file in it while it runs, and /tmp
// and /dev/shm, which are small and in memory. No network, no other processes, no devices, another
// user than root.
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>

typedef enum Trust {
    CONTAINED,  // in bubblewrap's sandbox
    OTHER_USER, // none; but root has it run by a user that owns nothing
    OWN_WORK    // none: what is run may do what its user may
} Trust;

typedef struct Sandbox {
    Trust trust;
    const char *project; // absolute paths: the project,
    const char *library; // the book's library,
    const char *given;   // what the exercise was given, compiled,
    const char *own;     // and the folder for what is made of the hand-in
    bool may_write;      // into `own`
    const char *facts;   // a file in it that may be written all the same; NULL: none
} Sandbox;

// Whether what is run so sees what it must, and nothing but a sandbox's files if it is in one; if
// not, why. free() that.
bool sandbox_works(const Sandbox *sandbox, char **why);

// The argument list that runs a command of the shell there, in the project's folder; $OWN is `own`.
// sandbox_command_free() it.
char **sandbox_command(const Sandbox *sandbox, const char *command);
void sandbox_command_free(char **arguments);

#endif
