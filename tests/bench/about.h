// about.h: what a figure depends on besides the processor: the instruction set that our kernels
// chose, and the compiler that made them.
#ifndef BENCH_ABOUT_H
#define BENCH_ABOUT_H

// TO SWITCH: when kernels/cpu/cpu.h declares cpu_isa_name(), include that here, and let isa_name()
// return it. Until then it is "blas" where no kernel defines it.
__attribute__((weak)) const char *cpu_isa_name(void);
static inline const char *isa_name(void) { return cpu_isa_name ? cpu_isa_name() : "blas"; }

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#endif
