// book_example.h: the book's figures for synchronizing four GPUs, beside what our code would take
// on such a machine. Book: "Parameter Servers", section "Data-Parallel Training".
#ifndef BOOK_EXAMPLE_H
#define BOOK_EXAMPLE_H

#include "common/tensor/tensor.h"

// A table, modelled on the machine d2l-pcie; ends the program with an error if the modelled times
// are not the book's. Returns the ring's milliseconds. From then on the devices are those of
// d2l-pcie (see begin_on_machine() in modelled_times.h).
double show_book_example(void);

// What the book calls aggregating on the CPU: all vectors to the host, and the sum back to all. It
// moves the bytes and adds nothing, for the book counts only the bytes: of use where there are no
// values, on devices that compute nothing.
void bytes_through_the_host(Tensor *const data[], int k);

#endif
