// mpi_none.c: see transport.h. In a program that was built without MPI: one process, which sends to
// nobody.
#include "transport.h"

#include "common/base/error.h"

#include <stdlib.h>
#include <unistd.h>

struct Wire {
    int unused;
};

const bool transport_is_mpi = false;

Wire *transport_open(bool by_mpi) {
    (void)by_mpi;
    return xcalloc(1, sizeof(Wire));
}
void transport_close(void) {}
void transport_abort(int status) { _exit(status); }
char *transport_version(void) { return xstrdup("none"); }

int wire_rank(const Wire *wire) {
    (void)wire;
    return 0;
}
int wire_size(const Wire *wire) {
    (void)wire;
    return 1;
}
Wire *wire_split(Wire *wire, int colour) {
    (void)wire;
    (void)colour;
    return xcalloc(1, sizeof(Wire));
}
Wire *wire_split_hosts(Wire *wire) { return wire_split(wire, 0); }
void wire_free(Wire *wire) { free(wire); }

static _Noreturn void nobody(void) {
    die("make setup installs MPI; then make again", "a message to another process, without MPI");
}
void wire_send(Wire *wire, const void *data, size_t bytes, int to, int tag) {
    (void)wire, (void)data, (void)bytes, (void)to, (void)tag;
    nobody();
}
void wire_receive(Wire *wire, void *data, size_t bytes, int from, int tag) {
    (void)wire, (void)data, (void)bytes, (void)from, (void)tag;
    nobody();
}
void wire_sum(Wire *wire, float *data, size_t n) { (void)wire, (void)data, (void)n; } // of one
int wire_progress(Wire *wire) {
    (void)wire;
    return 0;
}
bool wire_poll(Wire *wire, void *data, size_t bytes, int tag, int *from) {
    (void)wire, (void)data, (void)bytes, (void)tag, (void)from;
    return false;
}
void wire_post(Wire *wire, const void *data, size_t bytes, int to, int tag) {
    wire_send(wire, data, bytes, to, tag);
}
