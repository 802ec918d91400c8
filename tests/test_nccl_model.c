// test_nccl_model.c: NCCL's time where a formula gives it, what may never happen, and which
// algorithms and protocols it takes for which vectors.
#include "cases.h"

#include "chapters/02_get_params_and_allreduce/behind/nccl_model.h"

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
TEST(test_rings) {
    const Machine *switched = machine_find("dgx-a100"), *mesh = machine_find("dgx-v100");
    for (int k = 2; k <= 8; k++) // the switch has 12 NVLinks of 20 GB/s for each
        assert_close(nccl_seconds(switched, simple_ring, k, 64 * MB),
                     ring(k, 64 * MB, 240e9, 8.4e-6 + 2 * (k - 1) * 3.4e-6));
    // All 6 NVLinks of 20 GB/s. Of GPU 0 to 5, the last two have one link to each other and two to
    // one more: a ring comes by the one and goes by the other, so there is one each way round.
    // GPU 4 has no second neighbour among 0 to 4: PCIe.
    static const double mesh_rates[][3] = {
        {8, 120e9, 3.4e-6}, {6, 2 * 23.95e9, 3.4e-6}, {5, 12e9, 5.7e-6}};
    for (int i = 0; i < 3; i++) {
        const double k = mesh_rates[i][0], latency = 8.4e-6 + 2 * (k - 1) * mesh_rates[i][2];
        assert_close(nccl_seconds(mesh, simple_ring, (int)k, 64 * MB),
                     ring((int)k, 64 * MB, mesh_rates[i][1], latency));
    }
}

// As many rings as cards; 2 x 2 of the 46 steps are between hosts, and the CPU posts the others in
// 6 us each. Long vectors have 1.4 times the latency.
TEST(test_cards) {
    Machine machine = *machine_find("dgx-a100");
    double us = 1.4 * (8.4 + 42 * 6 + 4 * 14);
    for (int cards = 1; cards <= 8; cards *= 2) {
        machine.cards = cards;
        assert_close(nccl_seconds(&machine, simple_ring, 24, 1024 * MB),
                     ring(24, 1024 * MB, cards * 23.5e9, 1e-6 * us));
    }
}

// Never less for twice the bytes, never more on a better machine. (Not for each byte more: NCCL's
// tree is taken to be faster from some powers of two on.)
TEST(more_takes_longer_and_better_less) {
    for (const MachineFile *file = machine_files; file->name; file++)
        for (int ranks = 2; ranks <= 64; ranks += ranks < 9 ? 1 : 11) {
            const Machine *machine = machine_find(file->name);
            double before = 0;
            if (!machine_has_devices(machine, ranks)) continue;
            for (double bytes = 4; bytes <= 4096 * MB; bytes *= 2) {
                double seconds = nccl_allreduce_seconds(machine, ranks, bytes, NULL);
                assert_true(seconds >= before && seconds < INFINITY);
                before = seconds;
                for (int part = 0; part < 6; part++) {
                    Machine better = *machine;
                    double *rates[] = {&better.link.bandwidth, &better.host_link.bandwidth,
                                       &better.root_bandwidth, &better.network.bandwidth};
                    if (part < 4) *rates[part] *= 1.5;
                    if (part == 4) better.network.latency /= 2;
                    if (part == 5) better.cards *= 2;
                    assert_true(nccl_allreduce_seconds(&better, ranks, bytes, NULL) <= seconds);
                }
            }
        }
}

TEST(each_size_has_its_algorithm) {
    static const struct {
        const char *machine;
        int ranks;
        double bytes;
        NcclChoice choice;
    } rows[] = {
        {"dgx-a100", 8, 1024, {NCCL_RING, NCCL_LL}},
        {"dgx-a100", 8, 8 << 20, {NCCL_RING, NCCL_LL128}},
        {"dgx-a100", 8, 1 << 30, {NCCL_RING, NCCL_SIMPLE}},
        {"dgx-a100", 64, 1024, {NCCL_TREE, NCCL_LL}},
        {"dgx-h100", 8, 1 << 30, {NCCL_NVLS, NCCL_SIMPLE}},
        {"rtx4090-pcie", 8, 1024, {NCCL_RING, NCCL_LL}},
        {"rtx4090-pcie", 8, 1 << 30, {NCCL_RING, NCCL_SIMPLE}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        NcclChoice choice;
        nccl_allreduce_seconds(machine_find(rows[i].machine), rows[i].ranks, rows[i].bytes,
                               &choice);
        assert_int_equal(choice.algorithm, rows[i].choice.algorithm);
        assert_int_equal(choice.protocol, rows[i].choice.protocol);
    }
    // Flags between 120 bytes are only safe over NVLink.
    assert_true(isinf(
        nccl_seconds(machine_find("rtx4090-pcie"), (NcclChoice){NCCL_RING, NCCL_LL128}, 8, MB)));
}

int main(void) { return run_all("nccl_model", NULL, NULL); }
