// allreduce.c: how near the allreduce algorithms of chapter 2 come to the speed of memory.
//
//     build/tests/bench/allreduce [devices [MB [rounds [threads]]]]
//
// (left out: 4 devices, 64 MB each, 9 rounds, all cores)
//
// On CPU devices all memory is one, so what an algorithm moves costs what memcpy needs for as many
// bytes: no algorithm that moves them can be faster. In each round, each algorithm runs once, and
// the devices copy as many bytes in all, an equal share each, from one place of their own to
// another. The share is memcpy's time / allreduce's, the median over the rounds; the additions are
// not counted as work.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "common/tensor/autograd.h"
#include "common/base/error.h"
#include "common/base/clock.h"
#include "common/base/statistics.h"

enum { MOST_ROUNDS = 99 };

static Device *devices[MAX_DEVICES];
static Tensor *data[MAX_DEVICES];
static int k;

static double seconds_of_allreduce(const Allreduce *algorithm) {
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    synchronize_all();
    double begin = seconds_now();
    algorithm->run(data, k);
    synchronize_all();
    return seconds_now() - begin;
}

// What all devices receive in the algorithm.
static size_t floats_moved(const Allreduce *algorithm) {
    size_t floats = 0;
    for (int i = 0; i < k; i++) floats += algorithm->floats(numel(data[0]), k, i).received;
    return floats;
}

// Each device copies an equal share of that, a piece at a time.
static double seconds_of_copies(const Allreduce *algorithm, Tensor *const from[],
                                Tensor *const to[]) {
    size_t n = numel(data[0]), share = floats_moved(algorithm) / (size_t)k;
    double begin = seconds_now();
    for (int i = 0; i < k; i++)
        for (size_t left = share, piece; left > 0; left -= piece) {
            piece = left < n ? left : n;
            device_copy(devices[i], to[i]->data, devices[i], from[i]->data, piece * sizeof(float));
        }
    synchronize_all();
    return seconds_now() - begin;
}

static void print_line(const Allreduce *algorithm, const double *seconds, const double *shares,
                       int rounds) {
    double moved = (double)(floats_moved(algorithm) * sizeof(float));
    double time = median(seconds, rounds);
    printf("%-10s%8.0f%10.1f%10.1f     %.2f [%.2f .. %.2f]\n", algorithm->name, moved / 1e6,
           1e3 * time, moved / time / 1e9, median(shares, rounds), minimum(shares, rounds),
           maximum(shares, rounds));
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    k = argc > 1 ? atoi(argv[1]) : 4;
    double megabytes = argc > 2 ? atof(argv[2]) : 64;
    int rounds = argc > 3 ? atoi(argv[3]) : 9;
    if (k < 2 || k > MAX_DEVICES || !(megabytes >= 1 && megabytes <= 4096) || rounds < 1 ||
        rounds > MOST_ROUNDS)
        die("tests/bench/allreduce [devices [MB [rounds [threads]]]]",
            "these numbers make no sense");
    devices_init(BACKEND_CPU, argc > 4 ? atoi(argv[4]) : 0);
    Tensor *from[MAX_DEVICES], *to[MAX_DEVICES];
    for (int i = 0; i < k; i++) {
        devices[i] = cpu_device(i);
        data[i] = tensor_new(devices[i], (int)(megabytes * 1e6 / sizeof(float)));
        from[i] = tensor_zeros_like(data[i]);
        to[i] = tensor_zeros_like(data[i]);
        tensor_fill(data[i], 0); // sums of sums of it stay finite
    }
    share_cores(devices, k);
    static double seconds[NUM_ALLREDUCES][MOST_ROUNDS], shares[NUM_ALLREDUCES][MOST_ROUNDS];
    for (int round = -1; round < rounds; round++) // the first touches new memory: not counted
        for (int a = 0; a < NUM_ALLREDUCES; a++) {
            double copies = seconds_of_copies(&allreduces[a], from, to);
            double time = seconds_of_allreduce(&allreduces[a]);
            if (round < 0) continue;
            seconds[a][round] = time;
            shares[a][round] = copies / time;
        }
    printf("algorithm  MB moved        ms      GB/s     memcpy's time / its own\n");
    for (int a = 0; a < NUM_ALLREDUCES; a++)
        print_line(&allreduces[a], seconds[a], shares[a], rounds);
    for (int i = 0; i < k; i++) {
        tensor_free(data[i]);
        tensor_free(from[i]);
        tensor_free(to[i]);
    }
    devices_close();
    return 0;
}
