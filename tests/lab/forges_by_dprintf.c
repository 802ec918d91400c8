// loses: all, "does not link: .*defines dprintf"
// A function under a name that is called where the verdict is told.
#include "your_part.h"
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int dprintf(int file, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *secret = va_arg(args, const char *);
    va_end(args);
    char text[128];
    int n = snprintf(text, sizeof text, "%s\npassed\n\n\n", secret);
    return (int)write(file, text, (size_t)n);
}
void allreduce_at(Tensor *const data[], int k, int hub) { (void)data, (void)k, (void)hub; }
void allreduce_parts(Tensor *const data[], int k) { (void)data, (void)k; }
