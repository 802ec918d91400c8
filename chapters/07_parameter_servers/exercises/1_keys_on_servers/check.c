// check.c: no server may have more than is known of the rule, each key must be where no other
// server had less, and pieces must be what a key was. If placements are not like that, the check
// looks whether they are like those of another way.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <string.h>

// ---- placements --------------------------------------------------------------------------------

typedef struct PlaceCase {
    const char *name;
    int n, S;
    size_t loads[MOST_KEYS]; // bytes
} PlaceCase;

typedef struct PlaceCases {
    PlaceCase list[32];
    int n;
} PlaceCases;

// A way to give out keys one by one: which of two comes first, and what a server must have least of
// to get the next one. The check does not give them out: it looks at what each server had of the
// keys before, which tells whether that is how they were.
typedef struct Way {
    bool (*comes_first)(const PlaceCase *c, int i, int j); // key i, before key j
    bool counts_keys;                                      // not bytes
    bool most;                                             // not least
    bool last_server;                                      // of those that have equally much
    const char *hint;
} Way;

static bool larger(const PlaceCase *c, int i, int j) {
    return c->loads[i] > c->loads[j] || (c->loads[i] == c->loads[j] && i < j);
}
static bool larger_or_last(const PlaceCase *c, int i, int j) {
    return c->loads[i] > c->loads[j] || (c->loads[i] == c->loads[j] && i > j);
}
static bool smaller(const PlaceCase *c, int i, int j) {
    return c->loads[i] < c->loads[j] || (c->loads[i] == c->loads[j] && i < j);
}
static bool given_first(const PlaceCase *c, int i, int j) {
    (void)c;
    return i < j;
}

static const Way ways[] = {
    {larger, .hint = "the rule"},
    {given_first,
     .hint = "keys in the order in which they are given come to this: the largest goes first"},
    {smaller, .hint =
                  "the smallest key first comes to this: then the largest is put on top of what is "
                  "level; the largest goes first, and the small ones level it"},
    {larger, .counts_keys = true,
     .hint = "the largest first, but to the servers in turns, or to the one with the fewest keys, "
             "comes to this: take the server with the fewest bytes by then"},
    {larger_or_last,
     .hint = "of keys that are equally large the last one first comes to this: the lowest number "
             "goes first (> or >=?)"},
    {larger, .last_server = true,
     .hint = "of servers that have equally much the last one comes to this: take the lowest number "
             "(< or <=?)"},
    {larger_or_last, .last_server = true,
     .hint = "the last one of keys that are equally large, and of servers that have equally much, "
             "comes to this: take the lowest numbers (> or >=, < or <=?)"},
    {larger, .most = true,
     .hint = "the server that has most comes to this: take the one that has least"},
};
enum { NUM_WAYS = sizeof ways / sizeof *ways };

// What server s had before key i came.
static size_t had_before(const Way *w, const PlaceCase *c, const int came[], int i, int s) {
    size_t had = 0;
    for (int j = 0; j < c->n; j++)
        if (came[j] == s && w->comes_first(c, j, i)) had += w->counts_keys ? 1 : c->loads[j];
    return had;
}

// A server that should have had key i, before the one that has it; -1: there is none.
static int better_server(const Way *w, const PlaceCase *c, const int came[], int i) {
    size_t has = had_before(w, c, came, i, came[i]);
    for (int s = 0; s < c->S; s++) {
        size_t had = had_before(w, c, came, i, s);
        bool lower_number = w->last_server ? s > came[i] : s < came[i];
        if ((w->most ? had > has : had < has) || (had == has && lower_number)) return s;
    }
    return -1;
}

// Of the keys that another server should have had, the one that came first; -1: there is none.
static int first_misplaced(const Way *w, const PlaceCase *c, const int came[]) {
    int first = -1;
    for (int i = 0; i < c->n; i++)
        if (better_server(w, c, came, i) >= 0 && (first < 0 || w->comes_first(c, i, first)))
            first = i;
    return first;
}

// What the reader's function does; numbers that are not written stay -1.
static void place(const PlaceCase *c, int server_of[]) {
    for (int i = 0; i < c->n; i++) server_of[i] = -1;
    place_keys(c->loads, c->n, c->S, server_of);
}

// Whether each key is on the server that its number alone leads to.
static bool are_in_turns(const PlaceCase *c, const int came[]) {
    for (int i = 0; i < c->n; i++)
        if (came[i] != i % c->S) return false;
    return true;
}
static bool are_in_ranges(const PlaceCase *c, const int came[]) {
    for (int i = 1; i < c->n; i++)
        if (came[i] < came[i - 1]) return false;
    return true;
}

