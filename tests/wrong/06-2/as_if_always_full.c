// wrong: goes forward k - 1 - i times even where there are fewer microbatches
// loses: 5
// says: even if there are fewer microbatches makes this order: it is m then

#include "your_part.h"

int one_forward_one_backward(int i, int k, int m, Turn turns[]) {
    int warm_up = k - 1 - i, n = 0, back = 0;
    for (int j = 0; j < warm_up; j++) turns[n++] = (Turn){false, j};
    for (int j = warm_up; j < m; j++) {
        turns[n++] = (Turn){false, j};
        turns[n++] = (Turn){true, back++};
    }
    while (back < m) turns[n++] = (Turn){true, back++};
    return n;
}
