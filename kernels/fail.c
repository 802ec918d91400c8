// fail.c: prints an error by the function that the caller of the kernels has chosen, or by itself.
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static KernelsFail *chosen;

void kernels_fail_with(KernelsFail *fail) { chosen = fail; }

void kernels_fail(const char *hint, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (chosen) chosen(hint, "%s", message);
    fprintf(stderr, "error: %s\nhint: %s\n", message, hint);
    exit(EXIT_FAILURE);
}
