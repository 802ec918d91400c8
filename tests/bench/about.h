// about.h: what a figure depends on besides the processor: the instruction set that our kernels
// chose, and the compiler that made them.
#ifndef BENCH_ABOUT_H
#define BENCH_ABOUT_H

#include "kernels/cpu/cpu.h"

static inline const char *isa_name(void) { return cpu_instruction_set()->name; }

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#endif
