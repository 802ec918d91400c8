// loses: all, "does not compile: your_part.c:5:.*undeclared"
#include "your_part.h"

void allreduce_at(Tensor *const data[], int k, int hub) {
    for (int i = 0; i < n; i++) tensor_copy(data[i], data[hub]);
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
