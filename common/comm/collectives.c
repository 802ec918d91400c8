// collectives.c: sums over all devices of all ranks, in messages between two of them.
//
// These are chapter 2's algorithms, seen from one rank: there the host enqueues the work of all k
// devices, here each process does its own part, and meets the others in messages. The order of the
// additions is the same, so the sums have the same bits. A process with several devices does the
// part of each of them; between two of its own devices a message is a copy.
//
// All of this runs in the thread of the communication queue.
#include "group.h"
#include "watch.h"

#include "common/base/error.h"
#include "common/base/range.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ## Messages
//
// From device `from` to device `to`, both numbers in the group. send() and receive() start a
// message; finish() waits for all of them.

// Those between two devices of this process, until both sides are known.
typedef struct Handover {
    int from, to;
    const float *source; // NULL: taken
    float *target;
    size_t n;
} Handover;

enum { MOST_HANDOVERS = MAX_LOCAL_DEVICES * MAX_LOCAL_DEVICES };
static Handover sends[MOST_HANDOVERS], receives[MOST_HANDOVERS];
static int num_sends, num_receives;

// Long vectors go in pieces: so something arrives now and then, and the watch sees that.
enum { LONGEST_MESSAGE = 16 << 20 }; // bytes

static int first_device(const ProcessGroup *g) { return g->rank * g->devices; }
static int num_devices(const ProcessGroup *g) { return g->size * g->devices; }
static int rank_of(const ProcessGroup *g, int device) { return device / g->devices; }
static bool is_mine(const ProcessGroup *g, int device) { return rank_of(g, device) == g->rank; }
static float *data_of(const Exchange *x, int device) {
    return x->data[device - first_device(x->group)];
}
static float *place_of(const Exchange *x, int device) {
    return x->group->place[device - first_device(x->group)];
}

// The messages of two devices have a tag of their own.
static int tag_of(const Exchange *x, int from, int to) {
    int devices = x->group->devices;
    return x->tag + from % devices * MAX_LOCAL_DEVICES + to % devices;
}

static void send(Exchange *x, int from, int to, const float *data, size_t n) {
    ProcessGroup *g = x->group;
    if (n == 0) return;
    if (is_mine(g, to)) {
        CHECK(num_sends < MOST_HANDOVERS, "a step has at most one message from device to device");
        sends[num_sends++] = (Handover){.from = from, .to = to, .source = data, .n = n};
        return;
    }
    for (size_t sent = 0, bytes = n * sizeof *data; sent < bytes; sent += LONGEST_MESSAGE) {
        size_t left = bytes - sent, now = left < LONGEST_MESSAGE ? left : LONGEST_MESSAGE;
        wire_send(g->wire, (const char *)data + sent, now, rank_of(g, to), tag_of(x, from, to));
        count_traffic(g, rank_of(g, to), now);
    }
}

static void receive(Exchange *x, int from, int to, float *data, size_t n) {
    ProcessGroup *g = x->group;
    if (n == 0) return;
    if (is_mine(g, from)) {
        CHECK(num_receives < MOST_HANDOVERS,
              "a step has at most one message from device to device");
        receives[num_receives++] = (Handover){.from = from, .to = to, .target = data, .n = n};
        return;
    }
    for (size_t got = 0, bytes = n * sizeof *data; got < bytes; got += LONGEST_MESSAGE) {
        size_t left = bytes - got, now = left < LONGEST_MESSAGE ? left : LONGEST_MESSAGE;
        wire_receive(g->wire, (char *)data + got, now, rank_of(g, from), tag_of(x, from, to));
    }
}

static bool take(const Handover *r) {
    for (int s = 0; s < num_sends; s++) {
        if (sends[s].from != r->from || sends[s].to != r->to) continue;
        CHECK(sends[s].n == r->n, "both sides of a message have one length");
        memcpy(r->target, sends[s].source, r->n * sizeof(float));
        sends[s] = sends[--num_sends];
        return true;
    }
    return false;
}

