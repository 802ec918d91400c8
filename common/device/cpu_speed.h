// cpu_speed.h: how fast this CPU multiplies matrices, to say beforehand how long a run will take,
// and to say so if it is much slower than it should be.
#ifndef CPU_SPEED_H
#define CPU_SPEED_H

// A line on stderr if the kernels use fewer of the CPU's instructions than it has (CPU=v1 in the
// environment), or if products are much slower than the CPU's clock lets expect.
void warn_if_cpu_is_slow(void);

// Prints in one line for how long the CPU will be at work on this many FLOP, with all its threads:
// "this will take about 2 minutes (AVX2, 2 threads)". Nothing, if it is a few seconds.
void print_time_for(double flop);

#endif
