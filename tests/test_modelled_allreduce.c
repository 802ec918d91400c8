// test_modelled_allreduce.c: where additions and launches are free and all links are alike, the
// allreduces of chapter 2 take what their formulas say, to 1e-12; and so the book's example.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/book_example.h"
#include "chapters/02_get_params_and_allreduce/modelled_times.h"
#include "common/model/modelled_clock.h"

#include <math.h>

// Nothing takes time but links.
#define FREE_BUT_LINKS                                                                             \
    "about for a test\nmemory 1 TB\nfp32 1e12 TFLOP/s\nproduct 100 %\nconvolution 100 %\n"         \
    "elements 100 %\nmemory_bandwidth 1e18 GB/s\nkernel 0 us\nlaunch 0 us\ngraph_launch 0 us\n"    \
    "graph_kernel 0 us\nframework 0 us\nhost_link 1e6 GB/s 0 us\n"

// All on one switch, or each on a host of its own.
static const char *const machines[] = {
    FREE_BUT_LINKS "devices 1024\nlink switch 10 GB/s 7 us\n",
    FREE_BUT_LINKS "devices 1\ncards 1\nnetwork 10 GB/s 7 us\n",
};
static const Link link_of_all = {.bandwidth = 10e9, .latency = 7e-6};

static double transfer(double floats) {
    return link_of_all.latency + sizeof(float) * floats / link_of_all.bandwidth;
}

static void assert_close(const char *what, int k, double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * expected))
        fail_msg("%s on %d devices takes %.15g, not %.15g seconds", what, k, got, expected);
}

static const Machine *machine;

// The clock begins anew each time: far from zero it would be less exact.
static void assert_takes(const char *what, void (*run)(Tensor *const data[], int k), int k, int n,
                         double expected) {
    begin_on_machine(machine);
    assert_close(what, k, modelled_allreduce(run, k, n), expected);
}

static void on_each_machine(void (*test)(void)) {
    for (int m = 0; m < 2; m++) {
        machine = machine_parse("test.machine", machines[m]);
        test();
    }
    devices_close();
    modelled_clock_start(NULL);
}

// 2 (k-1) (latency + N / (k bandwidth)).
static void test_in_parts(void) {
    for (int k = 2; k <= 64; k += k < 8 ? 1 : 19)
        for (int part = 1; part <= 1000 * 1000; part *= 1000) {
            double expected = ring_formula(link_of_all, k, k * part);
            assert_close("the formula", k, expected, 2 * (k - 1) * transfer(part));
            assert_takes("ring", allreduce_ring, k, k * part, expected);
            assert_takes("sharded", allreduce_sharded, k, k * part, expected);
        }
}

// The book's star: 2 (k-1) (latency + N / bandwidth). The tree, if the vector is one piece: as
// often as there are levels, up and down.
static void test_whole_vectors(void) {
    for (int levels = 1; levels <= 6; levels++)
        for (int n = 1; n <= 1000 * 1000; n *= 1000) {
            int k = 1 << levels;
            assert_takes("tree", allreduce_tree, k, n, 2 * levels * transfer(n));
            // (In the second half the latencies of copies to different devices may overlap, but
            // tensor_copy() lets the sender wait for each.)
            assert_takes("the book's lines", allreduce_book, k, n, 2 * (k - 1) * transfer(n));
        }
}

// Device 0 takes in all pieces of all others; then only the last piece is still on its way back, to
// one after the other.
static void test_star_in_pieces(void) {
    enum { PIECES = 5 };
    for (int k = 2; k <= 16; k++) {
        double back = (k - 1) * (transfer(PIECE) - link_of_all.latency) + link_of_all.latency;
        assert_takes("star", allreduce_star, k, PIECES * PIECE,
                     PIECES * (k - 1) * transfer(PIECE) + back);
    }
}

static void ring_and_sharded_take_what_the_formula_says(void **state) {
    (void)state;
    on_each_machine(test_in_parts);
}

static void tree_and_book_take_what_the_formula_says(void **state) {
    (void)state;
    on_each_machine(test_whole_vectors);
}

static void the_star_sends_while_it_receives(void **state) {
    (void)state;
    on_each_machine(test_star_in_pieces);
}

// "Parameter Servers" of the book: 160 MB, four GPUs, 16 GB/s.
static void the_books_example(void **state) {
    (void)state;
    enum { K = 4, N = 160 * 1000 * 1000 / sizeof(float) };
    machine = machine_find("d2l-pcie");
    assert_takes("star", allreduce_book, K, N, 0.060);
    assert_takes("through the CPU", bytes_through_the_host, K, N, 0.080);
    assert_takes("sharded", allreduce_sharded, K, N, 0.015);
    assert_takes("ring", allreduce_ring, K, N, 0.015);
    assert_takes("tree", allreduce_tree, K, N, 0.040);
    devices_close();
    modelled_clock_start(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_and_sharded_take_what_the_formula_says),
        cmocka_unit_test(tree_and_book_take_what_the_formula_says),
        cmocka_unit_test(the_star_sends_while_it_receives),
        cmocka_unit_test(the_books_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
