// experiment.c: how long your ring, a star and MPI's own allreduce take, with 2 and with 4 ranks.
#include "common/base/platform.h"
#include "common/base/statistics.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "../start_ranks.h"
#include "counted.h"
#include "your_part.h"

#include <string.h>

typedef enum Way { RING, STAR, LIBRARY, NUM_WAYS } Way;
static const char *const way_names[NUM_WAYS] = {"your ring", "star", "MPI_Allreduce"};
enum { NUM_SIZES = 12, ROUNDS = 15 };
static long bytes_of(int s) { return 4L << 2 * s; } // 4 B, 16 B, .. 16 MB

// Rank 0 adds up, in the order of the ranks, and sends the sum to all.
static void star(float *data, size_t n, MPI_Comm comm) {
    int k, rank;
    MPI_Comm_size(comm, &k);
    MPI_Comm_rank(comm, &rank);
    float *arrived = xmalloc(sizeof *arrived * n);
    if (rank > 0) MPI_Send(data, (int)n, MPI_FLOAT, 0, 0, comm);
    for (int r = 1; r < k && rank == 0; r++) {
        MPI_Recv(arrived, (int)n, MPI_FLOAT, r, 0, comm, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < n; i++) data[i] += arrived[i];
    }
    for (int r = 1; r < k && rank == 0; r++) MPI_Send(data, (int)n, MPI_FLOAT, r, 0, comm);
    if (rank > 0) MPI_Recv(data, (int)n, MPI_FLOAT, 0, 0, comm, MPI_STATUS_IGNORE);
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
    long mine = 0, most;
    counted_begin(MPI_COMM_WORLD, 20, NULL);
    sums[way](data, n, MPI_COMM_WORLD);
    Counted counted = counted_so_far();
    for (int r = 0; r < MOST_RANKS; r++) mine += counted.bytes_to[r];
    PMPI_Allreduce(&mine, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    counted_end();
    return most;
}

// All ways take turns, so that what else the machine does disturbs all of them.
static int time_in_rank(void) {
    int provided, rank;
    double seconds[NUM_WAYS][ROUNDS + 1];
    PMPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *data = xcalloc((size_t)bytes_of(NUM_SIZES - 1), 1);
    for (int s = 0; s < NUM_SIZES; s++) {
        size_t n = (size_t)bytes_of(s) / sizeof(float);
        int times = n < 1 << 14 ? 20 : n < 1 << 18 ? 5 : 1;
        for (int round = 0; round <= ROUNDS; round++)
            for (Way w = 0; w < NUM_WAYS; w++) seconds[w][round] = time_of(w, data, n, times);
        for (Way w = 0; w < NUM_WAYS; w++) {
            Quartiles q = quartiles(seconds[w] + 1, ROUNDS); // without the first round
            long sent = most_sent(w, data, n);
            if (rank == 0) printf("time: %g %g %g %ld\n", q.low, q.median, q.high, sent);
        }
    }
    free(data);
    PMPI_Finalize();
    return EXIT_SUCCESS;
}

typedef struct Times {
    double low, median, high, sent; // seconds, and bytes
} Times;

// (Ranks of Open MPI that wait keep their core busy, but for those that know that they are more
// than there are cores. Here something else may run beside them.)
static void measure(int k, Times of[NUM_SIZES][NUM_WAYS]) {
    static char said[SAID_BYTES];
    int n = 0;
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int status = run_as_ranks(k, "times", said, sizeof said, 300);
    for (char *at = said; n < NUM_SIZES * NUM_WAYS && (at = strstr(at, "time: ")); at++) {
        Times *t = &of[n / NUM_WAYS][n % NUM_WAYS];
        n += sscanf(at, "time: %lf %lf %lf %lf", &t->low, &t->median, &t->high, &t->sent) == 4;
    }
    if (status != EXIT_SUCCESS || n != NUM_SIZES * NUM_WAYS)
        die("is this machine very busy? Then try again", "%d ranks ended with %d", k, status);
}

static void show(int k, Times of[NUM_SIZES][NUM_WAYS], FILE *csv) {
    say("\n%d ranks on the %d cores of this machine: measured, in us; medians", k, num_cores());
    Table t = TABLE(NULL, {"vector", .bytes = true}, FIXED("your ring", 1), FIXED("star", 1),
                    FIXED("MPI_Allreduce", 1), FIXED("ring / star", 2), FIXED("ring / MPI", 2),
                    FIXED("busiest sends, in N: ring", 3), FIXED("star", 3));
    for (int s = 0; s < NUM_SIZES; s++) {
        Times ring = of[s][RING], star = of[s][STAR], mpi = of[s][LIBRARY];
        double n = (double)bytes_of(s);
        table_numbers(&t, n, 1e6 * ring.median, 1e6 * star.median, 1e6 * mpi.median,
                      ring.median / star.median, ring.median / mpi.median, ring.sent / n,
                      star.sent / n);
    }
    for (Way w = 0; w < NUM_WAYS; w++)
        for (int s = 0; s < NUM_SIZES; s++) {
            Times *i = &of[s][w];
            fprintf(csv, "%d,%ld,%s,%g,", k, bytes_of(s), way_names[w], i->low);
            fprintf(csv, "%g,%g,", i->median, i->high);
            fprintf(csv, w == LIBRARY ? "\n" : "%.0f\n", i->sent); // the library's are unknown
        }
}

static void experiment(const Flags *flags, FILE *csv) {
    (void)flags;
    static Times of[NUM_SIZES][NUM_WAYS];
    say("Question: what is a ring of messages worth, beside a star and MPI's own allreduce?");
    Prediction expected = predict_first("With 4 ranks and 16 MiB: your ring's time / the star's?");
    fprintf(csv, "ranks,bytes,way,low_seconds,median_seconds,high_seconds,most_sent\n");
    for (int k = 2; k <= 4; k += 2) {
        measure(k, of);
        show(k, of, csv);
    }
    Times *last = of[NUM_SIZES - 1];
    predict_compare(expected, last[RING].median / last[STAR].median, "of the star's time");
}

int main(int argc, char *argv[]) {
    const char *name = case_of(argc, argv);
    if (name) return strcmp(name, "times") == 0 ? time_in_rank() : sum_in_rank(name);
    Exercise exercise = {.about = "Exercise 1: a ring over MPI_Sendrecv.",
                         .flags = "-machine",
                         .experiment = experiment,
                         .plot = "exercise_ring_of_ranks.gp"};
    return exercise_main(argc, argv, &exercise);
}
