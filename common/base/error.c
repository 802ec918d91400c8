// error.c: messages, the end of the program, and memory functions that never return NULL.
#include "error.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name = "program";
static const char *speaker;                  // "rank 2", or NULL if there is only one process
static double seconds_to_wait;               // for another process to print the message
static atomic_bool has_spoken, about_to_end; // a handler may run in one thread and die() in another
static void (*clear_line)(void), (*explained)(void);
enum { MOST_CLEANERS = 2 };
static void (*cleaners[MOST_CLEANERS])(void);
static int num_cleaners;

void set_program_name(const char *argv0) {
    const char *slash = strrchr(argv0, '/');
    name = slash ? slash + 1 : argv0;
}
const char *program_name(void) { return name; }

void before_messages(void (*function)(void)) { clear_line = function; }
void before_dying(void (*function)(void)) { explained = function; }
void speak_as(const char *who) { speaker = who; }
void let_another_speak(double seconds) { seconds_to_wait = seconds; }
bool is_about_to_end(void) { return atomic_load(&about_to_end); }

void another_has_spoken(void) {
    atomic_store(&has_spoken, true);
    if (explained) explained();
}

void clean_up_with(void (*function)(void)) {
    CHECK(num_cleaners < MOST_CLEANERS, "make MOST_CLEANERS larger");
    cleaners[num_cleaners++] = function;
}

void clean_up_before_dying(void) {
    if (explained) explained();
    for (int i = 0; i < num_cleaners; i++) cleaners[i]();
}

// ---- messages ----------------------------------------------------------------------------------

// A text may come from a file, and must not command the terminal. Control characters are the bytes
// below a space, DEL, and in UTF-8 U+0080 to U+009F, which take two bytes each.
static const char *printable(char copy[], size_t size, const char *text) {
    snprintf(copy, size, "%s", text);
    for (unsigned char *c = (unsigned char *)copy; *c; c++) {
        bool of_two = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
        if (of_two || *c < ' ' || *c == 127) *c = '?';
        if (of_two) *++c = '?';
    }
    return copy;
}

// In one call, so that the lines of several processes do not mix.
static void print_lines(const char *kind, const char *text, const char *more, const char *rest) {
    char lines[2][2048]; // on the stack, as there may be no memory left
    fflush(stdout);
    if (clear_line) clear_line();
    fprintf(stderr, "%s: %s%s%s%s%s%s\n", name, speaker ? speaker : "", speaker ? ": " : "", kind,
            printable(lines[0], sizeof lines[0], text), more,
            printable(lines[1], sizeof lines[1], rest));
}

void say_error(const char *hint, const char *error) {
    print_lines("error: ", error, "\nhint: ", hint);
}

static _Noreturn void end(int status, const char *hint, const char *format, va_list args) {
    char message[1024];
    vsnprintf(message, sizeof message, format, args);
    atomic_store(&about_to_end, true);
    usleep((useconds_t)(seconds_to_wait * 1e6));
    if (seconds_to_wait == 0 || !atomic_load(&has_spoken)) say_error(hint, message);
    clean_up_before_dying();
    // Not exit(): its handlers would tear down libraries that other threads are using. And only
    // stdout is flushed, as stdin is locked while the host waits for a line.
    fflush(stdout);
    _exit(status);
}

void die(const char *hint, const char *format, ...) {
    va_list args;
    va_start(args, format);
    end(EXIT_FAILURE, hint, format, args);
}

void die_usage(const char *hint, const char *format, ...) {
    va_list args;
    va_start(args, format);
    end(EXIT_USAGE, hint, format, args);
}

void warn(const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (seconds_to_wait == 0) print_lines("", message, "", "");
}

// A stream remembers that a write has failed, but not the errno. One more byte fails for the same
// reason. If it succeeds, it does no harm, because the output is given up.
int write_error(FILE *stream) {
    errno = 0;
    if (fflush(stream) == 0 && !ferror(stream)) return 0;
    if (errno == 0 && fputc('\n', stream) != EOF) fflush(stream);
    return errno ? errno : EIO;
}

void check_stdout(void) {
    int error = write_error(stdout);
    if (!error) return;
    const char *hint = "send it elsewhere: > FILE";
    if (error == ENOSPC || error == EDQUOT) hint = "free some space, or send it elsewhere: > FILE";
    if (error == EBADF) hint = "it is closed: to see nothing, let it go to /dev/null";
    // (Normally SIGPIPE ends the program, but a parent may have told it to ignore that.)
    if (error == EPIPE) hint = "whoever reads this pipe has to read to its end";
    die(hint, "standard output: what was printed did not arrive: %s", strerror(error));
}

// ---- memory and strings ------------------------------------------------------------------------

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
char *xstrdup(const char *text) { return or_die(strdup(text), strlen(text) + 1, 1); }

void *xgrow(void *memory, size_t count, size_t element) {
    if (element > 0 && count > SIZE_MAX / element) or_die(NULL, count, element);
    return xrealloc(memory, count * element);
}

void *xroom(void *memory, size_t count, size_t *room, size_t element) {
    if (count < *room) return memory;
    *room = *room ? 2 * *room : 64;
    return xgrow(memory, *room, element);
}

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