static bool all_are(const PlaceCases *cases, bool (*like)(const PlaceCase *c, const int came[])) {
    int came[MOST_KEYS];
    for (int c = 0; c < cases->n; c++) {
        place(&cases->list[c], came);
        if (!like(&cases->list[c], came)) return false;
    }
    return true;
}

static bool all_are_placed(const PlaceCases *cases, const Way *w) {
    int came[MOST_KEYS];
    for (int c = 0; c < cases->n; c++) {
        place(&cases->list[c], came);
        if (first_misplaced(w, &cases->list[c], came) >= 0) return false;
    }
    return true;
}

// The way that explains all placements.
static const char *hint_for_places(const PlaceCases *cases) {
    for (int w = 1; w < NUM_WAYS; w++)
        if (all_are_placed(cases, &ways[w])) return ways[w].hint;
    if (all_are(cases, are_in_turns))
        return "keys that go to the servers in turns, i modulo S, come to this: look at how much "
               "each server has by then";
    if (all_are(cases, are_in_ranges))
        return "a range of keys for each server, one after the other, comes to this: keys are very "
               "unequal, so count bytes";
    return "suspects: which key is next (the largest; of several the first), which server gets it "
           "(the one with the fewest bytes by then; of several the first); no single one explains "
           "it";
}

static void add_network(PlaceCases *cases, const NetworkKind *kind) {
    static const int servers[] = {2, 3, 5, 16};
    Module *net = kind->make(10);
    initialize(net, 1);
    for (int s = 0; s < 4; s++) {
        PlaceCase *c = &cases->list[cases->n++];
        *c = (PlaceCase){.name = kind->title, .S = servers[s]};
        c->n = sizes_of_keys(net, c->loads);
        for (int i = 0; i < c->n; i++) c->loads[i] *= sizeof(float);
    }
    module_free(net);
}

// Two servers' best is 6 + 6; the rule's 7 + 5 is all that the bound allows. And so on for more.
static const PlaceCase small_cases[] = {
    {"the worst case of two servers", 5, 2, {3, 3, 2, 2, 2}},
    {"the worst case of three servers", 7, 3, {5, 5, 4, 4, 3, 3, 3}},
    {"a large one last", 9, 3, {10, 10, 10, 20, 10, 20, 10, 10, 90}},
    {"large ones in turns with small ones", 10, 2, {90, 1, 80, 2, 70, 3, 60, 4, 50, 5}},
    {"small ones first", 8, 3, {4, 8, 15, 16, 23, 42, 108, 216}},
    {"large ones first", 8, 4, {700, 500, 300, 200, 110, 70, 20, 10}},
    {"more servers than keys", 3, 8, {5, 1, 9}},
    {"one server", 4, 1, {5, 1, 9, 2}},
    {"all equal", 8, 3, {100, 100, 100, 100, 100, 100, 100, 100}},
};

static const PlaceCases *all_place_cases(void) {
    static PlaceCases cases;
    if (cases.n > 0) return &cases;
    memcpy(cases.list, small_cases, sizeof small_cases);
    cases.n = sizeof small_cases / sizeof *small_cases;
    for (int i = 0; i < NUM_NETWORKS; i++) add_network(&cases, &networks[i]);
    return &cases;
}

// ---- how good they are -------------------------------------------------------------------------

// All placements of keys i, i+1, ..: the least that the busiest server can have.
static size_t least_busiest(const PlaceCase *c, int i, size_t has[], size_t best) {
    size_t busiest = 0;
    for (int s = 0; s < c->S; s++)
        if (has[s] > busiest) busiest = has[s];
    if (busiest >= best) return best;
    if (i == c->n) return busiest;
    for (int s = 0; s < c->S; s++) {
        has[s] += c->loads[i];
        best = least_busiest(c, i + 1, has, best);
        has[s] -= c->loads[i];
        if (has[s] == 0) break; // the empty servers behind it are like this one
    }
    return best;
}

enum { FEW_KEYS = 10 };

static void check_numbers(const PlaceCase *c, const int came[]) {
    for (int i = 0; i < c->n; i++)
        EXPECT(came[i] >= 0 && came[i] < c->S,
               came[i] == -1     ? "write server_of[i] for each key i"
               : came[i] == c->S ? "servers count from 0"
                                 : "a server's number is 0 to S-1",
               "place_keys(), %s: key %d of %d is on server %d, expected one of 0 to %d", c->name,
               i, c->n, came[i], c->S - 1);
}

