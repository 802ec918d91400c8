// counted.c: see counted.h. (MPI standard 4.0, chapter 15, "Tool Support": "Profiling Interface".)
#include "counted.h"

#include "common/base/clock.h"
#include "common/base/error.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ## Where this rank is

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // of these
static Counted counted;
static struct {
    bool counting, watching;
    char call[40]; // that it is in; "": in none
    int to, from;  // whom it waits for; -1: nobody, or anybody
    double moved;  // when it last entered or left one
} here;

static MPI_Comm given;
static int rank;
static double patience;
static pthread_t watcher;

static void enter(const char *call, int to, int from) {
    pthread_mutex_lock(&mutex);
    snprintf(here.call, sizeof here.call, "%s", call);
    here.to = to;
    here.from = from;
    here.moved = seconds_now();
    pthread_mutex_unlock(&mutex);
}

// An error of MPI ends the program: your part need not ask for it.
static int leave(int status, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    enter("", -1, -1);
    if (status == MPI_SUCCESS) return status;
    PMPI_Error_string(status, text, &length);
    printf("mpi error: rank %d, %s: %s\n", rank, call, text);
    fflush(stdout);
    _exit(4);
}

// A message that is about to be sent.
static void count(int n, MPI_Datatype type, int to, MPI_Comm comm) {
    int size, there;
    pthread_mutex_lock(&mutex);
    if (here.counting && to != MPI_PROC_NULL) {
        PMPI_Type_size(type, &size);
        PMPI_Comm_compare(comm, given, &there);
        long bytes = (long)n * size;
        counted.messages++;
        counted.bytes += bytes;
        if (bytes == 0) counted.empty++;
        if (there != MPI_IDENT)
            counted.elsewhere++;
        else if (to >= 0 && to < MOST_RANKS)
            counted.bytes_to[to] += bytes;
    }
    pthread_mutex_unlock(&mutex);
}

static void count_collective(const char *call) {
    pthread_mutex_lock(&mutex);
    if (here.counting && !counted.collective[0])
        snprintf(counted.collective, sizeof counted.collective, "%s", call);
    pthread_mutex_unlock(&mutex);
    enter(call, -1, -1);
}

// ## Who does not come
//
// A thread of its own looks how long nothing has moved. It says where this rank is, gives the
// others the time to do so, too, and ends it; then mpirun ends all.

static void say_where(void) {
    const char *counting = here.counting ? "inside" : "returned";
    printf("stuck: rank %d %s call %s to %d from %d after %ld messages\n", rank, counting,
           here.call[0] ? here.call : "none", here.to, here.from, counted.messages);
    fflush(stdout);
}

static void *watch(void *unused) {
    const double UNTIL_ALL_HAVE_SAID_IT = 2;
    for (bool watching = true; watching;) {
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        pthread_mutex_lock(&mutex);
        watching = here.watching;
        if (watching && seconds_now() - here.moved > patience) {
            say_where();
            usleep((useconds_t)(UNTIL_ALL_HAVE_SAID_IT * 1e6));
            _exit(3);
        }
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

void counted_begin(MPI_Comm comm, double its_patience) {
    PMPI_Comm_rank(comm, &rank);
    given = comm;
    patience = its_patience;
    memset(&counted, 0, sizeof counted);
    enter("", -1, -1);
    here.counting = here.watching = true;
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        die("raise `ulimit -u`", "cannot start the thread that watches this rank");
}

Counted counted_so_far(void) {
    pthread_mutex_lock(&mutex);
    here.counting = false;
    Counted all = counted;
    pthread_mutex_unlock(&mutex);
    enter("", -1, -1);
    return all;
}

void counted_end(void) {
    pthread_mutex_lock(&mutex);
    here.watching = false;
    pthread_mutex_unlock(&mutex);
    pthread_join(watcher, NULL);
}

// ## Messages

#define NOBODY (-1)

int MPI_Send(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    count(n, type, to, comm);
    enter("MPI_Send", to, NOBODY);
    return leave(PMPI_Send(data, n, type, to, tag, comm), "MPI_Send");
}

int MPI_Ssend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    count(n, type, to, comm);
    enter("MPI_Ssend", to, NOBODY);
    return leave(PMPI_Ssend(data, n, type, to, tag, comm), "MPI_Ssend");
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    count(n, type, to, comm);
    enter("MPI_Isend", to, NOBODY);
    return leave(PMPI_Isend(data, n, type, to, tag, comm, request), "MPI_Isend");
}

int MPI_Recv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    enter("MPI_Recv", NOBODY, from);
    return leave(PMPI_Recv(data, n, type, from, tag, comm, status), "MPI_Recv");
}

