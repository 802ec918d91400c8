// solution.c: the order of one stage's work in 1F1B.
#include "your_part.h"

int one_forward_one_backward(int i, int k, int m, Turn turns[]) {
    int warm_up = k - 1 - i < m ? k - 1 - i : m, n = 0, back = 0;
    for (int j = 0; j < warm_up; j++) turns[n++] = (Turn){.j = j};
    for (int j = warm_up; j < m; j++) {
        turns[n++] = (Turn){.j = j};
        turns[n++] = (Turn){.backward = true, .j = back++};
    }
    while (back < m) turns[n++] = (Turn){.backward = true, .j = back++};
    return n;
}
