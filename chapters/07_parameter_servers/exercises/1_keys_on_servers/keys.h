// keys.h: the keys of a network, pieces of them, and what a placement costs.
#ifndef KEYS_H
#define KEYS_H

#include "common/base/range.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"

#include <stddef.h>

enum { MOST_KEYS = 128, MOST_PIECES = 2048, MOST_PLACES = 64 }; // MOST_PLACES: servers

// Floats `range` of key number `key`; all of them, if it is whole.
typedef struct Piece {
    int key;
    Range range;
} Piece;

// The sizes of a network's tensors, in floats, in the order of its layers. Returns how many.
int sizes_of_keys(const Module *net, size_t sizes[MOST_KEYS]);

// What a piece is to its server, in bytes: its floats, and `overhead`, the bytes that could have
// been sent in the time that a message takes in any case. Sum and maximum over all servers:
typedef struct Loads {
    size_t all, busiest;
    int who; // is the busiest; the first, if there are several
} Loads;
Loads loads_of(const size_t loads[], int n, int S, const int server_of[]);

// The ways to place keys that are not your part's. Key number i of n goes to server
void round_robin(int n, int S, int server_of[]);    // i modulo S
void ranges_of_keys(int n, int S, int server_of[]); // 0 for the first n/S keys, and so on

#endif
