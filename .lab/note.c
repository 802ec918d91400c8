// note.c: see note.h. Who hides such a word from it, by a macro for instance, is not found; but
// then a person who reads the source sees that.
#include "note.h"
#include "common/base/error.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Whole identifiers; "posix_spawn*": all that begin so.
static const char *const words[] = {"constructor", "__constructor__",
                                    "destructor",  "__destructor__",
                                    "ifunc",       "asm",
                                    "__asm",       "__asm__",
                                    "syscall",     "ptrace",
                                    "dlopen",      "dlsym",
                                    "fork",        "vfork",
                                    "clone",       "execl",
                                    "execlp",      "execle",
                                    "execv",       "execvp",
                                    "execvpe",     "execve",
                                    "fexecve",     "system",
                                    "popen",       "posix_spawn*",
                                    "exit",        "_exit",
                                    "_Exit",       "socket",
                                    "quick_exit",  "process_vm_*",
                                    "_Pragma",     "GCC"};
// And what is so called in texts: names of files.
static const char *const names[] = {"/proc"};
enum { NUM_WORDS = sizeof words / sizeof *words, NUM_NAMES = sizeof names / sizeof *names };

typedef struct Found {
    bool words[NUM_WORDS], names[NUM_NAMES];
} Found;

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool matches(const char *word, const char *text, size_t n) {
    size_t m = strlen(word);
    return word[m - 1] == '*' ? n >= m - 1 && memcmp(word, text, m - 1) == 0
                              : n == m && memcmp(word, text, n) == 0;
}

// ---- what the source is made of: each returns where it ends ------------------------------------

// ("" in a comment, and // in a text, are neither.)
static const char *comment_end(const char *at, const char *end) {
    bool line = at[1] == '/';
    for (at += 2; at < end; at++) {
        if (line && *at == '\n' && at[-1] != '\\') return at;
        if (!line && at[0] == '*' && at + 1 < end && at[1] == '/') return at + 2;
    }
    return end;
}

static const char *text_end(const char *at, const char *end) {
    char quote = *at++;
    while (at < end && *at != quote && *at != '\n') at += *at == '\\' && at + 1 < end ? 2 : 1;
    return at < end ? at + 1 : end;
}

static const char *word_end(const char *at, const char *end) {
    while (at < end && is_letter(*at)) at++;
    return at;
}

// ---- what is found ---------------------------------------------------------------------------

static void look_at_word(Found *found, const char *word, size_t n) {
    for (int i = 0; i < NUM_WORDS; i++)
        if (matches(words[i], word, n)) found->words[i] = true;
}

static void look_at_text(Found *found, const char *text, size_t n) {
    for (int i = 0; i < NUM_NAMES; i++) {
        const char *at = memmem(text, n, names[i], strlen(names[i]));
        if (at && !is_letter(at[strlen(names[i])])) found->names[i] = true;
    }
}

// (The copy ends with a byte more than the source has: one may look at what follows.)
static Found look(const char *source, size_t length) {
    Found found = {0};
    char *copy = xcalloc(length + 1, 1);
    memcpy(copy, source, length);
    for (const char *at = copy, *end = copy + length, *next; at < end; at = next) {
        next = at + 1;
        if (*at == '/' && (at[1] == '/' || at[1] == '*')) {
            next = comment_end(at, end);
        } else if (*at == '"' || *at == '\'') {
            next = text_end(at, end);
            look_at_text(&found, at, (size_t)(next - at));
        } else if (is_letter(*at)) {
            next = word_end(at, end);
            look_at_word(&found, at, (size_t)(next - at));
        }
    }
    free(copy);
    return found;
}

static char *with(char *note, const char *word) {
    char *longer = note ? xprintf("%s, %s", note, word) : xprintf("look at it: %s", word);
    free(note);
    return longer;
}

char *note_about(const char *source, size_t length) {
    Found found = look(source, length);
    char *note = NULL;
    for (int i = 0; i < NUM_NAMES; i++)
        if (found.names[i]) note = with(note, names[i]);
    for (int i = 0; i < NUM_WORDS; i++)
        if (found.words[i]) note = with(note, words[i]);
    return note;
}
