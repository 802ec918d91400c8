// wrong: counts the first forward of the pairs into the warm-up, too
// loses: 3 4 5
// says: a warm-up of k - i forwards makes this order

#include "your_part.h"

int one_forward_one_backward(int i, int k, int m, Turn turns[]) {
    int n = 0, forward = 0, back = 0;
    while (forward < k - i && forward < m) turns[n++] = (Turn){false, forward++};
    while (forward < m) {
        turns[n++] = (Turn){false, forward++};
        turns[n++] = (Turn){true, back++};
    }
    while (back < m) turns[n++] = (Turn){true, back++};
    return n;
}
