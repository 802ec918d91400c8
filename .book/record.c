// record.c: what did which function print? For the book's pages, which show what a section printed
// below its code.
//
// Programs are compiled for that with -finstrument-functions, so that each function of a chapter
// calls the two below when it begins and when it ends, and are linked with this file. It writes how
// far stdout was whenever a function began or ended that main() called: to the file that
// RECORD_TO names, a line "FROM TO ADDRESS" for each piece of output, ADDRESS being that of the
// function, or of main() itself. So the chapters' own code needs no marks.
//
// stdout has to be a file, or it cannot be told how far it is.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOT_RECORDED __attribute__((no_instrument_function))
void __cyg_profile_func_enter(void *function, void *caller) NOT_RECORDED;
void __cyg_profile_func_exit(void *function, void *caller) NOT_RECORDED;

static struct {
    FILE *out;
    pthread_t thread; // that of main()
    pid_t process;
    int depth; // 1 in main(), 2 in what it called
    void *main, *called;
    long told; // up to here it is known who printed
} the;

static NOT_RECORDED void tell(const void *function) {
    long now = ftell(stdout);
    if (now > the.told) fprintf(the.out, "%ld %ld %p\n", the.told, now, function);
    if (now >= 0) the.told = now;
}

static NOT_RECORDED void tell_the_rest(void) {
    if (getpid() != the.process) return;
    tell(the.depth > 1 ? the.called : the.main);
    fclose(the.out);
    the.out = NULL;
}

// A program without RECORD_TO is not recorded.
static NOT_RECORDED void begin(void *main) {
    const char *path = getenv("RECORD_TO");
    the.main = main;
    the.thread = pthread_self();
    the.process = getpid();
    the.out = path ? fopen(path, "w") : NULL;
    if (path && !the.out) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    if (the.out) atexit(tell_the_rest);
}

static NOT_RECORDED int is_recorded(void) {
    return the.out && pthread_equal(pthread_self(), the.thread) && getpid() == the.process;
}

void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    if (!the.main) begin(function);
    if (!is_recorded() || ++the.depth != 2) return;
    tell(the.main);
    the.called = function;
}

void __cyg_profile_func_exit(void *function, void *caller) {
    (void)caller;
    if (!is_recorded() || the.depth-- != 2) return;
    tell(function);
}
