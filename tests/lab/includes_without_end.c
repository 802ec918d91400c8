// loses: all, "does not compile"
#include "your_part.c"
