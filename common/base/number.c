// number.c: see number.h.
#include "number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool read_whole(const char *text, long least, long most, long *value) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < least || number > most) return false;
    *value = number;
    return true;
}

Grouped grouped(uint64_t number) {
    char digits[32];
    Grouped result;
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number), length = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) result.text[length++] = ',';
        result.text[length++] = digits[i];
    }
    result.text[length] = '\0';
    return result;
}

Grouped binary_size(size_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB"};
    int unit = bytes < 1 << 10 ? 0 : bytes < 1 << 20 ? 1 : 2;
    Grouped result;
    snprintf(result.text, sizeof result.text, "%zu %s", bytes >> 10 * unit, units[unit]);
    return result;
}
