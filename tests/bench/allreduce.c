// allreduce.c: how near the allreduce algorithms of chapter 2 come to the speed of memory.
//
//     build/tests/bench/allreduce [threads]      (all cores; 4 devices, 64 MB each, 9 rounds)
//
// On CPU devices all memory is one, so what an algorithm moves costs what memcpy needs for as many
// bytes: no algorithm that moves them can be faster. In each round, each algorithm runs once, and
// the devices copy as many bytes in all, an equal share each, from one place of their own to
// another. The share is memcpy's time / allreduce's, the median over the rounds; the additions are
// not counted as work.
#include <stdio.h>
#include <stdlib.h>

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/tensor/autograd.h"

enum { K = 4, FLOATS = 16000000, ROUNDS = 9 };
static Device *devices[K];
static Tensor *data[K], *from[K], *to[K];

static double seconds_of_allreduce(const Allreduce *algorithm) {
    for (int i = 0; i < K; i++) begin_step(devices[i]);
    synchronize_all();
    double begin = seconds_now();
    algorithm->run(data, K);
    synchronize_all();
    return seconds_now() - begin;
}

// What all devices receive in the algorithm.
static size_t floats_moved(const Allreduce *algorithm) {
    size_t floats = 0;
    for (int i = 0; i < K; i++) floats += algorithm->floats(FLOATS, K, i).received;
    return floats;
}

// Each device copies an equal share of that, a piece at a time.
static double seconds_of_copies(const Allreduce *algorithm) {
    double begin = seconds_now();
    for (int i = 0; i < K; i++)
        for (size_t left = floats_moved(algorithm) / K, piece; left > 0; left -= piece) {
            piece = left < FLOATS ? left : FLOATS;
            device_copy(devices[i], to[i]->data, devices[i], from[i]->data, piece * sizeof(float));
        }
    synchronize_all();
    return seconds_now() - begin;
}

int main(int argc, char *argv[]) {
    set_program_name(argv[0]);
    devices_init(BACKEND_CPU, argc > 1 ? atoi(argv[1]) : 0);
    for (int i = 0; i < K; i++) {
        devices[i] = cpu_device(i);
        data[i] = tensor_new(devices[i], FLOATS);
        from[i] = tensor_zeros_like(data[i]);
        to[i] = tensor_zeros_like(data[i]);
        tensor_fill(data[i], 0); // sums of sums of it stay finite
    }
    share_cores(devices, K);
    static double seconds[NUM_ALLREDUCES][ROUNDS], shares[NUM_ALLREDUCES][ROUNDS];
    for (int round = -1; round < ROUNDS; round++) // the first touches new memory: not counted
        for (int a = 0; a < NUM_ALLREDUCES; a++) {
            double copies = seconds_of_copies(&allreduces[a]);
            double time = seconds_of_allreduce(&allreduces[a]);
            if (round < 0) continue;
            seconds[a][round] = time;
            shares[a][round] = copies / time;
        }
    printf("algorithm  MB moved        ms      GB/s     memcpy's time / its own\n");
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        double moved = (double)floats_moved(&allreduces[a]) * sizeof(float);
        double time = median(seconds[a], ROUNDS);
        printf("%-10s%8.0f%10.1f%10.1f     %.2f [%.2f .. %.2f]\n", allreduces[a].name, moved / 1e6,
               1e3 * time, moved / time / 1e9, median(shares[a], ROUNDS),
               minimum(shares[a], ROUNDS), maximum(shares[a], ROUNDS));
    }
    devices_close();
    return 0;
}
