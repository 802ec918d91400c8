// child.h: try something that ends the program, and go on.
#ifndef CHILD_H
#define CHILD_H

// Calls what(with) in a child process, whose messages are shown on stdout, and returns the status
// it ended with: 0 if what() returned. For demonstrations of errors. The child must not use
// devices that compute: neither worker threads nor a GPU's context go with it. (Those without
// values it may use, after devices_after_fork().)
int try_in_child(void (*what)(void *with), void *with);

#endif
