// solution.c: exercise 1, solved.
#include "your_part.h"

void place_keys(const size_t loads[], int n, int S, int server_of[]) {
    size_t has[MOST_PLACES] = {0};
    for (int i = 0; i < n; i++) server_of[i] = -1;
    for (int placed = 0; placed < n; placed++) {
        int largest = -1, least = 0;
        for (int i = 0; i < n; i++)
            if (server_of[i] < 0 && (largest < 0 || loads[i] > loads[largest])) largest = i;
        for (int s = 1; s < S; s++)
            if (has[s] < has[least]) least = s;
        server_of[largest] = least;
        has[least] += loads[largest];
    }
}

int cut_keys(const size_t sizes[], int n, size_t most, Piece pieces[]) {
    int num = 0;
    for (int i = 0; i < n; i++) {
        int parts = (int)((sizes[i] + most - 1) / most);
        for (int p = 0; p < parts; p++)
            pieces[num++] = (Piece){.key = i, .range = equal_range((long)sizes[i], parts, p)};
    }
    return num;
}
