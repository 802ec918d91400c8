// loses: all, "does not compile: .*Permission denied|nothing defines .*allreduce"
// In the sandbox nothing is there to be read.
#include "chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce/solution.c"