static void hand_over(void) {
    int left = 0;
    for (int r = 0; r < num_receives; r++)
        if (!take(&receives[r])) receives[left++] = receives[r];
    num_receives = left;
}

// At first it asks again at once, for messages on one host take microseconds. Then it lets others
// have the core: ranks that compute may need it.
static void wait_a_little(int asked) {
    enum { AT_ONCE = 100, SHORT = 2000 };
    if (asked < AT_ONCE)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, asked < SHORT ? 20000 : 200000}, NULL);
}

static void wait_for_wire(Wire *wire) {
    int asked = 0, before = -1;
    for (int left; (left = wire_progress(wire)) > 0; before = left) {
        if (left != before) {
            watch_progress();
            asked = 0;
        }
        wait_a_little(asked++);
    }
}

static void finish(Exchange *x) {
    hand_over();
    wait_for_wire(x->group->wire);
}

// ## Sums

static void add(float *restrict sum, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += x[i];
}

// Each device of this process has room for so many numbers that arrive.
static void need_place(Exchange *x, size_t floats) {
    ProcessGroup *g = x->group;
    if (floats <= g->place_floats) return;
    for (int i = 0; i < g->devices; i++)
        g->place[i] = xrealloc(g->place[i], floats * sizeof(float));
    g->place_floats = floats;
}

static Range part_of(const Exchange *x, int part) {
    int k = num_devices(x->group);
    return equal_range((long)x->n, k, (part % k + k) % k);
}

#define EACH_OF_MINE(x, d)                                                                         \
    for (int d = first_device((x)->group); d < first_device((x)->group) + (x)->group->devices; d++)

// ## The star: device 0 adds up, in the order of the devices

// Device 0 receives a piece from one after the other, and adds; the others send theirs.
static void add_at_device_0(Exchange *x, size_t first, size_t n) {
    EACH_OF_MINE(x, d)
    if (d > 0) send(x, d, 0, data_of(x, d) + first, n);
    for (int from = 1; from < num_devices(x->group) && is_mine(x->group, 0); from++) {
        receive(x, from, 0, place_of(x, 0), n);
        finish(x);
        add(data_of(x, 0) + first, place_of(x, 0), n);
    }
    finish(x);
}

static void send_from_device_0(Exchange *x, size_t first, size_t n) {
    for (int to = 1; to < num_devices(x->group) && is_mine(x->group, 0); to++)
        send(x, 0, to, data_of(x, 0) + first, n);
    EACH_OF_MINE(x, d)
    if (d > 0) receive(x, 0, d, data_of(x, d) + first, n);
    finish(x);
}

void all_reduce_star(Exchange *x) {
    enum { PIECE = 1 << 20 };
    need_place(x, x->n < PIECE ? x->n : PIECE);
    for (size_t first = 0; first < x->n; first += PIECE) {
        size_t n = x->n - first < PIECE ? x->n - first : PIECE;
        add_at_device_0(x, first, n);
        send_from_device_0(x, first, n);
    }
}

// ## The ring

// Device d sends its part d + first to its right neighbour; what it receives from its left one, of
// part d - 1 + first, is added to its own, or takes the place of that.
static void pass_to_the_right(Exchange *x, int first, bool adds) {
    int k = num_devices(x->group);
    EACH_OF_MINE(x, d) {
        Range mine = part_of(x, d + first), theirs = part_of(x, d - 1 + first);
        float *target = adds ? place_of(x, d) : data_of(x, d) + theirs.first;
        send(x, d, (d + 1) % k, data_of(x, d) + mine.first, (size_t)mine.count);
        receive(x, (d + k - 1) % k, d, target, (size_t)theirs.count);
    }
    finish(x);
    EACH_OF_MINE(x, d) {
        Range theirs = part_of(x, d - 1 + first);
        if (adds) add(data_of(x, d) + theirs.first, place_of(x, d), (size_t)theirs.count);
    }
}

