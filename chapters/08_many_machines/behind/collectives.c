// collectives.c: the other collectives, in messages between two ranks: chapter 2's algorithms, seen
// from one rank. See star.c, which shows how a message travels.
#include "chapters/08_many_machines/group.h"

#include "common/base/error.h"
#include "common/base/range.h"

#include <stdlib.h>
#include <string.h>

// A vector that is cut into as many parts as there are ranks; part numbers count round and round.
typedef struct Parts {
    const ProcessGroup *group;
    float *data;
    size_t n;
} Parts;

static Range part_of(const Parts *p, int part) {
    int k = p->group->size;
    return equal_range((long)p->n, k, (part % k + k) % k);
}
static Message start_send_part(const Parts *p, Range part, int to) {
    return start_send(p->group, p->data + part.first, (size_t)part.count * sizeof(float), to);
}
static Message start_receive_part(const Parts *p, float *place, Range part, int from) {
    return start_receive(p->group, place, (size_t)part.count * sizeof(float), from);
}

// ## The ring

// This rank, r, sends part r + first to its right neighbour. It gets part r - 1 + first from its
// left one, and adds it to its own, if there is a place for it, or puts it in its place.
static void pass_to_the_right(const Parts *p, int first, float *place) {
    int k = p->group->size, r = p->group->rank;
    Range theirs = part_of(p, r - 1 + first);
    float *mine = p->data + theirs.first;
    Message both[] = {start_send_part(p, part_of(p, r + first), (r + 1) % k),
                      start_receive_part(p, place ? place : mine, theirs, (r + k - 1) % k)};
    finish_messages(both, 2);
    if (place) add_floats(mine, place, (size_t)theirs.count);
}

// After reduce_to(), and before gather_from(), rank r has the sum of part r + owned.
static void reduce_to(const Parts *p, int owned) {
    int k = p->group->size;
    float *place = xmalloc((size_t)part_of(p, 0).count * sizeof(float));
    for (int step = 0; step < k - 1; step++) pass_to_the_right(p, owned - 1 - step + k, place);
    free(place);
}
static void gather_from(const Parts *p, int owned) {
    int k = p->group->size;
    for (int step = 0; step < k - 1; step++) pass_to_the_right(p, owned - step + k, NULL);
}

void all_reduce_ring(const ProcessGroup *g, float *data, size_t n) {
    reduce_to(&(Parts){g, data, n}, 1);
    gather_from(&(Parts){g, data, n}, 1);
}
void reduce_scatter_ring(const ProcessGroup *g, float *data, size_t n) {
    reduce_to(&(Parts){g, data, n}, 0);
}
void all_gather_ring(const ProcessGroup *g, float *data, size_t n) {
    gather_from(&(Parts){g, data, n}, 0);
}

// ## The tree

// From the root down: each rank that has the vector sends it to the one that is `distance` further.
void broadcast_tree(const ProcessGroup *g, float *data, size_t n, int root) {
    int rank = g->rank, size = g->size, distance = 1;
    int place = (rank - root + size) % size;
    while (distance < size) distance *= 2;
    for (distance /= 2; distance >= 1; distance /= 2) {
        if (place % (2 * distance) == 0 && place + distance < size)
            send_to(g, data, n, (rank + distance) % size);
        if (place % (2 * distance) == distance)
            receive_from(g, data, n, (rank - distance + size) % size);
    }
}

void all_reduce_tree(const ProcessGroup *g, float *data, size_t n) {
    int rank = g->rank, size = g->size;
    float *theirs = xmalloc(n * sizeof *theirs);
    for (int distance = 1; distance < size; distance *= 2) {
        if (rank % (2 * distance) == distance) send_to(g, data, n, rank - distance);
        if (rank % (2 * distance) != 0 || rank + distance >= size) continue;
        receive_from(g, theirs, n, rank + distance);
        add_floats(data, theirs, n);
    }
    free(theirs);
    broadcast_tree(g, data, n, 0);
}

// ## Sharded: each rank is the hub of one part

// The ranks' versions of this rank's part are added in the order of the ranks, as in the star. (A
// sum of two has the same bits in either order.)
static void add_in_order(const Parts *p, Range part, float *theirs) {
    int rank = p->group->rank;
    size_t n = (size_t)part.count;
    float *mine = p->data + part.first, *sum = rank == 0 ? mine : theirs;
    for (int from = 1; from < p->group->size; from++) {
        const float *next = theirs + (size_t)(from < rank ? from : from - 1) * n;
        add_floats(from == rank ? mine : sum, from == rank ? sum : next, n);
        if (from == rank) sum = mine;
    }
}

void all_reduce_sharded(const ProcessGroup *g, float *data, size_t n) {
    int k = g->size, rank = g->rank, started = 0;
    const Parts *p = &(Parts){g, data, n};
    Range own = part_of(p, rank);
    size_t count = (size_t)own.count;
    float *theirs = xmalloc((size_t)(k - 1) * count * sizeof *theirs);
    Message *messages = xmalloc(2 * (size_t)k * sizeof *messages);
    for (int turn = 1; turn < k; turn++) {
        int to = (rank + turn) % k, from = (rank - turn + k) % k;
        float *place = theirs + (size_t)(from < rank ? from : from - 1) * count;
        messages[started++] = start_send_part(p, part_of(p, to), to);
        messages[started++] = start_receive_part(p, place, own, from);
    }
    finish_messages(messages, started);
    add_in_order(p, own, theirs);
    started = 0;
    for (int turn = 1; turn < k; turn++) {
        int to = (rank + turn) % k, from = (rank - turn + k) % k;
        Range part = part_of(p, from);
        messages[started++] = start_send_part(p, own, to);
        messages[started++] = start_receive_part(p, data + part.first, part, from);
    }
    finish_messages(messages, started);
    free(messages);
    free(theirs);
}

// ## The host's own figures: so many bytes of each rank, for all ranks

void gather_bytes(const ProcessGroup *g, const void *mine, size_t bytes, void *all) {
    size_t size = (size_t)g->size;
    Message *messages = xmalloc(size * sizeof *messages);
    char *of_rank_0 = all;
    memcpy(of_rank_0 + (size_t)g->rank * bytes, mine, bytes);
    if (g->rank > 0) {
        messages[0] = start_send(g, mine, bytes, 0);
        finish_messages(messages, 1);
        messages[0] = start_receive(g, all, size * bytes, 0);
        finish_messages(messages, 1);
    } else {
        for (int from = 1; from < g->size; from++)
            messages[from] = start_receive(g, of_rank_0 + (size_t)from * bytes, bytes, from);
        finish_messages(messages + 1, g->size - 1);
        for (int to = 1; to < g->size; to++) messages[to] = start_send(g, all, size * bytes, to);
        finish_messages(messages + 1, g->size - 1);
    }
    free(messages);
}
