// links.c: allreduces between hosts, next to what their links allow.
//
//     links MBITS [MB [ROUNDS]]       as several ranks, on hosts whose links have MBITS Mbit/s
//
// (left out: 4 MB, 9 rounds.) tests/bench/links.sh makes such hosts on this machine.
//
// The formula's time is that of the busiest link's bytes. A link carries both ways at once, but
// what an algorithm does one after the other adds up: the star's first rank receives all, then it
// sends. Packets have headers: of 1514 bytes 1448 are ours, so 0.956 of the formula is all that TCP
// can reach.
#include <stdio.h>
#include <stdlib.h>

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/device/device.h"
#include "chapters/08_many_machines/ranks.h"
#include "common/program/table.h"
#include "chapters/08_many_machines/step.h"

enum { MOST_ROUNDS = 99 };

enum { STAR, RING, HIERARCHICAL, WAYS };
static const char *const names[WAYS] = {"star", "ring", "hierarchical"};

static double seconds_of(int way, Tensor *data) {
    dist_choose_all_reduce(way == STAR ? "star" : "ring");
    tensor_fill(data, 0); // sums of sums of it stay finite
    synchronize_all();
    dist_barrier(NULL);
    double begin = seconds_now();
    if (way == HIERARCHICAL)
        hierarchical_all_reduce(data);
    else
        dist_all_reduce(NULL, data);
    dist_barrier(NULL);
    return seconds_now() - begin;
}

int main(int argc, char *argv[]) {
    static double seconds[WAYS][MOST_ROUNDS];
    set_program_name(argv[0]);
    dist_before_flags();
    double mbits = argc > 1 ? atof(argv[1]) : 0, megabytes = argc > 2 ? atof(argv[2]) : 4;
    int rounds = argc > 3 ? atoi(argv[3]) : 9;
    if (!(mbits > 0) || !(megabytes >= 0.1 && megabytes <= 4096) || rounds < 1 ||
        rounds > MOST_ROUNDS)
        die("tests/bench/links MBITS [MB [ROUNDS]]", "these numbers make no sense");
    devices_init(BACKEND_CPU, 1);
    dist_init_process_group((DistOptions){.threads = 1});
    hierarchical_begin();
    Tensor *data = tensor_new(dist_device(), (int)(megabytes * 1e6 / sizeof(float)));
    for (int round = -1; round < rounds; round++) // the first opens connections: not counted
        for (int way = 0; way < WAYS; way++) {
            double time = seconds_of(way, data);
            if (round >= 0) seconds[way][round] = time;
        }
    double N = (double)tensor_bytes(data), k = dist_get_world_size(), H = dist_num_hosts();
    // What the busiest link carries: the star's, in, then out.
    const double bytes[WAYS] = {2 * (k - k / H) * N, H > 1 ? 2 * (k - 1) / k * N : 0,
                                2 * (H - 1) / H * N};
    printf("%g ranks on %g hosts, %.3g MB; links of %g Mbit/s; medians of %d rounds\n", k, H,
           megabytes, mbits, rounds);
    Table t = TABLE(NULL, WORDS("allreduce", 12), FIXED("on the link", 1, .unit = "MB"),
                    FIXED("formula", 0, .unit = "ms"), FIXED("measured", 0, .unit = "ms"),
                    FIXED("from", 0, .unit = "ms"), FIXED("to", 0, .unit = "ms"),
                    FIXED("formula / measured", 2));
    for (int way = 0; way < WAYS; way++) {
        double formula = bytes[way] * 8 / (mbits * 1e6);
        Quartiles q = quartiles(seconds[way], rounds);
        table_text(&t, "%s", names[way]);
        table_numbers(&t, bytes[way], formula, q.median, q.low, q.high, formula / q.median);
    }
    tensor_free(data);
    hierarchical_end();
    dist_destroy_process_group();
    devices_close();
    return 0;
}
