// visible.c: see visible.h.
#include "visible.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The character at s; returns how many bytes it has, 0 if they are no UTF-8. (A text that ends too
// early has a 0 where another byte should be.)
static int decode(const unsigned char *s, uint32_t *character) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; // of so many bytes
    int n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
    uint32_t c = n < 2 ? *s : *s & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if (s[i] >> 6 != 2) return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    *character = c;
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static bool is_between(uint32_t c, uint32_t first, uint32_t last) {
    return c >= first && c <= last;
}
static bool is_harmful(uint32_t c) {
    return c < 0x20 || is_between(c, 0x7f, 0x9f)                             // control characters
           || c == 0x61c || is_between(c, 0x200e, 0x200f)                    // from right to left
           || is_between(c, 0x202a, 0x202e) || is_between(c, 0x2066, 0x2069) //
           || is_between(c, 0x2028, 0x2029) || c == 0xfeff; // ends of lines; no width
}

char *visible(const char *text) {
    char *shown = xmalloc(4 * strlen(text) + 1), *to = shown; // "\x1b" is the longest for a byte
    uint32_t c;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = decode(s, &c);
        if (n == 0 || (n == 1 && is_harmful(c)))
            to += sprintf(to, "\\x%02x", *s);
        else if (is_harmful(c))
            to += sprintf(to, "\\u%04x", (unsigned)c);
        else
            to = mempcpy(to, s, (size_t)n);
        s += n > 0 ? n : 1;
    }
    *to = '\0';
    return shown;
}
