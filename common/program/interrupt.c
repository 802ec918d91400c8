// interrupt.c: see interrupt.h. What a handler calls is what POSIX allows it to.
#include "interrupt.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/clock.h"
#include "common/base/platform.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_PATIENCE = 10 };

static volatile sig_atomic_t finishing; // somebody asks interrupted()
static volatile sig_atomic_t received;  // the signal that interrupted() tells of, or 0
static volatile sig_atomic_t patience = LEAST_PATIENCE, waited_for;
static double received_at; // only handlers use it
static double asked_at;    // only the program does

static _Noreturn void end_at_once(int signal_number) {
    remove_unfinished_files();
    if (waited_for > 0) process_kill((Process)waited_for);
    // By the signal itself: to shells and to make an exit status would not mean the same.
    sigset_t only_this;
    sigemptyset(&only_this);
    sigaddset(&only_this, signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &only_this, NULL);
    _exit(128 + signal_number);
}

static void write_error(const char *text) {
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static void handle(int signal_number) {
    // `timeout` and terminals may send one request twice in a row: that is still the first.
    const double ONE_REQUEST = 0.3;
    int error = errno;
    double now = seconds_now();
    bool request = signal_number != SIGPIPE && signal_number != SIGABRT;
    another_has_spoken();
    if (!finishing && signal_number == SIGINT) {
        write_error(program_name());
        write_error(": interrupted: nothing unfinished is kept\n");
    }
    if (!finishing || !request) end_at_once(signal_number);
    if (!received) {
        received = signal_number;
        received_at = now;
        alarm((unsigned)patience);
    } else if (now - received_at > ONE_REQUEST) {
        end_at_once(signal_number);
    }
    errno = error;
}

static void out_of_patience(int signal_number) {
    (void)signal_number;
    write_error(program_name());
    write_error(
        ": did not come to an orderly end in time: ended at once, some files are not written\n");
    end_at_once((int)received);
}

// A library may end the program where we cannot: OpenMP does when it gets no thread. It says why
// (one line), from whatever thread it is in; the rest is ours.
static void at_exit(void) {
    remove_unfinished_files();
    if (gettid() == getpid()) return; // main() has returned
    write_error(program_name());
    write_error(
        ": error: a library has ended the program\n"
        "hint: close other programs, use fewer --threads, or raise the limits that `ulimit -a` "
        "shows\n");
    last_words_are_said();
    _exit(EXIT_FAILURE);
}

void catch_interrupts(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGABRT};
    atexit(at_exit);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGALRM);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        bool optional = signals[i] == SIGHUP || signals[i] == SIGPIPE;
        sigaction(signals[i], NULL, &before);
        if (optional && before.sa_handler == SIG_IGN) continue; // nohup
        sigaction(signals[i], &action, NULL);
    }
    action.sa_handler = out_of_patience;
    sigaction(SIGALRM, &action, NULL);
}

void finish_on_interrupt(void) {
    if (!finishing) asked_at = seconds_now();
    finishing = true;
}

bool interrupted(void) {
    static bool told;
    if (!finishing) return false;
    double now = seconds_now(), twice = 2 * (now - asked_at);
    asked_at = now;
    if (received) {
        if (!told) alarm((unsigned)patience); // what follows has as much time again
        told = true;
    } else if (twice > patience) {
        patience = twice < 3600 ? (sig_atomic_t)twice + 1 : 3600;
    }
    return received != 0;
}

void end_with_us(Process process) { waited_for = process; }
