// experiment.c: how long your ring, a star and MPI's own allreduce take, for vectors of 4 bytes to
// 16 MB, with 2 and with 4 ranks on this machine.
#include "common/base/clock.h"
#include "common/base/cores.h"
#include "common/base/statistics.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "../start_ranks.h"
#include "counted.h"
#include "your_part.h"

#include <stdio.h>
#include <string.h>

typedef enum Way { RING, STAR, LIBRARY, NUM_WAYS } Way;
static const char *const way_names[NUM_WAYS] = {"your ring", "star", "MPI_Allreduce"};

enum { NUM_SIZES = 12, ROUNDS = 15 };
static long bytes_of(int s) { return 4L << 2 * s; } // 4 B, 16 B, .. 16 MB

// ## One of the ranks

// Rank 0 adds up, in the order of the ranks, and sends the sum to all.
static void star(float *data, size_t n, MPI_Comm comm) {
    int k, rank;
    MPI_Comm_size(comm, &k);
    MPI_Comm_rank(comm, &rank);
    if (rank > 0) MPI_Send(data, (int)n, MPI_FLOAT, 0, 0, comm);
    if (rank > 0) MPI_Recv(data, (int)n, MPI_FLOAT, 0, 0, comm, MPI_STATUS_IGNORE);
    if (rank > 0) return;
    float *arrived = xmalloc(sizeof *arrived * n);
    for (int r = 1; r < k; r++) {
        MPI_Recv(arrived, (int)n, MPI_FLOAT, r, 0, comm, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < n; i++) data[i] += arrived[i];
    }
    for (int r = 1; r < k; r++) MPI_Send(data, (int)n, MPI_FLOAT, r, 0, comm);
    free(arrived);
}

static void library(float *data, size_t n, MPI_Comm comm) {
    MPI_Allreduce(MPI_IN_PLACE, data, (int)n, MPI_FLOAT, MPI_SUM, comm);
}

static void (*const sums[NUM_WAYS])(float *, size_t, MPI_Comm) = {ring_all_reduce, star, library};

// Seconds until all ranks are through. The numbers are zeros: so they stay what they are.
static double time_of(Way way, float *data, size_t n, int times) {
    PMPI_Barrier(MPI_COMM_WORLD);
    double start = seconds_now();
    for (int t = 0; t < times; t++) sums[way](data, n, MPI_COMM_WORLD);
    PMPI_Barrier(MPI_COMM_WORLD);
    return (seconds_now() - start) / times;
}

// What the rank sends that sends most.
static long most_sent(Way way, float *data, size_t n) {
    const double PATIENCE = 20;
    long mine = 0, most;
    counted_begin(MPI_COMM_WORLD, PATIENCE, NULL);
    sums[way](data, n, MPI_COMM_WORLD);
    Counted counted = counted_so_far();
    for (int r = 0; r < MOST_RANKS; r++) mine += counted.bytes_to[r];
    PMPI_Allreduce(&mine, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    counted_end();
    return most;
}

// All ways take turns, so that what else the machine does disturbs all of them.
static void time_size(int s, int rank) {
    long bytes = bytes_of(s);
    double seconds[NUM_WAYS][ROUNDS];
    size_t n = (size_t)bytes / sizeof(float);
    int times = bytes < 1 << 16 ? 20 : bytes < 1 << 20 ? 5 : 1;
    float *data = xcalloc(n, sizeof *data);
    for (int round = -1; round < ROUNDS; round++) // the first is not counted
        for (Way w = 0; w < NUM_WAYS; w++) {
            double took = time_of(w, data, n, times);
            if (round >= 0) seconds[w][round] = took;
        }
    for (Way w = 0; w < NUM_WAYS; w++) {
        long sent = most_sent(w, data, n);
        Quartiles q = quartiles(seconds[w], ROUNDS);
        if (rank == 0)
            printf("time: %d %d %.9g %.9g %.9g %ld\n", s, (int)w, q.low, q.median, q.high, sent);
    }
    fflush(stdout);
    free(data);
}

static int time_in_rank(void) {
    int provided, rank;
    PMPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int s = 0; s < NUM_SIZES; s++) time_size(s, rank);
    PMPI_Finalize();
    return EXIT_SUCCESS;
}

