// number.c: numbers to text and back, by strtol() and printf().
#include "number.h"
#include "error.h"

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

char *xshortest(float number) {
    enum { FEWEST_DIGITS = 6, ENOUGH_DIGITS = 9 };
    int digits = FEWEST_DIGITS;
    char *text = xprintf("%.*g", digits, (double)number);
    while (digits < ENOUGH_DIGITS && strtof(text, NULL) != number) {
        free(text);
        text = xprintf("%.*g", ++digits, (double)number);
    }
    return text;
}
