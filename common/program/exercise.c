// exercise.c: see exercise.h.
#include "exercise.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "book.h"
#include "graded.h"
#include "plot.h"
#include "say.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void run_experiment(const Exercise *exercise, const Flags *flags) {
    const char *csv = book_output(".csv"), *png = book_output(".png");
    book_check_outputs();
    OutputFile file = output_open(csv);
    exercise->experiment(flags, file.stream);
    output_close(&file);
    fflush(stdout); // gnuplot's warnings come after it
    if (plot_draw(png, exercise->plot, csv)) printf("\nplot: %s, figures: %s\n", png, csv);
}

// ---- a part that ends the program by itself, or crashes ----------------------------------------

static bool checking; // a part of the check runs

static void end_is_too_early(void) {
    if (!checking) return;
    say_error("the check calls your part, and goes on when it returns: no exit() in it",
              "check failed: the program ended before the check was over, expected its verdict");
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

#ifndef SANITIZED // sanitizers say more
// (Of what a handler may call. The signal then ends the program as it would have.)
static void crash(int signal) {
    static const char text[] = "error: your part, or the check with what it left, crashed\n"
                               "hint: an index too large, or a pointer that points nowhere; where: "
                               "gdb --args PROGRAM --check, then run, then backtrace\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    raise(signal);
}
#endif

static void watch_your_part(void) {
    atexit(end_is_too_early);
#ifndef SANITIZED
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (int i = 0; i < 4; i++)
        sigaction(signals[i], &(struct sigaction){.sa_handler = crash, .sa_flags = SA_RESETHAND},
                  NULL);
#endif
}

static void check_part(const CheckPart *part, const Flags *flags) {
    checking = true;
    part->check(flags);
    checking = false;
}

// A loop without end says nothing by itself. (A grader has a limit, and words of its own.)
static void *say_what_takes_long(void *part) {
    char line[256]; // on its stack: mostly it is cancelled while it sleeps
    nanosleep(&(struct timespec){.tv_sec = 10}, NULL);
    snprintf(line, sizeof line, "still checking after 10 seconds: %s (Ctrl-C ends it)\n",
             ((const CheckPart *)part)->what);
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
    return NULL;
}

static void check_all(const CheckPart *parts, const Flags *flags) {
    for (const CheckPart *part = parts; part->what; part++) {
        pthread_t watch;
        CHECK(pthread_create(&watch, NULL, say_what_takes_long, (void *)part) == 0, "a thread");
        check_part(part, flags);
        pthread_cancel(watch);
        pthread_join(watch, NULL);
    }
}

static int check_one(const Exercise *exercise, const Flags *flags, int part) {
    check_part(&exercise->parts[part], flags);
    graded_passed();
    return book_end();
}

int exercise_main(int argc, char *argv[], const Exercise *exercise) {
    int part = graded_begin(exercise->parts);
    char *names = xprintf("%s data check", exercise->flags);
    Flags flags = book_begin(argc, argv, exercise->about, names, exercise->defaults);
    free(names);
    if (flags.backend == BACKEND_MODEL)
        die_usage("leave --backend model out", "an exercise is checked by values, and model "
                                               "devices have none");
    if (exercise->prepare) exercise->prepare(&flags);
    watch_your_part();
    if (part != NOT_GRADED) return check_one(exercise, &flags, part);
    check_all(exercise->parts, &flags);
    say("check passed: %s\n", exercise->passed);
    if (!flags.check) run_experiment(exercise, &flags);
    return book_end();
}

void check_failed(const char *hint, const char *format, ...) {
    va_list args;
    char message[512];
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    check_failed_elsewhere(hint, message);
}

void check_failed_elsewhere(const char *hint, const char *error) {
    graded_failed(hint, error);
    die(hint, "check failed: %s", error);
}
