// child.c: see child.h.
#include "child.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int try_in_child(void (*what)(void *with), void *with) {
    fflush(NULL); // else the child, should it die(), would write what waits in files once more
    pid_t child = fork();
    CHECK(child >= 0, "no second process could be started");
    if (child == 0) {
        dup2(STDOUT_FILENO, STDERR_FILENO); // the message belongs to what is shown
        what(with);
        _exit(EXIT_SUCCESS);
    }
    int status;
    pid_t ended = waitpid(child, &status, 0);
    CHECK(ended == child, "the child process was lost");
    CHECK(WIFEXITED(status), "the child process crashed");
    return WEXITSTATUS(status);
}
