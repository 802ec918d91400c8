// loses: all, "does not compile: the compiler (took more memory|did not end)"
#include "your_part.h"
#define A(x) x x x x x x x x x x
#define B(x) A(A(A(A(A(A(A(A(x))))))))
int too_many[] = {B(B(1, ))};
