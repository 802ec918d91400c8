// keys.c: see keys.h.
#include "keys.h"

#include "common/base/error.h"

int sizes_of_keys(const Module *net, size_t sizes[MOST_KEYS]) {
    Parameters all = parameters_of(net);
    int n = 0;
    for (int i = 0; i < all.n; i++) {
        if (!all.list[i]->trained) continue; // running statistics stay with the workers
        CHECK(n < MOST_KEYS, "room for the keys");
        sizes[n++] = (size_t)numel(all.list[i]->start);
    }
    return n;
}

Loads loads_of(const size_t loads[], int n, int S, const int server_of[]) {
    size_t sum[MOST_PLACES] = {0};
    Loads l = {0};
    CHECK(S <= MOST_PLACES, "room for the servers");
    for (int i = 0; i < n; i++) {
        sum[server_of[i]] += loads[i];
        l.all += loads[i];
    }
    for (int s = 1; s < S; s++)
        if (sum[s] > sum[l.who]) l.who = s;
    l.busiest = sum[l.who];
    return l;
}

void round_robin(int n, int S, int server_of[]) {
    for (int i = 0; i < n; i++) server_of[i] = i % S;
}

void ranges_of_keys(int n, int S, int server_of[]) {
    for (int s = 0; s < S; s++) {
        Range keys = equal_range(n, S, s);
        for (long i = 0; i < keys.count; i++) server_of[keys.first + i] = s;
    }
}
