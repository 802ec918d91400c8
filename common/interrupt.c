// interrupt.c: see interrupt.h.
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t received;

static void note(int signal_number) {
    (void)signal_number;
    received = 1;
}

void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void) { return received != 0; }
