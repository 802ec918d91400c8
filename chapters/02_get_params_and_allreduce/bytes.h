// bytes.h: how many bytes each allreduce moves.
#ifndef BYTES_H
#define BYTES_H

#include <stdint.h>

// A table: the bytes that the ledger counted, next to those of the formula. Ends the program with
// an error if they differ.
void compare_bytes(uint64_t seed);

#endif
