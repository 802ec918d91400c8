// loses: all, "does not link: .*defines draw"
// A function under a name by which the cases are made.
#include "your_part.h"

long draw(long least, long most);
long draw(long least, long most) { return least < most ? least : most; }
void allreduce_at(Tensor *const data[], int k, int hub) { (void)data, (void)k, (void)hub; }
void allreduce_parts(Tensor *const data[], int k) { (void)data, (void)k; }
