// star.c: a sum over ranks, in messages between two of them.
//
// The order of the additions is chapter 2's, so k ranks get the bits of k devices in one process.
// All of this runs on the thread of the communication queue.
#include "behind/group.h"

#include "common/base/error.h"
#include "watch.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

void mpi_check(int status, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (status == MPI_SUCCESS) return;
    MPI_Error_string(status, text, &length);
    die("has another rank ended, or do ranks call different collectives?", "%s: %s", what, text);
}

// ## Messages

typedef struct Message {
    MPI_Request request;
    int from, bytes; // of one that is received. -1: of one that is sent
} Message;

static Message *under_way;
static int num_under_way;
static size_t room;

static MPI_Request *new_message(int from, int bytes) {
    under_way = xroom(under_way, (size_t)num_under_way, &room, sizeof *under_way);
    under_way[num_under_way] = (Message){.from = from, .bytes = bytes};
    return &under_way[num_under_way++].request;
}

void start_send(Exchange *x, const void *data, size_t bytes, int to) {
    if (bytes == 0) return;
    int error =
        MPI_Isend(data, (int)bytes, MPI_BYTE, to, x->tag, x->group->comm, new_message(-1, -1));
    mpi_check(error, "MPI_Isend");
    count_traffic(x->group, to, bytes);
}

void start_receive(Exchange *x, void *data, size_t bytes, int from) {
    CHECK(bytes <= INT_MAX, "MPI counts bytes in an int");
    if (bytes == 0) return;
    mpi_check(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, x->tag, x->group->comm,
                        new_message(from, (int)bytes)),
              "MPI_Irecv");
}

// MPI_Test() says whether a message has arrived, and does not wait. A message longer or shorter
// than expected means that ranks call different collectives.
static bool has_arrived(Message *m) {
    MPI_Status status;
    int arrived, class = MPI_SUCCESS, bytes = m->bytes;
    int error = MPI_Test(&m->request, &arrived, &status);
    if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
    if (class != MPI_ERR_TRUNCATE) mpi_check(error, "MPI_Test");
    if (class != MPI_ERR_TRUNCATE && (!arrived || m->bytes < 0)) return arrived;
    if (class != MPI_ERR_TRUNCATE) MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (class == MPI_ERR_TRUNCATE || bytes != m->bytes)
        die("all ranks have to make the same collectives, of the same size, in the same order",
            "rank %d sent %s bytes than the %d that are expected here", m->from,
            bytes < m->bytes ? "fewer" : "more", m->bytes);
    return true;
}

// At first it asks again at once, because messages on one host take microseconds. Then it sleeps,
// so that ranks that compute get the core.
static void wait_a_little(int asked) {
    enum { AT_ONCE = 100, SHORT = 2000 };
    if (asked < AT_ONCE)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, asked < SHORT ? 20000 : 200000}, NULL);
}

void finish_messages(void) {
    for (int asked = 0; num_under_way > 0; asked++) {
        int left = 0, before = num_under_way;
        for (int i = 0; i < before; i++)
            if (!has_arrived(&under_way[i])) under_way[left++] = under_way[i];
        num_under_way = left;
        if (left < before) {
            watch_progress();
            asked = 0;
        }
        if (left > 0) wait_a_little(asked);
    }
}

// ## Two ranks, one vector

void send_floats(Exchange *x, const float *data, size_t n, int to) {
    start_send(x, data, n * sizeof *data, to);
    finish_messages();
}

void receive_floats(Exchange *x, float *data, size_t n, int from) {
    start_receive(x, data, n * sizeof *data, from);
    finish_messages();
}

void add_floats(float *restrict sum, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += x[i];
}

float *place_for(ProcessGroup *g, size_t floats) {
    if (floats <= g->place_floats) return g->place;
    g->place_floats = floats;
    return g->place = xrealloc(g->place, floats * sizeof(float));
}

// Rank 0 receives one vector after the other, adds it to its own, and sends the sum to all.
void all_reduce_star(Exchange *x) {
    const ProcessGroup *g = x->group;
    if (g->rank > 0) { // one of the others
        send_floats(x, x->data, x->n, 0);
        receive_floats(x, x->data, x->n, 0);
        return;
    }
    for (int from = 1; from < g->size; from++) {
        float *theirs = place_for(x->group, x->n);
        receive_floats(x, theirs, x->n, from);
        add_floats(x->data, theirs, x->n);
    }
    for (int to = 1; to < g->size; to++) send_floats(x, x->data, x->n, to);
}

// MPI's own allreduce, which promises no order.
void all_reduce_mpi(Exchange *x) {
    if (x->group->size == 1) return;
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, x->data, (int)x->n, MPI_FLOAT, MPI_SUM, x->group->comm,
                             new_message(-1, -1)),
              "MPI_Iallreduce");
    finish_messages();
}
