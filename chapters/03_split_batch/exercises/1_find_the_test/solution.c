// solution.c: an average of averages is right if all shards are equal. Minibatches have at most two
// sizes, so two of them are enough to look at.
#include "your_part.h"

int first_wrong_minibatch(int images, int batch_size, int k) {
    int full = images / batch_size, rest = images % batch_size;
    if (full > 0 && batch_size % k != 0) return 0;
    if (rest % k != 0) return full;
    return -1;
}

int fewest_devices(int images, int batch_size) {
    int k = 2;
    while (first_wrong_minibatch(images, batch_size, k) < 0) k++;
    return k;
}
