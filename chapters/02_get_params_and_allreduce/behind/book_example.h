// book_example.h: the book's figures for synchronizing four GPUs, beside the times of our code on
// such a machine. Book: "Parameter Servers", section "Data-Parallel Training".
#ifndef BOOK_EXAMPLE_H
#define BOOK_EXAMPLE_H

#include "common/tensor/tensor.h"

// A table, modelled on d2l-pcie; CHECK()s that the times are the book's. Returns the ring's
// milliseconds.
double show_book_example(void);

// The book's aggregation on the CPU: all vectors to the host, and the sum back to all. It moves the
// bytes and adds nothing, because the book counts only bytes; so it is for devices without values.
void bytes_through_the_host(Tensor *const data[], int k);

#endif
