// record.c: what did which function print? For the book's pages, which show what a section printed
// below its code.
//
// Programs are compiled for that with -finstrument-functions, so that each function of a chapter
// calls the two below when it begins and when it ends, and are linked with this file. Whenever one
// begins or ends, it writes what was printed since to the file that RECORD_TO names: a line
// "FROM TO ADDRESS..", with the addresses of the functions that were running, main()'s first. So
// the chapters' own code needs no marks.
//
// stdout has to be a file, or it cannot be told how far it is.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOT_RECORDED __attribute__((no_instrument_function))
void __cyg_profile_func_enter(void *function, void *caller) NOT_RECORDED;
void __cyg_profile_func_exit(void *function, void *caller) NOT_RECORDED;

// Functions that have not ended: main(), what main() calls, and so on. What deeper ones print is
// that of their callers: to ask how far stdout is takes a system call, too much for each small
// function.
enum { MOST_RUNNING = 4 };
static struct {
    FILE *out;
    pthread_t thread; // that of main()
    pid_t process;
    bool has_begun;
    int depth; // 1 in main()
    void *running[MOST_RUNNING];
    long told; // up to here it is known who printed
} the;

static NOT_RECORDED void tell(void) {
    long now = ftell(stdout);
    if (now > the.told) {
        fprintf(the.out, "%ld %ld", the.told, now);
        for (int i = 0; i < the.depth && i < MOST_RUNNING; i++)
            fprintf(the.out, " %p", the.running[i]);
        fprintf(the.out, "\n");
    }
    if (now >= 0) the.told = now;
}

static NOT_RECORDED void tell_the_rest(void) {
    if (getpid() != the.process) return;
    if (the.depth == 0) the.depth = 1; // main() is over
    tell();
    fclose(the.out);
    the.out = NULL;
}

// A program without RECORD_TO is not recorded.
static NOT_RECORDED void begin(void) {
    const char *path = getenv("RECORD_TO");
    the.has_begun = true;
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
    if (!the.has_begun) begin();
    if (!is_recorded()) return;
    if (the.depth < MOST_RUNNING) {
        tell();
        the.running[the.depth] = function;
    }
    the.depth++;
}

void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function;
    (void)caller;
    if (!is_recorded()) return;
    if (the.depth <= MOST_RUNNING) tell();
    the.depth--;
}
