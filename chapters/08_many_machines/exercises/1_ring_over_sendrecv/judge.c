// judge.c: see judge.h.
#include "judge.h"

#include "common/base/error.h"
#include "common/base/range.h"
#include "common/program/exercise.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ## Whole numbers
//
// Rank r has 8^r, times a factor that says where: so the digits of a sum, to the base 8, say how
// often each rank's number is in it, if it is one of this place.

enum { PLACES = 7 };
static int factor_of(long i) { return 1 + (int)(i % PLACES); }

float given_number(int r, long i, bool whole) {
    if (whole) return (float)((1 << 3 * r) * factor_of(i));
    uint32_t bits = (uint32_t)(r + 1) * 2654435761u ^ (uint32_t)(i + 7) * 40503u * 65537u;
    int number = (int)(bits >> 8 & 1023) - 512;
    return (float)number * 0.37f / (float)(1 + (bits & 255));
}

typedef enum Kind { RIGHT, OWN, LESS, MORE, OTHER } Kind;

// How often each rank's number i is in the sum; false: that is no sum of numbers i.
static bool times_of(const Outcome *o, float sum, long i, int times[MOST_RANKS]) {
    if (!(sum >= 0 && sum < 1 << 24) || fmodf(sum, (float)factor_of(i)) != 0) return false;
    long digits = (long)sum / factor_of(i);
    for (int r = 0; r < o->k; r++) times[r] = (int)(digits >> 3 * r & 7);
    return digits >> 3 * o->k == 0;
}

static Kind kind_of(const Outcome *o, int rank, long i) {
    int times[MOST_RANKS] = {0}, once = 0;
    if (!times_of(o, o->came[rank * o->n + i], i, times)) return OTHER;
    for (int r = 0; r < o->k; r++) {
        if (times[r] > 1) return MORE;
        once += times[r];
    }
    return once == o->k ? RIGHT : once == 1 && times[rank] ? OWN : LESS;
}

// ## What is wrong with the whole numbers

static int part_with(const Outcome *o, long i) {
    int p = o->k - 1;
    while (equal_range(o->n, o->k, p).first > i) p--;
    return p;
}

typedef struct Tally {
    long of[OTHER + 1];
    bool in_rest;               // all that is wrong is in the last n % k numbers
    int rank;                   // the first that is wrong:
    long i;                     // this number of this rank
    int whole_part[MOST_RANKS]; // the part that alone is right; -1: not one
} Tally;

static int right_part(const Outcome *o, int rank) {
    int only = -1;
    for (int p = 0; p < o->k; p++) {
        Range part = equal_range(o->n, o->k, p);
        bool right = part.count > 0;
        for (long i = 0; i < part.count && right; i++)
            right = kind_of(o, rank, part.first + i) == RIGHT;
        if (right && only >= 0) return -1;
        if (right) only = p;
    }
    return only;
}

static Tally tally(const Outcome *o) {
    Tally t = {.in_rest = true, .rank = -1};
    for (int r = 0; r < o->k; r++) {
        for (long i = 0; i < o->n; i++) {
            Kind kind = kind_of(o, r, i);
            t.of[kind]++;
            if (kind == RIGHT) continue;
            if (t.rank < 0) {
                t.rank = r;
                t.i = i;
            }
            t.in_rest = t.in_rest && i >= o->n - o->n % o->k;
        }
    }
    for (int r = 0; r < o->k && t.rank >= 0; r++) t.whole_part[r] = right_part(o, r);
    return t;
}

static bool all_own_part(const Outcome *o, const Tally *t, int offset) {
    for (int r = 0; r < o->k; r++)
        if (t->whole_part[r] != (r + offset) % o->k) return false;
    return true;
}

