// fail.h: how a kernel ends the program. In a kernel, call kernels_fail(); do not call die(),
// because kernels know nothing of common/. A program that uses kernels chooses the function that
// prints the message with kernels_fail_with() (common/device/device.c chooses die() of error.h).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Prints one line that says what is wrong and one that says what to do. Does not return.
void kernels_fail(const char *hint, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

// From now on kernels_fail() calls this function, which must not return. If none was chosen, the
// two lines go to stderr and the program ends with status 1.
typedef void KernelsFail(const char *hint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void kernels_fail_with(KernelsFail *fail);

#ifdef __cplusplus
}
#endif