static void check_bound(const PlaceCases *cases, const PlaceCase *c) {
    int came[MOST_KEYS];
    size_t has[MOST_PLACES] = {0}, best = least_busiest(c, 0, has, SIZE_MAX);
    place(c, came);
    check_numbers(c, came);
    Loads loads = loads_of(c->loads, c->n, c->S, came);
    double bound = 4 / 3.0 - 1 / (3.0 * c->S);
    EXPECT(
        (double)loads.busiest <= bound * (double)best * (1 + 1e-12), hint_for_places(cases),
        "place_keys(), %s, %d keys on %d servers: server %d has %zu bytes, expected at most %.6g "
        "on each, %.4g times %zu, which the best of all placements has",
        c->name, c->n, c->S, loads.who, loads.busiest, bound * (double)best, bound, best);
}

static void check_rule(const PlaceCases *cases, const PlaceCase *c) {
    int came[MOST_KEYS];
    const Way *rule = &ways[0];
    place(c, came);
    check_numbers(c, came);
    int i = first_misplaced(rule, c, came);
    if (i < 0) return;
    int better = better_server(rule, c, came, i);
    EXPECT(false, hint_for_places(cases),
           "place_keys(), %s, %d keys on %d servers: key %d (%zu bytes) is on server %d, which had "
           "%zu bytes of the keys that come before it, expected server %d, which had %zu",
           c->name, c->n, c->S, i, c->loads[i], came[i], had_before(rule, c, came, i, came[i]),
           better, had_before(rule, c, came, i, better));
}

static void check_bounds(const Flags *flags) {
    const PlaceCases *cases = all_place_cases();
    (void)flags;
    for (int i = 0; i < cases->n; i++)
        if (cases->list[i].n <= FEW_KEYS) check_bound(cases, &cases->list[i]);
}

static void check_rules(const Flags *flags) {
    const PlaceCases *cases = all_place_cases();
    (void)flags;
    for (int i = 0; i < cases->n; i++) check_rule(cases, &cases->list[i]);
}

// ---- pieces ------------------------------------------------------------------------------------

typedef struct CutCase {
    const char *name;
    int n;
    size_t most, sizes[MOST_KEYS]; // floats
} CutCase;

static const CutCase cut_cases[] = {
    {"a key that is small enough", 1, 10, {7}},
    {"a key that is just small enough", 1, 10, {10}},
    {"a key that is one too large", 1, 10, {11}},
    {"a key that is twice as large", 1, 10, {20}},
    {"a key between small ones", 4, 10, {3, 47, 1, 12}},
    {"LeNet's keys", 8, 16384, {180, 20, 25000, 50, 102400, 128, 1280, 10}},
};
enum { NUM_CUTS = sizeof cut_cases / sizeof *cut_cases };

// What the reader's function does; pieces that are not written stay empty.
static int cut(const CutCase *c, Piece pieces[MOST_PIECES]) {
    memset(pieces, 0, MOST_PIECES * sizeof *pieces);
    return cut_keys(c->sizes, c->n, c->most, pieces);
}

static int pieces_of(int key, const Piece pieces[], int n) {
    int pieces_of_key = 0;
    for (int p = 0; p < n && p < MOST_PIECES; p++) pieces_of_key += pieces[p].key == key;
    return pieces_of_key;
}

static const char *hint_for_too_many(const CutCase *c, int i, size_t parts) {
    if (c->sizes[i] % c->most == 0)
        return "it divides evenly, so no piece is left over: is one added in any case, instead of "
               "rounding up?";
    if (parts > 1 && parts * c->most >= sizeof(float) * c->sizes[i])
        return "is a float taken for 4 of `most`? Both sizes and `most` are floats";
    return "as few as can be: round up once, and count no piece that is not needed";
}

