// start_ranks.h: for tests of several processes. Run by hand such a test starts itself as so many
// ranks, one case at a time: the same program with --case NAME.
#pragma once

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/range.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/08_many_machines/ranks.h"
#include "common/tensor/autograd.h"
#include "dies.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

static const char *self; // main() sets it: argv[0]

// ---- in a rank ---------------------------------------------------------------------------------

// What rank number d has at first: whole numbers, so that sums are exact in any order, or any
// numbers.
static inline float device_value(int d, int i, bool whole) {
    uint32_t bits = (uint32_t)(d + 1) * 2654435761u ^ (uint32_t)(i + 7) * 40503u * 65537u;
    int number = (int)(bits >> 8 & 1023) - 512;
    return whole ? (float)number : (float)number * 0.37f / (float)(1 + (bits & 255));
}

// This rank and its tensor, what that must become, and a group's part in it.
static int rank, size;
static Tensor *mine;
enum { LONGEST = 2000003 };
static float expected[LONGEST];

static inline void begin(double timeout, int ranks_per_host) {
    dist_init_process_group((DistOptions){timeout, 1, ranks_per_host});
    rank = dist_get_rank();
    size = dist_get_world_size();
}

static inline Tensor *filled(Device *device, int r, int n, bool whole) {
    Tensor *t = tensor_new(device, n);
    float *values = xmalloc(sizeof *values * (size_t)(n + 1));
    for (int i = 0; i < n; i++) values[i] = device_value(r, i, whole);
    tensor_write(t, values);
    free(values);
    return t;
}
static inline void fill_mine(int n, bool whole) {
    tensor_free(mine);
    mine = filled(dist_device(), rank, n, whole);
}
static inline void all_reduce(int n) {
    fill_mine(n, true);
    dist_all_reduce(NULL, mine);
    synchronize_all();
}

// Of the numbers of all ranks from `first` on, in steps.
static inline void expect_sum(int n, bool whole, int first, int step) {
    for (int i = 0; i < n; i++) expected[i] = 0;
    for (int r = first; r < size; r += step)
        for (int i = 0; i < n; i++) expected[i] += device_value(r, i, whole);
}

// To the bit, if the tolerance is 0; or, in_parts, this rank's part of that.
static inline void mine_must_be(const char *what, int n, double tolerance, bool in_parts) {
    float *values = tensor_values(mine);
    Range part = in_parts ? equal_range(n, size, rank) : equal_range(n, 1, 0);
    for (long j = part.first; j < part.first + part.count; j++)
        if (tolerance > 0 ? !(fabs((double)values[j] - (double)expected[j]) <= tolerance)
                          : memcmp(&values[j], &expected[j], sizeof *values) != 0)
            die("see the test", "%s of %d numbers on %d ranks: number %ld is %g, not %g", what, n,
                size, j, (double)values[j], (double)expected[j]);
    free(values);
}

static inline void others_are_right(int n) {
    expect_sum(n, true, 0, 1);
    fill_mine(n, true);
    dist_reduce_scatter(NULL, mine);
    mine_must_be("reduce_scatter", n, 0, true);
    dist_all_gather(NULL, mine);
    mine_must_be("all_gather", n, 0, false);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < n; i++) expected[i] = device_value(root, i, false);
        fill_mine(n, false);
        dist_broadcast(NULL, mine, root);
        mine_must_be("broadcast", n, 0, false);
    }
}

// In the compute queue as in the other one: what comes before and after keeps its order.
static inline void queue_keeps_its_order(int n, int times) {
    Device *device = dist_device();
    fill_mine(n, true);
    tensor_fill(mine, 1);
    for (int t = 0; t < times; t++) {
        bool beside = t % 2; // in the queue that communicates, as DDP's buckets
        if (beside) queue_wait(comm_queue(device), device_record(device));
        if (beside) communicate_begin();
        dist_all_reduce(NULL, mine); // which multiplies it by the number of ranks
        if (beside) communicate_end();
        if (beside && t % 4 == 3) // as the arena does, before it uses memory for something else
            wait_for_users(device, mine->data);
        else if (beside)
            device_wait(device, queue_record(comm_queue(device)));
        launch(device, scale, .x = mine->data, .factor = 1 / (float)size, .n = n);
        if (t % 5 == 4) dist_barrier(NULL);
    }
    for (int i = 0; i < n; i++) expected[i] = 1;
    mine_must_be("in order", n, 1e-5, false);
}

