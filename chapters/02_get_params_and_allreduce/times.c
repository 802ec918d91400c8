// times.c: how long the allreduces take, for vectors from 1 KB to 64 MB, each four times as long as
// the one before. The median of several measurements; the algorithms take turns, so that whatever
// else the machine does disturbs all of them alike.
#include "times.h"

#include "common/base/clock.h"
#include "common/base/statistics.h"
#include "common/device/timer.h"
#include "common/program/say.h"
#include "common/tensor/autograd.h"
#include "get_params.h"
#include "replicas.h"

enum { SMALLEST = 1 << 10, LARGEST = 64 << 20, MOST_BYTES_IN_ALL = 256 << 20, MOST_ROUNDS = 501 };

typedef struct Times {
    double seconds[NUM_ALLREDUCES];
} Times;

static double time_once(const Allreduce *algorithm, Tensor *const data[], int k) {
    Timer timer = {0};
    for (int i = 0; i < k; i++) begin_step(data[i]->device);
    timer_start(&timer);
    algorithm->run(data, k);
    return timer_stop(&timer);
}

// At least five rounds, then as many as fit into a second and a half.
static Times measure(Tensor *const data[], int k, int most) {
    static double seconds[NUM_ALLREDUCES][MOST_ROUNDS];
    int rounds = 0;
    for (int i = 0; i < k; i++) tensor_fill(data[i], 0); // sums of zeros stay zeros, however often
    // Once without counting: memory that is used the first time is slow.
    for (int a = 0; a < NUM_ALLREDUCES; a++) time_once(&allreduces[a], data, k);
    double start = seconds_now();
    for (; rounds < most && (rounds < 5 || seconds_now() - start < 1.5); rounds++)
        for (int turn = 0; turn < NUM_ALLREDUCES; turn++) {
            int a = (rounds + turn) % NUM_ALLREDUCES; // each comes first, second, ... equally often
            seconds[a][rounds] = time_once(&allreduces[a], data, k);
        }

    Times times;
    for (int a = 0; a < NUM_ALLREDUCES; a++) times.seconds[a] = median(seconds[a], rounds);
    return times;
}

// "4 KB", "64 MB"; the text is replaced by the next call.
static const char *size_text(size_t bytes) {
    static char text[24];
    if (bytes < 1 << 20)
        snprintf(text, sizeof text, "%zu KB", bytes >> 10);
    else
        snprintf(text, sizeof text, "%zu MB", bytes >> 20);
    return text;
}

// algbw and busbw, as nccl-tests calls them. The caller of an allreduce sees N bytes summed in so
// much time: N/time is the algorithm's bandwidth. That becomes less with k even if all links stay
// as busy, since more bytes have to move. So it is multiplied by 2 (k-1)/k, the bytes per byte that
// each device has to send at least: the bus bandwidth, which does not depend on k and can be
// compared with the speed of a link. (For the star it is no link's actual speed; it tells how fast
// links would do for a better one.)
static double algbw(size_t bytes, double seconds) { return (double)bytes / seconds; }
static double busbw(size_t bytes, double seconds, int k) {
    return algbw(bytes, seconds) * 2 * (k - 1) / k;
}

static void write_rows(FILE *csv, const Times *times, int k, size_t bytes) {
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        double seconds = times->seconds[a];
        fprintf(csv, "%s,%d,%zu,%.9f,%.4g,%.4g\n", allreduces[a].name, k, bytes, seconds,
                algbw(bytes, seconds), busbw(bytes, seconds, k));
    }
}

static void print_bandwidths(const Times *times, int k, size_t bytes) {
    printf("\n  GB/s at %s:   algbw   busbw   (busbw = algbw x 2 (k-1)/k = algbw x %.2f)\n",
           size_text(bytes), 2.0 * (k - 1) / k);
    int best = 0;
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        double seconds = times->seconds[a];
        printf("    %-12s %8.2f %7.2f\n", allreduces[a].name, 1e-9 * algbw(bytes, seconds),
               1e-9 * busbw(bytes, seconds, k));
        if (seconds < times->seconds[best]) best = a;
    }
    if (best == 0)
        printf("  The star is the fastest here.\n");
    else
        printf("  The fastest, %s, took %.2f times as long as the star.\n", allreduces[best].name,
               times->seconds[best] / times->seconds[0]);
}

void write_times_header(FILE *csv) {
    fprintf(csv, "algorithm,devices,bytes,seconds,algbw,busbw\n");
}

void compare_times(int k, int most_rounds, FILE *csv) {
    int most = most_rounds >= 0 && most_rounds < MOST_ROUNDS ? most_rounds : MOST_ROUNDS;
    if (most == 0) most = 1;
    printf("\nTime of one allreduce on %d devices, in microseconds\n  %7s", k, "");
    for (int a = 0; a < NUM_ALLREDUCES; a++) printf(" %10s", allreduces[a].name);
    Times times = {{0}};
    size_t largest = 0;
    for (size_t bytes = SMALLEST; bytes <= LARGEST && bytes * (size_t)k <= MOST_BYTES_IN_ALL;
         bytes *= 4) {
        Tensor *data[MAX_DEVICES];
        vectors_on_devices(data, k, (int)(bytes / sizeof(float)));
        times = measure(data, k, most);
        write_rows(csv, &times, k, bytes);
        largest = bytes;
        printf("\n  %7s", size_text(bytes));
        for (int a = 0; a < NUM_ALLREDUCES; a++) printf(" %10.0f", 1e6 * times.seconds[a]);
        fflush(stdout);
        free_params(data, k);
    }
    print_bandwidths(&times, k, largest);
}

void explain_times(void) {
    printf("\nWhat the times show\n");
    say("  Short vectors: the time hardly depends on the size. It is that of starting transfers "
        "and of devices that wait for each other: 2 (k-1) transfers in the star and in the tree, "
        "2 k (k-1) smaller ones in the others. Long vectors: that of moving so many bytes.");
    say("  algbw is size/time, what the caller sees. busbw is what each device has to send per "
        "second at least to be that fast; it can be compared for different k, and with the speed "
        "of a link.");
    if (num_gpus() == 0)
        say("  These devices are threads that share %d core%s, and their links are the memory of "
            "this machine, which they share too. So the bandwidths are those of memory, and all "
            "algorithms move the same bytes through it: none can gain by using more links at once, "
            "only by keeping more cores at work. For links that are each device's own, see the "
            "prediction above.",
            num_threads(), num_threads() == 1 ? "" : "s");
    else if (num_gpus() == 1)
        say("  All devices share one GPU, so the bandwidths are those of its memory.");
    else
        say("  %d GPUs: compare busbw with the speed of their links, PCIe or NVLink.", num_gpus());
}
