// book_example.c: see book_example.h.
#include "book_example.h"

#include "common/base/error.h"
#include "../allreduce.h"
#include "modelled_times.h"

#include <math.h>
#include <stdio.h>

enum { BOOK_K = 4, BOOK_FLOATS = 160 * 1000 * 1000 / sizeof(float), HOST_FLOATS = 1 << 20 };

// In pieces to one place, so that the host needs no memory for whole vectors.
static void each_to_or_from(Tensor *host_piece, Tensor *const data[], int k, bool to_host) {
    for (size_t first = 0; first < numel(data[0]); first += HOST_FLOATS) {
        size_t left = numel(data[0]) - first;
        Range part = {.first = (long)first, .count = left < HOST_FLOATS ? (long)left : HOST_FLOATS};
        size_t bytes = (size_t)part.count * sizeof(float);
        for (int i = 0; i < k; i++) {
            float *there = part_data(data[i], part), *here = host_piece->data;
            if (to_host)
                device_copy(host(), here, data[i]->device, there, bytes);
            else
                device_copy(data[i]->device, there, host(), here, bytes);
        }
    }
    synchronize_all();
}

void bytes_through_the_host(Tensor *const data[], int k) {
    Tensor *piece = tensor_new(host(), HOST_FLOATS);
    each_to_or_from(piece, data, k, true);
    each_to_or_from(piece, data, k, false);
    tensor_free(piece);
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
    printf("\n%d MB on %d GPUs with links of 16 GB/s; only bytes take time\n",
           BOOK_FLOATS * 4 / 1000000, BOOK_K);
    printf("  %-18s %8s  modelled: %s\n", "way", "the book", machine->name);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        double ms = 1e3 * modelled_allreduce(machine, ways[w].run, BOOK_K, BOOK_FLOATS);
        printf("  %-18s %5.0f ms  %15.1f ms\n", ways[w].name, ways[w].book_ms, ms);
        CHECK(fabs(ms - ways[w].book_ms) < 1e-6, "the modelled times are the book's");
    }
    return 1e3 * modelled_allreduce(machine, allreduce_ring, BOOK_K, BOOK_FLOATS);
}
