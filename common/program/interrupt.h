// interrupt.h: Ctrl-C, SIGTERM and SIGHUP end a program and leave nothing half-written.
//
// They end it at once, whatever it is doing, and the shell sees that a signal ended it. A training
// loop calls finish_on_interrupt() when it has something to keep, and asks interrupted() at each
// minibatch. The first signal then only makes that true, so the program can write what it has and
// return EXIT_INTERRUPTED. A second signal still ends it at once, and so does the time limit below.
#pragma once

#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 }; // 128 + SIGINT, as in shells; the same for all three signals

// parse_flags() calls it.
void catch_interrupts(void);

// The program has 10 seconds to ask interrupted() after a signal, or twice the longest time between
// two questions so far if that is more. It then has the same time again to end.
void finish_on_interrupt(void);
bool interrupted(void);
