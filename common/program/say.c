// say.c: breaks text into lines by its columns: a character of UTF-8 may have several bytes.
#include "say.h"
#include "common/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80 };

// In UTF-8 all bytes of a character but its first begin with the bits 10.
static int width(const char *text, size_t bytes) {
    int columns = 0;
    for (size_t i = 0; i < bytes; i++) columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    return columns;
}

int columns_of(const char *text) { return width(text, strlen(text)); }

// Prints one line of the text, which goes on below if it is too long.
static void wrap(const char *text, size_t bytes) {
    const char *end = text + bytes;
    int indent = (int)strspn(text, " "), column = indent;
    const char *word = text + indent;
    printf("%*s", indent, "");
    if (strncmp(word, "- ", 2) == 0) indent += 2; // its other lines begin below the item's text
    while (word < end) {
        size_t length = strcspn(word, " \n"), spaces = strspn(word + length, " ");
        int columns = width(word, length);
        printf("%.*s", (int)length, word);
        column += columns;
        word += length + spaces;
        if (word >= end) break;
        int next = width(word, strcspn(word, " \n"));
        if (column + (int)spaces + next > COLUMNS) {
            column = printf("\n%*s", indent, "") - 1;
        } else {
            column += printf("%*s", (int)spaces, "");
        }
    }
    putchar('\n');
}

void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = xvprintf(format, args);
    va_end(args);
    for (const char *line = text; line;) {
        size_t bytes = strcspn(line, "\n");
        wrap(line, bytes);
        line = line[bytes] ? line + bytes + 1 : NULL;
    }
    free(text);
}

void say_checked(bool holds, const char *statement) {
    if (!holds)
        die("this is a mistake in the program: please report it", "it does not hold that %s",
            statement);
    printf("  ok: %s\n", statement);
}