// Whether each number is a sum that began at the rank of its part and went on to the right,
// wherever it stopped: so the way of the parts is right, and whole ones, or others, were copied
// then.
static bool grew_to_the_right(const Outcome *o) {
    for (int r = 0; r < o->k; r++)
        for (long i = 0; i < o->n; i++) {
            int times[MOST_RANKS], j = 0, p = part_with(o, i), all = 0;
            if (!times_of(o, o->came[r * o->n + i], i, times)) return false;
            for (int rank = 0; rank < o->k; rank++) all += times[rank];
            while (j < o->k && times[(p + j) % o->k] == 1) j++;
            if (j == 0 || j != all) return false;
        }
    return true;
}

static const char *hint_for_values(const Outcome *o, const Tally *t) {
    long wrong = (long)o->k * o->n - t->of[RIGHT];
    if (t->of[OWN] == wrong && t->in_rest)
        return "the last n % k numbers were left out: n / k numbers in each part are not all; "
               "equal_range() makes the first parts one longer";
    if (t->of[OWN] == wrong && t->of[RIGHT] == 0) return "nothing was added: is it written yet?";
    if (t->of[OTHER] > 0)
        return "these are numbers of another place, or no sums at all: what comes from the left is "
               "of part rank - step - 1, not of the part that is sent; is it kept in a place of "
               "its "
               "own until it is added?";
    if (all_own_part(o, t, 1) && t->of[MORE] == 0)
        return "the reduce-scatter is right: rank r has the sum of part r + 1, and of no other. In "
               "the all-gather it must send that one first, then what it got in the step before";
    if (all_own_part(o, t, 1))
        return "the reduce-scatter is right, but in the all-gather what comes was added, too: it "
               "takes the place of what is there";
    if (grew_to_the_right(o))
        return "each sum begins at the right rank and goes to the right, but parts that are not "
               "complete went round then: in the all-gather a rank first sends part r + 1, whose "
               "sum it has, and a reduce-scatter has k - 1 steps";
    if (t->of[MORE] > 0)
        return "something was added more than once: in step s, add to part rank - s - 1 alone what "
               "came, and send part rank - s, which is what was added up in the step before; do "
               "k - 1 steps of it, not k";
    if (t->whole_part[0] >= 0)
        return "each rank has the sum of one part: the all-gather is missing, or sends another "
               "part "
               "than the one that is complete";
    return "parts do not meet on their way: in step s of the reduce-scatter rank r sends part "
           "r - s, which is the one that it added to in the step before (modulo k, also where "
           "r - s is negative); k - 1 steps";
}

static char *times_text(const Outcome *o, float sum, long i) {
    int times[MOST_RANKS];
    char *text = xstrdup("");
    if (!times_of(o, sum, i, times)) return xstrdup("no sum of the ranks' numbers of this place");
    for (int r = 0; r < o->k; r++) {
        char *longer = xprintf("%s%s%d of rank %d's", text, r > 0 ? ", " : "", times[r], r);
        free(text);
        text = longer;
    }
    return text;
}

bool values_are_right(const Outcome *o) { return tally(o).rank < 0; }

static long bytes_of_all(const Outcome *o) {
    long sent = 0;
    for (int r = 0; r < o->k; r++) sent += o->counted[r].bytes;
    return sent;
}

static void judge_sums(const Outcome *o) {
    Tally t = tally(o);
    if (t.rank < 0) return;
    float came = o->came[t.rank * o->n + t.i];
    EXPECT(came == o->expected[t.i], hint_for_values(o, &t),
           "%d ranks, %ld numbers: rank %d's number %ld (part %d) is %.9g: %s; expected %.9g, one "
           "of each",
           o->k, o->n, t.rank, t.i, part_with(o, t.i), (double)came, times_text(o, came, t.i),
           (double)o->expected[t.i]);
}

void judge_values(const Outcome *o) {
    judge_sums(o);
    EXPECT(o->k == 1 || o->n == 0 || bytes_of_all(o) > 0,
           "nobody has sent anything by a message: use MPI_Sendrecv()",
           "%d ranks, %ld numbers: the sums are right, but 0 bytes were sent; expected messages "
           "between two ranks",
           o->k, o->n);
}

