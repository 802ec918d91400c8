// collectives.c: the other collectives, in messages between two ranks: chapter 2's algorithms, seen
// from one rank. See star.c, which shows how a message travels.
#include "group.h"

#include "common/base/error.h"
#include "common/base/range.h"

#include <string.h>

static Range part_of(const Exchange *x, int part) {
    int k = x->group->size;
    return equal_range((long)x->n, k, (part % k + k) % k);
}
static void start_send_part(Exchange *x, Range part, int to) {
    start_send(x, x->data + part.first, (size_t)part.count * sizeof(float), to);
}
static void start_receive_part(Exchange *x, float *place, Range part, int from) {
    start_receive(x, place, (size_t)part.count * sizeof(float), from);
}

// ## The ring

// This rank, r, sends part r + first to its right neighbour. It gets part r - 1 + first from its
// left one, and adds it to its own or puts it in its place.
static void pass_to_the_right(Exchange *x, int first, bool adds) {
    int k = x->group->size, r = x->group->rank;
    Range theirs = part_of(x, r - 1 + first);
    float *mine = x->data + theirs.first;
    float *arrives = adds ? place_for(x->group, (size_t)theirs.count) : mine;
    start_send_part(x, part_of(x, r + first), (r + 1) % k);
    start_receive_part(x, arrives, theirs, (r + k - 1) % k);
    finish_messages();
    if (adds) add_floats(mine, arrives, (size_t)theirs.count);
}

// After reduce_to(), and before gather_from(), rank r has the sum of part r + owned.
static void reduce_to(Exchange *x, int owned) {
    int k = x->group->size;
    for (int step = 0; step < k - 1; step++) pass_to_the_right(x, owned - 1 - step + k, true);
}
static void gather_from(Exchange *x, int owned) {
    int k = x->group->size;
    for (int step = 0; step < k - 1; step++) pass_to_the_right(x, owned - step + k, false);
}

void all_reduce_ring(Exchange *x) {
    reduce_to(x, 1);
    gather_from(x, 1);
}
void reduce_scatter_ring(Exchange *x) { reduce_to(x, 0); }
void all_gather_ring(Exchange *x) { gather_from(x, 0); }

// ## The tree

// From `root` down: each rank that has the vector sends it to the one that is `distance` further.
static void all_down(Exchange *x, int root) {
    int rank = x->group->rank, size = x->group->size, distance = 1;
    int place = (rank - root + size) % size;
    while (distance < size) distance *= 2;
    for (distance /= 2; distance >= 1; distance /= 2) {
        if (place % (2 * distance) == 0 && place + distance < size)
            send_floats(x, x->data, x->n, (rank + distance) % size);
        if (place % (2 * distance) == distance)
            receive_floats(x, x->data, x->n, (rank - distance + size) % size);
    }
}

void all_reduce_tree(Exchange *x) {
    int rank = x->group->rank, size = x->group->size;
    float *theirs = place_for(x->group, x->n);
    for (int distance = 1; distance < size; distance *= 2) {
        if (rank % (2 * distance) == distance) send_floats(x, x->data, x->n, rank - distance);
        if (rank % (2 * distance) != 0 || rank + distance >= size) continue;
        receive_floats(x, theirs, x->n, rank + distance);
        add_floats(x->data, theirs, x->n);
    }
    all_down(x, 0);
}

void broadcast_tree(Exchange *x) { all_down(x, x->root); }

// ## Sharded: each rank is the hub of one part

// The ranks' versions of this rank's part are added in the order of the ranks, as in the star. (A
// sum of two has the same bits in either order.)
static void add_in_order(Exchange *x, Range part, float *theirs) {
    int rank = x->group->rank;
    size_t n = (size_t)part.count;
    float *mine = x->data + part.first, *sum = rank == 0 ? mine : theirs;
    for (int from = 1; from < x->group->size; from++) {
        const float *next = theirs + (size_t)(from < rank ? from : from - 1) * n;
        add_floats(from == rank ? mine : sum, from == rank ? sum : next, n);
        if (from == rank) sum = mine;
    }
}

void all_reduce_sharded(Exchange *x) {
    int k = x->group->size, rank = x->group->rank;
    Range own = part_of(x, rank);
    size_t n = (size_t)own.count;
    float *theirs = place_for(x->group, (size_t)(k - 1) * n);
    for (int turn = 1; turn < k; turn++) {
        int to = (rank + turn) % k, from = (rank - turn + k) % k;
        start_send_part(x, part_of(x, to), to);
        start_receive_part(x, theirs + (size_t)(from < rank ? from : from - 1) * n, own, from);
    }
    finish_messages();
    add_in_order(x, own, theirs);
    for (int turn = 1; turn < k; turn++) {
        int to = (rank + turn) % k, from = (rank - turn + k) % k;
        start_send_part(x, own, to);
        start_receive_part(x, x->data + part_of(x, from).first, part_of(x, from), from);
    }
    finish_messages();
}

// ## The host's own figures: x->n bytes of each rank, for all ranks

void gather_bytes(Exchange *x) {
    int size = x->group->size, rank = x->group->rank;
    char *all = x->all;
    memcpy(all + (size_t)rank * x->n, x->mine, x->n);
    if (rank > 0) start_send(x, x->mine, x->n, 0);
    for (int from = 1; from < size && rank == 0; from++)
        start_receive(x, all + (size_t)from * x->n, x->n, from);
    finish_messages();
    if (rank > 0) start_receive(x, all, (size_t)size * x->n, 0);
    for (int to = 1; to < size && rank == 0; to++) start_send(x, all, (size_t)size * x->n, to);
    finish_messages();
}