// Some ranks use their group more often than others.
static inline void groups_are_apart(void) {
    ProcessGroup *group = dist_new_group(rank % 2), *unused = dist_new_group(0);
    CHECK(group_size(group) == (size + 1 - rank % 2) / 2, "even ranks and odd ones");
    CHECK(group_rank(group) == rank / 2, "in their order");
    for (int times = 0; times < 2 + rank % 2; times++) {
        expect_sum(1, true, rank % 2, 2);
        fill_mine(1, true);
        dist_all_reduce(group, mine);
        mine_must_be("group", 1, 0, false);
    }
    dist_barrier(NULL);
    others_are_right(1001);
    dist_free_group(group);
    dist_free_group(unused);
}

// Between two allreduces the last rank gets this signal, or sleeps so long.
static inline void keep_waiting(int signal, unsigned long_seconds) {
    all_reduce(100000);
    dist_note("bucket 1, step 42");
    if (rank == size - 1 && signal) raise(signal);
    if (rank == size - 1) sleep(long_seconds);
    all_reduce(100000);
    if (rank < size - 1) fprintf(stderr, "rank %d went on\n", rank);
}

// By the formula: bytes that this rank sends for n floats, by a hierarchical allreduce, to ranks on
// its own host and to others. (Ranks of a host are consecutive, and all hosts have the same
// number.)
typedef struct HierarchicalBytes {
    size_t inside, across;
} HierarchicalBytes;
static inline HierarchicalBytes hierarchical_bytes(size_t n) {
    int L = dist_local_size(), here = dist_local_rank(), host = dist_host_of(dist_get_rank());
    size_t own = (size_t)equal_range((long)n, L, here).count;
    size_t next = (size_t)equal_range((long)n, L, (here + 1) % L).count;
    const Allreduce *sum = &allreduces[0];
    for (int a = 0; a < NUM_ALLREDUCES; a++) // as the chosen one sums across
        if (strcmp(allreduces[a].name, dist_chosen_all_reduce()) == 0) sum = &allreduces[a];
    // Reduce-scatter sends all parts but its own, all-gather all but the next one's.
    size_t floats = L > 1 ? (n - own) + (n - next) : 0;
    return (HierarchicalBytes){floats * sizeof(float),
                               allreduce_bytes(sum, own, dist_num_hosts(), host).sent};
}

// ---- who starts them ---------------------------------------------------------------------------

// MPI is not compiled for sanitizers: its own races are none of ours, and its leaks neither. (What
// of ours leaks is found by the programs of one process.)
#if SANITIZED
#define RANKS_ENVIRONMENT                                                                          \
    "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 "
#else
#define RANKS_ENVIRONMENT ""
#endif

// Runs a command; returns its exit status, and keeps what it said and how long it took.
static char said[16384];
static double seconds;

static inline int output_of(const char *command) {
    double start = seconds_now();
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(said, 1, sizeof said - 1, pipe);
    said[length] = '\0';
    while (fgetc(pipe) != EOF) continue;
    int status = pclose(pipe);
    seconds = seconds_now() - start;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static inline int times_said(const char *words) {
    int n = 0;
    for (const char *at = said; (at = strstr(at, words)); at++) n++;
    return n;
}

// A case as so many ranks; 0: alone, without a launcher. Nothing takes longer than this.
static inline int ranks_run(const char *before, int ranks, const char *name) {
    char launcher[64] = "";
    if (ranks > 0) snprintf(launcher, sizeof launcher, "sh .make/ranks.sh %d ", ranks);
    char *command = xprintf(RANKS_ENVIRONMENT "%s timeout -k 1 100 %s%s --case %s 2>&1 </dev/null",
                            before, launcher, self, name);
    int status = output_of(command);
    free(command);
    return status;
}

static inline bool there_are_ranks(void) {
    return dist_is_mpi_available() && system("command -v mpirun >/dev/null 2>&1") == 0;
}
// (Without MPI tests of ranks are left out.)
static inline void passes_with(const char *before, const char *name, int ranks) {
    if (ranks > 0 && !there_are_ranks()) skip("no MPI");
    int status = ranks_run(before, ranks, name);
    if (status != 0) fail_msg("%s: status %d of %d ranks: %s", name, status, ranks, said);
}

static inline void passes(const char *name, int ranks) { passes_with("", name, ranks); }

// The job ends in time, not with status 0, says this, and no rank goes on.
static inline void fails_with(const char *before, const char *name, int ranks, double most,
                              const char *words) {
    if (ranks > 0 && !there_are_ranks()) skip("no MPI");
    int status = ranks_run(before, ranks, name);
    if (status == 0 || status == 124 || !(seconds < most) || !strstr(said, words) ||
        strstr(said, "went on"))
        fail_msg("%s: status %d after %.1f s, and not '%s': %s", name, status, seconds, words,
                 said);
}
