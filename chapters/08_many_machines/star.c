// star.c: a sum over ranks, in messages between two of them.
//
// The order of the additions is chapter 2's, so k ranks get the bits of k devices in one process.
// All of this runs on the thread of the communication queue.
#include "group.h"

#include "common/base/error.h"

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

static void count_traffic(const ProcessGroup *g, int to, size_t bytes) {
    world.sent.messages++;
    world.sent.bytes += bytes;
    if (dist_host_of(world.all.rank) != dist_host_of(g->world_rank[to]))
        world.sent.bytes_to_hosts += bytes;
}

Message start_send(const ProcessGroup *g, const void *data, size_t bytes, int to) {
    Message m = {.request = MPI_REQUEST_NULL, .from = -1, .bytes = -1};
    if (bytes == 0) return m;
    mpi_check(MPI_Isend(data, (int)bytes, MPI_BYTE, to, g->tag, g->comm, &m.request), "MPI_Isend");
    count_traffic(g, to, bytes);
    return m;
}

Message start_receive(const ProcessGroup *g, void *data, size_t bytes, int from) {
    CHECK(bytes <= INT_MAX, "MPI counts bytes in an int");
    Message m = {.request = MPI_REQUEST_NULL, .from = from, .bytes = (int)bytes};
    if (bytes == 0) return m;
    mpi_check(MPI_Irecv(data, m.bytes, MPI_BYTE, from, g->tag, g->comm, &m.request), "MPI_Irecv");
    return m;
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

void finish_messages(Message messages[], int n) {
    for (int asked = 0; n > 0; asked++) {
        int left = 0;
        for (int i = 0; i < n; i++)
            if (!has_arrived(&messages[i])) messages[left++] = messages[i];
        if (left < n) {
            watch_progress();
            asked = 0;
        }
        if (left > 0) wait_a_little(asked);
        n = left;
    }
}

// ## Two ranks, one vector

void send_to(const ProcessGroup *g, const float *data, size_t n, int to) {
    Message m = start_send(g, data, n * sizeof *data, to);
    finish_messages(&m, 1);
}

void receive_from(const ProcessGroup *g, float *data, size_t n, int from) {
    Message m = start_receive(g, data, n * sizeof *data, from);
    finish_messages(&m, 1);
}

void add_floats(float *restrict sum, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += x[i];
}

// Rank 0 receives one vector after the other, adds it to its own, and sends the sum to all.
void all_reduce_star(const ProcessGroup *g, float *data, size_t n) {
    if (g->rank > 0) { // one of the others
        send_to(g, data, n, 0);
        receive_from(g, data, n, 0);
        return;
    }
    float *theirs = xmalloc(n * sizeof *theirs);
    for (int from = 1; from < g->size; from++) {
        receive_from(g, theirs, n, from);
        add_floats(data, theirs, n);
    }
    for (int to = 1; to < g->size; to++) send_to(g, data, n, to);
    free(theirs);
}
