// say.h: prose that a program prints.
#ifndef SAY_H
#define SAY_H

// Prints a paragraph, as printf would, on stdout: with lines of at most 80 columns, broken at
// spaces. Spaces at its begin indent all of its lines; a "\n" in it begins a new line. A line end
// follows the last one. So nobody breaks lines by hand, whatever the numbers in them.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
