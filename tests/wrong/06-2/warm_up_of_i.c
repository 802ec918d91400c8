// wrong: a warm-up of as many forwards as there are stages before it, not behind it
// loses: 2 3 4 5
// says: a warm-up of i forwards makes this order

#include "your_part.h"

int one_forward_one_backward(int i, int k, int m, Turn turns[]) {
    int warm_up = i < m ? i : m, n = 0, back = 0;
    (void)k;
    for (int j = 0; j < m; j++) {
        turns[n++] = (Turn){.backward = false, .j = j};
        if (j >= warm_up) turns[n++] = (Turn){.backward = true, .j = back++};
    }
    while (back < m) turns[n++] = (Turn){.backward = true, .j = back++};
    return n;
}
