// number.h: reads numbers that a user has typed, and prints numbers for people to read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether the text is a whole number from `least` to `most` and nothing else. If so, sets *value.
bool read_whole(const char *text, long least, long most, long *value);

// 1234567 as "1,234,567": printf("%11s", grouped(bytes).text).
typedef struct Grouped {
    char text[32];
} Grouped;
Grouped grouped(uint64_t number);

// 65536 as "64 KiB": in MiB, KiB or bytes.
Grouped binary_size(size_t bytes);

// The text with the fewest digits (6 to 9) that reads back as this number: "0.1", "0.100000009".
// free() it.
char *xshortest(float number);