// ## What was sent

static long formula(const Outcome *o, int r) {
    const Allreduce *ring = allreduces;
    while (strcmp(ring->name, "ring") != 0) ring++;
    return (long)allreduce_bytes(ring, (size_t)o->n, o->k, r).sent;
}

static bool is_empty(const Outcome *o, int p) {
    return equal_range(o->n, o->k, p % o->k).count == 0;
}

// Messages that are not empty: in each half a rank sends all parts but one, first that whose sum it
// then has, then that which comes to it last.
static int formula_messages(const Outcome *o, int r) {
    int n = 2 * (o->k - 1) + is_empty(o, r + 1) + is_empty(o, r + 2);
    for (int p = 0; p < o->k; p++) n -= 2 * is_empty(o, p);
    return n;
}

static long bytes_to_neighbour(const Outcome *o, int r, int distance) {
    return o->counted[r].bytes_to[(r + distance) % o->k];
}

static const char *hint_for_traffic(const Outcome *o, int r) {
    const Counted *c = &o->counted[r];
    long N = 4 * o->n, k = o->k;
    if (bytes_of_all(o) == 0) return "nobody has sent anything by a message: use MPI_Sendrecv()";
    if (k > 2 && o->counted[0].bytes == (k - 1) * N && o->counted[1].bytes == N)
        return "rank 0 sends k - 1 times the vector, the others once: that is the star, where all "
               "goes through rank 0; in a ring all send as much";
    if (c->bytes == c->messages * N && N > 0)
        return "whole vectors are sent: each message has one of k parts";
    if (c->bytes > bytes_to_neighbour(o, r, 1))
        return bytes_to_neighbour(o, r, (int)k - 1) == c->bytes
                   ? "the ring runs to the left: send to (rank + 1) % k, receive from "
                     "(rank + k - 1) % k"
                   : "a rank sends to its right neighbour and to nobody else; parts that go "
                     "straight to their owner are chapter 2's sharded allreduce";
    if (c->messages > 2 * (k - 1))
        return "too many messages: k - 1 steps in each half (not k), one message in each";
    if (c->messages - c->empty < 2 * (k - 1)) return "too few messages: k - 1 steps in each half";
    return "the parts are not those of equal_range(), of which the first n % k have one more: how "
           "is the vector cut?";
}

static bool bytes_are_right(const Outcome *o, int r) {
    const Counted *c = &o->counted[r];
    return c->elsewhere == 0 && c->bytes == formula(o, r) &&
           bytes_to_neighbour(o, r, 1) == c->bytes;
}

static bool messages_are_right(const Outcome *o, int r) {
    const Counted *c = &o->counted[r];
    return c->messages <= 2 * (o->k - 1) && c->messages - c->empty == formula_messages(o, r);
}

bool traffic_is_right(const Outcome *o) {
    for (int r = 0; r < o->k; r++)
        if (!bytes_are_right(o, r) || !messages_are_right(o, r)) return false;
    return true;
}

void judge_traffic(const Outcome *o) {
    for (int r = 0; r < o->k; r++) {
        const Counted *c = &o->counted[r];
        EXPECT(c->elsewhere == 0,
               "`comm` may be another communicator than MPI_COMM_WORLD, with other ranks: all "
               "messages go over it",
               "%d ranks, %ld numbers: rank %d sent %ld messages over another communicator, "
               "expected `comm`",
               o->k, o->n, r, c->elsewhere);
        EXPECT(bytes_are_right(o, r), hint_for_traffic(o, r),
               "%d ranks, %ld numbers: rank %d sent %ld bytes in %ld messages, %ld of them to its "
               "right neighbour; expected %ld bytes in %d messages, all to that one",
               o->k, o->n, r, c->bytes, c->messages, bytes_to_neighbour(o, r, 1), formula(o, r),
               2 * (o->k - 1));
        EXPECT(messages_are_right(o, r), hint_for_traffic(o, r),
               "%d ranks, %ld numbers: rank %d sent %ld messages, %ld of them empty, expected %d, "
               "and %d that are not empty",
               o->k, o->n, r, c->messages, c->empty, 2 * (o->k - 1), formula_messages(o, r));
    }
}

