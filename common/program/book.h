// book.h: what every program of the book begins and ends with.
//
//     Flags flags = book_begin(argc, argv, "Trains ...", "devices lr epochs", default_flags);
//     ...
//     return book_end();
#ifndef BOOK_H
#define BOOK_H

#include "flags.h"

// Reads the flags (see parse_flags()) and makes the folder of --out.
Flags book_begin(int argc, char *argv[], const char *about, const char *names, Flags defaults);

// Closes the devices and die()s if something that was printed did not arrive. Returns main()'s
// status: EXIT_INTERRUPTED after an orderly end by a signal (see interrupt.h), else EXIT_SUCCESS.
int book_end(void);

#endif
