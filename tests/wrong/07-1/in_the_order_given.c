// wrong: places the keys in the order in which they are given; the largest may come last
// loses: 1 2
// says: keys in the order in which they are given come to this: the largest goes first

#include "your_part.h"

void place_keys(const size_t loads[], int n, int S, int server_of[]) {
    size_t has[MOST_PLACES] = {0};
    for (int i = 0; i < n; i++) {
        int server = 0;
        for (int s = 1; s < S; s++)
            if (has[s] < has[server]) server = s;
        server_of[i] = server;
        has[server] += loads[i];
    }
}

int cut_keys(const size_t sizes[], int n, size_t most, Piece pieces[]) {
    int num = 0;
    for (int i = 0; i < n; i++) {
        int parts = (int)((sizes[i] + most - 1) / most);
        for (int p = 0; p < parts; p++) {
            pieces[num].key = i;
            pieces[num++].range = equal_range((long)sizes[i], parts, p);
        }
    }
    return num;
}
