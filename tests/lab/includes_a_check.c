// loses: all, "does not compile: .*Permission denied"
// A check knows what is right; in the sandbox its text is not there.
#include "chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce/check.c"
