// interrupt_none.c: where there are no signals, nobody interrupts. See interrupt.h.
#include "interrupt.h"

void catch_interrupts(void) {}
void finish_on_interrupt(void) {}
bool interrupted(void) { return false; }
void end_with_us(Process process) { (void)process; }
