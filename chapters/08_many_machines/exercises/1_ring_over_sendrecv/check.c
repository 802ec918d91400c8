// check.c: 1 to 5 ranks sum vectors of several sizes by your part, and rank 0 judges what came.
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "../start_ranks.h"
#include "judge.h"
#include "your_part.h"

#include <stdio.h>
#include <string.h>

// What rank 0 says at the end: a rank may end for other reasons, too.
static const char ALL_ARE_JUDGED[] = "all sums are judged";

// ## One of the ranks

static const double PATIENCE = 8; // seconds: each sum takes milliseconds

// In each part of the check ranks sum vectors of some lengths. k divides 60 and SHORT, and LONG if
// k is 4 or 3. With 4 ranks most mistakes have a figure of their own, so they come first.
enum { END = -1, ONE_LESS = -2 }; // ONE_LESS: k - 1 numbers
enum { EVEN = 60, SHORT = 1200, LONG = 3 << 18 };
typedef enum { SUMS, TRAFFIC, BITS, LONG_ONES, UNEVEN, NUM_PARTS } Part;
static const struct {
    const char *name;
    int ranks[MOST_RANKS + 1]; // 0 ends them
    long sizes[8];
} parts[NUM_PARTS] = {
    [SUMS] = {"sums", {4, 3, 2}, {EVEN, SHORT, END}},
    [TRAFFIC] = {"traffic", {4, 3}, {EVEN, SHORT, END}},
    [BITS] = {"bits", {4, 3}, {EVEN, SHORT, END}},
    [LONG_ONES] = {"long", {4, 3}, {EVEN, LONG, END}},
    [UNEVEN] = {"uneven", {4, 5, 1}, {EVEN, 1001, 0, 1, 2, ONE_LESS, END}},
};

// Numbers in front of the vector and behind it, which nobody may touch.
enum { GUARDS = 16 };
static const float GUARD = -12345;

static float *vector_with_guards(int rank, long n, bool whole) {
    float *vector = xmalloc(sizeof *vector * (size_t)(n + 2 * GUARDS));
    for (long i = -GUARDS; i < n + GUARDS; i++)
        vector[GUARDS + i] = i < 0 || i >= n ? GUARD : given_number(rank, i, whole);
    return vector;
}

static void check_guards(const float *vector, int k, int rank, long n) {
    for (int i = 0; i < GUARDS; i++)
        EXPECT(vector[i] == GUARD && vector[GUARDS + n + i] == GUARD,
               "a part begins at its .first and has .count numbers: is something written behind "
               "the last one?",
               "%d ranks, %ld numbers: rank %d wrote beside its vector, expected nothing there", k,
               n, rank);
}

// By chapter 2's ring, on k devices of this process.
static float *sum_in_one_process(int k, long n, bool whole) {
    Tensor *data[MOST_RANKS];
    for (int r = 0; r < k; r++) {
        float *vector = vector_with_guards(r, n, whole);
        data[r] = tensor_new(cpu_device(r), (int)n);
        tensor_write(data[r], vector + GUARDS);
        free(vector);
        begin_step(cpu_device(r));
    }
    if (k > 1) allreduce_ring(data, k);
    float *sum = tensor_values(data[0]);
    for (int r = 0; r < k; r++) tensor_free(data[r]);
    return sum;
}

// The last two parts tell you nothing that an earlier one has told: what is wrong with EVEN
// numbers, which come first, is not asked again. (But who has no sums of those has none of uneven
// ones.)
static void judge_hard(Part part, const Outcome *o) {
    static bool adds, sends, rounds; // right with EVEN numbers
    if (o->n == EVEN && o->whole) {
        adds = values_are_right(o);
        sends = traffic_is_right(o);
    } else if (o->n == EVEN) {
        rounds = bits_are_right(o);
    } else if (o->whole) {
        if (adds || part == UNEVEN) judge_values(o);
        if (part == LONG_ONES) judge_share(o);
        if (sends && part == UNEVEN) judge_traffic(o);
    } else if (rounds) {
        judge_bits(o);
    }
}

static void judge(Part part, const Outcome *o) {
    judge_calls(o);
    if (part == SUMS) judge_values(o);
    if (part == TRAFFIC) judge_traffic(o);
    if (part == BITS) judge_bits(o);
    if (part >= LONG_ONES) judge_hard(part, o);
}

