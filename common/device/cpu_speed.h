// cpu_speed.h: whether this CPU multiplies matrices as fast as it should.
#ifndef CPU_SPEED_H
#define CPU_SPEED_H

// A line on stderr if the kernels use fewer of the CPU's instructions than it has (BOOK_ISA=v1 in
// the environment), or if products are much slower than the CPU's clock lets expect.
void warn_if_cpu_is_slow(void);

#endif
