// check.c: placements must be as good as is known of the rule, and then be those of the rule, also
// where keys are equally large; pieces must be what a key was. What differs is tried out with the
// usual mistakes in it.
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

// What is done wrong (the rest is done right), and what is then said.
typedef struct PlaceMistake {
    bool in_turns, ranges, scaled, unsorted, ascending, sorted_turns, last_key, last_server,
        fullest;
    const char *hint;
} PlaceMistake;

static const PlaceMistake place_mistakes[] = {
    {.hint = "the rule"},
    {.in_turns = true,
     .hint = "keys that go to the servers in turns, i modulo S, come to this: look at how much "
             "each server has by then"},
    {.ranges = true,
     .hint = "a range of as many keys for each server comes to this: keys are very unequal, so "
             "count bytes"},
    {.scaled = true,
     .hint = "server i S / n for key i comes to this, ranges of as many keys: they are very "
             "unequal, so count bytes"},
    {.unsorted = true,
     .hint = "keys in the order in which they are given come to this: the largest goes first"},
    {.ascending = true,
     .hint = "the smallest key first comes to this: then the largest is put on top of what is "
             "level; the largest goes first, and the small ones level it"},
    {.sorted_turns = true,
     .hint = "the largest first, but to the servers in turns, or to the one with the fewest keys, "
             "comes to this: take the server with the fewest bytes by then"},
    {.last_key = true,
     .hint = "of keys that are equally large the last one first comes to this: the lowest number "
             "goes first (> or >=?)"},
    {.last_server = true,
     .hint = "of servers that have equally much the last one comes to this: take the lowest number "
             "(< or <=?)"},
    {.last_key = true,
     .last_server = true,
     .hint = "the last one of keys that are equally large, and of servers that have equally much, "
             "comes to this: take the lowest numbers (> or >=, < or <=?)"},
    {.fullest = true,
     .hint = "the server that has most comes to this: take the one that has least"},
};
enum { NUM_PLACE_MISTAKES = sizeof place_mistakes / sizeof *place_mistakes };

static int next_key(const PlaceMistake *m, const PlaceCase *c, const int server_of[]) {
    int next = -1;
    for (int i = 0; i < c->n; i++) {
        if (server_of[i] >= 0) continue;
        bool first = next < 0, larger = !first && c->loads[i] > c->loads[next];
        bool equal = !first && c->loads[i] == c->loads[next];
        if (first || (m->unsorted    ? false
                      : m->ascending ? !larger && !equal
                                     : larger || (equal && m->last_key)))
            next = i;
    }
    return next;
}

static int next_server(const PlaceMistake *m, int S, const size_t has[]) {
    int next = 0;
    for (int s = 1; s < S; s++)
        if (m->fullest ? has[s] > has[next]
                       : has[s] < has[next] || (m->last_server && has[s] == has[next]))
            next = s;
    return next;
}

static void place_with(const PlaceMistake *m, const PlaceCase *c, int server_of[]) {
    size_t has[MOST_PLACES] = {0};
    if (m->in_turns) round_robin(c->n, c->S, server_of);
    if (m->ranges) ranges_of_keys(c->n, c->S, server_of);
    for (int i = 0; i < c->n && m->scaled; i++) server_of[i] = i * c->S / c->n;
    if (m->in_turns || m->ranges || m->scaled) return;
    for (int i = 0; i < c->n; i++) server_of[i] = -1;
    for (int placed = 0; placed < c->n; placed++) {
        int i = next_key(m, c, server_of);
        int s = m->sorted_turns ? placed % c->S : next_server(m, c->S, has);
        server_of[i] = s;
        has[s] += c->loads[i];
    }
}

// What the reader's function does; numbers that are not written stay -1.
static void place(const PlaceCase *c, int server_of[]) {
    for (int i = 0; i < c->n; i++) server_of[i] = -1;
    place_keys(c->loads, c->n, c->S, server_of);
}

static bool same_place(const PlaceMistake *m, const PlaceCase *c) {
    int came[MOST_KEYS], theirs[MOST_KEYS];
    place(c, came);
    place_with(m, c, theirs);
    return memcmp(came, theirs, sizeof *came * (size_t)c->n) == 0;
}

