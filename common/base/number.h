// number.h: whole numbers that somebody has written: as a flag, as a setting, in a variable.
#ifndef NUMBER_H
#define NUMBER_H

#include <stdbool.h>

// Whether the text is a whole number from `least` to `most` and nothing else; then *value is that.
bool read_whole(const char *text, long least, long most, long *value);

#endif
