// mpi.c: see transport.h. By MPI; all of it that this project uses is in this file.
#include "transport.h"

#include "common/base/error.h"
#include "launch.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A message that was started.
typedef struct Started {
    MPI_Request request;
    int from, bytes; // of one that is received: as many must come. -1: of one that is sent
} Started;

struct Wire {
    MPI_Comm comm;
    int rank, size;
    Started *under_way;
    int n;
    size_t room;
};

static Wire *world;

// MPI's own answer to an error is to end the job with a page of text. Ours is a line.
static void check(int status, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (status == MPI_SUCCESS) return;
    MPI_Error_string(status, text, &length);
    die("has another rank ended, or do ranks call different collectives?", "%s: %s", what, text);
}

static Wire *wire_of(MPI_Comm comm) {
    Wire *wire = xcalloc(1, sizeof *wire);
    wire->comm = comm;
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm, &wire->rank), "MPI_Comm_rank");
    check(MPI_Comm_size(comm, &wire->size), "MPI_Comm_size");
    return wire;
}

// A process alone does without MPI, which would want a host name that it likes, a network and a
// folder for its files, and would end the program with a page of text if it lacked one.
static Wire *wire_alone(void) {
    Wire *wire = xcalloc(1, sizeof *wire);
    wire->comm = MPI_COMM_NULL;
    wire->size = 1;
    return wire;
}
static bool is_alone(const Wire *wire) { return wire->comm == MPI_COMM_NULL; }

const bool transport_is_mpi = true;

Wire *transport_open(bool by_mpi) {
    int provided;
    CHECK(!world, "MPI is opened once in a program");
    if (!by_mpi) return world = wire_alone();
    setenv("HWLOC_HIDE_ERRORS", "2", 0); // that /sys is not there is no error to us
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        die("try mpirun -np 1 true", "MPI_Init_thread() failed");
    if (provided < MPI_THREAD_MULTIPLE)
        die("install an MPI that was built with threads (Debian: openmpi-bin)",
            "this MPI does not let two threads call it at once (MPI_THREAD_MULTIPLE)");
    return world = wire_of(MPI_COMM_WORLD);
}

void transport_close(void) {
    bool alone = is_alone(world);
    free(world->under_way);
    free(world);
    world = NULL;
    if (!alone) MPI_Finalize();
}

// Not exit(): MPI_Abort() calls that, and its handlers would tear down what other threads still
// use. So a process tells MPI's daemon, and is gone when that kills it, or after a second.
void transport_abort(int status) {
    launch_ends_with_us();
    if (world && !is_alone(world)) MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
}

char *transport_version(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = '\0';
    return xstrdup(text);
}

int wire_rank(const Wire *wire) { return wire->rank; }
int wire_size(const Wire *wire) { return wire->size; }

Wire *wire_split(Wire *wire, int colour) {
    MPI_Comm part;
    if (is_alone(wire)) return wire_alone();
    check(MPI_Comm_split(wire->comm, colour, wire->rank, &part), "MPI_Comm_split");
    return wire_of(part);
}

Wire *wire_split_hosts(Wire *wire) {
    MPI_Comm part;
    if (is_alone(wire)) return wire_alone();
    check(MPI_Comm_split_type(wire->comm, MPI_COMM_TYPE_SHARED, wire->rank, MPI_INFO_NULL, &part),
          "MPI_Comm_split_type");
    return wire_of(part);
}

void wire_free(Wire *wire) {
    if (!wire) return;
    if (!is_alone(wire)) check(MPI_Comm_free(&wire->comm), "MPI_Comm_free");
    free(wire->under_way);
    free(wire);
}

// ---- messages ----------------------------------------------------------------------------------

static MPI_Request *new_request(Wire *wire, int from, int bytes) {
    CHECK(!is_alone(wire), "who is alone sends no messages");
    wire->under_way = xroom(wire->under_way, (size_t)wire->n, &wire->room, sizeof *wire->under_way);
    Started *started = &wire->under_way[wire->n++];
    *started = (Started){.from = from, .bytes = bytes};
    return &started->request;
}

void wire_send(Wire *wire, const void *data, size_t bytes, int to, int tag) {
    CHECK(bytes <= (size_t)1 << 30, "a message has at most 2^30 bytes");
    check(MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, wire->comm, new_request(wire, -1, -1)),
          "MPI_Isend");
}

void wire_receive(Wire *wire, void *data, size_t bytes, int from, int tag) {
    CHECK(bytes <= (size_t)1 << 30, "a message has at most 2^30 bytes");
    check(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, wire->comm,
                    new_request(wire, from, (int)bytes)),
          "MPI_Irecv");
}

void wire_sum(Wire *wire, float *data, size_t n) {
    CHECK(n < (size_t)1 << 31, "MPI counts up to 2^31 - 1");
    if (is_alone(wire)) return;
    check(MPI_Iallreduce(MPI_IN_PLACE, data, (int)n, MPI_FLOAT, MPI_SUM, wire->comm,
                         new_request(wire, -1, -1)),
          "MPI_Iallreduce");
}

static bool has_arrived(Started *message) {
    MPI_Status status;
    int arrived, bytes, error = MPI_Test(&message->request, &arrived, &status);
    int class = MPI_SUCCESS;
    if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
    if (class != MPI_ERR_TRUNCATE) check(error, "MPI_Test");
    if (error == MPI_SUCCESS && (!arrived || message->bytes < 0)) return arrived;
    bytes = message->bytes + 1;
    if (class != MPI_ERR_TRUNCATE) MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != message->bytes)
        die("all ranks have to make the same collectives, of the same size, in the same order",
            "rank %d sent %s bytes than the %d that are expected here", message->from,
            bytes > message->bytes ? "more" : "fewer", message->bytes);
    return true;
}

// What has arrived is taken out, so that the list is as long as what is under way.
int wire_progress(Wire *wire) {
    int left = 0;
    for (int i = 0; i < wire->n; i++)
        if (!has_arrived(&wire->under_way[i])) wire->under_way[left++] = wire->under_way[i];
    return wire->n = left;
}

bool wire_poll(Wire *wire, void *data, size_t bytes, int tag, int *from) {
    MPI_Message message;
    MPI_Status status;
    int is_there, count;
    if (is_alone(wire)) return false;
    check(MPI_Improbe(MPI_ANY_SOURCE, tag, wire->comm, &is_there, &message, &status),
          "MPI_Improbe");
    if (!is_there) return false;
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK((size_t)count == bytes, "messages with one tag have one size");
    check(MPI_Mrecv(data, count, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    *from = status.MPI_SOURCE;
    return true;
}

// (Its copy is never freed: these messages are few, and when they are sent the job is about to
// end.)
void wire_post(Wire *wire, const void *data, size_t bytes, int to, int tag) {
    MPI_Request request;
    void *copy = xmalloc(bytes);
    memcpy(copy, data, bytes);
    check(MPI_Isend(copy, (int)bytes, MPI_BYTE, to, tag, wire->comm, &request), "MPI_Isend");
    MPI_Request_free(&request);
}
