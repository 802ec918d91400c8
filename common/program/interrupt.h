// interrupt.h: Ctrl-C and SIGTERM (SIGHUP, too) end a program, whatever it is doing; and nothing
// half-written is left by a program that a library ends.
//
// They end it at once: its temporary files are removed, and the shell sees that a signal ended it
// (status 130 of Ctrl-C, of which a line tells, too; 143 of SIGTERM). A training loop that has
// something to keep asks for the orderly end instead: it finishes the minibatch, writes what it has
// and returns EXIT_INTERRUPTED. A second signal ends it at once all the same, and so does time:
// nothing may hold it up for long.
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>
#include "common/base/platform.h"

enum { EXIT_INTERRUPTED = 130 }; // 128 + SIGINT, as shells have it; whichever signal it was

// Called by parse_flags().
void catch_interrupts(void);

// From now on the first signal only makes interrupted() true, which a loop asks at each minibatch.
// If it has not asked within 10 seconds (or twice the longest time between two questions so far, if
// that is more), or if the end then takes as long, the program ends at once.
void finish_on_interrupt(void);
bool interrupted(void);

// A process that this one waits for (0: none any more) and that would hang about without it.
void end_with_us(Process process);

#endif