static void sum_and_judge(MPI_Comm comm, MPI_Comm judges, Part part, long n, bool whole) {
    int k, rank;
    Counted counted[MOST_RANKS];
    PMPI_Comm_size(comm, &k);
    PMPI_Comm_rank(comm, &rank);
    float *vector = vector_with_guards(rank, n, whole), *all = NULL;
    if (rank == 0) {
        printf("summing: %d ranks, %ld numbers\n", k, n);
        fflush(stdout);
        all = xmalloc(sizeof *all * (size_t)(k * n + 1));
    }
    PMPI_Barrier(judges);
    counted_begin(comm, PATIENCE);
    ring_all_reduce(vector + GUARDS, (size_t)n, comm);
    Counted mine = counted_so_far();
    PMPI_Barrier(judges);
    counted_end();
    if (part == SUMS || part >= LONG_ONES) check_guards(vector, k, rank, n);
    PMPI_Gather(&mine, sizeof mine, MPI_BYTE, counted, sizeof mine, MPI_BYTE, 0, judges);
    PMPI_Gather(vector + GUARDS, (int)n, MPI_FLOAT, all, (int)n, MPI_FLOAT, 0, judges);
    if (rank == 0) {
        float *expected = sum_in_one_process(k, n, whole);
        judge(part, &(Outcome){k, n, whole, all, expected, counted});
        free(expected);
    }
    free(all);
    free(vector);
}

// What your part gets is not MPI_COMM_WORLD: its ranks are numbered the other way round.
int check_in_rank(const char *name) {
    int provided, number, k, part = 0;
    while (part < NUM_PARTS && strcmp(name, parts[part].name) != 0) part++;
    if (part == NUM_PARTS)
        die_usage("there are sums, traffic, bits, long and uneven",
                  "--case %s: there is no such part", name);
    MPI_Comm comm, judges;
    PMPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    devices_init(BACKEND_CPU, 1);
    PMPI_Comm_rank(MPI_COMM_WORLD, &number);
    PMPI_Comm_size(MPI_COMM_WORLD, &k);
    PMPI_Comm_split(MPI_COMM_WORLD, 0, k - number, &comm);
    PMPI_Comm_dup(comm, &judges);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (const long *size = parts[part].sizes; *size != END; size++)
        for (int whole = 1; whole >= 0; whole--)
            if (part == UNEVEN || whole == (part != BITS))
                sum_and_judge(comm, judges, (Part)part, *size == ONE_LESS ? k - 1 : *size, whole);
    if (number == k - 1) printf("%s\n", ALL_ARE_JUDGED);
    devices_close();
    PMPI_Finalize();
    return EXIT_SUCCESS;
}

// ## Why they did not come through

// Where a rank was when nothing moved any more.
typedef struct Stuck {
    bool is_known, returned;
    char call[40]; // that it was in; "none"
    int to, from;
} Stuck;

static int read_stuck(const char *said, Stuck all[MOST_RANKS]) {
    int n = 0;
    for (const char *at = said; (at = strstr(at, "stuck: rank ")); at++) {
        Stuck s = {.is_known = true};
        char where[16];
        int rank;
        if (sscanf(at, "stuck: rank %d %15s call %39s to %d from %d", &rank, where, s.call, &s.to,
                   &s.from) != 5 ||
            rank < 0 || rank >= MOST_RANKS)
            continue;
        s.returned = strcmp(where, "returned") == 0;
        n += !all[rank].is_known;
        all[rank] = s;
    }
    return n;
}

static char *stuck_text(const Stuck all[MOST_RANKS]) {
    char *text = xstrdup("");
    for (int r = 0; r < MOST_RANKS; r++) {
        const Stuck *s = &all[r];
        if (!s->is_known) continue;
        char to[24] = "", from[24] = "", *longer;
        if (s->to >= 0) snprintf(to, sizeof to, " to %d", s->to);
        if (s->from >= 0) snprintf(from, sizeof from, " from %d", s->from);
        bool computes = strcmp(s->call, "none") == 0;
        longer = xprintf("%s%srank %d %s%s%s%s", text, *text ? ", " : "", r,
                         s->returned ? "has returned"
                         : computes  ? "is in none of MPI's functions"
                                     : "is in ",
                         s->returned || computes ? "" : s->call, to, from);
        free(text);
        text = longer;
    }
    return text;
}

