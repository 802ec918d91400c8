// bytes.h: how many bytes each allreduce moves.
#ifndef BYTES_H
#define BYTES_H

#include <stdint.h>

// A table, for 2, 4, ... up to `most_devices` devices: the bytes that the ledger counted, next to
// those of the formula. Ends the program with an error if they differ. Returns what the busiest
// device of the last ring sent, as a multiple of the vector's size N.
double compare_bytes(int most_devices, uint64_t seed);

#endif
