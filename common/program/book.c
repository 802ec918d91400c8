// book.c: see book.h.
#include "book.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "interrupt.h"

#include <stdlib.h>

Flags book_begin(int argc, char *argv[], const char *about, const char *names, Flags defaults) {
    Flags flags = parse_flags(argc, argv, about, names, defaults);
    make_directory(flags.out);
    return flags;
}

int book_end(void) {
    devices_close();
    check_stdout();
    return interrupted() ? EXIT_INTERRUPTED : EXIT_SUCCESS;
}
