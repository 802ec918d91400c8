// wrong: rounds the number of pieces down, so that they are too large, and small keys have none
// loses: 3 4
// says: if size . most is rounded down, there are none of a small key

#include "your_part.h"

void place_keys(const size_t loads[], int n, int S, int server_of[]) {
    size_t has[MOST_PLACES] = {0};
    bool placed[MOST_KEYS] = {false};
    for (int turn = 0; turn < n; turn++) {
        int key = -1, server = 0;
        for (int i = 0; i < n; i++)
            if (!placed[i] && (key < 0 || loads[i] > loads[key])) key = i;
        for (int s = 1; s < S; s++)
            if (has[s] < has[server]) server = s;
        server_of[key] = server;
        placed[key] = true;
        has[server] += loads[key];
    }
}

int cut_keys(const size_t sizes[], int n, size_t most, Piece pieces[]) {
    int num = 0;
    for (int i = 0; i < n; i++) {
        int parts = (int)(sizes[i] / most);
        for (int p = 0; p < parts; p++) {
            pieces[num].key = i;
            pieces[num++].range = equal_range((long)sizes[i], parts, p);
        }
    }
    return num;
}
