// modelled.c: the chapter with --backend model. The devices compute nothing, so get_params(),
// allreduce() and the two mistakes, which are about values, are not shown.
#include "behind.h"

#include "common/book.h"

void allreduce_without_values(const Machine *machine, int k, bool many, uint64_t seed, FILE *csv) {
    show_book_example();
    double ring = compare_bytes_of_four_ways(machine, k, seed, csv);
    if (book_can_use_devices(8))
        book_result("of 8 devices the busiest sends %.3g N in the ring, and 7 N in the star", ring);
    book_end_trace();
    if (many) model_up_to_1024_devices(machine, csv);
    show_modelled_bandwidth(machine, k, csv);
}
