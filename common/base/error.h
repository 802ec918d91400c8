// error.h: how a program says that something is wrong.
//
// One line says what and where, a second what to do:
//
//     04_lenet_multi_gpu: error: t10k-images-idx3-ubyte.gz: wrong magic number 0x00000801
//     hint: this is a label file; was it renamed?
// Then the program ends with status 1 (2 for wrong flags), and files that were half-written are
// removed. Control characters in a text, which may come from a file, are printed as '?'.
#ifndef ERROR_H
#define ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum { EXIT_USAGE = 2 };

// The name that starts each line; the last part of argv[0].
void set_program_name(const char *argv0);
const char *program_name(void);

// Prints the two lines and ends the program with status 1. May be called from any thread.
_Noreturn void die(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same with status 2: the command line is wrong.
_Noreturn void die_usage(const char *hint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The two lines alone, at once. For who has to end the program in another way.
void say_error(const char *hint, const char *error);
// One line, and on we go.
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

// CHECK(X->ndim == 2, "mm() takes matrices"): what the author of a program must see to. If it does
// not hold, the program has a mistake: die()s with the expression and file:line, and the text as
// the hint: it says what must hold.
#define CHECK(condition, hint)                                                                     \
    do {                                                                                           \
        if (!(condition)) die((hint), "check failed: %s (%s:%d)", #condition, __FILE__, __LINE__); \
    } while (0)

// To be called last: die()s if something that was printed did not arrive (a full disk, a reader
// that is gone).
void check_stdout(void);

// Called when die() ends the program, to remove what it must not leave behind (file.h).
void before_dying(void (*clean_up)(void));
// Calls that. For who has to end the program in another way.
void clean_up_before_dying(void);

// Called when it has been said why this process ends, or when it is told to end: for somebody who
// would say that it ended without a word (comm/launch.h). The function has to be one that a handler
// of signals may call.
void after_last_words(void (*function)(void));
// Calls that. For who ends the program in another way than die() and has said why.
void last_words_are_said(void);

// From now on messages begin with this, too: "NAME: rank 2: error: ..". The text must stay.
void speak_as(const char *who);
// For one of several processes that do the same (chapter 8), but not the first of them: what is
// wrong with all is said by the first. So warn() says nothing from now on, and die() waits so many
// seconds before it says anything: if the first has ended by then, so has this one.
void let_another_speak(double seconds);
// This process is being ended from outside: what die() waits to say is not said any more. (For
// handlers of signals, too.)
void another_has_spoken(void);
// Whether die() waits so: this process is about to end.
bool is_about_to_end(void);

// Called before a message is printed, to remove what stands on the line (a progress bar).
void before_messages(void (*clear_line)(void));

// malloc, calloc, realloc, strdup that end the program instead of returning NULL.
void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t element);
void *xrealloc(void *memory, size_t bytes);
// For arrays that grow: realloc to `count` elements of that many bytes, of which there may not be
// more than memory has addresses.
void *xgrow(void *memory, size_t count, size_t element);
// Of memory for *room elements, of which `count` are used: for twice as many if there is no other.
void *xroom(void *memory, size_t count, size_t *room, size_t element);
char *xstrdup(const char *text);
// A new string made as printf would.
char *xprintf(const char *format, ...) __attribute__((format(printf, 1, 2), nonnull));
char *xvprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
// A number with as many digits as it takes to tell it from others: "0.1", "0.100000009".
char *xshortest(float number);

#endif
