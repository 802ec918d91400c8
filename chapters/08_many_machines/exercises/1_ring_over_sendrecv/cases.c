// cases.c: ranks of this program sum vectors by your part. mpirun starts five; of these 1 to 5 sum.
#include "common/base/error.h"
#include "common/program/facts.h"
#include "../start_ranks.h"
#include "counted.h"
#include "your_part.h"

#include <string.h>

enum { SUMS = 1, TRAFFIC, BITS, LONG_ONES, UNEVEN };
const Part parts[] = {
    {"2 to 4 ranks have the sums of vectors that k divides", 2},
    {"each rank sends the ring's bytes to its right neighbour, in no more than its messages", 3},
    {"sums have the bits of chapter 2's ring, on all ranks", 2},
    {"with vectors of 3 MiB nobody waits in vain", 1},
    {"1, 4 and 5 ranks sum vectors that k does not divide, of 0 numbers, and of less than k", 2},
    {0}};

static const double PATIENCE = 0.4, DEADLINE = 200; // seconds: of CPU time in a call; of all

// The same numbers are drawn on all ranks: `seen` are those of this one. Of whole numbers each
// place has a digit, and rank r 10^r times it: so the digits of a sum say whose number is how often
// in it.
static void draw_vector(float *seen, int rank, int k, long n, bool whole) {
    for (long i = 0; i < n; i++) {
        long digit = draw(1, 4);
        for (int r = 0; r < k; r++) {
            float number = (float)(whole ? digit : draw(-9999, 9999));
            if (!whole) number /= (float)draw(1, 999);
            if (r == rank) seen[i] = number;
        }
        for (int r = 0; r < rank && whole; r++) seen[i] *= 10;
    }
}

// Numbers in front of the vector and behind it, which nobody may touch.
enum { GUARDS = 16 };
static const float GUARD = -12345;
static int guards_lost(const float *vector, long n) {
    int lost = 0;
    for (int i = 0; i < GUARDS; i++) lost += (vector[-1 - i] != GUARD) + (vector[n + i] != GUARD);
    return lost;
}

// ## What came of one sum, by rank 0

typedef struct Outcome {
    Counted counted;
    int guards_lost;
} Outcome;

// Which parts its facts count for.
typedef struct Parts {
    int ends, sums, traffic;
} Parts;

static void record_traffic(int part, int r, int k, const Counted *c) {
    int most = 2 * (k - 1);
    record_ints(part, c->bytes_to, (size_t)k, "bytes that rank %d sent to ranks 0, 1, ..", r);
    record_int(part, c->messages - c->empty, "messages of rank %d that are not empty", r);
    record_int(part, c->messages > most ? c->messages - most : 0,
               "messages of rank %d beyond 2(k-1)", r);
    record_int(part, c->elsewhere, "messages of rank %d over another communicator than comm", r);
}

static void record_all(Parts parts_of, int k, long n, const Outcome of[], const float *came) {
    for (int r = 0; r < k; r++) record_text(parts_of.ends, "has returned", "rank %d in the end", r);
    for (int r = 0; r < k; r++) {
        if (parts_of.traffic) record_traffic(parts_of.traffic, r, k, &of[r].counted);
        if (parts_of.traffic)
            record_real(PART_IF(parts_of.traffic, SUMS), of[r].counted.cargo, 0,
                        "sum of all numbers that rank %d sent", r);
        record_floats(parts_of.sums, came + r * n, (size_t)n, 0, "sums on rank %d", r);
        record_int(parts_of.sums, of[r].guards_lost,
                   "numbers beside rank %d's vector that were changed", r);
    }
}

// ## One of the ranks

static MPI_Comm world;
static int part_of_end, number; // of the ranks that sum; -1: this one does not

static void tell(const char *where) {
    record_text(part_of_end, where, "rank %d in the end", number);
}

