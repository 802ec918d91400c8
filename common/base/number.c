// number.c: see number.h.
#include "number.h"

#include <errno.h>
#include <stdlib.h>

bool read_whole(const char *text, long least, long most, long *value) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < least || number > most) return false;
    *value = number;
    return true;
}
