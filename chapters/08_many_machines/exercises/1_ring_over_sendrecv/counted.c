// counted.c: see counted.h. (MPI standard 4.0, chapter 15, "Tool Support": "Profiling Interface".)
#include "counted.h"

#include "common/base/platform.h"
#include "common/base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // of these
static Counted counted;
static bool counting;
static _Atomic bool watching;  // also asked without the mutex
static const char *call = "";  // that this rank is in; "": in none
static int to_whom, from_whom; // it waits for; -1: nobody
static double moved, used;     // when it last entered or left one; CPU time until then

static MPI_Comm given;
static double patience;
static void (*tell)(const char *where);
static pthread_t watcher;

// CPU time of this rank. One that waits for a message asks for it again and again.
static double used_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// (An MPI whose ranks sleep while they wait uses none.)
static bool has_waited(double used_since, double asleep) {
    return used_now() - used > used_since || seconds_now() - moved > asleep;
}

static void enter(const char *its_call, int to, int from) {
    pthread_mutex_lock(&mutex);
    call = its_call;
    to_whom = to;
    from_whom = from;
    moved = seconds_now();
    used = used_now();
    pthread_mutex_unlock(&mutex);
}

// Others may have something to tell, too: they get the time for it. Then mpirun ends all.
static _Noreturn void end_rank(const char *where) {
    if (tell) tell(where);
    sleep(1);
    _exit(EXIT_FAILURE);
}

// An error of MPI ends the rank: your part need not ask for it.
static int leave(int status, const char *its_call) {
    char text[MPI_MAX_ERROR_STRING] = "", where[MPI_MAX_ERROR_STRING + 64];
    int length;
    enter("", -1, -1);
    if (status == MPI_SUCCESS) return status;
    PMPI_Error_string(status, text, &length);
    snprintf(where, sizeof where, "has an error in %s(): %s", its_call, text);
    end_rank(where);
}

// A message that is about to be sent.
static void count(const void *data, int n, MPI_Datatype type, int to, MPI_Comm comm) {
    int size, there;
    if (!counting || to == MPI_PROC_NULL) return;
    PMPI_Type_size(type, &size);
    PMPI_Comm_compare(comm, given, &there);
    counted.messages++;
    counted.empty += n * size == 0;
    counted.elsewhere += there != MPI_IDENT;
    if (there == MPI_IDENT && to >= 0 && to < MOST_RANKS) counted.bytes_to[to] += n * size;
    for (int i = 0; i < n && type == MPI_FLOAT; i++) counted.cargo += (double)((float *)data)[i];
}

// ## Who does not come

static void nap(void) { nanosleep(&(struct timespec){0, 20000000}, NULL); }

static void *watch(void *unused) {
    const double ASLEEP = 60;
    char where[128];
    while (watching) {
        nap();
        pthread_mutex_lock(&mutex);
        if (watching && has_waited(patience, ASLEEP)) {
            int n = counting
                        ? snprintf(where, sizeof where, "is in %s", *call ? call : "no call of MPI")
                        : snprintf(where, sizeof where, "has returned");
            if (to_whom >= 0)
                n += snprintf(where + n, sizeof where - (size_t)n, ", to rank %d", to_whom);
            if (from_whom >= 0)
                snprintf(where + n, sizeof where - (size_t)n, ", from rank %d", from_whom);
            if (tell) tell(where);
            while (!has_waited(2 * patience, 2 * ASLEEP))
                nap(); // then the others have told it, too
            _exit(EXIT_FAILURE);
        }
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

void counted_begin(MPI_Comm comm, double its_patience, void (*its_tell)(const char *where)) {
    given = comm;
    patience = its_patience;
    tell = its_tell;
    memset(&counted, 0, sizeof counted);
    enter("", -1, -1);
    counting = true;
    watching = true;
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        die("raise `ulimit -u`", "cannot start the thread that watches this rank");
}

Counted counted_so_far(void) {
    pthread_mutex_lock(&mutex);
    counting = false;
    pthread_mutex_unlock(&mutex);
    enter("", -1, -1);
    return counted;
}

void counted_end(void) {
    pthread_mutex_lock(&mutex);
    watching = false;
    pthread_mutex_unlock(&mutex);
    pthread_join(watcher, NULL);
}

// ## Messages

#define NOBODY (-1)

int MPI_Send(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    count(data, n, type, to, comm);
    enter("MPI_Send()", to, NOBODY);
    return leave(PMPI_Send(data, n, type, to, tag, comm), "MPI_Send");
}

int MPI_Ssend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    count(data, n, type, to, comm);
    enter("MPI_Ssend()", to, NOBODY);
    return leave(PMPI_Ssend(data, n, type, to, tag, comm), "MPI_Ssend");
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    count(data, n, type, to, comm);
    enter("MPI_Isend()", to, NOBODY);
    return leave(PMPI_Isend(data, n, type, to, tag, comm, request), "MPI_Isend");
}

int MPI_Recv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    enter("MPI_Recv()", NOBODY, from);
    return leave(PMPI_Recv(data, n, type, from, tag, comm, status), "MPI_Recv");
}

int MPI_Irecv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    enter("MPI_Irecv()", NOBODY, from);
    return leave(PMPI_Irecv(data, n, type, from, tag, comm, request), "MPI_Irecv");
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    enter("MPI_Wait()", NOBODY, NOBODY);
    return leave(PMPI_Wait(request, status), "MPI_Wait");
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status *statuses) {
    enter("MPI_Waitall()", NOBODY, NOBODY);
    return leave(PMPI_Waitall(n, requests, statuses), "MPI_Waitall");
}

int MPI_Sendrecv(const void *data, int n, MPI_Datatype type, int to, int tag, void *place, int room,
                 MPI_Datatype type_there, int from, int tag_there, MPI_Comm comm,
                 MPI_Status *status) {
    count(data, n, type, to, comm);
    enter("MPI_Sendrecv()", to, from);
    return leave(PMPI_Sendrecv(data, n, type, to, tag, place, room, type_there, from, tag_there,
                               comm, status),
                 "MPI_Sendrecv");
}

int MPI_Sendrecv_replace(void *data, int n, MPI_Datatype type, int to, int tag, int from,
                         int tag_there, MPI_Comm comm, MPI_Status *status) {
    count(data, n, type, to, comm);
    enter("MPI_Sendrecv_replace()", to, from);
    return leave(PMPI_Sendrecv_replace(data, n, type, to, tag, from, tag_there, comm, status),
                 "MPI_Sendrecv_replace");
}