// What your part gets is not MPI_COMM_WORLD: it has k of its ranks, the other way round.
static void sum(Parts parts_of, int k, long n, bool whole) {
    int world_rank, world_size;
    MPI_Comm comm, ours;
    PMPI_Comm_rank(world, &world_rank);
    PMPI_Comm_size(world, &world_size);
    bool sums = world_size - 1 - world_rank < k;
    PMPI_Comm_split(world, sums ? 0 : MPI_UNDEFINED, -world_rank, &comm);
    number = sums ? world_size - 1 - world_rank : -1;
    part_of_end = parts_of.ends;
    if (number == 0)
        begin_case("%d rank%s, n = %ld, %s", k, k > 1 ? "s" : "", n,
                   whole ? "whole numbers: digits, times 10^r on rank r" : "fractions");
    float *vector = xmalloc(sizeof *vector * (size_t)(n + 2 * GUARDS));
    for (long i = 0; i < n + 2 * GUARDS; i++) vector[i] = GUARD;
    draw_vector(vector + GUARDS, number, k, n, whole);
    if (sums) {
        Outcome mine, of[MOST_RANKS];
        float *all = xmalloc(sizeof *all * (size_t)(k * n + 1));
        PMPI_Comm_dup(comm, &ours);
        PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        counted_begin(comm, PATIENCE, tell);
        ring_all_reduce(vector + GUARDS, (size_t)n, comm);
        mine.counted = counted_so_far();
        mine.guards_lost = guards_lost(vector + GUARDS, n);
        PMPI_Barrier(ours);
        counted_end();
        PMPI_Gather(&mine, sizeof mine, MPI_BYTE, of, sizeof mine, MPI_BYTE, 0, ours);
        PMPI_Gather(vector + GUARDS, (int)n, MPI_FLOAT, all, (int)n, MPI_FLOAT, 0, ours);
        if (number == 0) record_all(parts_of, k, n, of, all);
        free(all);
    }
    free(vector);
    PMPI_Barrier(world);
}

static void sum_even(void) {
    for (int k = 2; k <= 4; k++)
        for (int times = 1; times <= 41; times += 40) {
            long n = 12 * times * draw(1, 2);
            sum((Parts){SUMS, SUMS, TRAFFIC}, k, n, true);
            sum((Parts){BITS, BITS, 0}, k, n, false);
        }
}

static void sum_long(void) {
    Parts of = {PART_IF(LONG_ONES, SUMS), PART_IF(LONG_ONES, SUMS), 0};
    for (int k = 3; k <= 4; k++) sum(of, k, 12 * draw(60000, 65000), true);
}

static void sum_uneven(void) {
    Parts of = {UNEVEN, UNEVEN, PART_IF(UNEVEN, TRAFFIC)},
          bits = {UNEVEN, PART_IF(UNEVEN, BITS), 0};
    const int ranks[] = {1, 4, 5};
    for (int i = 0; i < 3; i++) {
        int k = ranks[i];
        for (long n = 0; n < k; n++) sum(of, k, n, true);
        for (int times = 1; times <= 4; times *= 4) {
            long n = k * times + (k > 1 ? draw(1, k - 1) : 0);
            sum(of, k, n, true);
            sum(bits, k, n, false);
        }
    }
}

enum { NUM_SECTIONS = 3 };
static void (*const sections[NUM_SECTIONS])(void) = {sum_even, sum_uneven, sum_long};

int sum_in_rank(const char *first) {
    int provided;
    PMPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    PMPI_Comm_dup(MPI_COMM_WORLD, &world);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = atoi(first); i < NUM_SECTIONS; i++) {
        begin_section(i);
        sections[i]();
    }
    PMPI_Finalize();
    return EXIT_SUCCESS;
}

// (After a hang the ranks are started again, with the next section.)
static void sums(void) { run_sections(MOST_RANKS, 0, NUM_SECTIONS, DEADLINE, NULL); }
const Group groups[] = {{"sums over the ring", sums, 300}, {0}};
