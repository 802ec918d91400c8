// say.h: prose that a program prints. Call say() for paragraphs, and do not break lines by hand.
#pragma once

#include <stdbool.h>

// Prints a paragraph on stdout, as printf would, but in lines of at most 80 columns, broken at
// spaces. Spaces at its beginning indent all of its lines. A "\n" in it begins a new line. A line
// end follows the last line.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// How many columns it takes: its characters in UTF-8, not its bytes. (printf("%-20s") counts
// bytes.)
int columns_of(const char *text);

// Prints "  ok: STATEMENT" if the statement holds, and otherwise ends the program with an error. It
// is meant for what a program demonstrates. Mistakes in the code are for CHECK() (error.h).
void say_checked(bool holds, const char *statement);
