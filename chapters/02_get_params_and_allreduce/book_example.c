// book_example.c: the example of the book's section "Parameter Servers". Four GPUs, each on a link
// of 16 GB/s to one PCIe switch, sum 160 MB of gradients. The book reckons 60 ms if one GPU adds up
// all of them, 80 ms if the CPU does, and 15 ms if each GPU adds up a quarter.
#include "book_example.h"

#include "common/program/say.h"
#include "allreduce.h"
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
    const char *what;
    void (*run)(Tensor *const data[], int k);
    double book_ms; // 0: it does not say
} ways[] = {
    {"star, in the book's own lines", allreduce_book, 60},
    {"through the CPU", bytes_through_the_host, 80},
    {"sharded", allreduce_sharded, 15},
    {"ring", allreduce_ring, 0},
    {"tree", allreduce_tree, 0},
    {"star, in pieces", allreduce_star, 0},
};
enum { NUM_WAYS = sizeof ways / sizeof ways[0] };

double show_book_example(void) {
    const Machine *machine = machine_find("d2l-pcie");
    begin_on_machine(machine);
    printf("\nThe book's example: 160 MB on %d GPUs with links of 16 GB/s, nothing else counts\n"
           "%34s the book   modelled: %s\n",
           BOOK_K, "", machine->name);
    bool same = true;
    double ring_ms = 0;
    for (int w = 0; w < NUM_WAYS; w++) {
        double ms = 1e3 * modelled_allreduce(ways[w].run, BOOK_K, BOOK_FLOATS);
        char book[16] = "-";
        if (ways[w].book_ms > 0) snprintf(book, sizeof book, "%.0f ms", ways[w].book_ms);
        printf("  %-32s %8s   %7.1f ms\n", ways[w].what, book, ms);
        if (ways[w].run == allreduce_ring) ring_ms = ms;
        if (ways[w].book_ms > 0) same = same && fabs(ms - ways[w].book_ms) < 1e-6;
    }
    say_checked(same, "the modelled times of the book's three ways are the book's");
    say("  The book counts both halves, to the sum and back: 30 + 30, 40 + 40 and 7.5 + 7.5 ms. In "
        "the star, three vectors come to GPU 0 one after the other, 10 ms each; then the sum goes "
        "out three times. Each half uses GPU 0's link in one direction only, though PCIe carries "
        "both at once. Our star sends pieces of the sum back while the others still come in, which "
        "halves the time. Sharded or in a ring, all links are at work, in both directions.");
    return ring_ms;
}
