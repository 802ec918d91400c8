// interrupt.c: signal handlers. They call only what POSIX allows in a handler.
#include "interrupt.h"
#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/file.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Atomic, because handlers may run in different threads, for which volatile orders nothing.
static _Atomic sig_atomic_t finishing;     // finish_on_interrupt() was called
static _Atomic sig_atomic_t received;      // the first signal after that, or 0
static _Atomic sig_atomic_t patience = 10; // seconds
static _Atomic double received_at;         // used by handlers only
static double asked_at;                    // used by the program only

static void write_line(const char *text) {
    char line[256] = "";
    strncat(line, program_name(), 60);
    strncat(line, text, sizeof line - 1 - strlen(line));
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
}

// Lets the signal itself end the program, because an exit status means something else to shells and
// to make.
static _Noreturn void end_at_once(int signal_number) {
    clean_up_before_dying();
    sigset_t only_this;
    sigemptyset(&only_this);
    sigaddset(&only_this, signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &only_this, NULL);
    _exit(128 + signal_number);
}

static void handle(int signal_number) {
    // `timeout` and terminals may send the same request twice in a row.
    const double ONE_REQUEST = 0.3;
    int error = errno;
    double now = seconds_now();
    bool request = signal_number != SIGPIPE && signal_number != SIGABRT;
    another_has_spoken();
    if (!finishing && signal_number == SIGINT)
        write_line(": interrupted: nothing unfinished is kept\n");
    if (!finishing || !request) end_at_once(signal_number);
    if (!received) {
        received_at = now; // before `received`, by which another handler knows that it is set
        received = signal_number;
        alarm((unsigned)patience);
    } else if (now - received_at > ONE_REQUEST) {
        end_at_once(signal_number);
    }
    errno = error;
}

static void out_of_patience(int signal_number) {
    (void)signal_number;
    write_line(": did not come to an orderly end in time: ended at once, some files are not "
               "written\n");
    end_at_once((int)received);
}

// A library may call exit() in one of its threads, as OpenMP does if it cannot start a thread. It
// has printed a line that says why.
static void at_exit(void) {
    remove_unfinished_files();
    if (gettid() == getpid()) return; // main() has returned
    write_line(": error: a library has ended the program\n"
               "hint: close other programs, use fewer --threads, or raise the limits that "
               "`ulimit -a` shows\n");
    clean_up_before_dying();
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
    bool stop = received != 0;
    asked_at = now;
    if (!stop && twice > patience)
        patience = twice < 3600 ? (sig_atomic_t)twice + 1 : 3600;
    else if (stop && !told)
        alarm((unsigned)patience); // the time to end
    told = stop;
    return stop;
}