// What rank r sends: else the others could not know its numbers and it not theirs. That much is in
// any way to sum, so it says nothing of right or wrong, only that something was done.
void judge_share(const Outcome *o) {
    long least = 4 * (o->n / o->k) * (o->k - 1);
    for (int r = 0; r < o->k; r++)
        EXPECT(o->counted[r].bytes >= least,
               "nobody can wait in vain where hardly anything is sent: first the sums, of short "
               "vectors",
               "%d ranks, %ld numbers: rank %d sent %ld bytes, expected %ld at least", o->k, o->n,
               r, o->counted[r].bytes, least);
}

// ## The order of the additions

// Part p's numbers are added from rank p + first on, in steps of `step`; step 0: from rank 0 on.
static bool is_sum_in_order(const Outcome *o, int first, int step) {
    for (long i = 0; i < o->n; i++) {
        int r = step ? part_with(o, i) + first : 0;
        float sum = given_number(r % o->k, i, false);
        for (int j = 1; j < o->k; j++) {
            r += step ? step + o->k : 1;
            sum += given_number(r % o->k, i, false);
        }
        if (memcmp(&sum, &o->came[i], sizeof sum) != 0) return false;
    }
    return true;
}

static const char *hint_for_bits(const Outcome *o) {
    static char hint[160];
    if (is_sum_in_order(o, 0, 0))
        return "that is the star's order, from rank 0 on: in a ring part p's sum begins at rank p";
    for (int first = 0; first < o->k; first++)
        for (int step = -1; step <= 1; step += 2) {
            if (!is_sum_in_order(o, first, step)) continue;
            snprintf(hint, sizeof hint,
                     "your part p begins its way at rank p + %d and goes to the %s: it begins at "
                     "rank p, which sends it in step 0, and goes to the right",
                     first, step > 0 ? "right" : "left");
            return hint;
        }
    return "no order in which ranks pass a sum on gives these bits: is it added in float, what "
           "came to what is there, and nothing else?";
}

// (Rank 0 is compared with the expected sum, the others with rank 0.)
bool bits_are_right(const Outcome *o) {
    for (int r = 0; r < o->k; r++)
        if (memcmp(&o->came[r * o->n], o->expected, sizeof *o->came * (size_t)o->n) != 0)
            return false;
    return true;
}

void judge_bits(const Outcome *o) {
    for (int r = 1; r < o->k; r++)
        for (long i = 0; i < o->n; i++)
            EXPECT(memcmp(&o->came[r * o->n + i], &o->came[i], sizeof *o->came) == 0,
                   "each part is summed up once, by one rank, and copied from there: is something "
                   "added up again, or not copied?",
                   "%d ranks, %ld numbers: number %ld is %.9g on rank %d, expected the %.9g of "
                   "rank 0, to the bit",
                   o->k, o->n, i, (double)o->came[r * o->n + i], r, (double)o->came[i]);
    for (long i = 0; i < o->n; i++)
        EXPECT(memcmp(&o->came[i], &o->expected[i], sizeof *o->came) == 0, hint_for_bits(o),
               "%d ranks, %ld numbers: number %ld (part %d) is %.9g, expected the %.9g of chapter "
               "2's ring, to the bit",
               o->k, o->n, i, part_with(o, i), (double)o->came[i], (double)o->expected[i]);
}

void judge_calls(const Outcome *o) {
    for (int r = 0; r < o->k; r++)
        EXPECT(!o->counted[r].collective[0],
               "MPI's own collectives choose a way of their own, with an order of their own: make "
               "it of MPI_Sendrecv()",
               "%d ranks, %ld numbers: rank %d called %s(), expected messages between two ranks",
               o->k, o->n, r, o->counted[r].collective);
}
