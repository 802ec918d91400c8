// test_nccl_model.c: NCCL's time where a formula gives it, what may never happen, and which
// algorithms and protocols it takes for which vectors.
#include "test.h"

#include "common/model/nccl_model.h"

static const NcclChoice simple_ring = {NCCL_RING, NCCL_SIMPLE};
static const double MB = 1 << 20;

static void assert_close(double seconds, double expected) {
    if (!(fabs(seconds - expected) <= 1e-9 * expected))
        fail_msg("%.15g, not %.15g seconds", seconds, expected);
}

// k ranks whose rings have this bandwidth together.
static double ring(int k, double bytes, double bandwidth, double latency) {
    return latency + 2.0 * (k - 1) / k * bytes / bandwidth;
}

// Starts: 8.4 us. Steps: 3.4 us by NVLink, 5.7 by PCIe, 14 by network.
static void test_rings(void **state) {
    (void)state;
    const Machine *switched = machine_find("dgx-a100"), *mesh = machine_find("dgx-v100");
    for (int k = 2; k <= 8; k++) // the switch has 12 NVLinks of 20 GB/s for each
        assert_close(nccl_seconds(switched, simple_ring, k, 64 * MB),
                     ring(k, 64 * MB, 240e9, 8.4e-6 + 2 * (k - 1) * 3.4e-6));
    // All 6 NVLinks of 20 GB/s. Of GPU 0 to 5, the last two have one link to each other and two to
    // one more: a ring comes by the one and goes by the other, so there is one each way round.
    assert_close(nccl_seconds(mesh, simple_ring, 8, 64 * MB),
                 ring(8, 64 * MB, 120e9, 8.4e-6 + 14 * 3.4e-6));
    assert_close(nccl_seconds(mesh, simple_ring, 6, 64 * MB),
                 ring(6, 64 * MB, 2 * 23.95e9, 8.4e-6 + 10 * 3.4e-6));
    // GPU 4 has no second neighbour among 0 to 4: PCIe.
    assert_close(nccl_seconds(mesh, simple_ring, 5, 64 * MB),
                 ring(5, 64 * MB, 12e9, 8.4e-6 + 8 * 5.7e-6));
}

// As many rings as cards; 2 x 2 of the 46 steps are between hosts, and the CPU posts the others in
// 6 us each. Long vectors have 1.4 times the latency.
static void test_cards(void **state) {
    (void)state;
    Machine machine = *machine_find("dgx-a100");
    double us = 1.4 * (8.4 + 42 * 6 + 4 * 14), one_card = 0;
    for (int cards = 1; cards <= 8; cards *= 2) {
        machine.cards = cards;
        double seconds = nccl_seconds(&machine, simple_ring, 24, 1024 * MB);
        assert_close(seconds, ring(24, 1024 * MB, cards * 23.5e9, 1e-6 * us));
        if (cards == 1) one_card = seconds;
        if (cards == 4) assert_true(one_card >= 3 * seconds);
    }
}

static const char *const names[] = {"dgx-a100", "dgx-h100",   "dgx-v100",    "cluster-10gbe",
                                    "d2l-pcie", "p100-25gbe", "rtx4090-pcie"};
enum { NUM_NAMES = sizeof names / sizeof *names };

static void on_all(void (*test)(const Machine *machine, int ranks)) {
    for (int n = 0; n < NUM_NAMES; n++)
        for (int ranks = 2; ranks <= 64; ranks += ranks < 9 ? 1 : 11)
            if (machine_has_devices(machine_find(names[n]), ranks))
                test(machine_find(names[n]), ranks);
}

// (Not for each byte more: NCCL's tree is taken to be faster from some powers of two on.)
static void never_less_for_twice_the_bytes(const Machine *machine, int ranks) {
    double before = 0;
    for (double bytes = 4; bytes <= 4096 * MB; bytes *= 2) {
        double seconds = nccl_allreduce_seconds(machine, ranks, bytes, NULL);
        assert_true(seconds >= before && seconds < INFINITY);
        before = seconds;
    }
}

static void never_more_on_a_better(const Machine *machine, int ranks) {
    for (double bytes = 4; bytes <= 4096 * MB; bytes *= 8) {
        double seconds = nccl_allreduce_seconds(machine, ranks, bytes, NULL);
        for (int part = 0; part < 6; part++) {
            Machine better = *machine;
            if (part == 0) better.link.bandwidth *= 1.5;
            if (part == 1) better.host_link.bandwidth *= 1.5;
            if (part == 2) better.root_bandwidth *= 1.5;
            if (part == 3) better.network.bandwidth *= 1.5;
            if (part == 4) better.network.latency /= 2;
            if (part == 5) better.cards *= 2;
            assert_true(nccl_allreduce_seconds(&better, ranks, bytes, NULL) <= seconds);
        }
    }
}

static void test_bytes(void **state) {
    (void)state;
    on_all(never_less_for_twice_the_bytes);
}

static void test_better(void **state) {
    (void)state;
    on_all(never_more_on_a_better);
}

static void assert_takes(const char *machine, int ranks, double bytes, NcclAlgorithm algorithm,
                         NcclProtocol protocol) {
    NcclChoice choice;
    nccl_allreduce_seconds(machine_find(machine), ranks, bytes, &choice);
    assert_int_equal(choice.algorithm, algorithm);
    assert_int_equal(choice.protocol, protocol);
}

static void test_choices(void **state) {
    (void)state;
    assert_takes("dgx-a100", 8, 1024, NCCL_RING, NCCL_LL);
    assert_takes("dgx-a100", 8, 8 * MB, NCCL_RING, NCCL_LL128);
    assert_takes("dgx-a100", 8, 1024 * MB, NCCL_RING, NCCL_SIMPLE);
    assert_takes("dgx-a100", 64, 1024, NCCL_TREE, NCCL_LL);
    assert_takes("dgx-h100", 8, 1024 * MB, NCCL_NVLS, NCCL_SIMPLE);
    // Flags between 120 bytes are only safe over NVLink.
    assert_takes("rtx4090-pcie", 8, 1024, NCCL_RING, NCCL_LL);
    assert_takes("rtx4090-pcie", 8, 1024 * MB, NCCL_RING, NCCL_SIMPLE);
    assert_true(isinf(
        nccl_seconds(machine_find("rtx4090-pcie"), (NcclChoice){NCCL_RING, NCCL_LL128}, 8, MB)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings),  cmocka_unit_test(test_cards),   cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_better), cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
