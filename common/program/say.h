// say.h: prose that a program prints. Call say() for paragraphs, and do not break lines by hand.
#ifndef SAY_H
#define SAY_H

#include <stdbool.h>

// Prints a paragraph, as printf would, on stdout: with lines of at most 80 columns, broken at
// spaces. Spaces at its beginning indent all of its lines; a "\n" in it begins a new line. A line
// end follows the last line.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// How many columns it takes: its characters in UTF-8, not its bytes. (printf("%-20s") counts
// bytes.)
int columns_of(const char *text);

// Prints "  ok: STATEMENT" if the statement holds; ends the program with an error if it does not.
// For what a program demonstrates; what its own code must see to is CHECK()ed (error.h).
void say_checked(bool holds, const char *statement);

#endif