int MPI_Irecv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    enter("MPI_Irecv", NOBODY, from);
    return leave(PMPI_Irecv(data, n, type, from, tag, comm, request), "MPI_Irecv");
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    enter("MPI_Wait", NOBODY, NOBODY);
    return leave(PMPI_Wait(request, status), "MPI_Wait");
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status *statuses) {
    enter("MPI_Waitall", NOBODY, NOBODY);
    return leave(PMPI_Waitall(n, requests, statuses), "MPI_Waitall");
}

int MPI_Sendrecv(const void *data, int n, MPI_Datatype type, int to, int tag, void *place, int room,
                 MPI_Datatype type_there, int from, int tag_there, MPI_Comm comm,
                 MPI_Status *status) {
    count(n, type, to, comm);
    enter("MPI_Sendrecv", to, from);
    return leave(PMPI_Sendrecv(data, n, type, to, tag, place, room, type_there, from, tag_there,
                               comm, status),
                 "MPI_Sendrecv");
}

int MPI_Sendrecv_replace(void *data, int n, MPI_Datatype type, int to, int tag, int from,
                         int tag_there, MPI_Comm comm, MPI_Status *status) {
    count(n, type, to, comm);
    enter("MPI_Sendrecv_replace", to, from);
    return leave(PMPI_Sendrecv_replace(data, n, type, to, tag, from, tag_there, comm, status),
                 "MPI_Sendrecv_replace");
}

// ## Collectives
//
// Nobody knows what they send. They are counted to be named; what is not named here is found out by
// the bytes that nobody has sent.

int MPI_Barrier(MPI_Comm comm) {
    count_collective("MPI_Barrier");
    return leave(PMPI_Barrier(comm), "MPI_Barrier");
}

int MPI_Bcast(void *data, int n, MPI_Datatype type, int root, MPI_Comm comm) {
    count_collective("MPI_Bcast");
    return leave(PMPI_Bcast(data, n, type, root, comm), "MPI_Bcast");
}

int MPI_Reduce(const void *data, void *sum, int n, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
    count_collective("MPI_Reduce");
    return leave(PMPI_Reduce(data, sum, n, type, op, root, comm), "MPI_Reduce");
}

int MPI_Allreduce(const void *data, void *sum, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    count_collective("MPI_Allreduce");
    return leave(PMPI_Allreduce(data, sum, n, type, op, comm), "MPI_Allreduce");
}

int MPI_Reduce_scatter(const void *data, void *part, const int counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
    count_collective("MPI_Reduce_scatter");
    return leave(PMPI_Reduce_scatter(data, part, counts, type, op, comm), "MPI_Reduce_scatter");
}

int MPI_Allgather(const void *data, int n, MPI_Datatype type, void *all, int each,
                  MPI_Datatype type_there, MPI_Comm comm) {
    count_collective("MPI_Allgather");
    return leave(PMPI_Allgather(data, n, type, all, each, type_there, comm), "MPI_Allgather");
}

int MPI_Allgatherv(const void *data, int n, MPI_Datatype type, void *all, const int counts[],
                   const int first[], MPI_Datatype type_there, MPI_Comm comm) {
    count_collective("MPI_Allgatherv");
    return leave(PMPI_Allgatherv(data, n, type, all, counts, first, type_there, comm),
                 "MPI_Allgatherv");
}
