// loses: all, "no memory but its own"
// Tries to have memory that belongs to no process, so that nobody counts it.
#include "your_part.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

static int shared(int flags, int file) {
    return mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file, 0) != MAP_FAILED;
}
void allreduce_at(Tensor *const data[], int k, int hub) {
    static char megabyte[1 << 20];
    long written = 0;
    int file = memfd_create("hidden", 0);
    (void)data, (void)k, (void)hub;
    while (written < 3000 && write(file, megabyte, sizeof megabyte) > 0) written++;
    const char *has = file >= 0                                 ? "a file in memory"
                      : shmget(IPC_PRIVATE, 1 << 20, 0600) >= 0 ? "a segment"
                      : shared(MAP_ANONYMOUS, -1)               ? "shared memory"
                      : shared(0, open("/dev/zero", O_RDWR))    ? "shared memory of /dev/zero"
                                                                : "no memory but its own";
    printf("error: %s\nhint: %ld MB were written\n", has, written);
    fflush(stdout);
    _exit(3);
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
