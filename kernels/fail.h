// fail.h: how a kernel ends the program. Kernels know nothing of common/, so who uses them says
// which function prints the message (common/device/device.c: die() of error.h).
#ifndef KERNELS_FAIL_H
#define KERNELS_FAIL_H

#ifdef __cplusplus
extern "C" {
#endif

// Prints what is wrong in a line, and in a second one what to do; does not return.
void kernels_fail(const char *hint, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

// The function that kernels_fail() calls from now on. It must not return. Without one the two lines
// go to stderr and the program ends with status 1.
typedef void KernelsFail(const char *hint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void kernels_fail_with(KernelsFail *fail);

#ifdef __cplusplus
}
#endif

#endif
