// record.c: what did which function print? For the book's pages, which show what a section printed
// below its code.
//
// Programs are compiled for that with -finstrument-functions, so that each function of a chapter
// calls the two below when it begins and when it ends, and are linked with this file. Whenever one
// begins or ends, it writes what was printed since to the file that RECORD_TO names: a line
// "FROM TO ADDRESS..", with the addresses of the functions that were running, main()'s first. So
// the chapters' own code needs no marks. stdout has to be a file.
//
// And what comes out where the reader is to predict it (predict.h; the linker's --wrap puts the
// functions below in the place of its own): a line "predict<TAB>QUESTION<TAB>ANSWER<TAB>UNIT", of
// yes and no without a unit.
#include "common/program/predict.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>

#define NOT_RECORDED __attribute__((no_instrument_function))
void __cyg_profile_func_enter(void *function, void *caller) NOT_RECORDED;
void __cyg_profile_func_exit(void *function, void *caller) NOT_RECORDED;

enum { MOST_RUNNING = 64 };
static struct {
    FILE *out;
    pthread_t thread; // that of main()
    pid_t process;
    int depth; // 1 in main()
    void *running[MOST_RUNNING];
    bool has_written;
    size_t pending; // in stdout's buffer
    long told;      // up to here it is known who printed
} the;

// stdout says when it writes: to ask the system how far it is takes too long in each function.
static NOT_RECORDED ssize_t write_and_say(void *cookie, const char *bytes, size_t size) {
    (void)cookie;
    the.has_written = true;
    return write(STDOUT_FILENO, bytes, size);
}

static NOT_RECORDED void tell(void) {
    size_t pending = __fpending(stdout);
    if (!the.has_written && pending == the.pending) return;
    the.has_written = false;
    the.pending = pending;
    long now = lseek(STDOUT_FILENO, 0, SEEK_CUR) + (long)pending; // a child may have written, too
    fprintf(the.out, "%ld %ld", the.told, now);
    for (int i = 0; i < the.depth && i < MOST_RUNNING; i++) fprintf(the.out, " %p", the.running[i]);
    fprintf(the.out, "\n");
    the.told = now;
}

static NOT_RECORDED void tell_the_rest(void) {
    if (getpid() != the.process) return;
    if (the.depth == 0) the.depth = 1; // main() is over
    tell();
    fclose(the.out);
    the.out = NULL;
}

// A program without RECORD_TO is not recorded.
__attribute__((constructor)) static NOT_RECORDED void begin(void) {
    const char *path = getenv("RECORD_TO");
    the.thread = pthread_self();
    the.process = getpid();
    the.out = path ? fopen(path, "w") : NULL;
    if (path && !the.out) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    if (!the.out) return;
    stdout = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_and_say});
    atexit(tell_the_rest);
}

static NOT_RECORDED void change_depth(int by, void *function) {
    if (!the.out || !pthread_equal(pthread_self(), the.thread) || getpid() != the.process) return;
    tell();
    if (function && the.depth < MOST_RUNNING) the.running[the.depth] = function;
    the.depth += by;
}
void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    change_depth(1, function);
}
void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function, (void)caller;
    change_depth(-1, NULL);
}

static NOT_RECORDED Prediction remember(const char *question) {
    return (Prediction){.question = question};
}
static NOT_RECORDED void tell_answer(Prediction asked, const char *answer, const char *unit) {
    if (the.out && asked.question)
        fprintf(the.out, "predict\t%s\t%s\t%s\n", asked.question, answer, unit);
}

Prediction __wrap_predict_first(const char *question) NOT_RECORDED;
Prediction __wrap_predict_yes_no(const char *question) NOT_RECORDED;
void __wrap_predict_compare(Prediction expected, double result, const char *unit) NOT_RECORDED;
void __wrap_predict_compare_yes_no(Prediction expected, bool result) NOT_RECORDED;
Prediction __wrap_predict_first(const char *question) { return remember(question); }
Prediction __wrap_predict_yes_no(const char *question) { return remember(question); }
void __wrap_predict_compare(Prediction expected, double result, const char *unit) {
    char answer[32];
    snprintf(answer, sizeof answer, "%.4g", result);
    tell_answer(expected, answer, unit);
}
void __wrap_predict_compare_yes_no(Prediction expected, bool result) {
    tell_answer(expected, result ? "yes" : "no", "");
}
