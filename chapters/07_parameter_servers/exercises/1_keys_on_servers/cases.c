// cases.c: where keys of all kinds are placed, and what servers then have; what pieces keys are cut
// into, and whether these are all of them.
#include "common/program/facts.h"
#include "your_part.h"

#include <stdio.h>
#include <string.h>

enum { BUSIEST = 1, SERVERS, HOW_MANY, ALL_OF_IT };
const Part parts[] = {
    {"place_keys(): the busiest server has no more than by the rule", 3},
    {"place_keys(): each key is where the rule places it, also one of several as large", 2},
    {"cut_keys(): keys are cut into as few pieces as can be", 2},
    {"cut_keys(): the pieces of a key are equally large, and are all of it", 3},
    {0}};

// ---- placements --------------------------------------------------------------------------------

static void place(const size_t loads[], int n, int S) {
    int server_of[MOST_KEYS];
    size_t has[MOST_PLACES] = {0}, all = 0, busiest = 0;
    for (int i = 0; i < n; i++) server_of[i] = -1; // not written
    place_keys(loads, n, S, server_of);
    for (int i = 0; i < n; i++) {
        if (server_of[i] < 0 || server_of[i] >= S) continue;
        size_t now = has[server_of[i]] += loads[i];
        if (now > busiest) busiest = now;
        all += loads[i];
    }
    record_int(BUSIEST, (long)all, "bytes on servers 0 to %d", S - 1);
    record_at_most(BUSIEST, (double)busiest, "bytes of the busiest server");
    record_ints(SERVERS, server_of, (size_t)n, "the server of each key");
}

static const char *in_words(const size_t loads[], int n) {
    static char text[128];
    size_t at = 0;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%zu", i > 0 ? ", " : "", loads[i]);
    return text;
}

static void place_few(const char *what, const size_t loads[], int n, int S) {
    begin_case("place_keys(), %s, %d servers, keys of %s bytes", what, S, in_words(loads, n));
    place(loads, n, S);
}

static void few_keys(void) {
    size_t loads[8];
    for (int i = 0; i < 3; i++) loads[i] = (size_t)draw(1, 99);
    place_few("more servers than keys", loads, 3, (int)draw(4, 8));
    for (int i = 0; i < 4; i++) loads[i] = (size_t)draw(1, 99);
    place_few("one key each but one", loads, 4, 3);
    for (int i = 0; i < 5; i++) loads[i] = (size_t)draw(100, 104);
    place_few("nearly equal", loads, 5, 2);
    for (int i = 0; i < 8; i++) loads[i] = (size_t)draw(0, 15) + ((size_t)16 << i);
    place_few("smallest first", loads, 8, 3);
    for (int i = 0; i < 8; i++) loads[i] = (size_t)draw(0, 15) + ((size_t)16 << (7 - i));
    place_few("largest first", loads, 8, 3);
    for (int i = 0; i < 8; i++) loads[i] = (size_t)(i % 2 ? draw(1, 9) : draw(80, 99));
    place_few("large ones in turns with small ones", loads, 8, 2);
    loads[0] = (size_t)draw(10, 99);
    for (int i = 1; i < 8; i++) loads[i] = loads[0];
    place_few("all equal", loads, 8, 3);
    for (int i = 0; i < 8; i++) loads[i] = 10 * (size_t)draw(1, 3);
    loads[6] = loads[7] = 40;
    place_few("some equal", loads, 8, 3);
}

// As unequal as tensors, some as large as others.
static void many_keys(void) {
    size_t loads[MOST_KEYS];
    for (int c = 0; c < 8; c++) {
        int n = (int)draw(20, 62), S = (int)draw(2, 16);
        for (int i = 0; i < n; i++) {
            loads[i] = (size_t)draw(1, 9);
            loads[i] <<= 3 * draw(0, 6);
        }
        begin_case("place_keys(), %d keys of many sizes, %d servers", n, S);
        place(loads, n, S);
    }
}

// ---- pieces ------------------------------------------------------------------------------------

// Of each key: how many pieces, the longest of them and the shortest, and where its last one ends,
// if they come in the order of keys and each begins where the one before it ends.
static void cut(const size_t sizes[], int n, size_t most) {
    static Piece pieces[MOST_PIECES];
    int how_many[MOST_KEYS] = {0}, longest[MOST_KEYS] = {0}, shortest[MOST_KEYS] = {0};
    int end[MOST_KEYS] = {0}, next = 0;
    memset(pieces, 0, sizeof pieces);
    int num = cut_keys(sizes, n, most, pieces);
    record_int(HOW_MANY, num, "what it returns");
    for (int p = 0; p < num && p < MOST_PIECES; p++) {
        int i = pieces[p].key, count = (int)pieces[p].range.count;
        if (i < 0 || i >= n) continue;
        if (how_many[i]++ == 0) longest[i] = shortest[i] = count;
        if (count > longest[i]) longest[i] = count;
        if (count < shortest[i]) shortest[i] = count;
        while (next < i && end[next] == (int)sizes[next]) next++;
        if (i == next && pieces[p].range.first == end[i]) end[i] += count;
    }
    record_ints(HOW_MANY, how_many, (size_t)n, "pieces of each key");
    record_ints(ALL_OF_IT, end, (size_t)n, "floats of each key in pieces, one behind the other");
    record_ints(PART_IF(ALL_OF_IT, HOW_MANY), longest, (size_t)n, "longest piece of each key");
    record_ints(PART_IF(ALL_OF_IT, HOW_MANY), shortest, (size_t)n, "shortest piece of each key");
}

static void cut_one(size_t size, size_t most) {
    begin_case("cut_keys(), a key of %zu floats, pieces of at most %zu", size, most);
    cut(&size, 1, most);
}

static void pieces(void) {
    size_t most = (size_t)draw(8, 20), sizes[8];
    cut_one(most - (size_t)draw(1, 4), most);
    cut_one(most, most);
    cut_one(most + 1, most);
    cut_one(2 * most, most);
    cut_one((size_t)draw(2, 4) * most + 1, most);
    size_t full = (size_t)draw(5, 9) * most;
    cut_one(full + (size_t)draw(1, 7), most);
    for (int c = 0; c < 6; c++) {
        int n = (int)draw(2, 8);
        most = (size_t)draw(100, 999);
        for (int i = 0; i < n; i++)
            sizes[i] = (size_t)(draw(0, 1) ? draw(1, 99) : draw(1000, 9999));
        begin_case("cut_keys(), %d keys of %s floats, pieces of at most %zu", n, in_words(sizes, n),
                   most);
        cut(sizes, n, most);
    }
}

const Group groups[] = {{"place_keys(), few keys", few_keys, 5},
                        {"place_keys(), many keys", many_keys, 5},
                        {"cut_keys()", pieces, 5},
                        {0}};
