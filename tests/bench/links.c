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

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/device/device.h"
#include "common/comm/process_group.h"
#include "chapters/08_many_machines/hierarchical.h"

enum { MOST_ROUNDS = 99 };

static double formula_bytes(const char *name, double N) {
    double k = dist_get_world_size(), H = dist_num_hosts(), L = dist_local_size();
    if (H == 1) return 0;
    switch (name[0]) {
    case 's':
        return 2 * (H - 1) * L * N; // in, then out
    case 'r':
        return 2 * (k - 1) / k * N;
    default:
        return 2 * (H - 1) / H * N;
    }
}

static double seconds_of(const char *name, Tensor *data) {
    bool hierarchical = name[0] == 'h';
    dist_choose_all_reduce(hierarchical ? "ring" : name);
    tensor_fill(data, 0); // sums of sums of it stay finite
    synchronize_all();
    dist_barrier(NULL);
    double begin = seconds_now();
    if (hierarchical)
        hierarchical_all_reduce(data);
    else
        dist_all_reduce(NULL, &data);
    dist_barrier(NULL);
    return seconds_now() - begin;
}

static void print_line(const char *name, double mbits, double N, const double seconds[],
                       int rounds) {
    double bytes = formula_bytes(name, N), formula = bytes * 8 / (mbits * 1e6);
    Quartiles q = quartiles(seconds, rounds);
    printf("%5.0f Mbit/s  %-13s%9.1f%11.0f%11.0f  [%.0f .. %.0f]%10.2f\n", mbits, name, bytes / 1e6,
           1e3 * formula, 1e3 * q.median, 1e3 * q.low, 1e3 * q.high, formula / q.median);
}

int main(int argc, char *argv[]) {
    static const char *const names[] = {"star", "ring", "hierarchical"};
    static double seconds[3][MOST_ROUNDS];
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
    Tensor *data = tensor_new(dist_device(0), (int)(megabytes * 1e6 / sizeof(float)));
    for (int round = -1; round < rounds; round++) // the first opens connections: not counted
        for (int a = 0; a < 3; a++) {
            double time = seconds_of(names[a], data);
            if (round >= 0) seconds[a][round] = time;
        }
    printf("%d ranks on %d hosts, %.3g MB; medians of %d rounds, with quartiles\n",
           dist_get_world_size(), dist_num_hosts(), megabytes, rounds);
    printf(
        "link          allreduce      MB on it formula, ms  measured, ms    formula / measured\n");
    for (int a = 0; a < 3; a++)
        print_line(names[a], mbits, (double)tensor_bytes(data), seconds[a], rounds);
    tensor_free(data);
    hierarchical_end();
    dist_destroy_process_group();
    devices_close();
    return 0;
}
