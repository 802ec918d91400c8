// test_modelled_allreduce.c: where additions and launches are free and all links are alike, the
// allreduces of chapter 2 take what their formulas say, to 1e-12, and so does the book's example.
// On random machines: better links, shorter times?
#include "cases.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/02_get_params_and_allreduce/behind/behind.h"
#include "common/model/modelled_clock.h"

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

typedef void Run(Tensor *const data[], int k);

static void assert_takes(const char *what, const Machine *machine, Run *run, int k, int n,
                         double expected) {
    double got = modelled_allreduce(machine, run, k, n);
    if (!(fabs(got - expected) <= 1e-12 * expected))
        fail_msg("%s on %d devices takes %.15g, not %.15g seconds", what, k, got, expected);
}

TEST(they_take_what_the_formulas_say) {
    for (int i = 0; i < 2; i++) {
        const Machine *m = machine_parse("test.machine", machines[i]);
        for (int part = 1; part <= 1000 * 1000; part *= 1000) {
            // 2 (k-1) (latency + N / (k bandwidth)).
            for (int k = 2; k <= 64; k += k < 8 ? 1 : 19) {
                double expected = 2 * (k - 1) * transfer(part);
                assert_takes("ring", m, allreduce_ring, k, k * part, expected);
                assert_takes("sharded", m, allreduce_sharded, k, k * part, expected);
            }
            // The tree, if the vector is one piece: as often as there are levels, up and down. The
            // book's star: 2 (k-1) (latency + N / bandwidth). (In the second half the latencies of
            // copies to different devices may overlap, but tensor_copy() lets the sender wait.)
            for (int levels = 1, k = 2; levels <= 6; levels++, k *= 2) {
                double once = transfer(part);
                assert_takes("tree", m, allreduce_tree, k, part, 2 * levels * once);
                assert_takes("the book's lines", m, allreduce_book, k, part, 2 * (k - 1) * once);
            }
        }
        // In pieces, device 0 takes in those of all others; then only the last piece is still on
        // its way back, to one after the other.
        enum { PIECES = 5 };
        for (int k = 2; k <= 16; k++) {
            double back = (k - 1) * (transfer(PIECE) - link_of_all.latency) + link_of_all.latency;
            assert_takes("star", m, allreduce_star, k, PIECES * PIECE,
                         PIECES * (k - 1) * transfer(PIECE) + back);
        }
    }
}

// "Parameter Servers" of the book: 160 MB, four GPUs, 16 GB/s.
TEST(the_books_example) {
    enum { K = 4, N = 160 * 1000 * 1000 / sizeof(float) };
    const Machine *m = machine_find("d2l-pcie");
    assert_takes("star", m, allreduce_book, K, N, 0.060);
    assert_takes("through the CPU", m, bytes_through_the_host, K, N, 0.080);
    assert_takes("sharded", m, allreduce_sharded, K, N, 0.015);
    assert_takes("ring", m, allreduce_ring, K, N, 0.015);
    assert_takes("tree", m, allreduce_tree, K, N, 0.040);
}

static double uniform(int seed, int *next) {
    return random_uniform((uint64_t)seed, STREAM_TEST, (uint64_t)(*next)++);
}

// A ring or a tree, on built-in machines with other links. (Where links are all alike, the formulas
// above say it of all four. By root ports, faster PCIe can make the sharded one 5 % slower: copies
// come to the root ports in another order.)
TEST(better_links_never_make_ring_or_tree_slower) {
    static const char *const like[] = {"dgx-a100", "dgx-v100", "p100-25gbe", "rtx4090-pcie",
                                       "cluster-10gbe"};
    for (int seed = 0; seed < 100; seed++) {
        int next = 0;
        Machine m = *machine_find(like[seed % 5]), before;
        double *rates[] = {&m.link.bandwidth, &m.host_link.bandwidth, &m.network.bandwidth,
                           &m.root_bandwidth};
        double *times[] = {&m.link.latency, &m.host_link.latency, &m.network.latency};
        for (int i = 0; i < 4; i++) *rates[i] = 1e8 * pow(1000, uniform(seed, &next));
        for (int i = 0; i < 3; i++) *times[i] = 50e-6 * uniform(seed, &next);
        m.devices_per_root = 1 + (int)(m.devices * uniform(seed, &next));
        int k = 2 + (int)(((m.cards > 0 ? 24 : m.devices) - 1) * uniform(seed, &next));
        int n = (int)pow(10, 2 + 5 * uniform(seed, &next));
        double factor = 1 + 3 * uniform(seed, &next);
        before = m;
        for (int tree = 0; tree < 2; tree++) {
            Run *run = tree ? allreduce_tree : allreduce_ring;
            double seconds = modelled_allreduce(&m, run, k, n);
            for (int place = 0; place < 7; place++, m = before) {
                if (place < 4)
                    *rates[place] *= factor;
                else
                    *times[place - 4] /= factor;
                double s = modelled_allreduce(&m, run, k, n);
                if (!(s <= seconds * (1 + 1e-12)))
                    fail_msg("%s, machine %d like %s, place %d: %g, then %g seconds",
                             tree ? "tree" : "ring", seed, m.name, place, seconds, s);
            }
        }
    }
}

int main(void) { return run_all("modelled_allreduce", NULL, NULL); }
