// transport.h: how bytes get from one process to another. Only this folder includes it.
//
// mpi.c does it with MPI; mpi_none.c, in a program that was built without MPI, is for one process
// alone. Messages are sent and received side by side: start as many as you like, then ask
// wire_progress() until none is left. (Nothing here waits, so whoever waits can have a deadline.)
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

// Processes that can send to each other, numbered from 0: an MPI communicator.
typedef struct Wire Wire;

// Whether there can be others.
extern const bool transport_is_mpi;

// Opens the wire of all processes that were started together, by_mpi. Waits for the others. die()s
// if it cannot be used by two threads at once. Otherwise it is the wire of this process alone.
Wire *transport_open(bool by_mpi);
// All processes together: waits for the others.
void transport_close(void);
// Ends all processes of the job at once, from any thread.
_Noreturn void transport_abort(int status);
// "Open MPI v4.1.4, package: .."; "none" without MPI. free() it.
char *transport_version(void);

int wire_rank(const Wire *wire);
int wire_size(const Wire *wire);
// One wire for all with the same colour, in the order of their ranks. All of `wire` call it
// together.
Wire *wire_split(Wire *wire, int colour);
// One wire for all on the same host.
Wire *wire_split_hosts(Wire *wire);
void wire_free(Wire *wire);

// Starts a message; its memory must stay until wire_progress() says that nothing is left. Messages
// with one sender, receiver and tag (0..32767) arrive in the order in which they were sent. At most
// 2^30 bytes.
void wire_send(Wire *wire, const void *data, size_t bytes, int to, int tag);
void wire_receive(Wire *wire, void *data, size_t bytes, int from, int tag);
// The library's own sum, in whatever order it likes: data is summed over all ranks. Started, as a
// message is. At most 2^31 - 1 floats.
void wire_sum(Wire *wire, float *data, size_t n);
// How many of the messages that were started on this wire are still under way. Moves them on.
int wire_progress(Wire *wire);

// For messages that nobody expects: takes one of exactly that many bytes that has arrived with this
// tag, and says from whom; false if there is none.
bool wire_poll(Wire *wire, void *data, size_t bytes, int tag, int *from);
// Sends one and forgets it: the bytes are copied.
void wire_post(Wire *wire, const void *data, size_t bytes, int to, int tag);

#endif
