// book_example.c: the book's figures for synchronizing four GPUs, beside the times of our code on
// such a machine.
#include "behind.h"

#include "common/book.h"
#include "../allreduce.h"

enum { BOOK_K = 4, BOOK_FLOATS = 160 * 1000 * 1000 / sizeof(float) };

void bytes_through_the_host(Tensor *const data[], int k) {
    Tensor *sum = tensor_of_shape(host(), data[0]->ndim, data[0]->shape);
    for (int i = 0; i < k; i++) tensor_copy(sum, data[i]);
    synchronize_all();
    for (int i = 0; i < k; i++) tensor_copy(data[i], sum);
    synchronize_all();
    tensor_free(sum);
}

static const struct Way {
    const char *name;
    void (*run)(Tensor *const data[], int k);
    double book_ms;
} ways[] = {
    {"star", allreduce_book, 60},
    {"through the CPU", bytes_through_the_host, 80},
    {"sharded", allreduce_sharded, 15},
};

double show_book_example(void) {
    const Machine *machine = machine_find("d2l-pcie");
    printf("\n160 MB on %d GPUs with links of 16 GB/s; only bytes take time\n"
           "  %-18s %8s  modelled: %s\n",
           BOOK_K, "method", "the book", machine->name);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        double ms = 1e3 * modelled_allreduce(machine, ways[w].run, BOOK_K, BOOK_FLOATS);
        printf("  %-18s %5.0f ms  %15.1f ms\n", ways[w].name, ways[w].book_ms, ms);
        CHECK(fabs(ms - ways[w].book_ms) < 1e-6, "the modelled times are the book's");
    }
    return 1e3 * modelled_allreduce(machine, allreduce_ring, BOOK_K, BOOK_FLOATS);
}
