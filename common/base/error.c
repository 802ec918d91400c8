// error.c: messages, and memory that is there or ends the program.
#include "error.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name = "program";

void set_program_name(const char *argv0) {
    const char *slash = strrchr(argv0, '/');
    name = slash ? slash + 1 : argv0;
}

static void (*clear_line)(void), (*clean_up)(void), (*dismiss_witness)(void);
void before_messages(void (*function)(void)) { clear_line = function; }
void before_dying(void (*function)(void)) { clean_up = function; }
void after_last_words(void (*function)(void)) { dismiss_witness = function; }
void last_words_are_said(void) {
    if (dismiss_witness) dismiss_witness();
}

static double seconds_to_wait;           // 0: this process speaks for itself
static volatile sig_atomic_t has_spoken; // another one
static atomic_bool about_to_end;
void let_another_speak(double seconds) { seconds_to_wait = seconds; }
void another_has_spoken(void) {
    has_spoken = true;
    last_words_are_said();
}
bool is_about_to_end(void) { return atomic_load(&about_to_end); }

static const char *speaker; // NULL: there is but one
void speak_as(const char *who) { speaker = who; }

// What is said may have come from a file: nothing in it is to command the terminal. That is what
// control characters do: below a blank, DEL, and in UTF-8 the two bytes of U+0080 to U+009F.
static const char *printable(char copy[], size_t size, const char *text) {
    snprintf(copy, size, "%s", text);
    for (unsigned char *c = (unsigned char *)copy; *c; c++) {
        bool of_two = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
        if (of_two || *c < ' ' || *c == 127) *c = '?';
        if (of_two) *++c = '?';
    }
    return copy;
}

// One call for all of it, so that what several processes say does not get mixed.
static void print_line(const char *kind, const char *text, const char *more, const char *rest) {
    char lines[2][2048]; // on the stack: perhaps there is no memory left
    fprintf(stderr, "%s: %s%s%s%s%s%s\n", name, speaker ? speaker : "", speaker ? ": " : "", kind,
            printable(lines[0], sizeof lines[0], text), more,
            printable(lines[1], sizeof lines[1], rest));
}

const char *program_name(void) { return name; }

void clean_up_before_dying(void) {
    last_words_are_said();
    if (clean_up) clean_up();
}

// _exit, not exit: exit handlers would tear down the libraries that other threads are still using.
// stdout alone is flushed: stdin is locked while the host waits for a line.
static _Noreturn void end(int status) {
    clean_up_before_dying();
    fflush(stdout);
    _exit(status);
}

void say_error(const char *hint, const char *error) {
    fflush(stdout);
    if (clear_line) clear_line();
    print_line("error: ", error, "\nhint: ", hint);
}

static void print_error(const char *hint, const char *format, va_list args) {
    char message[1024];
    vsnprintf(message, sizeof message, format, args);
    atomic_store(&about_to_end, true);
    usleep((useconds_t)(seconds_to_wait * 1e6));
    if (seconds_to_wait > 0 && has_spoken) return;
    say_error(hint, message);
}

void die(const char *hint, const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_error(hint, format, args);
    va_end(args);
    end(EXIT_FAILURE);
}

void die_usage(const char *hint, const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_error(hint, format, args);
    va_end(args);
    end(EXIT_USAGE);
}

void warn(const char *format, ...) {
    char message[1024];
    va_list args;
    if (seconds_to_wait > 0) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fflush(stdout);
    if (clear_line) clear_line();
    print_line("", message, "", "");
}

// (The product may be more than a size_t holds.)
static void *or_die(void *memory, size_t count, size_t element) {
    if (!memory && count > 0 && element > 0)
        die("close other programs, or ask for less", "out of memory for %.0f bytes",
            (double)count * (double)element);
    return memory;
}

void *xmalloc(size_t bytes) { return or_die(malloc(bytes), bytes, 1); }
void *xcalloc(size_t count, size_t element) {
    return or_die(calloc(count, element), count, element);
}
void *xrealloc(void *memory, size_t bytes) { return or_die(realloc(memory, bytes), bytes, 1); }
void *xgrow(void *memory, size_t count, size_t element) {
    if (element > 0 && count > SIZE_MAX / element) or_die(NULL, count, element);
    return xrealloc(memory, count * element);
}
void *xroom(void *memory, size_t count, size_t *room, size_t element) {
    if (count < *room) return memory;
    *room = *room ? 2 * *room : 64;
    return xgrow(memory, *room, element);
}
char *xstrdup(const char *text) { return or_die(strdup(text), strlen(text) + 1, 1); }

char *xvprintf(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = xmalloc((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *xprintf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = xvprintf(format, args);
    va_end(args);
    return text;
}

char *xshortest(float number) {
    enum { FEWEST_DIGITS = 6, ENOUGH_DIGITS = 9 };
    int digits = FEWEST_DIGITS;
    char *text = xprintf("%.*g", digits, (double)number);
    while (digits < ENOUGH_DIGITS && strtof(text, NULL) != number) {
        free(text);
        text = xprintf("%.*g", ++digits, (double)number);
    }
    return text;
}

// A write that failed earlier has left its mark but not its reason: one more byte fails for the
// same.
void check_stdout(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return;
    if (errno == 0 && fputc('\n', stdout) != EOF) fflush(stdout);
    const char *hint = "send it elsewhere: > FILE";
    if (errno == ENOSPC || errno == EDQUOT) hint = "free some space, or send it elsewhere: > FILE";
    if (errno == EBADF) hint = "it is closed: to see nothing, let it go to /dev/null";
    // (Whoever started the program ignores SIGPIPE, which else ends it.)
    if (errno == EPIPE) hint = "whoever reads this pipe has to read to its end";
    die(hint, "standard output: what was printed did not arrive: %s",
        strerror(errno ? errno : EIO));
}
