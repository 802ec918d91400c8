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

// Control characters; what writes from right to left; ends of lines; what has no width.
static bool is_harmful(uint32_t c) {
    static const uint32_t ranges[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                                         {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},
                                         {0x2066, 0x2069}, {0xfeff, 0xfeff}};
    bool harmful = false;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        harmful = harmful || (c >= ranges[i][0] && c <= ranges[i][1]);
    return harmful;
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
