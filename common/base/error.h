// error.h: how a program reports an error and ends.
//
// To end a program, call die(). It prints two lines, the first says what is wrong and where, the
// second what to do:
//
//     04_lenet_multi_gpu: error: t10k-images-idx3-ubyte.gz: wrong magic number 0x00000801
//     hint: this is a label file; was it renamed?
//
// It removes unfinished files and exits with status 1 (2 if the command line is wrong). Do not call
// exit() for an error. Control characters, which may come from a file, are printed as '?'.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { EXIT_USAGE = 2 };

// Each message begins with this name, the last part of argv[0].
void set_program_name(const char *argv0);
const char *program_name(void);

// May be called from any thread.
_Noreturn void die(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same with status 2, for a wrong command line.
_Noreturn void die_usage(const char *hint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Prints one line and goes on.
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

// CHECK(X->ndim == 2, "mm() takes matrices"): for mistakes in the program itself. If the condition
// does not hold, die()s with the expression and its place. The hint says what must hold.
#define CHECK(condition, hint)                                                                     \
    do {                                                                                           \
        if (!(condition)) die((hint), "check failed: %s (%s:%d)", #condition, __FILE__, __LINE__); \
    } while (0)

// Flushes the stream. Returns 0, or the errno of the first write that failed.
int write_error(FILE *stream);
// Call it last: die()s if something that was printed did not arrive.
void check_stdout(void);

// This function is called before a message is printed. (It removes a progress bar.)
void before_messages(void (*clear_line)(void));

// ---- ending the program without die() -----------------------------------------------------------

// Does what die() does after its message: calls the functions of before_dying() and
// clean_up_with(). A signal handler may call it, so these functions may do only what a handler may.
void clean_up_before_dying(void);
// This function is called once the reason for the end is known: by die() after its message, or when
// a signal arrives. (chapters/08_many_machines/behind/launch.c)
void before_dying(void (*function)(void));
// So is this one, but only if the program does end. (file.c removes unfinished files and
// platform_posix.c ends processes. They call this before main().)
void clean_up_with(void (*function)(void));
// Prints the two lines of die() alone.
void say_error(const char *hint, const char *error);

// ---- if several processes do the same (chapter 8) -----------------------------------------------

// Messages then name the process: "NAME: rank 2: error: ..". The text is not copied.
void speak_as(const char *who);
// Rank 0 reports what is wrong with all ranks. The others call this, so that their warn() prints
// nothing and their die() waits this long before it prints. Usually the job has ended by then.
void let_another_speak(double seconds);
// Signal handlers call this: the process is ended from outside, so a die() that waits is silent.
void another_has_spoken(void);
// Whether die() has been called.
bool is_about_to_end(void);

// ---- memory and strings -------------------------------------------------------------------------

// malloc(), calloc(), realloc() and strdup(), but they die() instead of returning NULL.
void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t element);
void *xrealloc(void *memory, size_t bytes);
char *xstrdup(const char *text);
// realloc() to `count` elements. The product of the two may overflow.
void *xgrow(void *memory, size_t count, size_t element);
// Makes room for one more than `count` elements. Doubles *room if it is used up.
void *xroom(void *memory, size_t count, size_t *room, size_t element);
// A new string, made as printf() does.
char *xprintf(const char *format, ...) __attribute__((format(printf, 1, 2), nonnull));
char *xvprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
