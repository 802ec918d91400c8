// ranks.h: for tests of several processes. Run by hand such a test starts itself as so many ranks,
// one case at a time: the same program with --case NAME.
#ifndef TESTS_OF_RANKS_H
#define TESTS_OF_RANKS_H

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/range.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/08_many_machines/ranks.h"
#include "dies.h"

static const char *self; // main() sets it: argv[0]

// ---- in a rank ---------------------------------------------------------------------------------

// What rank number d has at first: whole numbers, so that sums are exact in any order, or any
// numbers.
static inline float device_value(int d, int i, bool whole) {
    uint32_t bits = (uint32_t)(d + 1) * 2654435761u ^ (uint32_t)(i + 7) * 40503u * 65537u;
    int number = (int)(bits >> 8 & 1023) - 512;
    return whole ? (float)number : (float)number * 0.37f / (float)(1 + (bits & 255));
}

// By the formula: bytes that this rank sends for n floats, by a hierarchical allreduce, to ranks on
// its own host and to others. (Ranks of a host stand side by side, and all hosts have as many.)
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

#endif