// ## What they took

typedef struct Times {
    Quartiles seconds;
    long sent;
} Times;

// (Ranks of Open MPI that wait keep their core busy, but for those that know that they are more
// than there are cores. Here something else may run beside them.)
static void measure(int k, Times of[NUM_SIZES][NUM_WAYS]) {
    const double DEADLINE = 300;
    static char said[SAID_BYTES];
    int n = 0, s, w;
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int status = run_as_ranks(k, "times", said, sizeof said, DEADLINE);
    for (const char *at = said; (at = strstr(at, "time: ")); at++) {
        Times t;
        if (sscanf(at, "time: %d %d %lf %lf %lf %ld", &s, &w, &t.seconds.low, &t.seconds.median,
                   &t.seconds.high, &t.sent) == 6 &&
            s >= 0 && s < NUM_SIZES && w >= 0 && w < NUM_WAYS) {
            of[s][w] = t;
            n++;
        }
    }
    if (status != EXIT_SUCCESS || n != NUM_SIZES * NUM_WAYS)
        die("is this machine very busy? Then try again",
            "%d ranks that measure times ended with status %d", k, status);
}

static void print_table(int k, Times of[NUM_SIZES][NUM_WAYS]) {
    say("\n%d ranks on the %d cores of this machine: measured, in microseconds; medians, all ways "
        "in turn",
        k, num_cores());
    Table t = TABLE(NULL, {"vector", .bytes = true}, FIXED("your ring", 1), FIXED("star", 1),
                    FIXED("MPI_Allreduce", 1), FIXED("ring / star", 2), FIXED("ring / MPI", 2),
                    FIXED("busiest sends, in N: ring", 3), FIXED("star", 3));
    for (int s = 0; s < NUM_SIZES; s++) {
        double us[NUM_WAYS], bytes = (double)bytes_of(s);
        for (Way w = 0; w < NUM_WAYS; w++) us[w] = 1e6 * of[s][w].seconds.median;
        table_numbers(&t, bytes, us[RING], us[STAR], us[LIBRARY], us[RING] / us[STAR],
                      us[RING] / us[LIBRARY], (double)of[s][RING].sent / bytes,
                      (double)of[s][STAR].sent / bytes);
    }
}

static void write_csv(FILE *csv, int k, Times of[NUM_SIZES][NUM_WAYS]) {
    for (Way w = 0; w < NUM_WAYS; w++)
        for (int s = 0; s < NUM_SIZES; s++) {
            const Times *t = &of[s][w];
            fprintf(csv, "%d,%ld,%s,%.6g,%.6g,%.6g,", k, bytes_of(s), way_names[w], t->seconds.low,
                    t->seconds.median, t->seconds.high);
            fprintf(csv, w == LIBRARY ? "\n" : "%ld\n", t->sent); // the library's are unknown
        }
}

static void experiment(const Flags *flags, FILE *csv) {
    static Times of[NUM_SIZES][NUM_WAYS];
    (void)flags;
    say("Question: what is a ring of messages worth, beside a star and MPI's own allreduce?");
    Prediction expected =
        predict_first("How much of the star's time does your ring take, with 4 ranks and 16 MiB?");
    fprintf(csv, "ranks,bytes,way,low_seconds,median_seconds,high_seconds,most_sent\n");
    for (int k = 2; k <= 4; k += 2) {
        measure(k, of);
        print_table(k, of);
        write_csv(csv, k, of);
    }
    const Times *longest = of[NUM_SIZES - 1];
    predict_compare(expected, longest[RING].seconds.median / longest[STAR].seconds.median,
                    "of the star's time");
}

int main(int argc, char *argv[]) {
    const char *name = case_of(argc, argv);
    if (name) return strcmp(name, "times") == 0 ? time_in_rank() : sum_in_rank(name);
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 1: a ring over MPI_Sendrecv.",
                                     .flags = "-machine",
                                     .defaults = default_flags,
                                     .experiment = experiment,
                                     .plot = "exercise_ring_of_ranks.gp"});
}