// The mistake that explains all that the function does, in every case.
static const char *hint_for_places(const PlaceCases *cases) {
    for (int m = 1; m < NUM_PLACE_MISTAKES; m++) {
        bool explains = true;
        for (int c = 0; c < cases->n && explains; c++)
            explains = same_place(&place_mistakes[m], &cases->list[c]);
        if (explains) return place_mistakes[m].hint;
    }
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
    int came[MOST_KEYS], right[MOST_KEYS];
    place(c, came);
    check_numbers(c, came);
    place_with(&place_mistakes[0], c, right);
    for (int i = 0; i < c->n; i++)
        EXPECT(came[i] == right[i], hint_for_places(cases),
               "place_keys(), %s, %d keys on %d servers: key %d (%zu bytes) is on server %d, "
               "expected %d",
               c->name, c->n, c->S, i, c->loads[i], came[i], right[i]);
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

typedef struct CutMistake {
    bool nothing, rounded_down, none, one_more, rest_last, rest_lost, begins_at_0, bytes;
    const char *hint;
} CutMistake;

static const CutMistake cut_mistakes[] = {
    {.hint = "the rule"},
    {.nothing = true,
     .hint = "there are no pieces: write them into pieces[], and return how many they are"},
    {.rounded_down = true,
     .hint = "size / most pieces, rounded down, come to this: they are larger than `most`; round "
             "up"},
    {.none = true,
     .hint = "size / most pieces, rounded down, come to this: of a small key there are none; round "
             "up"},
    {.one_more = true,
     .hint = "size / most + 1 pieces come to this: where it divides evenly that is one too many; "
             "round up"},
    {.rest_last = true,
     .hint = "pieces of `most` floats and one of what is left come to this: as equal as can be is "
             "equal_range()"},
    {.rest_lost = true,
     .hint = "pieces of size / parts floats, rounded down, come to this: the last floats are in "
             "none"},
    {.begins_at_0 = true,
     .hint = "pieces that all begin at float 0 come to this: each begins where the one before "
             "ends"},
    {.bytes = true,
     .hint = "a float taken for 4 of `most` comes to this: both sizes and `most` are floats"},
};
enum { NUM_CUT_MISTAKES = sizeof cut_mistakes / sizeof *cut_mistakes };

static int cut_with(const CutMistake *m, const CutCase *c, Piece pieces[]) {
    int n = 0;
    for (int i = 0; i < c->n && !m->nothing; i++) {
        size_t unit = m->bytes ? sizeof(float) : 1, size = c->sizes[i], most = c->most;
        int parts = (int)((size * unit + most - 1) / most);
        if (m->rounded_down) parts = (int)(size / most) + (size < most);
        if (m->none) parts = (int)(size / most);
        if (m->one_more) parts = (int)(size / most) + 1;
        for (int p = 0; p < parts; p++) {
            Range r = equal_range((long)size, parts, p);
            if (m->rest_last) {
                r.first = p * (long)most;
                r.count = p < parts - 1 ? (long)most : (long)size - r.first;
            }
            if (m->rest_lost) r = (Range){p * ((long)size / parts), (long)size / parts};
            if (m->begins_at_0) r.first = 0;
            pieces[n++] = (Piece){.key = i, .range = r};
        }
    }
    return n;
}

static bool same_piece(const Piece *a, const Piece *b) {
    return a->key == b->key && a->range.first == b->range.first && a->range.count == b->range.count;
}

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

// The mistake that explains how many pieces there are in every case; or also what is in them.
static const char *hint_for_cuts(bool how_many) {
    static Piece came[MOST_PIECES], theirs[MOST_PIECES];
    for (int m = 1; m < NUM_CUT_MISTAKES; m++) {
        bool explains = true;
        for (int c = 0; c < NUM_CUTS && explains; c++) {
            int n = cut(&cut_cases[c], came);
            explains = n == cut_with(&cut_mistakes[m], &cut_cases[c], theirs);
            for (int p = 0; p < n && explains && !how_many; p++)
                explains = same_piece(&came[p], &theirs[p]);
        }
        if (explains) return cut_mistakes[m].hint;
    }
    return how_many ? "a key has size / most pieces, rounded up; what else is counted?"
                    : "suspects: where each piece begins and how long it is (equal_range()), which "
                      "key's it is, the order; no single one explains it";
}

static int pieces_of(int key, const Piece pieces[], int n) {
    int pieces_of_key = 0;
    for (int p = 0; p < n && p < MOST_PIECES; p++) pieces_of_key += pieces[p].key == key;
    return pieces_of_key;
}

static void check_how_many(const CutCase *c) {
    static Piece came[MOST_PIECES], theirs[MOST_PIECES];
    int right = cut_with(&cut_mistakes[0], c, theirs), n = cut(c, came);
    EXPECT(n == right, hint_for_cuts(true),
           "cut_keys(), %s, at most %zu floats a piece: returned %d pieces, expected %d", c->name,
           c->most, n, right);
    for (int i = 0; i < c->n; i++)
        EXPECT(pieces_of(i, came, n) == pieces_of(i, theirs, n), hint_for_cuts(true),
               "cut_keys(), %s, at most %zu floats a piece: %d pieces of key %d (%zu floats), "
               "expected %d",
               c->name, c->most, pieces_of(i, came, n), i, c->sizes[i], pieces_of(i, theirs, n));
}

// However many pieces a key was cut into, together they are the key, each as large as the others.
static void check_ranges(const CutCase *c) {
    static Piece came[MOST_PIECES];
    int n = cut(c, came), next = 0;
    for (int i = 0; i < c->n; i++) {
        int parts = pieces_of(i, came, n);
        EXPECT(parts > 0 && n <= MOST_PIECES, hint_for_cuts(false),
               "cut_keys(), %s, at most %zu floats a piece: returned %d pieces, of which %d are of "
               "key %d, expected all of its %zu floats",
               c->name, c->most, n, parts, i, c->sizes[i]);
        for (int p = 0; p < parts; p++, next++) {
            Piece right = {.key = i, .range = equal_range((long)c->sizes[i], parts, p)};
            const Range *a = &came[next].range, *b = &right.range;
            EXPECT(same_piece(&came[next], &right), hint_for_cuts(false),
                   "cut_keys(), %s, key %d in %d pieces: piece %d is key %d, %ld floats from %ld, "
                   "expected key %d, %ld floats from %ld",
                   c->name, i, parts, next, came[next].key, a->count, a->first, i, b->count,
                   b->first);
        }
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