// All of its floats must have room, and with one piece less they must not.
static void check_how_many(const CutCase *c) {
    static Piece came[MOST_PIECES];
    int n = cut(c, came), of_keys = 0;
    for (int i = 0; i < c->n; i++) of_keys += pieces_of(i, came, n);
    EXPECT(n >= 0 && n <= MOST_PIECES, "return how many pieces there are",
           "cut_keys(), %s, at most %zu floats a piece: returned %d pieces, expected 1 to %d",
           c->name, c->most, n, MOST_PIECES);
    EXPECT(of_keys == n, "whose piece it is stands in its .key: 0 to n-1",
           "cut_keys(), %s: %d of %d pieces are of a key that there is, expected all of them",
           c->name, of_keys, n);
    for (int i = 0; i < c->n; i++) {
        size_t parts = (size_t)pieces_of(i, came, n), size = c->sizes[i];
        EXPECT(parts * c->most >= size,
               n == 0 ? "there are no pieces: write them into pieces[], and return how many they "
                        "are; if size / most is rounded down, there are none of a small key"
                      : "is size / most rounded down? Then pieces are larger than `most`, and of a "
                        "small key there is none: round up",
               "cut_keys(), %s, at most %zu floats a piece: %zu pieces of key %d hold %zu floats, "
               "expected room for its %zu",
               c->name, c->most, parts, i, parts * c->most, size);
        EXPECT((parts - 1) * c->most < size, hint_for_too_many(c, i, parts),
               "cut_keys(), %s, at most %zu floats a piece: %zu pieces of key %d (%zu floats), "
               "expected fewer: %zu have room for it",
               c->name, c->most, parts, i, size, parts - 1);
    }
}

static const char *hint_for_begin(const Range *r, int part, long next) {
    if (part > 0 && r->first == 0)
        return "do all pieces begin at float 0? Each begins where the one before it ends";
    return r->first > next ? "the floats between them are in no piece"
                           : "the floats in which they overlap are in both pieces";
}

// A key's pieces, from pieces[0] on: one behind the other, as equal as can be, the longer ones
// first.
static void check_pieces_of(const CutCase *c, int i, int parts, const Piece pieces[]) {
    long next = 0, size = (long)c->sizes[i];
    for (int p = 0; p < parts; p++) {
        const Range *r = &pieces[p].range, *before = p > 0 ? &pieces[p - 1].range : r;
        EXPECT(pieces[p].key == i, "pieces come in the order of keys, those of one key together",
               "cut_keys(), %s: there is a piece of key %d, expected piece %d of the %d of key %d",
               c->name, pieces[p].key, p, parts, i);
        EXPECT(r->first == next, hint_for_begin(r, p, next),
               "cut_keys(), %s, key %d in %d pieces: piece %d begins at float %ld, expected %ld, "
               "where those before it end",
               c->name, i, parts, p, r->first, next);
        EXPECT(r->count == before->count || r->count == pieces[0].range.count - 1,
               "as equal as can be: lengths differ by one float at most, and the longer ones come "
               "first, as equal_range() has them. (Pieces of `most` floats, and one with what is "
               "left, are not equal.)",
               "cut_keys(), %s, key %d (%ld floats) in %d pieces: piece %d has %ld floats and the "
               "one before it %ld, expected as many, or one less than the first",
               c->name, i, size, parts, p, r->count, before->count);
        next += r->count;
    }
    EXPECT(next == size,
           next < size ? "the last floats are in no piece: is size / parts rounded down, and the "
                         "rest left out?"
                       : "the last piece goes beyond the key",
           "cut_keys(), %s, key %d in %d pieces: together they have %ld floats, expected its %ld",
           c->name, i, parts, next, size);
}

// However many pieces a key was cut into.
static void check_ranges(const CutCase *c) {
    static Piece came[MOST_PIECES];
    int n = cut(c, came), next = 0;
    for (int i = 0; i < c->n; i++) {
        int parts = pieces_of(i, came, n);
        EXPECT(parts > 0 && n <= MOST_PIECES,
               "each key has a piece at least, if it is small itself: is size / most rounded down?",
               "cut_keys(), %s, at most %zu floats a piece: returned %d pieces, of which %d are of "
               "key %d, expected all of its %zu floats",
               c->name, c->most, n, parts, i, c->sizes[i]);
        check_pieces_of(c, i, parts, came + next);
        next += parts;
    }
}

static void check_numbers_of_pieces(const Flags *flags) {
    (void)flags;
    for (int i = 0; i < NUM_CUTS; i++) check_how_many(&cut_cases[i]);
}
static void check_pieces(const Flags *flags) {
    (void)flags;
    for (int i = 0; i < NUM_CUTS; i++) check_ranges(&cut_cases[i]);
}

const CheckPart check_parts[] = {
    {"place_keys(): the busiest server has no more than the bound", 3, check_bounds},
    {"place_keys(): each key is where the rule places it, also one of several as large", 2,
     check_rules},
    {"cut_keys(): keys are cut into as few pieces as can be", 2, check_numbers_of_pieces},
    {"cut_keys(): the pieces of a key are equally large, and are all of it", 3, check_pieces},
    {0}};