// After these, device d has the sum of part d + owned; before those, it had.
static void reduce_to(Exchange *x, int owned) {
    int k = num_devices(x->group);
    need_place(x, (size_t)part_of(x, 0).count);
    for (int step = 0; step < k - 1; step++) pass_to_the_right(x, owned - 1 - step + k, true);
}
static void gather_from(Exchange *x, int owned) {
    int k = num_devices(x->group);
    for (int step = 0; step < k - 1; step++) pass_to_the_right(x, owned - step + k, false);
}

void all_reduce_ring(Exchange *x) {
    reduce_to(x, 1);
    gather_from(x, 1);
}

void reduce_scatter_ring(Exchange *x) { reduce_to(x, 0); }
void all_gather_ring(Exchange *x) { gather_from(x, 0); }

// ## The tree

static void up_the_tree(Exchange *x, int distance) {
    int k = num_devices(x->group);
    EACH_OF_MINE(x, d) {
        if (d % (2 * distance) == distance) send(x, d, d - distance, data_of(x, d), x->n);
        if (d % (2 * distance) == 0 && d + distance < k)
            receive(x, d + distance, d, place_of(x, d), x->n);
    }
    finish(x);
    EACH_OF_MINE(x, d)
    if (d % (2 * distance) == 0 && d + distance < k) add(data_of(x, d), place_of(x, d), x->n);
}

static void down_the_tree(Exchange *x, int distance) {
    int k = num_devices(x->group);
    EACH_OF_MINE(x, d) {
        if (d % (2 * distance) == 0 && d + distance < k)
            send(x, d, d + distance, data_of(x, d), x->n);
        if (d % (2 * distance) == distance) receive(x, d - distance, d, data_of(x, d), x->n);
    }
    finish(x);
}

void all_reduce_tree(Exchange *x) {
    int k = num_devices(x->group), distance = 1;
    need_place(x, x->n);
    for (; distance < k; distance *= 2) up_the_tree(x, distance);
    for (distance /= 2; distance >= 1; distance /= 2) down_the_tree(x, distance);
}

// ## Each device the hub of one part

static void collect_parts(Exchange *x) {
    int k = num_devices(x->group);
    EACH_OF_MINE(x, d) {
        size_t own = (size_t)part_of(x, d).count;
        for (int turn = 1; turn < k; turn++) {
            int to = (d + turn) % k, from = (d - turn + k) % k, row = from < d ? from : from - 1;
            Range theirs = part_of(x, to);
            send(x, d, to, data_of(x, d) + theirs.first, (size_t)theirs.count);
            receive(x, from, d, place_of(x, d) + (size_t)row * own, own);
        }
    }
    finish(x);
}

// ((0 + 1) + 2) + ..: a + b is b + a, so a device's own part may be the target when its turn comes.
static void add_in_order(Exchange *x, int d) {
    Range part = part_of(x, d);
    size_t n = (size_t)part.count;
    float *mine = data_of(x, d) + part.first, *sum = d == 0 ? mine : place_of(x, d);
    for (int from = 1; from < num_devices(x->group); from++) {
        const float *theirs = place_of(x, d) + (size_t)(from < d ? from : from - 1) * n;
        add(from == d ? mine : sum, from == d ? sum : theirs, n);
        if (from == d) sum = mine;
    }
}

static void distribute_parts(Exchange *x) {
    int k = num_devices(x->group);
    EACH_OF_MINE(x, d) {
        Range own = part_of(x, d);
        for (int turn = 1; turn < k; turn++) {
            int to = (d + turn) % k, from = (d - turn + k) % k;
            Range theirs = part_of(x, from);
            send(x, d, to, data_of(x, d) + own.first, (size_t)own.count);
            receive(x, from, d, data_of(x, d) + theirs.first, (size_t)theirs.count);
        }
    }
    finish(x);
}