static bool all_are_in(const Stuck all[MOST_RANKS], const char *one, const char *or_other) {
    for (int r = 0; r < MOST_RANKS; r++)
        if (all[r].is_known && (all[r].returned || (strcmp(all[r].call, one) != 0 &&
                                                    strcmp(all[r].call, or_other) != 0)))
            return false;
    return true;
}

static const char *hint_for_hang(const Stuck all[MOST_RANKS]) {
    for (int r = 0; r < MOST_RANKS; r++)
        if (all[r].is_known && !all[r].returned && strcmp(all[r].call, "none") == 0)
            return "a loop of your part does not end";
    if (all_are_in(all, "MPI_Send", "MPI_Ssend"))
        return "all send and nobody receives: MPI_Send() of a few kilobytes returns at once, that "
               "of a longer message when its receiver is there; MPI_Sendrecv() does both at once";
    if (all_are_in(all, "MPI_Recv", "MPI_Recv"))
        return "all receive and nobody sends: somebody has to begin; MPI_Sendrecv() does both at "
               "once";
    for (int r = 0; r < MOST_RANKS; r++)
        if (all[r].returned)
            return "some have come through and others wait for them: all ranks make 2(k-1) steps, "
                   "also with parts that are empty, and each message that is sent is received";
    return "who sends to whom? To (rank + 1) % k, from (rank + k - 1) % k, in all steps, with the "
           "same tag on both sides";
}

// ## The check

static void explain(const char *said, int k, int status) {
    Stuck all[MOST_RANKS] = {0};
    const char *last = said;
    for (const char *at = said; (at = strstr(at, "summing: ")); at++) last = at;
    char *what = said_after(last, "summing: "), *error = said_after(said, "mpi error: ");
    if (!what) what = xprintf("%d ranks", k);
    EXPECT(read_stuck(said, all) == 0, hint_for_hang(all),
           "%s: nothing moved any more for %g s, expected sums within milliseconds: %s", what,
           PATIENCE, stuck_text(all));
    EXPECT(!error,
           "a message was longer than the place for it, say: the receiver of a part must mean the "
           "part that its sender sends",
           "%s: %s; expected no error", what, error);
    EXPECT(status != STATUS_TOO_LATE, "is this machine very busy? Then try again",
           "%s: the ranks took too long, expected an end within seconds", what);
    EXPECT(false, "a rank crashed, or ended the program: does it write beyond a place?",
           "%s: the ranks ended with status %d, expected sums", what, status);
}

static void check_part(Part part) {
    const double DEADLINE = 25; // seconds: `make grade` gives a part 30, and would not say why
    double end = seconds_now() + DEADLINE;
    char *said = xmalloc(SAID_BYTES);
    for (const int *k = parts[part].ranks; *k > 0; k++) {
        int status = run_ranks_that_begin(*k, parts[part].name, "summing: ", said, SAID_BYTES,
                                          end - seconds_now());
        if (status == EXIT_SUCCESS && strstr(said, ALL_ARE_JUDGED)) continue;
        pass_on_failure(said);
        explain(said, *k, status);
    }
    free(said);
}

static void check_sums(const Flags *flags) {
    (void)flags;
    check_part(SUMS);
}
static void check_traffic(const Flags *flags) {
    (void)flags;
    check_part(TRAFFIC);
}
static void check_bits(const Flags *flags) {
    (void)flags;
    check_part(BITS);
}
static void check_long_ones(const Flags *flags) {
    (void)flags;
    check_part(LONG_ONES);
}
static void check_uneven(const Flags *flags) {
    (void)flags;
    check_part(UNEVEN);
}

const CheckPart check_parts[] = {
    {"2 to 4 ranks have the sums of vectors that k divides", 2, check_sums},
    {"each rank sends the ring's bytes to its right neighbour, in no more than its messages", 3,
     check_traffic},
    {"sums have the bits of chapter 2's ring, on all ranks", 2, check_bits},
    {"with vectors of 3 MiB nobody waits in vain", 1, check_long_ones},
    {"1, 4 and 5 ranks sum vectors that k does not divide, of 0 numbers, and of less than k", 2,
     check_uneven},
    {0}};
