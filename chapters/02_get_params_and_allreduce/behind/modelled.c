// modelled.c: the chapter with --backend model. The devices compute nothing, so get_params(),
// allreduce() and the two mistakes, which are about values, are not shown.
#include "behind.h"

#include "common/book.h"

void allreduce_without_values(const Figures *figures, int k, bool many, uint64_t seed) {
    show_book_example();
    compare_bytes_of_four_ways(figures, k, seed);
    book_end_trace();
    if (many) model_up_to_1024_devices(figures);
    show_modelled_bandwidth(figures, k);
}