void all_reduce_sharded(Exchange *x) {
    need_place(x, (size_t)(num_devices(x->group) - 1) * (size_t)part_of(x, 0).count);
    collect_parts(x);
    EACH_OF_MINE(x, d) add_in_order(x, d);
    distribute_parts(x);
}

// ## The library's own

// Of several devices of one process, the first one goes out with the sum.
void all_reduce_library(Exchange *x) {
    enum { PIECE = 1 << 22 };
    ProcessGroup *g = x->group;
    for (int i = 1; i < g->devices; i++) add(x->data[0], x->data[i], x->n);
    for (size_t first = 0; first < x->n && g->size > 1; first += PIECE) {
        wire_sum(g->wire, x->data[0] + first, x->n - first < PIECE ? x->n - first : PIECE);
        wait_for_wire(g->wire);
    }
    for (int i = 1; i < g->devices; i++) memcpy(x->data[i], x->data[0], x->n * sizeof(float));
}

// ## From one to all

// A tree over the ranks, with `root` at its top; each hands it to its own devices.
void broadcast_tree(Exchange *x) {
    ProcessGroup *g = x->group;
    int place = (g->rank - x->root + g->size) % g->size, distance = 1;
    int me = first_device(g);
    while (distance < g->size) distance *= 2;
    for (distance /= 2; distance >= 1; distance /= 2) {
        int to = (g->rank + distance) % g->size, from = (g->rank - distance + g->size) % g->size;
        if (place % (2 * distance) == 0 && place + distance < g->size)
            send(x, me, to * g->devices, x->data[0], x->n);
        if (place % (2 * distance) == distance) receive(x, from * g->devices, me, x->data[0], x->n);
        finish(x);
    }
    for (int i = 1; i < g->devices; i++) memcpy(x->data[i], x->data[0], x->n * sizeof(float));
}

// ## The hosts' own figures: all get x->n bytes of each
//
// Up a tree to rank 0 and down again: 2 log2(W) steps, so that it is no matter how many ranks there
// are. Whoever is at the head of a part of the tree has what all ranks of that part have: those
// from its own number on.

static void up_with_bytes(Exchange *x, int distance) {
    ProcessGroup *g = x->group;
    char *all = x->all;
    int other = g->rank % (2 * distance) == distance ? g->rank - distance : g->rank + distance;
    int head = g->rank % (2 * distance) == distance ? g->rank : other; // of what is sent
    if (g->rank % distance != 0 || head >= g->size) return;
    size_t ranks = (size_t)(g->size - head < distance ? g->size - head : distance);
    char *at = all + (size_t)head * x->n;
    if (head == g->rank)
        wire_send(g->wire, at, ranks * x->n, other, x->tag);
    else
        wire_receive(g->wire, at, ranks * x->n, other, x->tag);
    if (head == g->rank) count_traffic(g, other, ranks * x->n);
    wait_for_wire(g->wire);
}

static void down_with_bytes(Exchange *x, int distance) {
    ProcessGroup *g = x->group;
    size_t bytes = (size_t)g->size * x->n;
    if (g->rank % (2 * distance) == 0 && g->rank + distance < g->size) {
        wire_send(g->wire, x->all, bytes, g->rank + distance, x->tag + 1);
        count_traffic(g, g->rank + distance, bytes);
    }
    if (g->rank % (2 * distance) == distance)
        wire_receive(g->wire, x->all, bytes, g->rank - distance, x->tag + 1);
    wait_for_wire(g->wire);
}

void gather_bytes(Exchange *x) {
    int distance = 1;
    memcpy((char *)x->all + (size_t)x->group->rank * x->n, x->values, x->n);
    for (; distance < x->group->size; distance *= 2) up_with_bytes(x, distance);
    for (distance /= 2; distance >= 1; distance /= 2) down_with_bytes(x, distance);
}
