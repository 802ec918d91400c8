// interrupt.h: Ctrl-C (and SIGTERM) ask a program to finish what it is doing and end; the second one ends
// it at once.
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 }; // 128 + SIGINT, as shells have it

void catch_interrupts(void);
bool interrupted(void);

#endif
