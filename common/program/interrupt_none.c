// interrupt_none.c: interrupt.h where there are no signals, so nobody interrupts.
#include "interrupt.h"

void catch_interrupts(void) {}
void finish_on_interrupt(void) {}
bool interrupted(void) { return false; }
